//! Crossing: how a session follows its avatar to another region, make before break.
//!
//! ```text
//! host    Warm ─ Expect ─▶ offered ─ Next to the client ─▶ Ready ─ avatar is there ─▶ record appended ─▶ state sent ─▶ taken
//! next         ticket known ─ the client enters: Wait ─▶ Ready ─────────────────────────▶ session goes on, Hosted
//! ```
//!
//! The session stays with its host until the append to the player's record is known: only then the host stops, and
//! sends the session with all that the client was told. It is repeated until the next host has it. A host that dies in
//! between leaves a record that names the next one, which then begins the session anew (`mind_orphans`).

use super::bus::{BusMessage, Expectation, Recipient, RegionEpoch, RemoteInputs};
use super::hosting::{HostedSession, SessionOffer};
use super::layout::{RegionId, ServerId};
use super::owner::{Region, Row};
use super::players::{PlayerPlace, PlayerRecord, subject};
use super::sessions::{Claim, Join, LinkState, SAY_AGAIN};
use super::{MeshStep, RegionEvent, RegionServer};
use crate::game::{Game, PlayerId};
use crate::outbox::Link;
use crate::remote_objects::place_of;
use crate::session::{MOVING_SESSIONS, ServerContact, ServerMessage, Ticket};
use crate::sessions::{CarriedSession, ClientLink};
use foveate_wire::{Micros, ObjectId};
use serde::{Deserialize, Serialize};

/// A client that was offered a way is left alone for so long, whatever is foreseen meanwhile.
const OFFER_FOR: Micros = Micros(1_000_000);
/// A client that is not at the next server by then is offered another ticket.
const READY_WITHIN: Micros = Micros(3_000_000);
/// A session is hosted for so long while nothing is known of the append that moves it.
const HOST_FOR: Micros = Micros(700_000);
/// So far ahead a crossing is foreseen.
const FORESEEN: Micros = Micros(1_500_000);
/// A session is sent for so long; its next host then begins it anew.
const SEND_FOR: Micros = Micros(10_000_000);
/// Objects that a client knows of at most for its session to move with them; one that knows of more is told anew.
const MAX_CARRIED_PAIRS: usize = 2_048;

/// A session on its way to another region.
pub(super) struct OutboundSession {
    to: RegionId,
    by: RegionEpoch,
    epoch: u32,
    bytes: Vec<u8>,
    since: Micros,
    sent: Option<Micros>,
    /// The client's link to this server.
    link: Option<Link>,
}

/// A session as [`BusMessage::Session`] carries it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SessionTransfer<I> {
    /// The session.
    pub state: CarriedSession<I>,
    /// Its epoch at the next host.
    pub epoch: u32,
    /// Counts how often input numbers began anew.
    pub stream: u32,
    /// The ticket with which the client has entered at the next host.
    pub ticket: Option<Ticket>,
    /// The last inputs that were used or sent on.
    pub recent: Vec<(u16, Vec<u8>)>,
    /// The region that the inputs were last sent to, and its epoch then.
    pub sent_to: Option<(RegionId, u32)>,
    /// The client knows of too much: it is told anew.
    pub anew: bool,
}

impl<G: Game> RegionServer<G> {
    /// Sessions of a region whose avatars are elsewhere, or soon will be.
    pub(super) fn move_sessions(&mut self, id: RegionId, now: Micros) {
        let Some(region) = self.regions.get(&id) else { return };
        let players: Vec<PlayerId> = region.sessions.hosted().collect();
        for player in players {
            let there = self.avatar_region(id, player).or_else(|| self.waits_in(id, player));
            if let Some(to) = self.next_region(id, player)
                && (there.is_some() || !self.is_offered((id, player), to, now))
            {
                self.make_ready(id, player, to, now);
            }
            if let Some(to) = there
                && (self.is_ready((id, player), to) || self.is_overdue(id))
            {
                self.move_session((id, to), player, now);
            }
        }
    }

    /// The region at which a client waits that has lost its link to the host. The session follows it: without a host the
    /// client has no reason to come back.
    fn waits_in(&self, id: RegionId, player: PlayerId) -> Option<RegionId> {
        let region = self.regions.get(&id)?;
        let offer = region.hosted.get(&player)?.offer.filter(|it| it.is_ready(self.woken))?;
        (region.sessions.has(player) == Some(false)).then_some(offer.region)
    }

    /// A host that does not hear what became of its append stops before the next one, which waits for the session for
    /// longer, begins it anew.
    pub(super) fn hold_sessions(&mut self, now: Micros) {
        let appends = &self.appends;
        for (player, hosted) in self.regions.values_mut().flat_map(|it| &mut it.hosted) {
            let asked = appends.pending(subject(*player)).map(|it| it.since);
            let moves = matches!(self.players.claims.get(player), Some((Claim::Move(..), _)));
            hosted.held = moves && asked.is_some_and(|since| now - since >= HOST_FOR);
        }
    }

