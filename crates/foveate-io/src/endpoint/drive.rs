//! The loop's work on every link, whatever its carrier: timers, events, closing.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::{Core, absorb};
use crate::admission::{AdmissionRules, Standing};
use crate::event::{CloseCode, LinkEvent, Reason};
use crate::link::{Passage, Stage};
use crate::options::duration;
use crate::slots::LinkId;
use foveate_node::node::Remote;
use foveate_wire::Bytes;

/// How long QUIC may delay an acknowledgement.
const ACK_DELAY: Duration = Duration::from_millis(25);

impl Core {
    /// Marks a link as changed, so that it is driven.
    pub(super) fn touch(&mut self, index: u32) {
        if let Some(link) = self.links.at(index)
            && !std::mem::replace(&mut link.touched, true)
        {
            self.touched.push(index);
        }
    }

    /// Handles all links whose timers are due.
    pub(super) fn fire_timers(&mut self, now: Instant) {
        while let Some(index) = self.timers.pop(now) {
            if let Some(link) = self.links.at(index) {
                let release = link.carrier.steps().release;
                release(self, now, index);
            }
            let slack = duration(self.options.timer_slack);
            let Some(link) = self.links.at(index) else { continue };
            if link.due(now, slack).is_none_or(|due| due > now) {
                self.arm(now, index);
                continue;
            }
            let timeout = link.carrier.steps().timeout;
            timeout(self, now, index);
        }
        while let Some(index) = self.asks.pop(now) {
            self.make_ready(index);
        }
        #[cfg(feature = "web")]
        self.expire_visits(now);
    }

    /// Sets a link's timer to when its carrier or a conditioner needs it.
    pub(super) fn arm(&mut self, now: Instant, index: u32) {
        let (origin, slack) = (self.origin, duration(self.options.timer_slack));
        let Some(link) = self.links.at(index) else { return };
        // A packet that is held for ever is never due.
        let held = link.carrier.held_until().and_then(|due| origin.checked_add(duration(due)));
        if let Some(due) = [link.due(now, slack), held].into_iter().flatten().min() {
            self.timers.arm(index, due);
        }
    }

    pub(super) fn drive_touched(&mut self, now: Instant) {
        let mut touched = std::mem::take(&mut self.touched);
        // Driving may touch further links, by closing them; those come next.
        for index in touched.drain(..) {
            self.drive(now, index);
        }
        match self.touched.is_empty() {
            true => self.touched = touched,
            false => self.drive_touched(now),
        }
    }

    fn drive(&mut self, now: Instant, index: u32) {
        let Some(link) = self.links.at(index) else { return };
        link.touched = false;
        let drive = link.carrier.steps().drive;
        drive(self, now, index);
    }

    /// Marks that the link may have something to send. On a calm link it is sent with the next datagram, if there is
    /// one before the acknowledgement is due.
    pub(super) fn ask(&mut self, now: Instant, index: u32) {
        let patience = ACK_DELAY + duration(self.options.timer_slack);
        match self.links.at(index) {
            Some(link) if link.is_calm(now) => self.asks.later(index, now + patience),
            _ => self.make_ready(index),
        }
    }

    /// Handles the end of a handshake, which proves the link's address. False if the link was closed because the
    /// address has its limit of links.
    pub(super) fn prove(&mut self, now: Instant, id: LinkId) -> bool {
        let time = self.micros(now);
        let Some(link) = self.links.get_mut(id) else { return false };
        let Some(origin) = link.origin.filter(|_| link.standing == Standing::Unproved) else {
            return true;
        };
        let rules = AdmissionRules { limits: &self.options.limits, counters: &mut self.counters };
        if self.admission.prove(origin, time, rules) {
            link.standing = Standing::Proved;
            return true;
        }
        link.standing = Standing::Uncounted;
        self.close(now, id, CloseCode::ENOUGH, "too many links from this address");
        false
    }

    /// Reports a link as connected: both sides may send.
    pub(super) fn connected(&mut self, id: LinkId, address: SocketAddr) {
        let Some(link) = self.links.get_mut(id) else { return };
        link.stage = Stage::Open;
        self.handshakes -= 1;
        self.events.push(LinkEvent::Connected {
            link: id,
            address: Some(address),
            remote: Remote::Anonymous,
            purpose: link.purpose,
        });
    }

    /// A datagram came: an event, if the link keeps to its rate.
    pub(super) fn take_datagram(&mut self, now: Instant, index: u32, bytes: bytes::Bytes) {
        let time = self.micros(now);
        let Some(link) = self.links.at(index) else { return };
        match link.flow.datagram(&self.options.limits, time, bytes.len()) {
            Passage::Free if link.stage == Stage::Open => {
                link.received.datagrams += 1;
                self.events.push(LinkEvent::Datagram { link: link.id, bytes });
            }
            Passage::Free => {}
            Passage::Dropped => self.counters.datagrams_over_rate += 1,
            Passage::Flood => {
                self.counters.datagrams_over_rate += 1;
                self.close_flood(now, index);
            }
        }
    }

    pub(super) fn close_oversized(&mut self, now: Instant, id: LinkId, size: Bytes, limit: Bytes) {
        self.counters.closed_oversized += 1;
        let said = format!("a message of {} bytes exceeds the limit of {}", size.0, limit.0);
        self.close(now, id, CloseCode::MESSAGE_TOO_LARGE, &said);
    }

    /// Reports the end of a link, once.
    pub(super) fn ended(&mut self, id: LinkId, reason: Reason) {
        self.end_direct(id.index);
        let Some(link) = self.links.get_mut(id) else { return };
        let stage = std::mem::replace(&mut link.stage, Stage::Closed);
        link.carrier.ended();
        if stage == Stage::Handshake {
            self.handshakes -= 1;
            self.counters.handshakes_failed += 1;
        }
        // A link that the other side began and that was never connected was never reported.
        let told = stage == Stage::Open || (stage == Stage::Handshake && link.origin.is_none());
        if told {
            self.events.push(LinkEvent::Closed { link: id, reason });
        }
    }

    /// Removes a link after its carrier has ended.
    pub(super) fn remove(&mut self, index: u32) {
        let Some(id) = self.links.at(index).map(|link| link.id) else { return };
        self.ended(id, Reason::Reset);
        let Some(mut link) = self.links.remove(index) else { return };
        (link.carrier.steps().removed)(self, &mut link);
        absorb(&mut self.total, &link.meter());
        if let Some(origin) = link.origin {
            self.admission.release(origin, link.standing);
        }
    }

    /// Ends the streams of all links, so that the arrival of their messages can be observed.
    pub(super) fn finish_messages(&mut self) {
        let open = self.links.iter_mut().filter(|link| link.stage == Stage::Open);
        let finished: Vec<u32> = open
            .filter(|link| link.sent.messages > 0)
            .map(|link| {
                link.carrier.finish();
                link.id.index
            })
            .collect();
        finished.into_iter().for_each(|index| self.make_ready(index));
    }
}
