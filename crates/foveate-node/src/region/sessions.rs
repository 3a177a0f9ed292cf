//! Players at a region server: how they join at any server, are sent to the one that is responsible, resume and leave.
//!
//! ```text
//! link ─ Hello ─▶ Asked ─ Admit ─▶ Joining ─ another is responsible ─▶ Redirect, with a ticket
//!  │                                  └─ record appended ─▶ Playing ─ Leave, timeout ─▶ record appended, objects removed
//!  └─ Enter with a ticket ─▶ Joining, or if the session is to move: Expected ─ the session comes ─▶ Playing
//! ```
//!
//! Nothing is decided but by an append to the player's record (`players`); a record that was read says only what to try.

use super::bus::{BusMessage, Expectation, Recipient, SessionNote};
use super::layout::{RegionId, RegionInfo, ServerId};
use super::ledger::{LedgerRequest, Subject};
use super::owner::{Region, Row};
use super::players::{PlayerPlace, PlayerRecord, subject};
use super::{MeshStep, RegionEvent, RegionServer};
use crate::game::{Game, PlayerId};
use crate::outbox::{Link, Outbox, Outgoing, RecordingOutbox};
use crate::session::{
    ClientMessage, MOVING_SESSIONS, Refusal, ResumeKey, ServerContact, ServerMessage, Ticket,
    VERSIONS, is_player_name, read_message, write_message,
};
use crate::sessions::{Keys, PlayerSessions, ResumeRequest, ServerEvent, ServerSettings};
use foveate_wire::{Bytes, Micros, ObjectId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Links at a server at most, with and without a session.
pub const MAX_LINKS: usize = 8_192;
/// Tickets that are good, or were used, at a server at most.
const MAX_TICKETS: usize = 8_192;
/// A ticket is good for so long, and remembered for so long after it was used.
pub const TICKET_FOR: Micros = Micros(10_000_000);
/// A link without a session is closed after this.
const PENDING_FOR: Micros = Micros(15_000_000);
/// A client that waits for a session is kept waiting for this at most.
const WAITING_FOR: Micros = Micros(30_000_000);
/// A client waits so long at a standby that does not take over.
const WAIT_FOR: Micros = Micros(2_500_000);
/// A client that was told to go elsewhere may stay for so long.
const PARTING_FOR: Micros = Micros(2_000_000);
/// What is not answered is said again after this.
pub(super) const SAY_AGAIN: Micros = Micros(150_000);
/// Contact and number of players are told this often.
pub(super) const TELL_PLAYERS: Micros = Micros(1_000_000);
/// Players hear something at least this often: after 500 ms they look for another server.
const KEEP_ALIVE: Micros = Micros(200_000);

/// What a link is to this server.
#[derive(Clone, Debug)]
pub(super) enum LinkState {
    /// Nothing was said yet.
    Fresh,
    /// The host is asked about the player.
    Asked { name: String, version: u8, resume: Option<ResumeKey> },
    /// The player may come in; the ledger is asked.
    Joining(Join),
    /// The player has a session in this region.
    Playing(RegionId, PlayerId),
    /// The client waits here for its session, which is to come from elsewhere.
    Expected(Ticket, PlayerId, ServerId),
    /// The client waits here in case this standby takes over.
    Waiting { name: String, key: ResumeKey, version: u8 },
    /// The session has gone elsewhere.
    Parting,
}

/// A player that may come in.
#[derive(Clone, Debug)]
pub(super) struct Join {
    pub name: String,
    pub version: u8,
    /// The key of the session that they resume, if they have one.
    pub resume: Option<ResumeKey>,
    /// The region that another server sent them to.
    pub region: Option<RegionId>,
    pub probe: u32,
    /// The redirection that is on its way.
    pub redirect: Option<Redirection>,
}

/// A redirection that the other server has not confirmed.
#[derive(Clone, Debug)]
pub(super) struct Redirection {
    pub ticket: Ticket,
    pub server: ServerId,
    pub region: RegionId,
    pub sent: Option<Micros>,
}

/// What an append to a player's record is for.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Claim {
    /// The player on this link comes into this region, and what is theirs is nowhere else.
    Join(Link, RegionId),
    /// The player on this link has a new session in this region, and an avatar somewhere.
    Rejoin(Link, RegionId),
    /// What the player came with is in the region's log.
    Settle,
    /// The session goes from one region to another.
    Move(RegionId, RegionId),
    /// The player leaves this region.
    Away(RegionId),
    /// A session that was lost begins anew in this region.
    Recover(RegionId),
}