    /// Whether a player was offered the way to another region of late: what is foreseen changes with every turn of the
    /// avatar, and a client that follows each dials without end.
    fn is_offered(&self, (id, player): (RegionId, PlayerId), to: RegionId, now: Micros) -> bool {
        let hosted = self.regions.get(&id).and_then(|region| region.hosted.get(&player));
        let offer = hosted.and_then(|hosted| hosted.offer);
        offer.is_some_and(|it| it.region != to && now - it.since < OFFER_FOR)
    }

    /// Whether nothing but sessions keeps a region from being closed: they go without their clients, which come after.
    fn is_overdue(&self, id: RegionId) -> bool {
        self.regions.get(&id).is_some_and(|region| region.closing.is_overdue(region.ticked))
    }

    /// The region that owns a player's avatar, if it is another one.
    fn avatar_region(&self, id: RegionId, player: PlayerId) -> Option<RegionId> {
        let avatar = self.game.avatar_of(player);
        let region = self.regions.get(&id)?;
        let to = match region.rows.get(&avatar) {
            Some(Row::Owned(_)) => return None,
            Some(Row::Relayed { from, .. }) => Some(*from),
            // Its region's log may not be followed here; the host there will know more.
            None => self.region_of(avatar).or_else(|| self.heard_of(avatar)),
        };
        to.filter(|to| *to != id && !region.transfers.contains_key(&avatar))
    }

    /// The region that the avatar is in, or will be in before long.
    fn next_region(&mut self, id: RegionId, player: PlayerId) -> Option<RegionId> {
        let avatar = self.game.avatar_of(player);
        let elsewhere = self.avatar_region(id, player);
        let (schema, round) = (self.game.schema(), self.settings.rounds.length.0.max(1));
        let region = self.regions.get_mut(&id)?;
        let lanes = region.state(avatar)?.lanes;
        let at = place_of(schema, avatar.kind(), &lanes)?;
        let hosted = region.hosted.get_mut(&player)?;
        let was = hosted.was_at.replace([at[0], at[1]]).unwrap_or([at[0], at[1]]);
        let offered = match region.rows.get(&avatar) {
            Some(Row::Owned(row)) => row.offered,
            _ => None,
        };
        if let Some(to) = offered.or(elsewhere) {
            return Some(to);
        }
        let ticks = (FORESEEN.0 / round) as f32;
        let (_, layout) = self.layout.as_ref()?;
        // The first other region on the way.
        (0..=4).find_map(|part| {
            let ahead = ticks * part as f32 / 4.0;
            let there = [0, 1].map(|axis| at[axis] + (at[axis] - was[axis]) * ahead);
            Some(layout.region_at(there)).filter(|to| *to != id)
        })
    }

    /// Sees to it that the client knows the server of a region, and that server the client.
    fn make_ready(&mut self, id: RegionId, player: PlayerId, to: RegionId, now: Micros) {
        let Some(server) = self.layout.as_ref().and_then(|it| it.1.get(to)).map(|it| it.server)
        else {
            return;
        };
        let Some(region) = self.regions.get(&id) else { return };
        let linked = matches!(region.sessions.link_of(player), Some((Some(_), MOVING_SESSIONS..)));
        if server == self.me || !linked {
            return;
        }
        let old = region.hosted.get(&player).and_then(|it| it.offer);
        let good = old.filter(|it| {
            let usable = it.is_ready(now) || now - it.since < READY_WITHIN;
            (it.server, it.region) == (server, to) && usable
        });
        let ticket = match good {
            Some(offer) => offer.ticket,
            None => match self.players.draw() {
                Some(drawn) => Ticket(drawn),
                None => return,
            },
        };
        let Some(entrant) = region.sessions.entrant(player) else { return };
        let mut offer = good.unwrap_or(SessionOffer {
            ticket,
            server,
            region: to,
            since: now,
            sent: None,
            named: false,
            ready: None,
        });
        if !offer.named && offer.sent.is_none_or(|sent| now - sent >= SAY_AGAIN) {
            offer.sent = Some(now);
            let it = Expectation {
                name: entrant.name,
                resume: Some(entrant.resume),
                player: Some(player.0),
                region: to,
            };
            let expect = BusMessage::Expect(ticket, it);
            self.publish(Recipient::Server(server), expect, Micros::UNBOUNDED);
            self.reach(MeshStep::SessionOffered);
        }
        let region = self.regions.get_mut(&id);
        if let Some(hosted) = region.and_then(|region| region.hosted.get_mut(&player)) {
            hosted.offer = Some(offer);
        }
    }

