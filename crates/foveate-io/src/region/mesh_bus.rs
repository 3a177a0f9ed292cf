//! The bus between processes: messages made with the world's key, by direct links and by a broker.
//!
//! A message goes by the direct link to its recipient while that is fresh, and by the broker as well while it is not:
//! so the loss of the broker stops no server, nor does the loss of a link. What arrives by both ways is taken in once.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use foveate_node::region::bus::Recipient;
use foveate_node::region::layout::ServerId;

use super::seal::{MessageOpener, MessageSealer, MessageTrouble};
use super::{Bus, BusCounts, DirectLinks, WorldKey};

/// Servers whose messages are recognised at a time; beyond, the one that was silent for longest is forgotten.
pub const MAX_SENDERS: usize = 1_024;

/// How often a server says where its direct links are.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(1);
/// Messages that are looked at in one call, so that strangers' do not keep the loop.
const MAX_LOOKS: usize = 4_096;

/// What a message is.
const ENVELOPE: u8 = 0;
const ADDRESS: u8 = 1;

/// One server's bus.
pub struct MeshBus {
    sealer: MessageSealer,
    opener: MessageOpener,
    broker: Box<dyn Bus>,
    direct: DirectLinks,
    announced: Option<Instant>,
    counts: BusCounts,
}

impl MeshBus {
    /// By a broker and by direct links. None if the key cannot be used.
    pub fn new(
        key: &WorldKey,
        me: ServerId,
        broker: Box<dyn Bus>,
        mut direct: DirectLinks,
    ) -> Option<MeshBus> {
        direct.begin(key, me);
        Some(MeshBus {
            sealer: MessageSealer::new(key, me)?,
            opener: MessageOpener::new(key.clone(), me),
            broker,
            direct,
            announced: None,
            counts: BusCounts::default(),
        })
    }

    /// Says where this server's direct links are.
    fn announce(&mut self) {
        let now = Instant::now();
        if self.announced.is_some_and(|last| now - last < ANNOUNCE_EVERY) {
            return;
        }
        self.announced = Some(now);
        let text = self.direct.address().to_string();
        let frame = self.sealer.seal(Recipient::All, ADDRESS, text.as_bytes());
        self.broker.publish(Recipient::All, &frame);
        self.direct.send_all(&frame);
    }

    fn on_frame(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        match self.opener.open(frame) {
            Ok((_, ENVELOPE, body)) => return Some(body),
            Ok((sender, ADDRESS, body)) => {
                let address = str::from_utf8(&body).ok().and_then(|it| it.parse().ok());
                if let Some(address) = address {
                    let address: SocketAddr = address;
                    self.direct.learn(sender, address);
                }
            }
            // A later version's kind.
            Ok(_) => {}
            Err(MessageTrouble::Forged) => self.counts.forged += 1,
            Err(MessageTrouble::Repeated) => self.counts.repeated += 1,
        }
        None
    }
}

impl Bus for MeshBus {
    fn publish(&mut self, to: Recipient, bytes: &[u8]) {
        let frame = self.sealer.seal(to, ENVELOPE, bytes);
        self.counts.sent += 1;
        match to {
            Recipient::All => {
                self.broker.publish(to, &frame);
                self.direct.send_all(&frame);
            }
            Recipient::Server(server) => {
                let sent = self.direct.send(server, &frame);
                if !sent || !self.direct.is_fresh(server) {
                    self.broker.publish(to, &frame);
                }
            }
        }
    }

    fn poll(&mut self) -> Option<Vec<u8>> {
        self.announce();
        for _ in 0..MAX_LOOKS {
            let frame = self.direct.poll().or_else(|| self.broker.poll())?;
            if let Some(message) = self.on_frame(&frame) {
                self.counts.received += 1;
                return Some(message);
            }
        }
        None
    }

    fn counts(&self) -> BusCounts {
        let (broker, direct) = (self.broker.counts(), self.direct.counts());
        BusCounts {
            unsent: broker.unsent,
            overflowed: broker.overflowed + direct.overflowed,
            forged: self.counts.forged + direct.forged,
            links: direct.links,
            ..self.counts
        }
    }
}

#[cfg(test)]
mod tests;
