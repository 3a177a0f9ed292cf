//! Ids of links: small dense numbers that expire.

/// The id of a link. It is valid until `LinkEvent::Closed`, and then refers to no link, even if its index is reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl LinkId {
    /// A number below the limit of links, for tables. Later links reuse it.
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// The id as one number.
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// The id for which [`to_bits`](LinkId::to_bits) returned this number; for other numbers, an expired one.
    pub const fn from_bits(bits: u64) -> LinkId {
        LinkId { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// A table whose indices are reused.
pub(crate) struct Slots<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

struct Place<T> {
    generation: u32,
    /// Boxed, because a connection is large and most of a table may be empty.
    value: Option<Box<T>>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, make: impl FnOnce(LinkId) -> T) -> LinkId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, value: None });
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[index as usize];
        place.generation = place.generation.wrapping_add(1);
        let id = LinkId { index, generation: place.generation };
        place.value = Some(Box::new(make(id)));
        id
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<Box<T>> {
        let value = self.places.get_mut(index as usize)?.value.take()?;
        self.free.push(index);
        Some(value)
    }

    pub(crate) fn get(&self, id: LinkId) -> Option<&T> {
        let place = self.places.get(id.index())?;
        if place.generation == id.generation { place.value.as_deref() } else { None }
    }

    pub(crate) fn get_mut(&mut self, id: LinkId) -> Option<&mut T> {
        let place = self.places.get_mut(id.index())?;
        if place.generation == id.generation { place.value.as_deref_mut() } else { None }
    }

    /// The current value at an index.
    pub(crate) fn at(&mut self, index: u32) -> Option<&mut T> {
        self.places.get_mut(index as usize)?.value.as_deref_mut()
    }

    /// The same, by shared reference.
    #[cfg(feature = "web")]
    pub(crate) fn peek(&self, index: u32) -> Option<&T> {
        self.places.get(index as usize)?.value.as_deref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|place| place.value.as_deref())
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().filter_map(|place| place.value.as_deref_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expired_id_refers_to_nothing_although_its_index_is_reused() {
        let mut slots = Slots::default();
        let old = slots.insert(|_| "old");
        assert_eq!(slots.remove(old.index), Some(Box::new("old")));
        let new = slots.insert(|_| "new");
        assert_eq!(new.index(), old.index());
        assert_eq!(slots.get(old), None);
        assert_eq!(slots.get_mut(old), None);
        assert_eq!(slots.get(new), Some(&"new"));
        assert_eq!(slots.len(), 1);
        assert_eq!(slots.remove(7), None);
    }
}
