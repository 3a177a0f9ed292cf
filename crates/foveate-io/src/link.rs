//! A link: its carrier, and the state that does not depend on the carrier.

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

/// The stage of a link's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    Handshake,
    Open,
    /// Reported as closed; its carrier still answers late packets.
    Closed,
}

pub(crate) struct Link {
    pub(crate) id: LinkId,
    pub(crate) stage: Stage,
    pub(crate) purpose: Purpose,
    pub(crate) begun: Instant,
    /// The address that it counts for; `None` if this side started it.
    pub(crate) origin: Option<Origin>,
    /// How it is counted for `origin`.
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

/// The carrier of a link in the endpoint's loop. To add one, implement this in a new file, and make links with it
/// somewhere: for QUIC that is `endpoint/receive.rs`, for WebSocket `endpoint/web.rs`.
pub(crate) trait Carrier: Any + Send + Sync {
    fn transport(&self) -> Transport;

    /// How datagrams are sent; only QUIC's links have a choice.
    fn datagram_path(&self) -> DatagramPath {
        DatagramPath::Quic
    }

    /// The loop's functions for links of this carrier.
    fn steps(&self) -> &'static CarrierSteps;

    /// Bytes of messages that wait to be sent.
    fn backlog(&self) -> Bytes;

    /// The largest datagram that fits; `None` before the other side has stated its limit.
    fn max_datagram(&mut self) -> Option<Bytes>;

    /// Ends the stream of messages, so that their arrival can be observed, where the carrier supports that.
    fn finish(&mut self) {}

    /// Whether messages may not have arrived yet.
    fn is_finishing(&self) -> bool;

    /// Whether nothing is urgent: datagrams come and go regularly, and no message is under way.
    fn is_calm(&self, _now: Instant) -> bool {
        false
    }

    /// When the carrier must be called; timers may be late by `slack`.
    fn due(&mut self, slack: Duration) -> Option<Instant>;

    /// When a conditioner releases something.
    fn held_until(&self) -> Option<Micros>;

    /// Sets or removes the conditions. True if the link's UDP packets must be held from now on.
    fn set_conditions(&mut self, ways: Option<LinkConditions>, seed: u64) -> bool;

    /// Adds the carrier's measurements.
    fn measure(&self, meter: &mut LinkMeter);

    fn close(&mut self, now: Instant, code: CloseCode, reason: &str);

    /// Called when the link was reported as closed.
    fn ended(&mut self) {}
}

/// Conditioners of both directions.
pub(crate) struct Conditioning<I, O> {
    pub(crate) received: Conditioner<I>,
    pub(crate) sent: Conditioner<O>,
    /// Conditions were removed; this stays until nothing is held.
    ending: bool,
}

impl<I: Clone, O: Clone> Conditioning<I, O> {
    /// Sets or removes conditions. True if there were none and now are.
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

    /// Whether conditions were removed and nothing is held.
    pub(crate) fn is_over(&self) -> bool {
        self.ending && self.next_due().is_none()
    }
}

impl Link {
    pub(crate) fn new(
        id: LinkId,
        carrier: Box<dyn Carrier>,
        origin: Option<Origin>,
        flow: Flow,
        begun: Instant,
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

    /// The carrier, if it has this type.
    pub(crate) fn carried_by<C: Carrier>(&mut self) -> Option<&mut C> {
        let carrier: &mut dyn Any = &mut *self.carrier;
        carrier.downcast_mut()
    }

    /// The same, by shared reference.
    #[cfg(feature = "web")]
    pub(crate) fn carried<C: Carrier>(&self) -> Option<&C> {
        let carrier: &dyn Any = &*self.carrier;
        carrier.downcast_ref()
    }

    /// The connection, if QUIC carries the link.
    pub(crate) fn quic(&mut self) -> Option<&mut Quic> {
        self.carried_by()
    }

    /// Whether the last messages may not have arrived yet.
    pub(crate) fn is_finishing(&self) -> bool {
        self.stage == Stage::Open && self.carrier.is_finishing()
    }

    /// The address that it counts for, as long as its player has not joined.
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

    /// When the carrier must be called; late by `slack` if nothing is urgent.
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
