//! Links carried by WebSocket: from frames to events, and to the TCP socket.

use std::time::Instant;

use super::{CarrierSteps, Core, copy};
use crate::error::Error;
use crate::event::{CloseCode, LinkEvent, Reason};
use crate::link::{Link, Passage, Stage};
use crate::slots::LinkId;
use crate::web::{Arrived, Timeout, Unit, WebSocket};

pub(crate) static WEB_SOCKET_STEPS: CarrierSteps = CarrierSteps {
    send_datagram: Core::send_socket_datagram,
    send_message: Core::send_socket_message,
    timeout: Core::socket_timeout,
    release: Core::release_units,
    drive: Core::drive_socket,
    transmit: Core::transmit_socket,
    removed: Core::socket_removed,
};

impl Core {
    /// Reads what arrived on a link.
    fn drive_socket(&mut self, now: Instant, index: u32) {
        let time = self.micros(now);
        let limits = &self.options.limits;
        let Some(link) = self.links.at(index) else { return };
        let id = link.id;
        let Some(socket) = link.carried_by::<WebSocket>() else { return };
        let read = socket.receive(limits, now, time);
        if read.bytes > 0 {
            self.total.received.packet(read.bytes);
            self.last_received = Some(now);
        }
        while let Some(socket) = self.socket_at(index)
            && let Some(arrived) = socket.next(now)
        {
            self.arrived_web(now, id, arrived);
        }
        if read.flood {
            self.close_flood(now, index);
        }
        if read.ended {
            self.broke(index);
            return;
        }
        self.make_ready(index);
    }

    fn arrived_web(&mut self, now: Instant, id: LinkId, arrived: Arrived) {
        let time = self.micros(now);
        match arrived {
            Arrived::Unit(unit) => self.arrived_unit(now, id, unit),
            Arrived::Control => {
                let Some(link) = self.links.get_mut(id) else { return };
                if link.flow.frames(&self.options.limits, time, 1) == Passage::Flood {
                    self.close_flood(now, id.index);
                }
            }
            Arrived::Closed(reason) => self.ended(id, reason),
            Arrived::Oversized(size, limit) => self.close_oversized(now, id, size, limit),
            Arrived::Malformed(what) => {
                self.counters.closed_malformed += 1;
                self.close(now, id, CloseCode::MALFORMED, &what);
            }
        }
    }

    fn arrived_unit(&mut self, now: Instant, id: LinkId, unit: Unit) {
        let time = self.micros(now);
        let Some(socket) = self.socket_at(id.index) else { return };
        let Some(conditioning) = &mut socket.conditioning else {
            return self.deliver(now, id, unit);
        };
        let (size, reliable) = measure(&unit);
        let held = match reliable {
            true => conditioning.received.push_in_order(time, size, unit),
            false => conditioning.received.push(time, size, unit),
        };
        self.counters.conditioned_away += u64::from(!held);
        self.arm(now, id.index);
    }

    fn deliver(&mut self, now: Instant, id: LinkId, unit: Unit) {
        let bytes = match unit {
            Unit::Datagram(bytes) => return self.take_datagram(now, id.index, bytes),
            Unit::Message(bytes) => bytes,
        };
        let time = self.micros(now);
        let Some(link) = self.links.get_mut(id) else { return };
        // Empty messages mean nothing, as on a stream of QUIC.
        if link.stage != Stage::Open || bytes.is_empty() {
            return;
        }
        let passage = link.flow.message(&self.options.limits, time, bytes.len());
        link.received.messages += 1;
        if passage == Passage::Flood {
            return self.close_flood(now, id.index);
        }
        self.events.push(LinkEvent::Message { link: id, bytes });
    }

    fn send_socket_datagram(&mut self, id: LinkId, bytes: &[u8]) -> Result<bool, Error> {
        let unit = Unit::Datagram(copy(&mut self.arena_out, &[], bytes).freeze());
        self.send_unit(id, unit);
        Ok(true)
    }

    fn send_socket_message(&mut self, id: LinkId, bytes: &[u8]) {
        self.send_unit(id, Unit::Message(bytes::Bytes::copy_from_slice(bytes)));
    }

    fn send_unit(&mut self, id: LinkId, unit: Unit) {
        let now = Instant::now();
        let time = self.micros(now);
        let Some(socket) = self.socket_at(id.index) else { return };
        let (size, reliable) = measure(&unit);
        let Some(conditioning) = &mut socket.conditioning else {
            let late = !socket.push(now, &unit);
            self.counters.datagrams_late += u64::from(late);
            return;
        };
        let held = match reliable {
            true => conditioning.sent.push_in_order(time, size, unit),
            false => conditioning.sent.push(time, size, unit),
        };
        if held && reliable {
            socket.hold(size.0 as usize, true);
        }
        self.counters.conditioned_away += u64::from(!held);
        self.arm(now, id.index);
    }

    /// Releases what a conditioner has held long enough.
    fn release_units(&mut self, now: Instant, index: u32) {
        let time = self.micros(now);
        while let Some(link) = self.links.at(index)
            && let (id, Some(socket)) = (link.id, link.carried_by::<WebSocket>())
            && let Some(conditioning) = &mut socket.conditioning
        {
            if let Some(unit) = conditioning.received.pop(time) {
                self.deliver(now, id, unit);
            } else if let Some(unit) = conditioning.sent.pop(time) {
                let (size, reliable) = measure(&unit);
                if reliable {
                    socket.hold(size.0 as usize, false);
                }
                let late = !socket.push(now, &unit);
                self.counters.datagrams_late += u64::from(late);
                self.make_ready(index);
            } else {
                if conditioning.is_over() {
                    socket.conditioning = None;
                }
                return;
            }
        }
    }

    fn transmit_socket(&mut self, now: Instant, index: u32) {
        let Some(socket) = self.socket_at(index) else { return };
        match socket.transmit(now) {
            Ok(0) => self.arm(now, index),
            Ok(written) => {
                self.total.sent.packet(written);
                self.arm(now, index);
            }
            Err(_) => self.broke(index),
        }
    }

    fn socket_timeout(&mut self, now: Instant, index: u32) {
        let Some(link) = self.links.at(index) else { return };
        let id = link.id;
        let Some(socket) = link.carried_by::<WebSocket>() else { return };
        match socket.timeout(now) {
            Timeout::Goes => self.make_ready(index),
            Timeout::Over => self.remove(index),
            Timeout::Idle => {
                self.ended(id, Reason::Idle);
                self.remove(index);
            }
        }
    }

    /// Handles the end of a connection, with or without a close frame.
    fn broke(&mut self, index: u32) {
        let Some(id) = self.links.at(index).map(|link| link.id) else { return };
        self.ended(id, Reason::Failed("the connection was lost".into()));
        self.remove(index);
    }

    fn socket_at(&mut self, index: u32) -> Option<&mut WebSocket> {
        self.links.at(index).and_then(Link::carried_by)
    }

    fn socket_removed(&mut self, link: &mut Link) {
        if let Some(front) = &mut self.front {
            front.sockets.retain(|other| *other != link.id.index);
        }
    }
}

/// A unit's size, and whether it must be delivered.
fn measure(unit: &Unit) -> (foveate_wire::Bytes, bool) {
    let (bytes, reliable) = match unit {
        Unit::Datagram(bytes) => (bytes, false),
        Unit::Message(bytes) => (bytes, true),
    };
    (foveate_wire::Bytes(bytes.len() as u32), reliable)
}
