//! Schemas from types.

use foveate_wire::{KindId, Replicate, Schema};

macro_rules! kinds {
    ($($name:ident)*) => { $(
        #[derive(Replicate)]
        struct $name { on: bool }
    )* };
}

kinds! { A B C D }

#[test]
fn kinds_are_numbered_in_the_order_of_the_tuple() {
    let schema = Schema::of::<(A, (B, C), D)>().expect("four kinds");
    let ids = [schema.id::<A>(), schema.id::<B>(), schema.id::<C>(), schema.id::<D>()];
    assert_eq!(ids, [0, 1, 2, 3].map(|id| Some(KindId(id))));
    let listed = Schema::new(vec![A::spec(), B::spec(), C::spec(), D::spec()]);
    assert_eq!(*schema, listed.expect("the same"));
}

#[test]
fn one_type_is_a_list_and_a_kind_named_twice_is_refused() {
    assert_eq!(Schema::of::<A>().expect("one kind").kinds().len(), 1);
    assert!(Schema::of::<(A, A)>().is_err());
    assert_eq!(Schema::of::<A>().expect("one kind").id::<B>(), None);
}
