//! A node that owns objects and tells its observers.

use crate::Output;
use foveate_sync::{ObserverId, Publisher, Rounds};
use foveate_wire::packet::Ack;
use foveate_wire::{Micros, Schema, Tick};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

/// What a source is given.
#[derive(Clone, Copy, Debug)]
pub enum SourceInput<'a> {
    /// The world has been stepped: tell the observers of this round.
    Round(Tick),
    /// A datagram from an observer.
    Datagram(ObserverId, &'a [u8]),
}

/// Owns objects, tells observers, hears acknowledgements.
pub struct Source {
    /// Objects and observers. Change them between two rounds.
    pub publisher: Publisher,
    outputs: VecDeque<Output<ObserverId, Infallible>>,
    refused: u64,
}

impl Source {
    /// A source without objects and observers.
    pub fn new(schema: Arc<Schema>, rounds: Rounds) -> Source {
        Source { publisher: Publisher::new(schema, rounds), outputs: VecDeque::new(), refused: 0 }
    }

    /// Takes an input in; then drain [`poll`](Source::poll).
    pub fn handle(&mut self, now: Micros, input: SourceInput<'_>) {
        match input {
            SourceInput::Round(tick) => {
                let Source { publisher, outputs, .. } = self;
                publisher.round(tick, now, |to, bytes| {
                    outputs.push_back(Output::Transmit(to, bytes.to_vec()));
                });
                let next = now + publisher.rounds().length;
                outputs.push_back(Output::WakeAt(next));
            }
            SourceInput::Datagram(from, bytes) => match Ack::read(bytes) {
                Ok(ack) => self.publisher.on_ack(from, &ack, now),
                Err(_) => self.refused += 1,
            },
        }
    }

    /// The next thing to be done, if any.
    pub fn poll(&mut self) -> Option<Output<ObserverId, Infallible>> {
        self.outputs.pop_front()
    }

    /// Datagrams that were refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}