    fn offer_mut(&mut self, ticket: Ticket) -> Option<(RegionId, PlayerId, &mut SessionOffer)> {
        self.regions.iter_mut().find_map(|(id, region)| {
            region.hosted.iter_mut().find_map(|(player, hosted)| {
                let offer = hosted.offer.as_mut().filter(|it| it.ticket == ticket)?;
                Some((*id, *player, offer))
            })
        })
    }

    /// The next server knows the ticket: the client may go there.
    pub(super) fn on_offer_expected(&mut self, ticket: Ticket, contact: ServerContact) {
        let Some((id, player, offer)) = self.offer_mut(ticket) else { return };
        if std::mem::replace(&mut offer.named, true) {
            return;
        }
        let Some(region) = self.regions.get(&id) else { return };
        let next = ServerMessage::Next { contact, ticket };
        region.sessions.tell(player, MOVING_SESSIONS, &next, &mut self.players.out);
    }

    /// The client is at the next server.
    pub(super) fn on_ready(&mut self, from: ServerId, ticket: Ticket, now: Micros) {
        if let Some((_, _, offer)) = self.offer_mut(ticket)
            && offer.server == from
        {
            offer.ready = Some(now);
        }
    }

    /// Whether a session may go to a region now.
    fn is_ready(&self, (id, player): (RegionId, PlayerId), to: RegionId) -> bool {
        let server = self.layout.as_ref().and_then(|it| it.1.get(to)).map(|it| it.server);
        let Some((region, server)) = self.regions.get(&id).zip(server) else { return false };
        let offer = region.hosted.get(&player).and_then(|it| it.offer);
        let waits = offer
            .is_some_and(|it| it.is_ready(self.woken) && (it.server, it.region) == (server, to));
        match region.sessions.link_of(player) {
            Some((None, _)) => true,
            Some((Some(_), _)) => waits || server == self.me,
            None => false,
        }
    }

    fn move_session(&mut self, (from, to): (RegionId, RegionId), player: PlayerId, now: Micros) {
        let Some((last, record)) = self.players.records.get(&player).cloned() else { return };
        if record.host() != Some(from) || self.players.claims.contains_key(&player) {
            return;
        }
        let PlayerPlace::Hosted { kept, .. } = record.place else { return };
        let place = PlayerPlace::Hosted { region: to, kept };
        let record = PlayerRecord { epoch: record.epoch + 1, place, ..record };
        if self.claim(player, last, (Claim::Move(from, to), record), now) {
            self.reach(MeshStep::MoveAsked);
        }
    }

    /// The record names the next host: the session goes there.
    pub(super) fn send_session(
        &mut self,
        (from, to): (RegionId, RegionId),
        player: PlayerId,
        record: &PlayerRecord,
        now: Micros,
    ) {
        self.reach(MeshStep::MoveLogged);
        let Some(region) = self.regions.get_mut(&from) else { return };
        let Region { sessions, simulation, .. } = region;
        let Some((mut state, link)) = sessions.carry_out(simulation, player) else { return };
        let hosted = region.hosted.remove(&player).unwrap_or_default();
        region.settling.remove(&player);
        let anew = state.observer.pairs.len() > MAX_CARRIED_PAIRS;
        if anew {
            state.observer.pairs.clear();
        }
        let ticket =
            hosted.offer.filter(|it| it.ready.is_some() && it.region == to).map(|it| it.ticket);
        let (epoch, stream, sent_to) = (record.epoch, hosted.stream, hosted.sent_to);
        let recent = hosted.recent.into_iter().collect();
        let message = SessionTransfer { state, epoch, stream, ticket, recent, sent_to, anew };
        let Ok(bytes) = postcard::to_allocvec(&message) else { return };
        let by = region.name();
        if let Some(link) = link {
            // A client that does not wait at the next host is sent there.
            let left_behind = ticket.is_none() && self.owner_of(to) != Some(self.me);
            let join = Join {
                name: record.name.clone(),
                version: record.version,
                resume: Some(message.state.resume),
                region: Some(to),
                probe: 0,
                redirect: None,
            };
            let moves = left_behind && record.version >= MOVING_SESSIONS;
            let state = if moves { LinkState::Joining(join) } else { LinkState::Parting };
            self.set_link(link, state, now);
        }
        let out = OutboundSession { to, by, epoch, bytes, since: now, sent: None, link };
        self.sessions_out.insert(player, out);
        self.repeat_sessions(now);
    }

    /// Sends sessions that have not arrived.
    pub(super) fn repeat_sessions(&mut self, now: Micros) {
        self.sessions_out.retain(|_, it| now - it.since < SEND_FOR);
        let mut due = Vec::new();
        for it in self.sessions_out.values_mut() {
            if it.sent.is_none_or(|sent| now - sent >= self.settings.rounds.length) {
                it.sent = Some(now);
                due.push((it.to, BusMessage::Session(it.by, it.to, it.bytes.clone())));
            }
        }
        for (to, message) in due {
            let server = self.layout.as_ref().and_then(|it| it.1.get(to)).map(|it| it.server);
            if let Some(server) = server {
                self.publish(Recipient::Server(server), message, Micros::UNBOUNDED);
                self.reach(MeshStep::SessionSent);
            }
        }
    }

