//! A link: what carries it, and what this crate knows about it whatever carries it.

mod flow;
mod quic;

pub(crate) use flow::{Flow, Passage};
#[cfg(feature = "web")]
pub(crate) use quic::GOODBYE;
pub(crate) use quic::{Incoming, Outgoing, Quic};

use std::time::{Duration, Instant};

use foveate_wire::{Bytes, Micros};

use crate::admission::Origin;
use crate::conditioner::Conditioner;
use crate::event::{Purpose, Transport};
use crate::meter::{LinkMeter, LinkTraffic};
use crate::options::LinkConditions;
use crate::slots::LinkId;
#[cfg(feature = "web")]
use crate::web::WebSocket;

/// How far a link is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    Handshake,
    Open,
    /// Reported as closed; what carries it still answers stragglers.
    Closed,
}

pub(crate) struct Link {
    pub(crate) id: LinkId,
    pub(crate) stage: Stage,
    pub(crate) purpose: Purpose,
    /// Whom it counts for; none if this side began it.
    pub(crate) origin: Option<Origin>,
    pub(crate) flow: Flow,
    pub(crate) received: LinkTraffic,
    pub(crate) sent: LinkTraffic,
    /// Whether it is in the endpoint's list of the same name.
    pub(crate) touched: bool,
    pub(crate) ready: bool,
    pub(crate) dirty: bool,
    pub(crate) carrier: Carrier,
}

/// What a link's bytes travel by.
pub(crate) enum Carrier {
    Quic(Box<Quic>),
    #[cfg(feature = "web")]
    WebSocket(Box<WebSocket>),
}

impl Carrier {
    pub(crate) fn transport(&self) -> Transport {
        match self {
            #[cfg(feature = "web")]
            Carrier::Quic(quic) if quic.session.is_some() => Transport::WebTransport,
            Carrier::Quic(_) => Transport::Quic,
            #[cfg(feature = "web")]
            Carrier::WebSocket(_) => Transport::WebSocket,
        }
    }
}

/// Conditioners of both ways.
pub(crate) struct Conditioning<I, O> {
    pub(crate) received: Conditioner<I>,
    pub(crate) sent: Conditioner<O>,
    /// No conditions any more; this stays until nothing is held.
    ending: bool,
}

impl<I, O> Conditioning<I, O> {
    /// From now on these conditions, or none. True if there were none and now are.
    pub(crate) fn set(
        conditioning: &mut Option<Box<Conditioning<I, O>>>,
        ways: Option<LinkConditions>,
        seed: u64,
    ) -> bool {
        match (conditioning, ways) {
            (Some(conditioning), ways) => {
                let LinkConditions { received, sent } = ways.unwrap_or_default();
                conditioning.received.set(received);
                conditioning.sent.set(sent);
                conditioning.ending = ways.is_none();
                false
            }
            (none @ None, Some(ways)) => {
                *none = Some(Box::new(Conditioning {
                    received: Conditioner::new(ways.received, seed),
                    sent: Conditioner::new(ways.sent, !seed),
                    ending: false,
                }));
                true
            }
            (None, None) => false,
        }
    }

    pub(crate) fn next_due(&self) -> Option<Micros> {
        let both = [self.received.next_due(), self.sent.next_due()];
        both.into_iter().flatten().min()
    }

    /// No conditions any more, and nothing is held.
    pub(crate) fn is_over(&self) -> bool {
        self.ending && self.next_due().is_none()
    }
}

impl Link {
    pub(crate) fn new(id: LinkId, carrier: Carrier, origin: Option<Origin>, flow: Flow) -> Link {
        Link {
            id,
            stage: Stage::Handshake,
            purpose: Purpose::Play,
            origin,
            flow,
            received: LinkTraffic::default(),
            sent: LinkTraffic::default(),
            touched: false,
            ready: false,
            dirty: false,
            carrier,
        }
    }

    /// The connection, if QUIC carries the link.
    pub(crate) fn quic(&mut self) -> Option<&mut Quic> {
        self.carrier.quic()
    }

    /// Messages that wait.
    pub(crate) fn backlog(&self) -> Bytes {
        match &self.carrier {
            Carrier::Quic(quic) => quic.backlog(),
            #[cfg(feature = "web")]
            Carrier::WebSocket(socket) => socket.backlog(),
        }
    }

    /// Whether messages that were to be the last have not arrived, as far as is known.
    pub(crate) fn is_finishing(&self) -> bool {
        match &self.carrier {
            Carrier::Quic(quic) => quic.finishing,
            #[cfg(feature = "web")]
            Carrier::WebSocket(socket) => self.stage == Stage::Open && socket.is_waiting(),
        }
    }

    /// Whether nothing is urgent: datagrams come and go, and no message is under way.
    pub(crate) fn is_calm(&self, now: Instant) -> bool {
        match &self.carrier {
            Carrier::Quic(quic) => self.stage == Stage::Open && quic.is_calm(now),
            #[cfg(feature = "web")]
            Carrier::WebSocket(_) => false,
        }
    }

    /// When the carrier wants to be called; late by `slack` if nothing is urgent.
    pub(crate) fn due(&mut self, now: Instant, slack: Duration) -> Option<Instant> {
        let calm = self.is_calm(now);
        match &mut self.carrier {
            Carrier::Quic(quic) => {
                let due = quic.conn.poll_timeout();
                let due = due.map(|due| if calm { due + slack } else { due });
                [due, quic.until()].into_iter().flatten().min()
            }
            #[cfg(feature = "web")]
            Carrier::WebSocket(socket) => Some(socket.due()),
        }
    }

    /// When a conditioner lets something go.
    pub(crate) fn held_until(&self) -> Option<Micros> {
        match &self.carrier {
            Carrier::Quic(quic) => quic.conditioning.as_ref()?.next_due(),
            #[cfg(feature = "web")]
            Carrier::WebSocket(socket) => socket.conditioning.as_ref()?.next_due(),
        }
    }

    pub(crate) fn meter(&self) -> LinkMeter {
        let mut meter =
            LinkMeter { received: self.received, sent: self.sent, ..LinkMeter::default() };
        match &self.carrier {
            Carrier::Quic(quic) => quic.measure(&mut meter),
            #[cfg(feature = "web")]
            Carrier::WebSocket(socket) => socket.measure(&mut meter),
        }
        meter
    }
}

impl Carrier {
    pub(crate) fn quic(&mut self) -> Option<&mut Quic> {
        match self {
            Carrier::Quic(quic) => Some(quic),
            #[cfg(feature = "web")]
            Carrier::WebSocket(_) => None,
        }
    }
}
