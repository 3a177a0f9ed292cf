//! Lists of kinds as types, for [`Schema::of`](super::Schema::of).

use super::KindSpec;
use crate::Replicate;

/// A replicated type, or a tuple of up to 16 lists of kinds; nested tuples make longer ones.
pub trait KindList {
    /// The specifications, in the order of the types.
    fn specs() -> Vec<KindSpec>;
}

impl<T: Replicate> KindList for T {
    fn specs() -> Vec<KindSpec> {
        vec![T::spec()]
    }
}

macro_rules! tuple {
    ($first:ident $($rest:ident)*) => {
        impl<$first: KindList, $($rest: KindList),*> KindList for ($first, $($rest,)*) {
            fn specs() -> Vec<KindSpec> {
                [$first::specs(), $($rest::specs()),*].concat()
            }
        }
        tuple! { $($rest)* }
    };
    () => {};
}

tuple! { A B C D E F G H I J K L M N O P }
