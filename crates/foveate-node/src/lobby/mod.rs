//! A lobby: lists the running games and peers to join them through.
//!
//! Peers announce themselves every few seconds, and are listed as long as they do. A player that
//! wants to join requests the list and connects to any of the peers. The lobby takes no part in
//! games, which continue without it.
//!
//! It answers each request with at most one reply and keeps nothing for a sender that has not proved its
//! address. The proof is a *cookie*, which is computed anew from the address instead of being kept
//! (QUIC's Retry works like this). Announcements are signed over the cookie, so that no sender can
//! overwrite, remove or replay another's.
//!
//! A listed peer need not be honest: connecting to it proves its key, no more.

mod talk;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use foveate_wire::Micros;

use crate::peer::identity::{Key, Sealed, Signer};

pub use talk::{
    Announcement, Answered, Asked, Cookie, Entry, MAX_ABOUT, MAX_CONTACTS, MAX_GAME, MAX_TALK,
    MIN_HELLO, No, Reply, Request, Saying, VERSION, decode, encode,
};

/// A cookie is valid for one to two of these spans.
pub const COOKIE_SPAN: Micros = Micros::from_millis(30_000);
/// The most addresses counted in one second; requests from others are dropped.
pub const MAX_ORIGINS: usize = 65_536;
/// The most bytes of a list besides its entries.
const LIST_HEAD: usize = 24;
/// The length of the intervals in which rates are counted.
const SECOND: Micros = Micros::from_millis(1_000);

#[derive(Clone, PartialEq, Debug)]
pub struct LobbySettings {
    /// How long a peer is listed after its last announcement.
    pub life: Micros,
    /// The most listed peers.
    pub max_peers: usize,
    /// The most listed peers of one address (in IPv6, of one network of 64 bits).
    pub max_peers_per_address: usize,
    /// The most requests from one address per second.
    pub requests_per_second: u32,
    /// The most signatures checked per second, for all senders together.
    pub checks_per_second: u32,
}

impl Default for LobbySettings {
    fn default() -> LobbySettings {
        LobbySettings {
            life: Micros::from_millis(15_000),
            max_peers: 4_096,
            max_peers_per_address: 64,
            requests_per_second: 32,
            checks_per_second: 2_000,
        }
    }
}

/// Counters of a lobby; they only grow.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LobbyCounters {
    /// Requests of any kind.
    pub requests: u64,
    /// Bytes that are not a request.
    pub malformed: u64,
    /// Announcements and farewells that were accepted.
    pub heard: u64,
    /// Lists that were sent.
    pub lists: u64,
    /// Peers that timed out.
    pub expired: u64,
    /// Requests dropped because too many addresses sent requests at once.
    pub dropped: u64,
    /// Refusals, by reason.
    pub refused: BTreeMap<No, u64>,
}

/// A keyed hash for cookies, with a secret of this run that no other process can compute.
pub type Seal = Box<dyn Fn(&[u8]) -> Cookie + Send>;

/// A lobby without IO.
pub struct Lobby {
    settings: LobbySettings,
    /// Only verifies: a lobby signs nothing.
    signer: Box<dyn Signer>,
    seal: Seal,
    peers: BTreeMap<Key, Listing>,
    per_origin: BTreeMap<Origin, usize>,
    rates: Rates,
    counters: LobbyCounters,
}

/// What the lobby knows of a peer.
struct Listing {
    origin: Origin,
    stamp: u64,
    heard: Micros,
    since: Micros,
    /// `None` once the peer has left or timed out. Its last stamp is kept as long as an old cookie
    /// is valid.
    said: Option<Announcement>,
}

/// Requests within the current second.
#[derive(Default)]
struct Rates {
    second: u64,
    asked: BTreeMap<Origin, u32>,
    checks: u32,
}

/// An address as the limits count it: in IPv6 one customer has a network of 2⁶⁴ addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Origin(IpAddr);

impl Origin {
    fn of(address: IpAddr) -> Origin {
        Origin(match address {
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
            v4 => v4,
        })
    }
}

impl Lobby {
    pub fn new(settings: LobbySettings, signer: Box<dyn Signer>, seal: Seal) -> Lobby {
        Lobby {
            settings,
            signer,
            seal,
            peers: BTreeMap::new(),
            per_origin: BTreeMap::new(),
            rates: Rates::default(),
            counters: LobbyCounters::default(),
        }
    }

