//! The bus between servers that are threads of one process.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foveate_node::region::bus::Recipient;
use foveate_node::region::layout::ServerId;

use super::{Bus, BusCounts};

/// Messages that wait for one server at most; beyond, they are dropped and counted.
pub const MAX_BUS_WAITING: usize = 16_384;

type Inboxes = BTreeMap<ServerId, VecDeque<Vec<u8>>>;

/// A bus in memory. Clones are the same bus.
#[derive(Clone, Default)]
pub struct LocalBus(Arc<Mutex<Inboxes>>);

impl LocalBus {
    /// A server's place on the bus. Dropped, it receives nothing more.
    pub fn join(&self, server: ServerId) -> LocalBusLink {
        self.lock().insert(server, VecDeque::new());
        LocalBusLink { bus: self.clone(), server, counts: BusCounts::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inboxes> {
        // Queues of whole messages: a panic elsewhere leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One server's place on a [`LocalBus`].
pub struct LocalBusLink {
    bus: LocalBus,
    server: ServerId,
    counts: BusCounts,
}

impl Bus for LocalBusLink {
    fn publish(&mut self, to: Recipient, bytes: &[u8]) {
        let (me, counts) = (self.server, &mut self.counts);
        let mut put = |inbox: &mut VecDeque<Vec<u8>>| match inbox.len() < MAX_BUS_WAITING {
            true => {
                inbox.push_back(bytes.to_vec());
                counts.sent += 1;
            }
            false => counts.unsent += 1,
        };
        let mut inboxes = self.bus.lock();
        match to {
            Recipient::Server(server) => match inboxes.get_mut(&server) {
                Some(inbox) => put(inbox),
                None => counts.unsent += 1,
            },
            Recipient::All => {
                inboxes.iter_mut().filter(|(id, _)| **id != me).for_each(|(_, it)| put(it));
            }
        }
    }

    fn poll(&mut self) -> Option<Vec<u8>> {
        let message = self.bus.lock().get_mut(&self.server)?.pop_front()?;
        self.counts.received += 1;
        Some(message)
    }

    fn counts(&self) -> BusCounts {
        self.counts
    }
}

impl Drop for LocalBusLink {
    fn drop(&mut self) {
        self.bus.lock().remove(&self.server);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_at_one_server_or_at_all_others_and_a_full_inbox_takes_no_more() {
        let bus = LocalBus::default();
        let [mut one, mut two, mut three] = [1, 2, 3].map(|id| bus.join(ServerId(id)));
        one.publish(Recipient::Server(ServerId(2)), b"to two");
        one.publish(Recipient::All, b"to all");
        assert_eq!(two.poll().as_deref(), Some(&b"to two"[..]));
        assert_eq!(two.poll().as_deref(), Some(&b"to all"[..]));
        assert_eq!(three.poll().as_deref(), Some(&b"to all"[..]));
        assert!(one.poll().is_none() && two.poll().is_none() && three.poll().is_none());
        drop(three);
        one.publish(Recipient::Server(ServerId(3)), b"too late");
        assert_eq!(one.counts().unsent, 1);
        (0..MAX_BUS_WAITING + 5).for_each(|_| two.publish(Recipient::Server(ServerId(1)), b"x"));
        assert_eq!(two.counts().unsent, 5);
        assert_eq!(std::iter::from_fn(|| one.poll()).count(), MAX_BUS_WAITING);
    }
}
