//! From the socket to a packet's connection.

use std::net::SocketAddr;
use std::time::{Instant, SystemTime};

use foveate_wire::Bytes;
use quinn_proto::{ConnectionEvent, ConnectionHandle, DatagramEvent, Transmit};

use super::{Core, RENEWAL_CHECK, Role, copy};
use crate::admission::{AdmissionRules, Origin, Standing, Verdict};
use crate::direct::is_direct;
use crate::error::Error;
use crate::event::{CloseCode, Reason, Unreachable};
use crate::link::{Carrier, Incoming, Link, Stage};
use crate::socket::{Arrived, Sockets};

/// Times in a row that an open link's server must be reported as unreachable.
const MAX_REFUSALS: u8 = 3;

impl Core {
    /// Reads all packets that have arrived.
    pub(super) fn receive(&mut self, now: Instant, sockets: &mut Sockets) -> Result<(), Error> {
        self.renew_in_time(now)?;
        let before = self.total.received.packets;
        sockets.receive(|arrived| self.arrived(now, arrived))?;
        self.take_unreachable(now, sockets);
        if self.total.received.packets > before {
            self.last_received = Some(now);
        }
        #[cfg(feature = "web")]
        self.look(now)?;
        Ok(())
    }

    /// Ends links whose packets cannot be delivered, as the network reports: at once during the handshake; later only
    /// after several reports in a row that no server listens, since routes change.
    pub(super) fn take_unreachable(&mut self, now: Instant, sockets: &mut Sockets) {
        while let Some((address, why)) = sockets.take_unreachable() {
            let mut ended = Vec::new();
            for link in self.links.iter_mut() {
                let (stage, id) = (link.stage, link.id);
                let Some(quic) = link.quic().filter(|quic| quic.conn.remote_address() == address)
                else {
                    continue;
                };
                quic.refusals = quic.refusals.saturating_add(u8::from(why == Unreachable::Port));
                let over = match stage {
                    Stage::Handshake => true,
                    Stage::Open => quic.refusals >= MAX_REFUSALS,
                    Stage::Closed => false,
                };
                if over {
                    quic.close(now, CloseCode::DONE, "");
                    ended.push(id);
                }
            }
            for id in ended {
                self.ended(id, Reason::Unreachable(why));
                self.touch(id.index);
            }
        }
    }

    fn arrived(&mut self, now: Instant, arrived: Arrived<'_>) {
        self.total.received.packet(arrived.bytes.len());
        if is_direct(arrived.bytes) {
            return self.arrived_direct(now, arrived);
        }
        let Arrived { from, to, ecn, bytes } = arrived;
        let bytes = copy(&mut self.arena_in, &[], bytes);
        // QUIC finds a packet's link only by handling it, and records the time. So a packet that is to be delayed is
        // handled twice.
        let kept = (self.conditioned > 0).then(|| bytes.clone());
        self.scratch.clear();
        match self.quic.handle(now, from, to, ecn, bytes, &mut self.scratch) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let held = kept.map(|bytes| Incoming { from, to, ecn, bytes });
                if let Some(index) = self.passes(now, handle, from) {
                    self.route(now, index, event, held);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.admit(now, incoming),
            Some(DatagramEvent::Response(transmit)) => {
                self.counters.packets_ignored += 1;
                self.respond(&transmit);
            }
            None => self.counters.packets_ignored += 1,
        }
    }

    /// A packet's link, if the packet may be deciphered. It is not yet authenticated.
    fn passes(&mut self, now: Instant, handle: ConnectionHandle, from: SocketAddr) -> Option<u32> {
        let time = self.micros(now);
        let index = self.handles.get(handle.0).copied()?;
        let link = self.links.at(index)?;
        let is_foreign = link.quic()?.conn.remote_address() != from;
        let passes = link.flow.packet(&self.options.limits, time, is_foreign);
        self.counters.packets_over_rate += u64::from(!passes);
        passes.then_some(index)
    }

