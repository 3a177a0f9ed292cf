//! A link that a client asks for beside its host's, to another server of its world.
//!
//! ```text
//! contact ─ dial ─ connected ─▶ the client's, if it still wants it
//!             ├─ no answer for 2 s ─▶ the contact's next address, if there is one
//!             └─ closed ─▶ the contact's next address ─ none left ─▶ the client is told
//! ```

use std::net::SocketAddr;
use std::time::Instant;

use foveate_node::Link;
use foveate_node::game::Game;
use foveate_node::session::ServerContact;

use super::clients::{ClientGroup, NEXT_ADDRESS};
use super::name;
use crate::event::CloseCode;
use crate::identity::CertificateHash;
use crate::link_endpoint::DialAddress;
use crate::server_address::ServerAddress;
use crate::slots::LinkId;

/// A dial that is under way.
pub(super) struct AheadDial {
    /// Addresses that were not tried yet, each with the host that it is of, the next one last.
    untried: Vec<(SocketAddr, String)>,
    certificate: Option<CertificateHash>,
    pub link: Option<Link>,
    /// When the address at hand was tried first.
    tried: Instant,
}

impl AheadDial {
    /// Whether another address should be tried. The last one is given up only when its link fails: a busy server that
    /// is dialled anew has more to do, not less.
    pub fn is_late(&self) -> bool {
        !self.untried.is_empty() && self.tried.elapsed() >= NEXT_ADDRESS
    }
}

impl<G: Game> ClientGroup<G> {
    /// Begins to connect to a server. A host that is given by name is looked up, which blocks.
    pub(super) fn dial_ahead(
        &mut self,
        at: usize,
        contact: &ServerContact,
        endpoint: &mut impl DialAddress,
    ) {
        self.drop_ahead(at, endpoint);
        let servers = contact.quic_addresses().filter_map(|it| it.parse::<ServerAddress>().ok());
        let mut untried: Vec<(SocketAddr, String)> = servers
            .flat_map(|server| {
                let found = server.resolve().unwrap_or_default();
                found.into_iter().map(move |address| (address, server.host().to_owned()))
            })
            .collect();
        untried.reverse();
        let certificate = contact.certificate.as_slice().try_into().ok().map(CertificateHash);
        let (link, tried) = (None, Instant::now());
        self.players[at].ahead = Some(AheadDial { untried, certificate, link, tried });
        self.dial_next_ahead(at, endpoint);
    }

    /// Tries the next address; without one the client is told that the server cannot be reached.
    pub(super) fn dial_next_ahead(&mut self, at: usize, endpoint: &mut impl DialAddress) {
        let Some(mut ahead) = self.drop_ahead(at, endpoint) else { return };
        while let Some((address, host)) = ahead.untried.pop() {
            let begun = match ahead.certificate {
                Some(hash) => endpoint.connect_pinned(address, &host, hash),
                None => endpoint.connect(address, &host),
            };
            // Whatever is in the way, the host names the server again.
            if let Ok(link) = begun {
                let link = name(link);
                (ahead.link, ahead.tried) = (Some(link), Instant::now());
                self.by_link.insert(link, at);
                self.players[at].ahead = Some(ahead);
                return;
            }
        }
        self.players[at].client.unreachable();
    }

    /// Whether a link that ended was on its way to the server ahead; it is forgotten then.
    pub(super) fn ahead_failed(&mut self, at: usize, link: Link) -> bool {
        let ahead = self.players[at].ahead.as_mut().filter(|it| it.link == Some(link));
        ahead.is_some_and(|ahead| {
            ahead.link = None;
            self.by_link.remove(&link);
            true
        })
    }

    fn drop_ahead(&mut self, at: usize, endpoint: &mut impl DialAddress) -> Option<AheadDial> {
        let mut ahead = self.players[at].ahead.take()?;
        if let Some(link) = ahead.link.take() {
            self.by_link.remove(&link);
            endpoint.close(LinkId::from_bits(link.0), CloseCode::DONE, "");
        }
        Some(ahead)
    }
}