    /// A session comes.
    pub(super) fn on_session(&mut self, from: ServerId, to: RegionId, bytes: &[u8], now: Micros) {
        let Ok(message) = postcard::from_bytes::<SessionTransfer<G::Input>>(bytes) else {
            self.counts.malformed += 1;
            return;
        };
        let SessionTransfer { state, epoch, stream, ticket, recent, sent_to, anew } = message;
        let player = PlayerId(state.player);
        let avatar = self.game.avatar_of(player);
        // Between regions of one server the link is the same.
        let same = self.sessions_out.get(&player).filter(|_| from == self.me);
        let link = same.and_then(|it| it.link).or_else(|| self.expected_link(player, ticket));
        let Some(region) = self.regions.get(&to) else { return };
        let known = region.hosted.get(&player).is_some_and(|it| it.epoch >= epoch);
        // What comes late may be of a move that others have followed: the record says which move is the last one.
        self.follow_player(player);
        let Some((_, record)) = self.players.records.get(&player) else { return };
        let newer = record.epoch > epoch;
        if !newer && (record.epoch, record.host()) != (epoch, Some(to)) {
            return;
        }
        let Some(region) = self.regions.get(&to) else { return };
        if !known && !newer {
            if region.closing.is_closed() {
                return;
            }
            // The avatar comes, too, and so does the tick: the session is repeated.
            if !region.rows.contains_key(&avatar) || region.ticked < state.tick {
                return;
            }
            let recent = recent.into_iter().collect();
            let hosted = HostedSession { epoch, stream, recent, sent_to, ..Default::default() };
            self.take_session((to, link), state, hosted, anew);
            self.reach(MeshStep::SessionTaken);
        }
        let taken = BusMessage::SessionTaken(player.0, epoch);
        self.publish(Recipient::Server(from), taken, now + SEND_FOR);
    }

    /// The link on which a client waits for its session: by the ticket that the host named, or by another one.
    fn expected_link(&self, player: PlayerId, ticket: Option<Ticket>) -> Option<Link> {
        let waiting = self.players.links.iter().filter_map(|(link, (state, _))| match state {
            LinkState::Expected(it, who, _) => (*who == player).then_some((*it, *link)),
            _ => None,
        });
        waiting.max_by_key(|(it, link)| (Some(*it) == ticket, *link)).map(|(_, link)| link)
    }

    fn take_session(
        &mut self,
        (id, link): (RegionId, Option<Link>),
        mut state: CarriedSession<G::Input>,
        mut of_host: HostedSession,
        anew: bool,
    ) {
        let now = self.woken;
        if let Some((_, layout)) = &self.layout {
            of_host.begin_anew(layout);
        }
        let (epoch, stream) = (of_host.epoch, of_host.stream);
        let player = PlayerId(state.player);
        let Some(region) = self.regions.get_mut(&id) else { return };
        let Region { sessions, simulation, hosted, .. } = region;
        let version = state.version;
        // A session that began anew after a crash has a client that knows the former one.
        let anew = anew || state.untold;
        state.untold = anew;
        let carried = sessions.carry_in(simulation, state, link.filter(|_| !anew), now);
        let Some(counts) = carried else { return };
        region.orphans.remove(&player);
        region.notes.remove(&player);
        let inputs = of_host.recent.iter().cloned().collect();
        let inputs = RemoteInputs { player: player.0, stream, inputs };
        hosted.insert(player, of_host);
        region.on_inputs(inputs);
        if let Some(link) = link {
            self.set_link(link, LinkState::Playing(id, player), now);
            if anew && let Some(region) = self.regions.get_mut(&id) {
                let Region { sessions, simulation, .. } = region;
                let to = ClientLink { link, version };
                sessions.attach(simulation, player, to, now, &mut self.players.out);
            }
            self.name_epoch(id, player);
        }
        let (kept, all) = (counts.kept, counts.kept + counts.whole + counts.unknown);
        self.events.push_back(RegionEvent::SessionMoved {
            player,
            epoch,
            kept,
            whole: counts.whole,
            all,
        });
    }

    /// A session has arrived.
    pub(super) fn on_session_taken(&mut self, player: PlayerId, epoch: u32) {
        if self.sessions_out.get(&player).is_some_and(|it| it.epoch <= epoch) {
            self.sessions_out.remove(&player);
        }
    }

    /// The avatar of a player, for those that look on.
    pub fn avatar_of(&self, player: PlayerId) -> ObjectId {
        self.game.avatar_of(player)
    }
}