    /// Gives a packet to its link, or to the link's conditioner.
    fn route(&mut self, now: Instant, index: u32, event: ConnectionEvent, held: Option<Incoming>) {
        let time = self.micros(now);
        let Some(link) = self.links.at(index) else { return };
        let Some(quic) = link.quic() else { return };
        quic.refusals = 0;
        if let (Some(conditioning), Some(held)) = (&mut quic.conditioning, held) {
            let size = Bytes(held.bytes.len() as u32);
            if !conditioning.received.push(time, size, held) {
                self.counters.conditioned_away += 1;
            }
            return self.arm(now, index);
        }
        quic.conn.handle_event(event);
        self.touch(index);
    }

    /// Handles a packet that a conditioner held.
    pub(super) fn release(&mut self, now: Instant, packet: Incoming) {
        let Incoming { from, to, ecn, bytes } = packet;
        self.scratch.clear();
        let handled = self.quic.handle(now, from, to, ecn, bytes, &mut self.scratch);
        if let Some(DatagramEvent::ConnectionEvent(handle, event)) = handled
            && let Some(index) = self.handles.get(handle.0).copied()
            && let Some(quic) = self.links.at(index).and_then(Link::quic)
        {
            quic.conn.handle_event(event);
            self.touch(index);
        }
    }

    fn admit(&mut self, now: Instant, incoming: quinn_proto::Incoming) {
        let origin = Origin::from(incoming.remote_address().ip());
        let proved = incoming.remote_address_validated();
        if proved && self.admission.has_unproved(origin) {
            // Handshakes that earlier packets completed come first.
            self.drive_touched(now);
        }
        let load = self.load();
        let time = self.micros(now);
        let verdict = if self.closing {
            self.counters.refused_full += 1;
            Verdict::Refuse
        } else {
            let rules =
                AdmissionRules { limits: &self.options.limits, counters: &mut self.counters };
            self.admission.judge(origin, proved, load, time, rules)
        };
        self.scratch.clear();
        match verdict {
            Verdict::Accept => {
                self.make_room(now);
                let standing = if proved { Standing::Proved } else { Standing::Unproved };
                self.accept(now, incoming, origin, standing);
            }
            Verdict::Refuse => {
                let transmit = self.quic.refuse(incoming, &mut self.scratch);
                self.respond(&transmit);
            }
            Verdict::Retry => match self.quic.retry(incoming, &mut self.scratch) {
                Ok(transmit) => self.respond(&transmit),
                Err(already) => self.quic.ignore(already.into_incoming()),
            },
        }
    }

    fn accept(
        &mut self,
        now: Instant,
        incoming: quinn_proto::Incoming,
        origin: Origin,
        standing: Standing,
    ) {
        match self.quic.accept(incoming, now, &mut self.scratch, None) {
            Ok((handle, conn)) => {
                self.counters.accepted += 1;
                let id = self.add(now, handle, conn, Some(origin));
                if let Some(link) = self.links.get_mut(id) {
                    link.standing = standing;
                }
                self.touch(id.index);
            }
            Err(refused) => {
                self.counters.handshakes_failed += 1;
                self.admission.release(origin, standing);
                if let Some(transmit) = refused.response {
                    self.respond(&transmit);
                }
            }
        }
    }

    /// Sends the packet in `scratch`, an answer that belongs to no link.
    fn respond(&mut self, transmit: &Transmit) {
        let bytes = &self.scratch[..transmit.size.min(self.scratch.len())];
        self.total.sent.packet(bytes.len());
        self.batch.push(transmit.destination, transmit.src_ip, bytes);
    }

    pub(super) fn close_flood(&mut self, now: Instant, index: u32) {
        let Some(link) = self.links.at(index) else { return };
        if link.stage != Stage::Closed {
            self.counters.closed_flood += 1;
            let id = link.id;
            self.close(now, id, CloseCode::FLOOD, "the allowed rate was exceeded by far");
        }
    }

    fn renew_in_time(&mut self, now: Instant) -> Result<(), Error> {
        if let Role::Server { checked, .. } = &mut self.role
            && now.saturating_duration_since(*checked) >= RENEWAL_CHECK
        {
            *checked = now;
            self.renew(SystemTime::now())?;
        }
        Ok(())
    }
}
