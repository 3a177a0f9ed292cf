//! Messages that wait to be passed on.
//!
//! A message waits for one to four frames. If two more copies from other nodes arrive meanwhile, it has already spread
//! in this neighbourhood and is dropped.

use super::NodeId;
use super::message::{Ids, MAX_RECIPIENTS, SilacMessage, SilacMessageKind};
use fastrand::Rng;
use std::collections::BTreeMap;

/// The longest wait, in frames.
pub const MAX_WAIT: u32 = 4;
/// Copies from other nodes that make passing a message on needless.
pub const SUPPRESSING: usize = 2;
/// The most messages that wait.
pub const MAX_WAITING: usize = 8192;

/// What identifies a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct QueueKey {
    /// The node that made it.
    pub origin: NodeId,
    /// The frame of its origin's clock.
    pub number: u32,
    pub kind: SilacMessageKind,
}

/// A waiting message.
#[derive(Clone, PartialEq, Debug)]
pub struct Waiting {
    /// Its hop when it was received.
    pub hop: u8,
    pub payload: Vec<u8>,
    /// Nodes that it was sent to, as far as is known.
    pub recipients: Vec<NodeId>,
    /// Nodes that sent it, the first one first.
    pub senders: Vec<NodeId>,
    /// The frame in which it leaves.
    leaves: u32,
}

/// The waiting messages.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    waiting: BTreeMap<QueueKey, Waiting>,
    /// Messages dropped because other nodes spread them.
    pub suppressed: u64,
    /// Messages dropped because the queue was full.
    pub overflowed: u64,
}

impl Queue {
    /// Adds a message that arrived for the first time.
    pub fn add(
        &mut self,
        key: QueueKey,
        message: &SilacMessage<'_>,
        from: NodeId,
        frame: u32,
        rng: &mut Rng,
    ) {
        if self.waiting.len() >= MAX_WAITING {
            self.overflowed += 1;
            return;
        }
        let waiting = Waiting {
            hop: message.header.hop,
            payload: message.payload_bytes.to_vec(),
            recipients: message.recipients.iter().collect(),
            senders: vec![from],
            leaves: frame + rng.u32(1..=MAX_WAIT),
        };
        self.waiting.insert(key, waiting);
    }

    /// Records another copy of a message, with its list of recipients.
    pub fn again(&mut self, key: QueueKey, from: NodeId, recipients: Ids<'_>) {
        let Some(waiting) = self.waiting.get_mut(&key) else { return };
        if waiting.senders.contains(&from) {
            return;
        }
        waiting.senders.push(from);
        if waiting.senders.len() > SUPPRESSING {
            self.waiting.remove(&key);
            self.suppressed += 1;
            return;
        }
        for id in recipients.iter() {
            if waiting.recipients.len() < MAX_RECIPIENTS && !waiting.recipients.contains(&id) {
                waiting.recipients.push(id);
            }
        }
    }

    /// Removes and returns the messages that leave in this frame.
    pub fn due(&mut self, frame: u32) -> Vec<(QueueKey, Waiting)> {
        let leaves = |waiting: &Waiting| frame >= waiting.leaves;
        let keys: Vec<QueueKey> =
            self.waiting.iter().filter(|(_, w)| leaves(w)).map(|(key, _)| *key).collect();
        keys.into_iter().filter_map(|key| self.waiting.remove_entry(&key)).collect()
    }

    pub fn clear(&mut self) {
        self.waiting.clear();
    }
}
