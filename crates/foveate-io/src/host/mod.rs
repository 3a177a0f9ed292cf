//! Servers and clients of [`foveate_node`] on real links: what is left to a program is its game.
//!
//! A host owns the endpoint, the clock and the state machine, and moves bytes between them. It starts
//! no thread: call [`ServerHost::step`] or [`ClientsHost::step`] in a loop, or, from a loop that waits by
//! itself, [`ServerHost::poll_step`] or [`ClientsHost::poll_step`].

mod clients;
#[cfg(feature = "peer")]
mod peer;
mod server;
mod session_end;

pub use clients::{ClientsHost, Player};
#[cfg(feature = "peer")]
pub use peer::PeerHost;
pub use server::{
    AllowAll, Authenticator, Kept, LoginReply, MAX_OBSERVER_EVENTS, ServerHost, StepTimings,
};
pub use session_end::{EndCause, SessionEnd};

use std::time::{Duration, Instant};

use foveate_node::session::Refusal;
use foveate_node::{Link, Outbox};

use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::event::CloseCode;
use crate::slots::LinkId;

/// Close codes of refusals begin here; the refusal's place in [`Refusal::ALL`] is added.
pub const REFUSED: u32 = 256;

/// What a server or a peer keeps of what happened until somebody asks; what is beyond is forgotten, oldest first.
pub const MAX_HAPPENED: usize = 4_096;

/// A link that is turned away is closed after so long, if the other side has not done so: what was
/// said last should arrive.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Rounds between two looks at what a link carries.
pub(crate) const MEASURE_EVERY: u32 = 4;

/// Links that are to be closed.
#[derive(Default)]
pub(crate) struct Closing(Vec<(Instant, LinkId, CloseCode, String)>);

impl Closing {
    pub(crate) fn close_due(&mut self, endpoint: &mut impl LinkSender, now: Instant) {
        self.0.retain(|(at, link, code, why)| {
            if *at <= now {
                endpoint.close(*link, *code, why);
            }
            *at > now
        });
    }
}

/// A node's words go straight to the endpoint. What cannot be sent, because a link just ended or its
/// buffers are full, is lost like any datagram; a message that does not fit ends the link.
pub(crate) struct EndpointOutbox<'a, E>(pub &'a mut E, pub &'a mut Closing);

/// What a node's words leave by.
pub(crate) trait LinkSender {
    fn send_datagram(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), Error>;
    fn send_message(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), Error>;
    fn close(&mut self, link: LinkId, code: CloseCode, reason: &str);
}

impl LinkSender for Endpoint {
    fn send_datagram(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), Error> {
        Endpoint::send_datagram(self, link, bytes)
    }

    fn send_message(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), Error> {
        Endpoint::send_message(self, link, bytes)
    }

    fn close(&mut self, link: LinkId, code: CloseCode, reason: &str) {
        Endpoint::close(self, link, code, reason);
    }
}

impl<E: LinkSender> Outbox for EndpointOutbox<'_, E> {
    fn datagram(&mut self, to: Link, bytes: &[u8]) {
        // Lost is lost: states are sent again.
        self.0.send_datagram(LinkId::from_bits(to.0), bytes).unwrap_or(());
    }

    fn message(&mut self, to: Link, bytes: &[u8]) {
        let link = LinkId::from_bits(to.0);
        if self.0.send_message(link, bytes).is_err() {
            self.0.close(link, CloseCode::MESSAGE_TOO_LARGE, "too much waits to be read");
        }
    }

    fn close(&mut self, link: Link, why: Refusal) {
        let at = Refusal::ALL.iter().position(|known| *known == why).unwrap_or(0);
        let (at, code) = (Instant::now() + LAST_WORDS, CloseCode(REFUSED + at as u32));
        self.1.0.push((at, LinkId::from_bits(link.0), code, format!("{why:?}")));
    }
}

/// A link of the endpoint's, as the node knows it.
pub(crate) fn name(link: LinkId) -> Link {
    Link(link.to_bits())
}
