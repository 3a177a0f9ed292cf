//! A node that is told of objects.

use crate::Output;
use foveate_sync::ReplicaSet;
use foveate_sync::replica::{Change, ReceiveError};
use foveate_wire::{Micros, Schema, Tick};
use std::collections::VecDeque;
use std::sync::Arc;

/// What a viewer is given.
#[derive(Clone, Copy, Debug)]
pub enum ViewerInput<'a> {
    /// A datagram from the source.
    Datagram(&'a [u8]),
}

/// Something that happened to a replica.
pub type Event = Change;

/// Datagrams that were not applied, by reason. The replicas are as they were.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Refused {
    /// Unreadable, or about states that are not held.
    pub malformed: u64,
    /// Arrived before.
    pub duplicate: u64,
    /// Older than what can be acknowledged.
    pub too_old: u64,
}

/// Holds replicas, acknowledges what arrives.
pub struct Viewer {
    /// The replicas.
    pub replicas: ReplicaSet,
    outputs: VecDeque<Output<(), Event>>,
    refused: Refused,
}

impl Viewer {
    /// A viewer that knows nothing. `near`: the source's tick, give or take half an hour.
    pub fn new(schema: Arc<Schema>, near: Tick) -> Viewer {
        let replicas = ReplicaSet::new(schema, near);
        Viewer { replicas, outputs: VecDeque::new(), refused: Refused::default() }
    }

    /// Takes an input in; then drain [`poll`](Viewer::poll).
    pub fn handle(&mut self, _now: Micros, input: ViewerInput<'_>) {
        let ViewerInput::Datagram(bytes) = input;
        let Viewer { replicas, outputs, refused } = self;
        match replicas.receive(bytes, |change| outputs.push_back(Output::Event(change))) {
            Ok(_) => {}
            // Worth an answer: the first one may have been lost.
            Err(ReceiveError::Duplicate(_)) => refused.duplicate += 1,
            Err(ReceiveError::TooOld(_)) => refused.too_old += 1,
            Err(ReceiveError::Packet(_)) => {
                refused.malformed += 1;
                return;
            }
        }
        if let Some(ack) = replicas.ack() {
            let mut bytes = Vec::with_capacity(foveate_wire::packet::ACK_BYTES);
            ack.write(&mut bytes);
            outputs.push_back(Output::Transmit((), bytes));
        }
    }

    /// The next thing to be done, if any.
    pub fn poll(&mut self) -> Option<Output<(), Event>> {
        self.outputs.pop_front()
    }

    /// Datagrams that were not applied.
    pub fn refused(&self) -> Refused {
        self.refused
    }
}
