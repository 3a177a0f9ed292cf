//! From connections to the socket.

use std::time::Instant;

use foveate_wire::{Bytes, Micros};

use super::Core;
use crate::link::Outgoing;
use crate::socket::Sockets;

/// Packets that one link sends before the others have their turn.
const MAX_PACKETS_PER_TURN: usize = 16;

impl Core {
    /// The link may have something to send.
    pub(super) fn make_ready(&mut self, index: u32) {
        if let Some(link) = self.links.at(index)
            && !std::mem::replace(&mut link.ready, true)
        {
            self.ready.push(index);
        }
    }

    /// What was handed in may leave: now, or spread over a while.
    pub(super) fn flush(&mut self, now: Instant) {
        if self.dirty.is_empty() {
            return;
        }
        let spread = self.options.spread;
        if spread > Micros::ZERO {
            self.stagger.begin(self.micros(now), spread);
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        for index in dirty.drain(..) {
            let Some(link) = self.links.at(index) else { continue };
            link.dirty = false;
            match spread > Micros::ZERO {
                true => self.stagger.add(index),
                false => self.make_ready(index),
            }
        }
        self.dirty = dirty;
    }

    /// Lets every link that is ready write its packets, and sends them.
    pub(super) fn transmit_ready(&mut self, now: Instant, sockets: &mut Sockets) {
        let mut due = std::mem::take(&mut self.ready);
        self.stagger.take(self.micros(now), &mut due);
        // Links that have more than a turn's packets line up again in `ready`.
        while !due.is_empty() {
            for index in due.drain(..) {
                self.transmit(now, index);
                if self.batch.is_full() {
                    self.counters.packets_unsent += sockets.send(&mut self.batch);
                }
            }
            std::mem::swap(&mut due, &mut self.ready);
        }
        self.ready = due;
        if self.batch.len() > 0 {
            self.counters.packets_unsent += sockets.send(&mut self.batch);
        }
        self.take_unreachable(now, sockets);
    }

    fn transmit(&mut self, now: Instant, index: u32) {
        let time = self.micros(now);
        let Some(link) = self.links.at(index) else { return };
        link.ready = false;
        self.asks.done(index);
        let Some(quic) = link.quic() else {
            #[cfg(feature = "web")]
            self.transmit_web(now, index);
            return;
        };
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