/// Another server, as clients reach it.
#[derive(Clone, Debug)]
struct OtherServer {
    contact: ServerContact,
    players: BTreeMap<RegionId, u32>,
    heard: Micros,
}

/// The players of a server.
#[derive(Default)]
pub(super) struct Players {
    pub contact: Option<ServerContact>,
    keys: Option<Arc<Mutex<Keys>>>,
    settings: ServerSettings,
    pub links: BTreeMap<Link, (LinkState, Micros)>,
    /// Tickets that are good here, who drew them, and until when.
    pub tickets: BTreeMap<Ticket, (Expectation, ServerId, Micros)>,
    /// Those that were used: until when they are remembered, and what the client was expected for.
    used: BTreeMap<Ticket, (Micros, Option<(Expectation, u8)>)>,
    pub records: BTreeMap<PlayerId, (u64, PlayerRecord)>,
    pub claims: BTreeMap<PlayerId, (Claim, PlayerRecord)>,
    others: BTreeMap<ServerId, OtherServer>,
    /// What leaves at the end of an input.
    pub out: RecordingOutbox,
    told: Option<Micros>,
}

impl Players {
    pub fn draw(&self) -> Option<[u8; 16]> {
        let mut keys = self.keys.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some(keys().0)
    }

    /// The sessions of a region.
    pub fn sessions<G: Game>(&self, game: &Arc<G>) -> PlayerSessions<G> {
        let shared = self.keys.clone();
        let draw = move || {
            let shared =
                shared.as_ref().map(|it| it.lock().unwrap_or_else(PoisonError::into_inner));
            shared.map_or(ResumeKey([0; 16]), |mut keys| keys())
        };
        let keys: Keys = Box::new(draw);
        PlayerSessions::new(Arc::clone(game), self.settings, keys).of_region(KEEP_ALIVE)
    }

    pub fn contact_of(&self, server: ServerId) -> Option<&ServerContact> {
        self.others.get(&server).map(|it| &it.contact)
    }
}

impl<G: Game> RegionServer<G> {
    /// The same server, open to players: how clients reach it, where their keys come from, and limits. Tickets and keys
    /// are secrets of 128 bits; chance is the host's matter.
    pub fn with_players(
        mut self,
        contact: ServerContact,
        keys: Keys,
        settings: ServerSettings,
    ) -> RegionServer<G> {
        self.players.keys = Some(Arc::new(Mutex::new(keys)));
        self.players.settings = ServerSettings { rounds: self.settings.rounds, ..settings };
        self.players.contact = Some(contact);
        self
    }

