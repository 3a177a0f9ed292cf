//! From connections to events: timers, what QUIC reports, the end of links.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use foveate_node::node::Remote;
use foveate_wire::Bytes;
use quinn_proto::StreamEvent;

use super::{Core, absorb};
use crate::event::{CloseCode, LinkEvent, Reason};
use crate::link::{Carrier, Link, Passage, Stage};
use crate::options::duration;
use crate::slots::LinkId;

/// How long QUIC may keep an acknowledgement back.
const ACK_DELAY: Duration = Duration::from_millis(25);

impl Core {
    /// Something happened to the link at this place.
    pub(super) fn touch(&mut self, index: u32) {
        if let Some(link) = self.links.at(index)
            && !std::mem::replace(&mut link.touched, true)
        {
            self.touched.push(index);
        }
    }

    /// Looks at every link whose time has come.
    pub(super) fn fire_timers(&mut self, now: Instant) {
        while let Some(index) = self.timers.pop(now) {
            self.release_held(now, index);
            let slack = duration(self.options.timer_slack);
            let Some(link) = self.links.at(index) else { continue };
            if link.due(now, slack).is_none_or(|due| due > now) {
                self.arm(now, index);
                continue;
            }
            match &mut link.carrier {
                Carrier::Quic(quic) => {
                    quic.conn.handle_timeout(now);
                    #[cfg(feature = "web")]
                    self.session_timeout(now, index);
                    self.touch(index);
                    self.make_ready(index);
                }
                #[cfg(feature = "web")]
                Carrier::WebSocket(_) => self.web_timeout(now, index),
            }
        }
        while let Some(index) = self.asks.pop(now) {
            self.make_ready(index);
        }
        #[cfg(feature = "web")]
        self.expire_visits(now);
    }

    /// Look at the link again when its carrier or a conditioner wants it.
    pub(super) fn arm(&mut self, now: Instant, index: u32) {
        let (origin, slack) = (self.origin, duration(self.options.timer_slack));
        let Some(link) = self.links.at(index) else { return };
        // A packet that is held for ever is never due.
        let held = link.held_until().and_then(|due| origin.checked_add(duration(due)));
        if let Some(due) = [link.due(now, slack), held].into_iter().flatten().min() {
            self.timers.arm(index, due);
        }
    }

    /// Lets pass what a conditioner has held long enough.
    fn release_held(&mut self, now: Instant, index: u32) {
        #[cfg(feature = "web")]
        self.release_units(now, index);
        let time = self.micros(now);
        while let Some(quic) = self.links.at(index).and_then(Link::quic)
            && let Some(conditioning) = &mut quic.conditioning
        {
            if let Some(packet) = conditioning.received.pop(time) {
                self.release(now, packet);
            } else if let Some(packet) = conditioning.sent.pop(time) {
                self.total.sent.packet(packet.bytes.len());
                self.batch.push(packet.to, packet.source, &packet.bytes);
            } else {
                if conditioning.is_over() {
                    quic.conditioning = None;
                    self.conditioned -= 1;
                }
                return;
            }
        }
    }

    pub(super) fn drive_touched(&mut self, now: Instant) {
        let mut touched = std::mem::take(&mut self.touched);
        // Driving may touch links again, by closing them; those come next.
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
        let Some(quic) = link.quic() else {
            #[cfg(feature = "web")]
            self.drive_web(now, index);
            return;
        };
        let mut drained = false;
        while let Some(event) = quic.conn.poll_endpoint_events() {
            drained |= event.is_drained();
            if let Some(answer) = self.quic.handle_event(quic.handle, event) {
                quic.conn.handle_event(answer);
            }
        }
        while let Some(event) =
            self.links.at(index).and_then(Link::quic).and_then(|quic| quic.conn.poll())
        {
            self.happened(now, index, event);
        }
        match drained {
            true => self.remove(index),
            false => self.ask(now, index),
        }
    }

    /// Something happened, so that the link may have something to send. On a calm link it travels
    /// with the next datagram, if there is one before the acknowledgement is due.
    fn ask(&mut self, now: Instant, index: u32) {
        let patience = ACK_DELAY + duration(self.options.timer_slack);
        match self.links.at(index) {
            Some(link) if link.is_calm(now) => self.asks.later(index, now + patience),
            _ => self.make_ready(index),
        }
    }

