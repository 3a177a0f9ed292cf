//! Datagrams beside QUIC: between the socket and a link's direct path.

use std::any::Any;
use std::net::SocketAddr;
use std::time::Instant;

use foveate_wire::{Bytes, Micros};

use super::{Core, copy};
use crate::admission::Origin;
use crate::direct::{
    Arrival, Cipher, Departed, DirectPath, DirectSetup, EXPORTED, EXPORTER, PathId, Place, Side,
};
use crate::link::{DirectLink, Incoming, Link, Outgoing, Passage, Quic};
use crate::options::duration;
use crate::socket::Arrived;

/// The protocols to offer before QUIC's own datagrams.
pub(super) fn protocols() -> impl Iterator<Item = &'static [u8]> {
    Cipher::offered().iter().map(|cipher| cipher.protocol())
}

impl Core {
    /// Sets up keys for the direct path after the handshake, if both ends want one.
    pub(super) fn begin_direct(&mut self, now: Instant, index: u32, begun_here: bool) {
        let time = self.micros(now);
        let Some(quic) = self.links.at(index).and_then(Link::quic) else { return };
        let agreed = quic.agreed();
        let Some(cipher) = agreed.as_deref().and_then(Cipher::of_protocol) else { return };
        let mut exported = [0; EXPORTED];
        let session = quic.conn.crypto_session();
        if session.export_keying_material(&mut exported, EXPORTER, cipher.protocol()).is_err() {
            return;
        }
        let setup = DirectSetup {
            side: if begun_here { Side::Client } else { Side::Server },
            cipher,
            exported: &exported,
            challenges: self.challenges.clone(),
            place: Place { address: quic.conn.remote_address(), source: quic.conn.local_ip() },
        };
        let path = DirectPath::new(&setup, time);
        quic.direct = Some(Box::new(DirectLink::new(path, self.origin)));
        self.update_path_ids(index);
        self.make_ready(index);
    }

    /// Registers the ids of the link's paths, and removes old ones.
    fn update_path_ids(&mut self, index: u32) {
        let Some(quic) = self.links.at(index).and_then(Link::quic) else { return };
        let Some(direct) = &mut quic.direct else { return };
        let (new, known) = (direct.path.numbers(), direct.numbers.take());
        if known.as_ref() == Some(&new) {
            direct.numbers = known;
            return;
        }
        let is_known = |number: &u32| known.as_ref().is_some_and(|known| known.contains(number));
        for number in new.clone().filter(|number| !is_known(number)) {
            self.paths.insert(direct.path.received_id(number), (index, number));
        }
        for number in known.into_iter().flatten().filter(|number| !new.contains(number)) {
            self.paths.remove(direct.path.received_id(number));
        }
        direct.numbers = Some(new);
    }

    /// Removes the direct path of a link that ended, and its keys.
    pub(super) fn end_direct(&mut self, index: u32) {
        let Some(quic) = self.links.at(index).and_then(Link::quic) else { return };
        let Some(direct) = quic.direct.take() else { return };
        for number in direct.numbers.into_iter().flatten() {
            self.paths.remove(direct.path.received_id(number));
        }
    }

    /// Handles a packet that is not QUIC's. It is dropped without an answer if it names no known path.
    pub(super) fn arrived_direct(&mut self, now: Instant, arrived: Arrived<'_>) {
        let Arrived { from, to, ecn, bytes } = arrived;
        let path = PathId::of(bytes).and_then(|id| self.paths.get(id));
        let Some((index, number)) = path else {
            self.counters.packets_ignored += 1;
            return;
        };
        if !self.may_open(now, index, from) {
            self.counters.packets_over_rate += 1;
            return;
        }
        let bytes = copy(&mut self.arena_in, &[], bytes);
        let packet = Incoming { from, to, ecn, bytes };
        let time = self.micros(now);
        let Some(quic) = self.links.at(index).and_then(Link::quic) else { return };
        if let Some(conditioning) = &mut quic.conditioning {
            let size = Bytes(packet.bytes.len() as u32);
            if !conditioning.received.push(time, size, packet) {
                self.counters.conditioned_away += 1;
            }
            return self.arm(now, index);
        }
        self.take_direct(now, index, number, packet);
    }

    /// Whether a packet may be deciphered. Packets from the link's proved address count for the link; they may be
    /// forged, so the limit is high. Others count for their source if they fail.
    fn may_open(&mut self, now: Instant, index: u32, from: SocketAddr) -> bool {
        let time = self.micros(now);
        let Some(link) = self.links.at(index) else { return false };
        let proved = link.quic().and_then(|quic| Some(quic.direct.as_ref()?.path.place().address));
        match proved == Some(from) {
            true => link.flow.packet(&self.options.limits, time, false),
            false => self.suspects.may_try(Origin::from(from.ip()), time),
        }
    }