    /// Players whose sessions are hosted here: region, player, session epoch.
    pub fn hosted_players(&self) -> impl Iterator<Item = (RegionId, PlayerId, u64)> + '_ {
        self.regions.values().flat_map(|region| {
            region.hosted.iter().filter(|(_, it)| !it.held).map(move |(player, it)| {
                (region.id, *player, u64::from(it.epoch) << 32 | u64::from(region.epoch))
            })
        })
    }

    pub(super) fn flush(&mut self, out: &mut impl Outbox) {
        for (link, outgoing) in self.players.out.0.drain(..) {
            match outgoing {
                Outgoing::Datagram(bytes) => out.datagram(link, &bytes),
                Outgoing::Message(bytes) => out.message(link, &bytes),
                Outgoing::Close(why) => out.close(link, why),
            }
        }
    }

    pub(super) fn say(&mut self, link: Link, message: &ServerMessage) {
        self.players.out.message(link, &write_message(message));
    }

    pub(super) fn reject_link(&mut self, link: Link, why: Refusal, text: &str) {
        let refused = ServerMessage::Refused { why, text: text.into(), schema: String::new() };
        self.say(link, &refused);
        self.close_link(link, why);
    }

    pub(super) fn close_link(&mut self, link: Link, why: Refusal) {
        self.players.links.remove(&link);
        self.players.out.close(link, why);
    }

    pub(super) fn set_link(&mut self, link: Link, state: LinkState, now: Micros) {
        self.players.links.insert(link, (state, now));
    }

    pub(super) fn on_connected(&mut self, link: Link, now: Micros) {
        if self.players.contact.is_none() || self.players.links.len() >= MAX_LINKS {
            return self.reject_link(link, Refusal::Full, "the server takes no more connections");
        }
        self.set_link(link, LinkState::Fresh, now);
    }

    pub(super) fn on_closed(&mut self, link: Link, now: Micros) {
        if let Some((LinkState::Playing(region, _), _)) = self.players.links.remove(&link)
            && let Some(region) = self.regions.get_mut(&region)
        {
            region.sessions.closed(link, now);
        }
    }

    pub(super) fn on_client_datagram(&mut self, link: Link, bytes: &[u8], now: Micros) {
        if let Some((LinkState::Playing(region, _), _)) = self.players.links.get(&link)
            && let Some(Region { sessions, simulation, .. }) = self.regions.get_mut(region)
        {
            sessions.datagram(simulation, link, bytes, now);
        }
    }

    pub(super) fn set_capacity(&mut self, link: Link, capacity: Option<Bytes>) {
        if let Some((LinkState::Playing(region, _), _)) = self.players.links.get(&link)
            && let Some(Region { sessions, simulation, .. }) = self.regions.get_mut(region)
        {
            sessions.set_capacity(simulation, link, capacity);
        }
    }

    pub(super) fn on_client_message(&mut self, link: Link, bytes: &[u8], now: Micros) {
        let Some((state, _)) = self.players.links.get(&link).cloned() else { return };
        if let LinkState::Playing(id, player) = state {
            let Some(region) = self.regions.get_mut(&id) else { return };
            let Region { sessions, simulation, .. } = region;
            sessions.message(simulation, link, bytes, now, &mut self.players.out);
            if region.sessions.link_of(player).is_none_or(|(it, _)| it != Some(link)) {
                self.set_link(link, LinkState::Fresh, now);
            }
            return;
        }
        match read_message::<ClientMessage<G::Action>>(bytes) {
            Some(ClientMessage::Hello { versions, schema, name, token, resume })
                if matches!(state, LinkState::Fresh) =>
            {
                let Some(version) = self.check_client(link, &versions, schema, &name) else {
                    return;
                };
                if let Some(key) = resume
                    && self.resume(link, &name, (key, version), now)
                {
                    return;
                }
                self.set_link(link, LinkState::Asked { name: name.clone(), version, resume }, now);
                self.events.push_back(RegionEvent::Asked { link, name, token });
            }
            Some(ClientMessage::Enter { versions, schema, name, ticket }) => {
                let Some(version) = self.check_client(link, &versions, schema, &name) else {
                    return;
                };
                self.on_enter(link, (name, version), ticket, now);
            }
            // It was said to a session that has gone since.
            Some(_)
                if matches!(
                    state,
                    LinkState::Joining(_) | LinkState::Parting | LinkState::Fresh
                ) => {}
            _ => self.reject_link(link, Refusal::Malformed, "unexpected message"),
        }
    }

    fn check_client(&mut self, link: Link, versions: &[u8], schema: u64, name: &str) -> Option<u8> {
        let spoken = VERSIONS.iter().rev().find(|it| versions.contains(it)).copied();
        let Some(version) = spoken else {
            let text = format!("client speaks wire versions {versions:?}, server {VERSIONS:?}");
            self.reject_link(link, Refusal::Version, &text);
            return None;
        };
        if schema != self.game.schema().hash() {
            let (why, text) = (Refusal::Schema, "the schemas differ".to_owned());
            let schema = self.game.schema().describe();
            self.say(link, &ServerMessage::Refused { why, text, schema });
            self.close_link(link, why);
            return None;
        }
        if !is_player_name(name) {
            self.reject_link(
                link,
                Refusal::Name,
                "the name is empty, too long or has hidden characters",
            );
            return None;
        }
        Some(version)
    }

    /// A client comes back with the key of a session that is here, or may be soon.
    fn resume(&mut self, link: Link, name: &str, key: (ResumeKey, u8), now: Micros) -> bool {
        // A session that began anew after a crash: the client knows what the former host said, and is told anew.
        let untold = self.regions.values().find_map(|region| {
            let player = region.sessions.player_named(name)?;
            region.sessions.is_untold(player, key.0).then_some((region.id, player))
        });
        if let Some((id, player)) = untold {
            let (name, version, resume) = (name.to_owned(), key.1, Some(key.0));
            let join = Join { name, version, resume, region: None, probe: 0, redirect: None };
            self.set_link(link, LinkState::Joining(join), now);
            self.seat(link, id, player, now);
            return true;
        }
        for (id, region) in &mut self.regions {
            let Region { sessions, simulation, .. } = region;
            let old = sessions.player_named(name);
            let old_link = old.and_then(|player| sessions.link_of(player)).and_then(|it| it.0);
            let request = ResumeRequest { link, name, key: key.0, version: key.1 };
            if sessions.resume(simulation, request, now, &mut self.players.out)
                && let Some(player) = old
            {
                if let Some(hosted) = region.hosted.get_mut(&player) {
                    hosted.stream += 1;
                    (hosted.standby, hosted.offer) = (None, None);
                    hosted.recent.clear();
                }
                old_link.and_then(|old| self.players.links.remove(&old));
                let (id, at) = (*id, LinkState::Playing(*id, player));
                self.set_link(link, at, now);
                self.name_epoch(id, player);
                return true;
            }
        }
        let known = |notes: &BTreeMap<PlayerId, SessionNote>| {
            notes.values().any(|note| note.name == name && note.resume == key.0)
        };
        let stands = self.standing.values().any(|standby| known(&standby.notes));
        let opens = self.awaited.values().any(known);
        if (stands || opens) && key.1 >= MOVING_SESSIONS {
            let waiting = LinkState::Waiting { name: name.into(), key: key.0, version: key.1 };
            self.set_link(link, waiting, now);
            self.say(link, &ServerMessage::Wait);
            return true;
        }
        false
    }

    /// Tells a client which epoch its session is in: later than any that it had elsewhere.
    pub(super) fn name_epoch(&mut self, id: RegionId, player: PlayerId) {
        let Some(region) = self.regions.get(&id) else { return };
        let Some(hosted) = region.hosted.get(&player) else { return };
        let epoch = u64::from(hosted.epoch) << 32 | u64::from(region.epoch);
        let hosted = ServerMessage::Hosted { epoch };
        region.sessions.tell(player, MOVING_SESSIONS, &hosted, &mut self.players.out);
    }

    /// The host lets a player in.
    pub(super) fn admit(&mut self, link: Link, now: Micros) {
        let Some((LinkState::Asked { name, version, resume }, _)) =
            self.players.links.get(&link).cloned()
        else {
            return;
        };
        let join = Join { name, version, resume, region: None, probe: 0, redirect: None };
        self.set_link(link, LinkState::Joining(join), now);
        self.advance_join(link, now);
    }

    /// The host does not let a player in.
    pub(super) fn turn_away(&mut self, link: Link, why: Refusal) {
        if matches!(self.players.links.get(&link), Some((LinkState::Asked { .. }, _))) {
            self.reject_link(link, why, "the player was refused");
        }
    }

    fn on_enter(&mut self, link: Link, (name, version): (String, u8), ticket: Ticket, now: Micros) {
        if self.players.used.contains_key(&ticket) {
            return self.reject_link(link, Refusal::TokenReplayed, "the ticket was already used");
        }
        let known = self
            .players
            .tickets
            .get(&ticket)
            .filter(|(it, _, until)| it.name == name && *until > now);
        let Some((expectation, from, _)) = known.cloned() else {
            return self.reject_link(link, Refusal::Token, "the ticket is not known here");
        };
        self.players.tickets.remove(&ticket);
        let came = expectation.player.is_some().then(|| (expectation.clone(), version));
        self.players.used.insert(ticket, (now + WAITING_FOR * 2, came));
        match expectation.player {
            Some(player) => {
                let player = PlayerId(player);
                self.set_link(link, LinkState::Expected(ticket, player, from), now);
                self.say(link, &ServerMessage::Wait);
                self.follow_player(player);
                self.reach(MeshStep::ClientReady);
                let ready = BusMessage::Ready(ticket);
                self.publish(Recipient::Server(from), ready, Micros::UNBOUNDED);
            }
            None => {
                let (resume, region) = (expectation.resume, Some(expectation.region));
                let join = Join { name, version, resume, region, probe: 0, redirect: None };
                self.set_link(link, LinkState::Joining(join), now);
                self.advance_join(link, now);
            }
        }
    }

    /// Asks to be told of a player's record.
    pub(super) fn follow_player(&mut self, player: PlayerId) {
        self.follow(subject(player));
    }

    /// Where a player's avatar is, as the logs say.
    pub(super) fn region_of(&self, object: ObjectId) -> Option<RegionId> {
        // Of its own regions a server knows more than their logs say so far.
        let own = self.regions.iter().find_map(|(id, region)| match region.rows.get(&object) {
            Some(Row::Owned(_)) => Some(*id),
            _ => region.transfers.get(&object).map(|it| it.to),
        });
        let there = |id: &RegionId| !self.regions.contains_key(id) && !self.is_past(*id);
        let others = self.logs.iter().filter(|(id, _)| there(id));
        own.or_else(|| {
            others.into_iter().find_map(|(id, view)| match view.pending.get(&object) {
                Some(out) => {
                    let taken = self.logs.get(&out.to);
                    let taken = taken.is_some_and(|it| it.has_accepted(object, out.epoch));
                    Some(out.to).filter(|_| !taken)
                }
                None => view.objects.contains_key(&object).then_some(*id),
            })
        })
    }

    /// The sessions of a region that is another server's now have gone: their clients look for it.
    pub(super) fn close_links_of(&mut self, id: RegionId) {
        let links: Vec<Link> = self
            .players
            .links
            .iter()
            .filter(
                |(_, (state, _))| matches!(state, LinkState::Playing(region, _) if *region == id),
            )
            .map(|(link, _)| *link)
            .collect();
        links.into_iter().for_each(|link| self.close_link(link, Refusal::Closing));
    }

    /// The region here that hosts a player's session without a link.
    fn has_unlinked(&self, player: PlayerId) -> Option<RegionId> {
        let mut regions = self.regions.values();
        regions.find(|it| it.sessions.has(player) == Some(false)).map(|it| it.id)
    }

    /// Whether a region was there and is no more, as far as this server knows.
    pub(super) fn is_past(&self, region: RegionId) -> bool {
        self.layout.as_ref().is_some_and(|(_, layout)| layout.is_past(region))
    }

    pub(super) fn owner_of(&self, region: RegionId) -> Option<ServerId> {
        self.layout.as_ref()?.1.get(region).map(|info| info.server)
    }

    /// A player is sent to another server's region: until that server says how many it has, there is one more.
    pub(super) fn count_sent(&mut self, region: RegionId, server: ServerId) {
        let known = self.players.others.get_mut(&server);
        if let Some(count) = known.and_then(|it| it.players.get_mut(&region)) {
            *count = count.saturating_add(1);
        }
    }

    /// The region for a new player: the one with the fewest players, then of the nearest server. Regions of servers
    /// that are being drained come last.
    pub(super) fn newcomer_region(&self) -> Option<RegionId> {
        let (_, layout) = self.layout.as_ref()?;
        let players = |id: RegionId, server: ServerId| match self.regions.get(&id) {
            Some(region) => region.sessions.players() as u32,
            None => {
                let other = self.players.others.get(&server);
                other.and_then(|it| it.players.get(&id)).copied().unwrap_or(u32::MAX)
            }
        };
        let lives = |server: &ServerId| {
            let other = self.players.others.get(server);
            *server == self.me || other.is_some_and(|it| self.woken - it.heard < TELL_PLAYERS * 3)
        };
        let open = |info: &RegionInfo| info.successor.is_none() && lives(&info.server);
        let all = layout.regions().filter(|(_, info)| open(info));
        let rank = |id: RegionId, server: ServerId| {
            let leaves = match server == self.me {
                true => self.balancer.is_leaving(),
                false => self.servers.is_leaving(server),
            };
            let micros = if server == self.me { 0.0 } else { self.rtt(server).unwrap_or(f32::MAX) };
            (leaves, players(id, server), micros as u64, id)
        };
        all.min_by_key(|(id, info)| rank(*id, info.server)).map(|(id, _)| id)
    }

    /// A ticket of this server's is good at another one.
    pub(super) fn on_expected(&mut self, from: ServerId, ticket: Ticket, now: Micros) {
        let joining = self.players.links.iter().find_map(|(link, (state, _))| match state {
            LinkState::Joining(join) => {
                let it = join.redirect.as_ref()?;
                ((it.ticket, it.server) == (ticket, from)).then_some(*link)
            }
            _ => None,
        });
        let Some(contact) = self.players.contact_of(from).cloned() else { return };
        if let Some(link) = joining {
            self.say(link, &ServerMessage::Redirect { contact, ticket });
            return self.set_link(link, LinkState::Parting, now);
        }
        self.on_offer_expected(ticket, contact);
    }

    /// A client will come with a ticket.
    pub(super) fn on_expect(
        &mut self,
        from: ServerId,
        ticket: Ticket,
        it: Expectation,
        now: Micros,
    ) {
        let used = self.players.used.contains_key(&ticket);
        if self.players.contact.is_none() || self.players.tickets.len() >= MAX_TICKETS || used {
            return;
        }
        if let Some(player) = it.player {
            self.follow_player(PlayerId(player));
        }
        self.players.tickets.insert(ticket, (it, from, now + TICKET_FOR));
        let answer = BusMessage::Expected(ticket);
        self.publish(Recipient::Server(from), answer, Micros::UNBOUNDED);
    }

    pub(super) fn on_players(
        &mut self,
        from: ServerId,
        contact: ServerContact,
        players: Vec<(RegionId, u32)>,
        now: Micros,
    ) {
        let players = players.into_iter().collect();
        self.players.others.insert(from, OtherServer { contact, players, heard: now });
    }

    /// Once a round: what is due for players, whatever region they are in.
    pub(super) fn mind_players(&mut self, now: Micros) {
        let Some(contact) = self.players.contact.clone() else { return };
        if self.players.told.is_none_or(|told| now - told >= TELL_PLAYERS) {
            self.players.told = Some(now);
            let counts = self.regions.values().map(|it| (it.id, it.sessions.players() as u32));
            let message = BusMessage::Players(contact, counts.collect());
            self.publish(Recipient::All, message, now + TELL_PLAYERS);
            self.players.others.retain(|_, it| now - it.heard < TICKET_FOR);
            self.send_notes(now);
        }
        self.players.tickets.retain(|_, (_, _, until)| *until > now);
        self.players.used.retain(|_, (until, _)| *until > now);
        let links: Vec<(Link, LinkState, Micros)> =
            self.players.links.iter().map(|(link, it)| (*link, it.0.clone(), it.1)).collect();
        for (link, state, since) in links {
            match state {
                LinkState::Joining(_) if now - since < PENDING_FOR => {
                    self.repeat_redirect(link, now);
                    self.advance_join(link, now);
                }
                LinkState::Playing(id, player) if !self.has_link((id, player), link) => {
                    self.set_link(link, LinkState::Parting, now);
                }
                LinkState::Playing(..) => {}
                LinkState::Waiting { name, key, version }
                    if now - since >= WAIT_FOR && !self.awaits(&name) =>
                {
                    self.look_for_host(link, (name, version, key), now);
                }
                LinkState::Expected(_, player, from)
                    if (SAY_AGAIN..WAITING_FOR).contains(&(now - since))
                        && self.is_elsewhere(player, from) =>
                {
                    self.follow_host(link, player, now);
                }
                LinkState::Parting if now - since < PARTING_FOR => {}
                LinkState::Parting => self.close_link(link, Refusal::Closing),
                LinkState::Expected(_, player, _) if self.has_unlinked(player).is_some() => {
                    if let Some(region) = self.has_unlinked(player) {
                        self.welcome_waiting(region, player, now);
                    }
                }
                LinkState::Expected(ticket, player, from) if now - since < WAITING_FOR => {
                    let record = self.players.records.get(&player);
                    if let Some(host) = record.and_then(|(_, record)| record.host()) {
                        self.miss_session(host, player, now);
                    }
                    let ready = BusMessage::Ready(ticket);
                    self.publish(Recipient::Server(from), ready, Micros::UNBOUNDED);
                }
                LinkState::Expected(..) | LinkState::Waiting { .. }
                    if now - since < WAITING_FOR => {}
                _ if now - since >= PENDING_FOR => {
                    self.reject_link(link, Refusal::HandshakeTimeout, "handshake timed out");
                }
                _ => {}
            }
        }
        let ids: Vec<RegionId> = self.regions.keys().copied().collect();
        for id in ids {
            self.mind_region_players(id, now);
        }
        self.forget_records();
    }

    /// Whether a link is that of a session here.
    fn has_link(&self, (id, player): (RegionId, PlayerId), link: Link) -> bool {
        let region = self.regions.get(&id);
        let known = region.and_then(|region| region.sessions.link_of(player));
        known.is_some_and(|(known, _)| known == Some(link))
    }

    /// Whether this server is about to take over a region with this player's session.
    fn awaits(&self, name: &str) -> bool {
        let noted =
            |notes: &BTreeMap<PlayerId, SessionNote>| notes.values().any(|it| it.name == name);
        let takes = self.standing.values().any(|it| it.watch.is_taking() && noted(&it.notes));
        takes || self.awaited.values().any(noted)
    }

    /// A client waited for a takeover that does not come: it is sent to its host. It has shown its key.
    fn look_for_host(&mut self, link: Link, who: (String, u8, ResumeKey), now: Micros) {
        let (name, version, key) = who;
        let join =
            Join { name, version, resume: Some(key), region: None, probe: 0, redirect: None };
        self.set_link(link, LinkState::Joining(join), now);
        self.advance_join(link, now);
    }

    /// Whether a session that was to come here has gone elsewhere: its host died, or changed its mind.
    fn is_elsewhere(&self, player: PlayerId, from: ServerId) -> bool {
        let host = self.players.records.get(&player).and_then(|(_, record)| record.host());
        let server = host.and_then(|host| self.owner_of(host));
        server.is_some_and(|it| it != self.me && it != from)
    }

    /// A client waits for a session that does not come here: it is sent after it. It has shown a ticket.
    fn follow_host(&mut self, link: Link, player: PlayerId, now: Micros) {
        let Some((LinkState::Expected(ticket, ..), _)) = self.players.links.get(&link) else {
            return;
        };
        let known = self.players.used.get(ticket).and_then(|it| it.1.clone());
        let Some((expectation, version)) = known.filter(|it| it.0.player == Some(player.0)) else {
            return;
        };
        let Expectation { name, resume, .. } = expectation;
        let join = Join { name, version, resume, region: None, probe: 0, redirect: None };
        self.set_link(link, LinkState::Joining(join), now);
        self.advance_join(link, now);
    }

    /// Records of players that are none of this server's concern are not followed any more.
    fn forget_records(&mut self) {
        let hosted = |player: &PlayerId| {
            self.regions
                .values()
                .any(|it| it.hosted.contains_key(player) || it.orphans.contains_key(player))
        };
        let linked = |player: &PlayerId| {
            self.players.links.values().any(|(state, _)| match state {
                LinkState::Joining(_) | LinkState::Asked { .. } => true,
                LinkState::Expected(_, it, _) | LinkState::Playing(_, it) => it == player,
                _ => false,
            })
        };
        let expected = |player: &PlayerId| {
            self.players.tickets.values().any(|(it, _, _)| it.player == Some(player.0))
        };
        let outbound = |player: &PlayerId| self.sessions_out.contains_key(player);
        let followed: Vec<PlayerId> = self
            .followed
            .iter()
            .filter_map(|subject| match subject {
                Subject::Player(player) => Some(PlayerId(*player)),
                _ => None,
            })
            .collect();
        let idle: Vec<PlayerId> = followed
            .into_iter()
            .filter(|it| !hosted(it) && !linked(it) && !expected(it) && !outbound(it))
            .filter(|it| !self.players.claims.contains_key(it))
            .collect();
        for player in idle {
            self.players.records.remove(&player);
            self.followed.remove(&subject(player));
            let request = LedgerRequest::Unfollow(subject(player));
            self.events.push_back(RegionEvent::Ledger(request));
        }
    }

    /// What is due for the players of one region.
    fn mind_region_players(&mut self, id: RegionId, now: Micros) {
        if self.may_act_until(id) <= now {
            return;
        }
        let Some(region) = self.regions.get_mut(&id) else { return };
        while let Some(event) = region.sessions.poll() {
            match event {
                ServerEvent::Joined(player, name) => {
                    self.events.push_back(RegionEvent::Joined(player, name));
                }
                ServerEvent::Left(player, _) => self.events.push_back(RegionEvent::Left(player)),
                _ => {}
            }
        }
        self.mind_orphans(id, now);
        self.bring_back(id, now);
        self.settle_players(id, now);
        self.name_standbys(id);
        self.finish_leaves(id, now);
        self.move_sessions(id, now);
    }

    /// What players came with is in the log: the record need not keep it any more.
    fn settle_players(&mut self, id: RegionId, now: Micros) {
        let Some(region) = self.regions.get_mut(&id) else { return };
        let confirmed = region.confirmed();
        let settled: Vec<PlayerId> =
            region.settling.iter().filter(|(_, at)| **at < confirmed).map(|(it, _)| *it).collect();
        for player in settled {
            let Some((last, record)) = self.players.records.get(&player).cloned() else { continue };
            let Some(region) = self.regions.get_mut(&id) else { return };
            let mine = record.host() == Some(id);
            let full =
                matches!(&record.place, PlayerPlace::Hosted { kept, .. } if !kept.is_empty());
            if !mine || !full {
                region.settling.remove(&player);
                continue;
            }
            let place = PlayerPlace::Hosted { region: id, kept: Vec::new() };
            if self.claim(player, last, (Claim::Settle, PlayerRecord { place, ..record }), now)
                && let Some(region) = self.regions.get_mut(&id)
            {
                region.settling.remove(&player);
            }
        }
    }

    /// Clients are told of their region's standby when it changes.
    fn name_standbys(&mut self, id: RegionId) {
        let Some(region) = self.regions.get_mut(&id) else { return };
        let contact = region.standby.and_then(|it| self.players.contact_of(it)).cloned();
        let message = ServerMessage::Standby(contact.clone());
        for (player, hosted) in &mut region.hosted {
            if hosted.standby.as_ref() != Some(&contact)
                && region.sessions.tell(*player, MOVING_SESSIONS, &message, &mut self.players.out)
            {
                hosted.standby = Some(contact.clone());
            }
        }
    }
}