    fn happened(&mut self, now: Instant, index: u32, event: quinn_proto::Event) {
        let Some(link) = self.links.at(index) else { return };
        let id = link.id;
        let Some(quic) = link.carrier.quic() else { return };
        match event {
            // A link that was closed while it shook hands stays closed.
            quinn_proto::Event::Connected if link.stage == Stage::Handshake => {
                #[cfg(feature = "web")]
                if quic.is_browser() {
                    return self.begin_session(now, index);
                }
                let address = quic.conn.remote_address();
                quic.open(now, link.origin.is_none());
                self.connected(id, address);
            }
            quinn_proto::Event::ConnectionLost { reason } => {
                self.ended(id, Reason::from(reason));
            }
            quinn_proto::Event::DatagramReceived => self.take_datagrams(now, index),
            #[cfg(feature = "web")]
            quinn_proto::Event::Stream(ref stirred) if quic.is_sessions(stirred) => {
                self.session_stirs(now, index);
            }
            quinn_proto::Event::Stream(StreamEvent::Opened { .. }) => {
                quic.stream_opened();
                self.take_messages(now, index);
            }
            quinn_proto::Event::Stream(StreamEvent::Readable { .. }) => {
                self.take_messages(now, index);
            }
            quinn_proto::Event::Stream(
                StreamEvent::Finished { .. } | StreamEvent::Stopped { .. },
            ) => {
                quic.finishing = false;
            }
            // What waits is offered at every transmission.
            _ => {}
        }
    }

    /// Both sides may send.
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

    fn take_datagrams(&mut self, now: Instant, index: u32) {
        while let Some(quic) = self.links.at(index).and_then(Link::quic)
            && let Some(bytes) = quic.conn.datagrams().recv()
        {
            match quic.unwrap(bytes) {
                Some(bytes) => self.take_datagram(now, index, bytes),
                None => self.counters.packets_ignored += 1,
            }
        }
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

    pub(super) fn take_messages(&mut self, now: Instant, index: u32) {
        let time = self.micros(now);
        let limits = &self.options.limits;
        let Some(link) = self.links.at(index) else { return };
        if link.stage != Stage::Open {
            return;
        }
        let Link { id, flow, received, carrier, .. } = link;
        let Some(quic) = carrier.quic() else { return };
        let (id, mut flooded) = (*id, false);
        let events = &mut self.events;
        let read = quic.read(now, limits.max_message, |bytes| {
            flooded |= flow.message(limits, time, bytes.len()) == Passage::Flood;
            received.messages += 1;
            events.push(LinkEvent::Message { link: id, bytes });
        });
        if let Err(size) = read {
            self.close_oversized(now, id, size, limits.max_message);
        } else if flooded {
            self.close_flood(now, index);
        }
    }

    pub(super) fn close_oversized(&mut self, now: Instant, id: LinkId, size: Bytes, limit: Bytes) {
        self.counters.closed_oversized += 1;
        let said = format!("a message of {} bytes exceeds the limit of {}", size.0, limit.0);
        self.close(now, id, CloseCode::MESSAGE_TOO_LARGE, &said);
    }

    /// Reports the end of a link, once.
    pub(super) fn ended(&mut self, id: LinkId, reason: Reason) {
        let Some(link) = self.links.get_mut(id) else { return };
        let stage = std::mem::replace(&mut link.stage, Stage::Closed);
        if let Some(quic) = link.quic() {
            quic.finishing = false;
        }
        if stage == Stage::Handshake {
            self.handshakes -= 1;
            self.counters.handshakes_failed += 1;
        }
        // Nobody was told of a link that others began and that never was connected.
        let told = stage == Stage::Open || (stage == Stage::Handshake && link.origin.is_none());
        if told {
            self.events.push(LinkEvent::Closed { link: id, reason });
        }
    }

    /// The carrier has forgotten the link.
    pub(super) fn remove(&mut self, index: u32) {
        let Some(id) = self.links.at(index).map(|link| link.id) else { return };
        self.ended(id, Reason::Reset);
        let Some(mut link) = self.links.remove(index) else { return };
        if let Some(quic) = link.quic() {
            self.handles[quic.handle.0] = u32::MAX;
            self.conditioned -= u32::from(quic.conditioning.is_some());
        }
        absorb(&mut self.total, &link.meter());
        if let Some(origin) = link.origin {
            self.admission.release(origin);
        }
    }

    /// Ends the streams of all links, so that it can be seen when their messages have arrived.
    pub(super) fn finish_messages(&mut self) {
        let open = self.links.iter_mut().filter(|link| link.stage == Stage::Open);
        let finished: Vec<u32> = open
            .filter(|link| link.sent.messages > 0)
            .map(|link| {
                if let Some(quic) = link.quic() {
                    quic.finish();
                }
                link.id.index
            })
            .collect();
        finished.into_iter().for_each(|index| self.make_ready(index));
    }
}
