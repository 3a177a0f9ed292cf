//! A link: what carries it, and what this crate knows about it whatever carries it.

mod flow;
mod quic;

pub(crate) use flow::{Flow, Passage};
#[cfg(feature = "web")]
pub(crate) use quic::GOODBYE;
pub(crate) use quic::{DirectLink, Incoming, Outgoing, Quic};

use std::any::Any;
use std::time::{Duration, Instant};

use foveate_wire::{Bytes, Micros};

use crate::admission::{Origin, Standing};
use crate::conditioner::Conditioner;
use crate::endpoint::CarrierSteps;
use crate::event::{CloseCode, Purpose, Transport};
use crate::meter::{LinkMeter, LinkTraffic};
use crate::options::{DatagramPath, LinkConditions};
use crate::slots::LinkId;

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
    pub(crate) begun: Instant,
    /// Whom it counts for; none if this side began it.
    pub(crate) origin: Option<Origin>,
    /// How it counts for the origin.
    pub(crate) standing: Standing,
    pub(crate) flow: Flow,
    pub(crate) received: LinkTraffic,
    pub(crate) sent: LinkTraffic,
    /// Whether it is in the endpoint's list of the same name.
    pub(crate) touched: bool,
    pub(crate) ready: bool,
    pub(crate) dirty: bool,
    pub(crate) carrier: Box<dyn Carrier>,
}

/// What carries a link in the endpoint's loop. A further one is a file that implements this, and a place that
/// makes links with it: QUIC's is `endpoint/receive.rs`, WebSocket's `endpoint/web.rs`.
pub(crate) trait Carrier: Any + Send + Sync {
    fn transport(&self) -> Transport;

    /// How datagrams travel; only QUIC's links have a choice.
    fn datagram_path(&self) -> DatagramPath {
        DatagramPath::Quic
    }

    /// What the loop does with links of this carrier.
    fn steps(&self) -> &'static CarrierSteps;

    /// Messages that wait.
    fn backlog(&self) -> Bytes;

    /// The largest datagram that fits; none before the other side has told.
    fn max_datagram(&mut self) -> Option<Bytes>;

    /// Asks to be told when all messages have arrived, where the carrier can tell.
    fn finish(&mut self) {}

    /// Whether messages have not arrived, as far as is known.
    fn is_finishing(&self) -> bool;

    /// Whether nothing is urgent: datagrams come and go, and no message is under way.
    fn is_calm(&self, _now: Instant) -> bool {
        false
    }

    /// When the carrier wants to be called; timers may be late by `slack`.
    fn due(&mut self, slack: Duration) -> Option<Instant>;

    /// When a conditioner lets something go.
    fn held_until(&self) -> Option<Micros>;

    /// From now on these conditions, or none. True if the link's UDP packets have to be held from now on.
    fn set_conditions(&mut self, ways: Option<LinkConditions>, seed: u64) -> bool;

    /// Adds what the carrier knows.
    fn measure(&self, meter: &mut LinkMeter);

    fn close(&mut self, now: Instant, code: CloseCode, reason: &str);

    /// The link was reported as closed.
    fn ended(&mut self) {}
}

/// Conditioners of both ways.
pub(crate) struct Conditioning<I, O> {
    pub(crate) received: Conditioner<I>,
    pub(crate) sent: Conditioner<O>,
    /// No conditions any more; this stays until nothing is held.
    ending: bool,
}

impl<I: Clone, O: Clone> Conditioning<I, O> {
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
    pub(crate) fn new(
        id: LinkId,
        carrier: Box<dyn Carrier>,
        origin: Option<Origin>,
        (flow, begun): (Flow, Instant),
    ) -> Link {
        Link {
            id,
            stage: Stage::Handshake,
            purpose: Purpose::Play,
            begun,
            origin,
            standing: Standing::Proved,
            flow,
            received: LinkTraffic::default(),
            sent: LinkTraffic::default(),
            touched: false,
            ready: false,
            dirty: false,
            carrier,
        }
    }

    /// The carrier, if it is of this type.
    pub(crate) fn carried_by<C: Carrier>(&mut self) -> Option<&mut C> {
        let carrier: &mut dyn Any = &mut *self.carrier;
        carrier.downcast_mut()
    }

    /// The same, to look at.
    #[cfg(feature = "web")]
    pub(crate) fn carried<C: Carrier>(&self) -> Option<&C> {
        let carrier: &dyn Any = &*self.carrier;
        carrier.downcast_ref()
    }

    /// The connection, if QUIC carries the link.
    pub(crate) fn quic(&mut self) -> Option<&mut Quic> {
        self.carried_by()
    }

    /// Whether messages that were to be the last have not arrived, as far as is known.
    pub(crate) fn is_finishing(&self) -> bool {
        self.stage == Stage::Open && self.carrier.is_finishing()
    }

    /// The address that it counts for, until its player has joined.
    pub(crate) fn waiting_origin(&self) -> Option<Origin> {
        let waits = self.stage != Stage::Closed
            && self.purpose == Purpose::Play
            && self.sent.datagrams == 0;
        self.origin.filter(|_| waits)
    }

    /// Whether nothing is urgent.
    pub(crate) fn is_calm(&self, now: Instant) -> bool {
        self.stage == Stage::Open && self.carrier.is_calm(now)
    }

    /// When the carrier wants to be called; late by `slack` if nothing is urgent.
    pub(crate) fn due(&mut self, now: Instant, slack: Duration) -> Option<Instant> {
        let slack = if self.is_calm(now) { slack } else { Duration::ZERO };
        self.carrier.due(slack)
    }

    pub(crate) fn meter(&self) -> LinkMeter {
        let mut meter =
            LinkMeter { received: self.received, sent: self.sent, ..LinkMeter::default() };
        self.carrier.measure(&mut meter);
        meter
    }
}