    pub fn counters(&self) -> &LobbyCounters {
        &self.counters
    }

    /// The number of listed peers.
    pub fn len(&self) -> usize {
        self.peers.values().filter(|listing| listing.said.is_some()).count()
    }

    /// Whether no game is listed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Handles a packet; returns the reply, if there is one.
    pub fn handle(&mut self, now: Micros, from: SocketAddr, bytes: &[u8]) -> Option<Vec<u8>> {
        self.counters.requests += 1;
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        let Some(asked) = decode::<Asked>(bytes) else {
            self.counters.malformed += 1;
            return None;
        };
        let reply = match asked.request {
            Request::Hello if bytes.len() < MIN_HELLO => {
                self.counters.malformed += 1;
                return None;
            }
            Request::Hello => Ok(Reply::Cookie(self.cookie(now, from))),
            Request::Say(sealed) => self.say(now, from, &sealed),
            Request::List { cookie, game, after } => self.list(now, from, cookie, &game, after),
        };
        let reply = reply.unwrap_or_else(|no| {
            *self.counters.refused.entry(no).or_default() += 1;
            Reply::Refused(no)
        });
        Some(encode(&Answered { nonce: asked.nonce, reply }))
    }

    /// Removes peers that timed out. Call it about once a second.
    pub fn tick(&mut self, now: Micros) {
        let kept_for = COOKIE_SPAN + COOKIE_SPAN;
        let gone: Vec<Key> = self
            .peers
            .iter_mut()
            .filter_map(|(key, listing)| {
                let silent = now - listing.heard;
                if silent >= self.settings.life && listing.said.take().is_some() {
                    self.counters.expired += 1;
                }
                (listing.said.is_none() && silent > kept_for).then_some(*key)
            })
            .collect();
        for key in gone {
            self.forget(key);
        }
    }

    fn forget(&mut self, key: Key) {
        let Some(listing) = self.peers.remove(&key) else { return };
        self.release(listing.origin);
    }

    fn release(&mut self, origin: Origin) {
        if let Some(count) = self.per_origin.get_mut(&origin) {
            *count -= 1;
            if *count == 0 {
                self.per_origin.remove(&origin);
            }
        }
    }

    fn cookie(&self, now: Micros, from: SocketAddr) -> Cookie {
        self.cookie_of(now.0 / COOKIE_SPAN.0, from)
    }

    fn cookie_of(&self, span: u64, from: SocketAddr) -> Cookie {
        let ip = match from.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        let (port, span) = (from.port().to_be_bytes(), span.to_be_bytes());
        (self.seal)(&[&ip[..], &port, &span].concat())
    }

    /// Checks that the sender has proved its address, and is within its limits.
    fn admit(&mut self, now: Micros, from: SocketAddr, cookie: Cookie) -> Result<(), No> {
        let span = now.0 / COOKIE_SPAN.0;
        let fresh = [span, span.saturating_sub(1)];
        if !fresh.iter().any(|span| self.cookie_of(*span, from) == cookie) {
            return Err(No::Cookie);
        }
        let second = now.0 / SECOND.0;
        if self.rates.second != second {
            self.rates = Rates { second, ..Rates::default() };
        }
        let origin = Origin::of(from.ip());
        if self.rates.asked.len() >= MAX_ORIGINS && !self.rates.asked.contains_key(&origin) {
            self.counters.dropped += 1;
            return Err(No::Full);
        }
        let asked = self.rates.asked.entry(origin).or_default();
        *asked += 1;
        if *asked > self.settings.requests_per_second { Err(No::Rate) } else { Ok(()) }
    }

    fn say(&mut self, now: Micros, from: SocketAddr, sealed: &Sealed) -> Result<Reply, No> {
        let saying: Saying = sealed.peek().ok_or(No::Forged)?;
        self.admit(now, from, saying.cookie)?;
        if self.rates.checks >= self.settings.checks_per_second {
            return Err(No::Full);
        }
        self.rates.checks += 1;
        if !sealed.holds(&saying, &*self.signer) {
            return Err(No::Forged);
        }
        let key = saying.key;
        if self.peers.get(&key).is_some_and(|known| known.stamp >= saying.stamp) {
            return Err(No::Stale);
        }
        match saying.here {
            Some(mut announcement) => {
                check(&mut announcement, from.ip())?;
                self.keep(now, from, key, saying.stamp, announcement)?;
            }
            None => {
                if let Some(known) = self.peers.get_mut(&key) {
                    (known.stamp, known.heard, known.said) = (saying.stamp, now, None);
                }
            }
        }
        self.counters.heard += 1;
        Ok(Reply::Heard { lasts: millis(self.settings.life) })
    }