    /// Handles a packet that a conditioner held.
    pub(super) fn release_direct(&mut self, now: Instant, packet: Incoming) {
        let path = PathId::of(&packet.bytes).and_then(|id| self.paths.get(id));
        if let Some((index, number)) = path {
            self.take_direct(now, index, number, packet);
        }
    }

    fn take_direct(&mut self, now: Instant, index: u32, number: u32, packet: Incoming) {
        let time = self.micros(now);
        let Incoming { from, to, mut bytes, .. } = packet;
        let Some(quic) = self.links.at(index).and_then(Link::quic) else { return };
        let Some(direct) = &mut quic.direct else { return };
        let place = Place { address: from, source: to };
        let arrival = direct.path.receive(time, place, number, &mut bytes);
        let has_new_ids = direct.numbers.as_ref() != Some(&direct.path.numbers());
        if !matches!(arrival, Arrival::Ignored | Arrival::Forged) {
            direct.received.packet(bytes.len());
            quic.refusals = 0;
        }
        match arrival {
            Arrival::Datagram(part) => {
                self.take_datagram(now, index, bytes.freeze().slice(part));
            }
            Arrival::Control => self.charge_control(now, index),
            Arrival::Ignored => self.counters.packets_ignored += 1,
            Arrival::Forged => {
                self.counters.packets_forged += 1;
                self.suspects.charge(Origin::from(from.ip()), time);
                return;
            }
        }
        if has_new_ids {
            self.update_path_ids(index);
        }
        self.plan_direct(time, index);
    }

    fn charge_control(&mut self, now: Instant, index: u32) {
        let time = self.micros(now);
        let Some(link) = self.links.at(index) else { return };
        if link.flow.frames(&self.options.limits, time, 1) == Passage::Flood {
            self.close_flood(now, index);
        }
    }

    /// Schedules the path's next timer, or its work if that is due.
    fn plan_direct(&mut self, time: Micros, index: u32) {
        let Some(quic) = self.links.at(index).and_then(Link::quic) else { return };
        match quic.direct.as_ref().and_then(|direct| direct.path.next_due()) {
            Some(due) if due <= time => self.make_ready(index),
            Some(due) => self.timers.arm(index, self.origin + duration(due)),
            None => {}
        }
    }

    /// Sends a datagram by the link's direct path. False if it must be sent by the link's carrier.
    pub(super) fn send_direct(&mut self, index: u32, datagram: &[u8]) -> bool {
        let time = self.micros(Instant::now());
        let Some(link) = self.links.at(index) else { return false };
        let carrier: &mut dyn Any = &mut *link.carrier;
        let quic = carrier.downcast_mut::<Quic>();
        let Some(direct) = quic.and_then(|quic| quic.direct.as_mut()) else { return false };
        self.scratch.clear();
        match direct.path.send(time, datagram, &mut self.scratch) {
            Departed::LeftToQuic => return false,
            Departed::Congested => {
                link.sent.datagrams += 1;
                self.counters.datagrams_outdated += 1;
            }
            Departed::Sent(place) => {
                link.sent.datagrams += 1;
                self.push_direct(time, index, place);
                self.plan_direct(time, index);
            }
        }
        true
    }

    /// Sends the path's own packets: challenges, their echoes, feedback.
    pub(super) fn transmit_direct(&mut self, time: Micros, index: u32) {
        loop {
            let Some(quic) = self.links.at(index).and_then(Link::quic) else { return };
            let Some(direct) = &mut quic.direct else { return };
            self.scratch.clear();
            let Some(place) = direct.path.poll_transmit(time, &mut self.scratch) else { return };
            self.push_direct(time, index, place);
        }
    }

    /// Adds the packet in `scratch` to the next batch, or to the link's conditioner.
    fn push_direct(&mut self, time: Micros, index: u32, place: Place) {
        let Some(quic) = self.links.at(index).and_then(Link::quic) else { return };
        if let Some(direct) = &mut quic.direct {
            direct.sent.packet(self.scratch.len());
        }
        let Place { address: to, source } = place;
        let Some(conditioning) = &mut quic.conditioning else {
            self.total.sent.packet(self.scratch.len());
            self.batch.push(to, source, &self.scratch);
            return;
        };
        let held = Outgoing { to, source, bytes: self.scratch.clone() };
        if !conditioning.sent.push(time, Bytes(self.scratch.len() as u32), held) {
            self.counters.conditioned_away += 1;
        }
        if let Some(due) = conditioning.next_due()
            && let Some(due) = self.origin.checked_add(duration(due))
        {
            self.timers.arm(index, due);
        }
    }
}
