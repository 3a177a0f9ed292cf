//! From connections to the socket.

use std::time::Instant;

use foveate_wire::Micros;

use super::Core;
use crate::socket::Sockets;

impl Core {
    /// Marks that the link may have something to send.
    pub(super) fn make_ready(&mut self, index: u32) {
        if let Some(link) = self.links.at(index)
            && !std::mem::replace(&mut link.ready, true)
        {
            self.ready.push(index);
        }
    }

    /// Sends what was handed over: now, or spread over some time.
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

    /// Lets every ready link write its packets, and sends them.
    pub(super) fn transmit_ready(&mut self, now: Instant, sockets: &mut Sockets) {
        let mut due = std::mem::take(&mut self.ready);
        self.stagger.take(self.micros(now), &mut due);
        // Links with more packets than a turn allows go to the end of `ready`.
        while !due.is_empty() {
            for index in due.drain(..) {
                self.transmit(now, index);
                if self.batch.is_full() {
                    self.send_batch(sockets);
                }
            }
            std::mem::swap(&mut due, &mut self.ready);
        }
        self.ready = due;
        if self.batch.len() > 0 {
            self.send_batch(sockets);
        }
        self.take_unreachable(now, sockets);
    }

    pub(super) fn send_batch(&mut self, sockets: &mut Sockets) {
        self.counters.packets_unsent += sockets.send(&mut self.batch);
    }

    fn transmit(&mut self, now: Instant, index: u32) {
        let Some(link) = self.links.at(index) else { return };
        link.ready = false;
        let transmit = link.carrier.steps().transmit;
        self.asks.done(index);
        transmit(self, now, index);
    }
}