    fn keep(
        &mut self,
        now: Micros,
        from: SocketAddr,
        key: Key,
        stamp: u64,
        mut said: Announcement,
    ) -> Result<(), No> {
        let origin = Origin::of(from.ip());
        let known = self.peers.get(&key);
        if known.is_none_or(|known| known.origin != origin) {
            let here = self.per_origin.get(&origin).copied().unwrap_or(0);
            let full = known.is_none() && self.peers.len() >= self.settings.max_peers;
            if full || here >= self.settings.max_peers_per_address {
                return Err(No::Full);
            }
        }
        let before = self.peers.remove(&key);
        let mut since = now;
        if let Some(before) = before {
            self.release(before.origin);
            if let Some(earlier) = before.said {
                since = before.since;
                join_families(&mut said.contacts, &earlier.contacts, from.ip());
            }
        }
        *self.per_origin.entry(origin).or_default() += 1;
        self.peers.insert(key, Listing { origin, stamp, heard: now, since, said: Some(said) });
        Ok(())
    }

    fn list(
        &mut self,
        now: Micros,
        from: SocketAddr,
        cookie: Cookie,
        game: &str,
        after: Option<Key>,
    ) -> Result<Reply, No> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.admit(now, from, cookie)?;
        self.counters.lists += 1;
        let begin = after.map_or(Unbounded, Excluded);
        let (mut entries, mut more, mut size) = (Vec::new(), false, LIST_HEAD);
        for (key, listing) in self.peers.range((begin, Unbounded)) {
            let Some(said) = &listing.said else { continue };
            let silent = now - listing.heard;
            if silent >= self.settings.life || !(game.is_empty() || said.game == game) {
                continue;
            }
            let present = u32::try_from((now - listing.since).0 / SECOND.0).unwrap_or(u32::MAX);
            let entry = Entry { key: *key, said: said.clone(), silent: millis(silent), present };
            size += encode(&entry).len();
            if size > MAX_TALK {
                more = true;
                break;
            }
            entries.push(entry);
        }
        Ok(Reply::Listed { entries, more })
    }
}

fn millis(span: Micros) -> u32 {
    u32::try_from(span.0 / 1_000).unwrap_or(u32::MAX)
}

/// Whether a game may have this name: no control characters, and none that change how others are
/// shown.
fn is_name(name: &str) -> bool {
    let hidden = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let shown = !name.chars().any(|c| c.is_control() || hidden(c));
    shown && !name.is_empty() && name.len() <= MAX_GAME && name.trim() == name
}

/// Rejects an announcement that cannot be listed, and fills in the address that the lobby sees.
///
/// A public address must be the one that the peer sends from, so that no peer can have a lobby send
/// players to another host. Private addresses help neighbours, and cannot be abused from outside.
fn check(said: &mut Announcement, from: IpAddr) -> Result<(), No> {
    if !is_name(&said.game) {
        return Err(No::Name);
    }
    if said.about.len() > MAX_ABOUT {
        return Err(No::About);
    }
    if said.contacts.is_empty() || said.contacts.len() > MAX_CONTACTS {
        return Err(No::Contacts);
    }
    for contact in &mut said.contacts {
        contact.set_ip(contact.ip().to_canonical());
        if contact.ip().is_unspecified() {
            contact.set_ip(from);
        }
        let ip = contact.ip();
        let allowed = ip == from || is_private(ip) || (ip.is_loopback() && from.is_loopback());
        if contact.port() == 0 || ip.is_multicast() || !allowed {
            return Err(No::Contacts);
        }
    }
    said.contacts.sort();
    said.contacts.dedup();
    Ok(())
}

fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_private() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

/// A peer with IPv4 and IPv6 announces itself once from each; its contacts of the other family are
/// kept.
fn join_families(contacts: &mut Vec<SocketAddr>, earlier: &[SocketAddr], from: IpAddr) {
    let others = earlier.iter().filter(|contact| contact.is_ipv4() != from.is_ipv4());
    for other in others {
        if contacts.len() < MAX_CONTACTS && !contacts.contains(other) {
            contacts.push(*other);
        }
    }
}
