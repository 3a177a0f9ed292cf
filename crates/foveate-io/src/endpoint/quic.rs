//! Links carried by QUIC: from connections to events, and to the socket.

use std::any::Any;
use std::time::Instant;

use foveate_wire::Bytes;
use quinn_proto::{SendDatagramError, StreamEvent};

use super::{CarrierSteps, Core, copy};
use crate::direct::is_direct;
use crate::error::Error;
use crate::event::{LinkEvent, Reason};
use crate::link::{Carrier, Link, Outgoing, Passage, Quic, Stage};
use crate::slots::LinkId;

/// Packets that one link sends before it is another's turn.
const MAX_PACKETS_PER_TURN: usize = 16;

pub(crate) static QUIC_STEPS: CarrierSteps = CarrierSteps {
    send_datagram: Core::send_quic_datagram,
    send_message: Core::send_quic_message,
    timeout: Core::quic_timeout,
    release: Core::release_packets,
    drive: Core::drive_quic,
    transmit: Core::transmit_quic,
    removed: Core::quic_removed,
};

impl Core {
    fn send_quic_datagram(&mut self, id: LinkId, bytes: &[u8]) -> Result<bool, Error> {
        let Some(quic) = self.links.get_mut(id).and_then(Link::quic) else {
            return Err(Error::Closed);
        };
        let copy = copy(&mut self.arena_out, quic.prefix(), bytes).freeze();
        let mut datagrams = quic.conn.datagrams();
        if datagrams.send_buffer_space() < copy.len() {
            self.counters.datagrams_outdated += 1;
        }
        datagrams.send(copy, true).map(|()| true).map_err(|cause| match cause {
            SendDatagramError::UnsupportedByPeer | SendDatagramError::Disabled => {
                Error::NotConnected
            }
            SendDatagramError::TooLarge | SendDatagramError::Blocked(_) => {
                let (size, limit) = (Bytes(bytes.len() as u32), quic.max_datagram());
                Error::DatagramTooLarge { size, limit: limit.unwrap_or_default() }
            }
        })
    }

    fn send_quic_message(&mut self, id: LinkId, bytes: &[u8]) {
        if let Some(quic) = self.links.get_mut(id).and_then(Link::quic) {
            quic.push_message(Instant::now(), bytes);
        }
    }

    fn quic_timeout(&mut self, now: Instant, index: u32) {
        if let Some(quic) = self.links.at(index).and_then(Link::quic) {
            quic.conn.handle_timeout(now);
        }
        #[cfg(feature = "web")]
        self.session_timeout(now, index);
        self.touch(index);
        self.make_ready(index);
    }

    fn quic_removed(&mut self, link: &mut Link) {
        if let Some(quic) = link.quic() {
            self.handles[quic.handle.0] = u32::MAX;
            self.conditioned -= u32::from(quic.conditioning.is_some());
        }
    }

    /// Releases packets that a conditioner has held long enough.
    fn release_packets(&mut self, now: Instant, index: u32) {
        let time = self.micros(now);
        while let Some(quic) = self.links.at(index).and_then(Link::quic)
            && let Some(conditioning) = &mut quic.conditioning
        {
            if let Some(packet) = conditioning.received.pop(time) {
                match is_direct(&packet.bytes) {
                    true => self.release_direct(now, packet),
                    false => self.release(now, packet),
                }
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

    fn drive_quic(&mut self, now: Instant, index: u32) {
        let Some(quic) = self.links.at(index).and_then(Link::quic) else { return };
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
        if drained {
            return self.remove(index);
        }
        self.charge_frames(now, index);
        self.ask(now, index);
    }

    /// Counts the frames that arrived since the last call against the link's limits. All were authenticated.
    fn charge_frames(&mut self, now: Instant, index: u32) {
        let time = self.micros(now);
        let Some(link) = self.links.at(index) else { return };
        let Some(count) = link.quic().map(Quic::new_frames).filter(|count| *count > 0) else {
            return;
        };
        if link.flow.frames(&self.options.limits, time, count) == Passage::Flood {
            self.close_flood(now, index);
        }
    }

    fn happened(&mut self, now: Instant, index: u32, event: quinn_proto::Event) {
        let Some(link) = self.links.at(index) else { return };
        let (id, stage, begun_here) = (link.id, link.stage, link.origin.is_none());
        let Some(quic) = link.quic() else { return };
        match event {
            // A link that was closed during its handshake stays closed.
            quinn_proto::Event::Connected if stage == Stage::Handshake => {
                if !self.prove(now, id) {
                    return;
                }
                let Some(quic) = self.links.at(index).and_then(Link::quic) else { return };
                #[cfg(feature = "web")]
                if quic.is_browser() {
                    return self.begin_session(now, index);
                }
                let address = quic.conn.remote_address();
                quic.open(now, begun_here);
                self.begin_direct(now, index, begun_here);
                self.connected(id, address);
            }
            quinn_proto::Event::ConnectionLost { reason } => {
                self.ended(id, Reason::from(reason));
            }
            quinn_proto::Event::DatagramReceived => self.take_datagrams(now, index),
            #[cfg(feature = "web")]
            quinn_proto::Event::Stream(ref stirred) if quic.is_sessions(stirred) => {
                self.drive_session(now, index);
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
            // Waiting data is offered at every transmission.
            _ => {}
        }
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

    pub(super) fn take_messages(&mut self, now: Instant, index: u32) {
        let time = self.micros(now);
        let limits = &self.options.limits;
        let Some(link) = self.links.at(index) else { return };
        if link.stage != Stage::Open {
            return;
        }
        let Link { id, flow, received, carrier, .. } = link;
        let carrier: &mut dyn Any = &mut **carrier;
        let Some(quic) = carrier.downcast_mut::<Quic>() else { return };
        let (id, mut flooded) = (*id, false);
        let events = &mut self.events;
        let read = quic.read(now, limits.max_message, |bytes| {
            flooded |= flow.message(limits, time, bytes.len()) == Passage::Flood;
            received.messages += 1;
            // Data of a link that is closed for flooding is not worth reading.
            if !flooded {
                events.push(LinkEvent::Message { link: id, bytes });
            }
        });
        if let Err(size) = read {
            self.close_oversized(now, id, size, limits.max_message);
        } else if flooded {
            self.close_flood(now, index);
        }
    }

    fn transmit_quic(&mut self, now: Instant, index: u32) {
        let time = self.micros(now);
        self.transmit_direct(time, index);
        let Some(quic) = self.links.at(index).and_then(Link::quic) else { return };
        quic.pump();
        let mut count = 0;
        while count < MAX_PACKETS_PER_TURN {
            self.scratch.clear();
            let Some(packet) = quic.conn.poll_transmit(now, 1, &mut self.scratch) else { break };
            let bytes = &self.scratch[..packet.size.min(self.scratch.len())];
            count += 1;
            let Some(conditioning) = &mut quic.conditioning else {
                self.total.sent.packet(bytes.len());
                self.batch.push(packet.destination, packet.src_ip, bytes);
                continue;
            };
            let (to, source) = (packet.destination, packet.src_ip);
            let held = Outgoing { to, source, bytes: bytes.to_vec() };
            if !conditioning.sent.push(time, Bytes(bytes.len() as u32), held) {
                self.counters.conditioned_away += 1;
            }
        }
        match count < MAX_PACKETS_PER_TURN {
            true => self.arm(now, index),
            false => self.make_ready(index),
        }
    }
}
