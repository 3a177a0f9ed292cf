//! Messages that wait to be passed on.
//!
//! A message waits for one to four frames. If it comes from two others meanwhile, it is spread
//! thereabouts already and is dropped.

use super::NodeId;
use super::message::{Ids, MAX_RECIPIENTS, SilacMessage, SilacMessageKind};
use fastrand::Rng;
use std::collections::BTreeMap;

/// The longest wait, in frames.
pub const MAX_WAIT: u32 = 4;
/// Copies from others that make passing on needless.
pub const SUPPRESSING: usize = 2;
/// Messages that may wait.
pub const MAX_WAITING: usize = 8192;

/// What tells messages apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct QueueKey {
    /// Who made it.
    pub origin: NodeId,
    /// When, by its clock.
    pub number: u32,
    /// What it is about.
    pub kind: SilacMessageKind,
}

/// A message that waits.
#[derive(Clone, PartialEq, Debug)]
pub struct Waiting {
    /// As it was received.
    pub hop: u8,
    /// What it says.
    pub payload: Vec<u8>,
    /// To whom it was sent, as far as is known.
    pub recipients: Vec<NodeId>,
    /// Who sent it: the first, and others.
    pub senders: Vec<NodeId>,
    /// The frame in which it leaves.
    leaves: u32,
}

/// The messages that wait, by what tells them apart.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    waiting: BTreeMap<QueueKey, Waiting>,
    /// Dropped because others spread them.
    pub suppressed: u64,
    /// Dropped because too many waited.
    pub overflowed: u64,
}

impl Queue {
    /// A message came for the first time.
    pub fn add(
        &mut self,
        key: QueueKey,
        message: &SilacMessage<'_>,
        from: NodeId,
        (frame, rng): (u32, &mut Rng),
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

    /// A message came again; its list of recipients is learnt, too.
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

    /// Takes out what leaves in this frame.
    pub fn due(&mut self, frame: u32) -> Vec<(QueueKey, Waiting)> {
        let leaves = |waiting: &Waiting| frame >= waiting.leaves;
        let keys: Vec<QueueKey> =
            self.waiting.iter().filter(|(_, w)| leaves(w)).map(|(key, _)| *key).collect();
        keys.into_iter().filter_map(|key| self.waiting.remove_entry(&key)).collect()
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }
}
