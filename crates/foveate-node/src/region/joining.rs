//! Joining: which record a name has, which region takes the player in, and what the player comes with.

use super::bus::{BusMessage, Expectation, Recipient};
use super::hosting::HostedSession;
use super::layout::{RegionId, ServerId};
use super::ledger::{LedgerRequest, Settled, read_record};
use super::owner::Region;
use super::players::{KeptObject, MAX_PROBES, PlayerPlace, PlayerRecord, player_number, subject};
use super::sessions::{Claim, LinkState, Redirection, SAY_AGAIN};
use super::{MeshStep, RegionEvent, RegionServer};
use crate::game::{Game, PlayerId};
use crate::outbox::Link;
use crate::remote_objects::place_of;
use crate::session::{MOVING_SESSIONS, Refusal, Ticket};
use crate::sessions::{ClientLink, Entrant};
use foveate_wire::{Micros, ObjectId};
use std::sync::Arc;

/// An avatar that no log has for so long is no more.
pub(super) const BETWEEN_LOGS: Micros = Micros(3_000_000);

impl<G: Game> RegionServer<G> {
    /// Goes on with a player that may come in.
    pub(super) fn advance_join(&mut self, link: Link, now: Micros) {
        loop {
            let Some((LinkState::Joining(join), _)) = self.players.links.get_mut(&link) else {
                return;
            };
            let (name, version) = (join.name.clone(), join.version);
            let player = player_number(&name, join.probe);
            let record = self.players.records.get(&player).cloned();
            match record {
                Some((_, record)) if record.name != name => {
                    join.probe += 1;
                    if join.probe >= MAX_PROBES {
                        return self.reject_link(
                            link,
                            Refusal::Full,
                            "there is no number for the name",
                        );
                    }
                }
                record => {
                    self.follow_player(player);
                    return self.find_place(link, (player, name, version), record, now);
                }
            }
        }
    }

    fn find_place(
        &mut self,
        link: Link,
        (player, name, version): (PlayerId, String, u8),
        record: Option<(u64, PlayerRecord)>,
        now: Micros,
    ) {
        if self.players.claims.contains_key(&player) {
            return;
        }
        let avatar = self.game.avatar_of(player);
        let any = self.beginning(link);
        let (_, layout) = match &self.layout {
            Some(layout) => layout,
            None => return,
        };
        let target = match record.as_ref().map(|(_, record)| &record.place) {
            // Its host was closed, and the session did not leave in time.
            Some(PlayerPlace::Hosted { region, .. }) if layout.is_past(*region) => {
                self.region_of(avatar).or(any)
            }
            Some(PlayerPlace::Hosted { region, .. }) => Some(*region),
            Some(PlayerPlace::Away { at, .. }) => {
                self.region_of(avatar).or_else(|| Some(layout.region_at(*at)))
            }
            None => self.region_of(avatar).or(any),
        };
        let Some(target) = target else { return };
        let Some(owner) = self.owner_of(target) else { return };
        if owner != self.me {
            return self.redirect(link, (target, owner), version, now);
        }
        let Some(region) = self.regions.get_mut(&target) else { return };
        match region.sessions.has(player) {
            Some(true) if self.resumes(link, target, player) => {
                self.seat(link, target, player, now);
            }
            Some(true) => {
                let text = format!("name `{name}` is taken");
                self.reject_link(link, Refusal::NameTaken, &text);
            }
            Some(false) => self.seat(link, target, player, now),
            // Logs are read at different times: an avatar that is between two of them seems to be nowhere.
            None if record.as_ref().is_some_and(|(_, it)| it.host().is_some())
                && self.region_of(avatar).is_none()
                && (self.heard_of(avatar).is_some()
                    || self.waits_since(link, now) < BETWEEN_LOGS) => {}
            // What the player left is being removed: the log must have that before it comes again.
            None if self.is_still_logged(target, avatar) => {}
            // The session may be on its way here; if it does not come it is recovered.
            None if record.as_ref().is_some_and(|(_, it)| it.host() == Some(target))
                && self.region_of(avatar).is_some() =>
            {
                self.miss_session(target, player, now);
            }
            None => {
                let epoch = record.as_ref().map_or(0, |(_, record)| record.epoch) + 1;
                let last = record.as_ref().map_or(0, |(last, _)| *last);
                let kept = match record.map(|(_, record)| record.place) {
                    Some(PlayerPlace::Hosted { kept, .. } | PlayerPlace::Away { kept, .. }) => kept,
                    None => Vec::new(),
                };
                let place = PlayerPlace::Hosted { region: target, kept };
                let record = PlayerRecord { name, epoch, version, place };
                let claim = match self.region_of(avatar) {
                    Some(_) => Claim::Rejoin(link, target),
                    None => Claim::Join(link, target),
                };
                self.claim(player, last, (claim, record), now);
            }
        }
    }

    /// The region for a player that may begin in any: the one that another server chose, or [`RegionServer::newcomer_region`].
    /// Choosing again would send the player round in circles while servers know of each other's players only what was
    /// so a second ago.
    fn beginning(&self, link: Link) -> Option<RegionId> {
        let wanted = match self.players.links.get(&link) {
            Some((LinkState::Joining(join), _)) => join.region,
            _ => None,
        };
        let open = |id: &RegionId| {
            let info = self.layout.as_ref().and_then(|(_, layout)| layout.get(*id));
            self.regions.contains_key(id) && info.is_some_and(|info| info.successor.is_none())
        };
        wanted.filter(open).or_else(|| self.newcomer_region())
    }

    fn waits_since(&self, link: Link, now: Micros) -> Micros {
        self.players.links.get(&link).map_or(Micros::UNBOUNDED, |it| now - it.1)
    }

    /// Whether the log of a region here has an object that the region itself has not.
    fn is_still_logged(&self, id: RegionId, object: ObjectId) -> bool {
        let logged = self.logs.get(&id).is_some_and(|view| view.objects.contains_key(&object));
        logged && self.region_of(object).is_none()
    }

    /// Whether a joining client has the key of a session that is here.
    fn resumes(&self, link: Link, id: RegionId, player: PlayerId) -> bool {
        let key = match self.players.links.get(&link) {
            Some((LinkState::Joining(join), _)) => join.resume,
            _ => None,
        };
        let session = self.regions.get(&id).and_then(|it| it.sessions.entrant(player));
        key.is_some() && session.map(|it| it.resume) == key
    }

    /// Asks the ledger for a change of a player's record, unless one is on its way.
    pub(super) fn claim(
        &mut self,
        player: PlayerId,
        last: u64,
        (claim, record): (Claim, PlayerRecord),
        now: Micros,
    ) -> bool {
        if self.players.claims.contains_key(&player) {
            return false;
        }
        let request = self.appends.append((subject(player), last), &record, now);
        let asked = request.is_some();
        if asked {
            self.events.extend(request.map(RegionEvent::Ledger));
            self.players.claims.insert(player, (claim, record));
        }
        asked
    }

    /// A change of a player's record was settled.
    pub(super) fn on_player_settled(&mut self, player: PlayerId, settled: Settled, now: Micros) {
        let Some((claim, record)) = self.players.claims.remove(&player) else { return };
        if let Settled::Appended(at) = settled {
            self.players.records.insert(player, (at, record.clone()));
            self.events
                .push_back(RegionEvent::Ledger(LedgerRequest::Truncate(subject(player), at)));
        }
        let won = matches!(settled, Settled::Appended(_));
        match claim {
            Claim::Join(link, region) | Claim::Rejoin(link, region) if won => {
                self.reach(MeshStep::PlayerClaimed);
                if matches!(claim, Claim::Join(..)) {
                    self.bring_in(region, player, &record);
                }
                self.begin_session(region, player, &record, now);
                self.seat(link, region, player, now);
            }
            Claim::Join(link, _) | Claim::Rejoin(link, _) => self.advance_join(link, now),
            Claim::Move(from, to) if won => self.send_session((from, to), player, &record, now),
            Claim::Away(region) if won => self.take_out(region, player),
            Claim::Recover(region) if won => self.recover(region, player, &record),
            Claim::Settle | Claim::Move(..) | Claim::Away(_) | Claim::Recover(_) => {
                self.drop_if_elsewhere(player, now);
            }
        }
    }

    /// A player's record was read.
    pub(super) fn read_player(
        &mut self,
        player: PlayerId,
        sequence: u64,
        bytes: &[u8],
        now: Micros,
    ) -> Option<super::ledger::AppendId> {
        let (by, record): (super::ledger::AppendId, PlayerRecord) = read_record(bytes).ok()?;
        let known = self.players.records.get(&player).map_or(0, |it| it.0);
        let own = self.appends.pending(subject(player)).is_some_and(|it| it.id == by);
        if sequence > known && !own {
            self.players.records.insert(player, (sequence, record));
            self.drop_if_elsewhere(player, now);
            if self.players.claims.contains_key(&player) {
                return Some(by);
            }
            let joining =
                |name: &str| (0..MAX_PROBES).any(|probe| player_number(name, probe) == player);
            let waiting: Vec<Link> = self
                .players
                .links
                .iter()
                .filter(|(_, (state, _))| {
                    matches!(state, LinkState::Joining(join) if joining(&join.name))
                })
                .map(|(link, _)| *link)
                .collect();
            waiting.into_iter().for_each(|link| self.advance_join(link, now));
        }
        Some(by)
    }

    /// The record says that another region hosts a session, or none: then this one does not.
    fn drop_if_elsewhere(&mut self, player: PlayerId, now: Micros) {
        let Some((_, record)) = self.players.records.get(&player) else { return };
        let (host, epoch) = (record.host(), record.epoch);
        let mut links = Vec::new();
        for (id, region) in &mut self.regions {
            let later = region.hosted.get(&player).is_some_and(|it| it.epoch <= epoch);
            if host != Some(*id) && later {
                region.hosted.remove(&player);
                links.extend(region.sessions.end(&mut region.simulation, player));
            }
        }
        for link in links {
            self.set_link(link, LinkState::Parting, now);
        }
    }

    /// Puts into a region what a player comes with, as far as it is nowhere.
    pub(super) fn bring_in(&mut self, id: RegionId, player: PlayerId, record: &PlayerRecord) {
        let PlayerPlace::Hosted { kept, .. } = &record.place else { return };
        let absent: Vec<KeptObject> = kept
            .iter()
            .filter(|it| self.region_of(ObjectId(it.object)).is_none())
            .cloned()
            .collect();
        let avatar = self.game.avatar_of(player);
        let missing = self.region_of(avatar).is_none();
        let region = self.regions.get_mut(&id);
        let Some(region) = region.filter(|region| !region.closing.is_closed()) else { return };
        for it in absent {
            region.add_object(ObjectId(it.object), it.epoch + 1, it.lanes);
        }
        if missing && !region.rows.contains_key(&avatar) {
            let game = Arc::clone(&self.game);
            let spawns = game.welcome(&region.simulation.world(), player, &record.name);
            for (serial, mut spawn) in (0..).zip(spawns) {
                let of = ObjectId::new(spawn.kind, player.0, serial);
                let mine = if serial == 0 { avatar } else { of };
                keep_inside(&mut spawn, (id, &self.game), self.layout.as_ref().map(|it| &it.1));
                region.add_object(mine, 0, spawn.lanes);
            }
        }
    }

    /// A session without a link, which its player takes up next.
    fn begin_session(
        &mut self,
        id: RegionId,
        player: PlayerId,
        record: &PlayerRecord,
        now: Micros,
    ) {
        let tick = self.ticked;
        let region = self.regions.get_mut(&id);
        // The log of a closed region has its last entry: the player is sent elsewhere.
        let Some(region) = region.filter(|region| !region.closing.is_closed()) else { return };
        let entrant = Entrant {
            player,
            name: record.name.clone(),
            version: record.version,
            resume: region.sessions.draw_key(),
            view: 0,
        };
        if region.sessions.begin(&mut region.simulation, entrant, now) {
            let (epoch, stream) = (record.epoch, record.epoch << 8);
            region.hosted.insert(player, HostedSession { epoch, stream, ..Default::default() });
            region.settling.insert(player, tick);
            region.notes.remove(&player);
        }
    }

    /// A player takes up a session that is here and has no link.
    pub(super) fn seat(&mut self, link: Link, id: RegionId, player: PlayerId, now: Micros) {
        let version = match self.players.links.get(&link) {
            Some((LinkState::Joining(join), _)) => join.version,
            // The link has ended: the session waits for another one.
            _ => return,
        };
        let old = self.regions.get(&id).and_then(|it| it.sessions.link_of(player));
        let seated = self.regions.get_mut(&id).is_some_and(|region| {
            let Region { sessions, simulation, hosted, .. } = region;
            if let Some(hosted) = hosted.get_mut(&player) {
                hosted.stream += 1;
                (hosted.standby, hosted.offer) = (None, None);
                hosted.recent.clear();
            }
            let client = ClientLink { link, version };
            sessions.attach(simulation, player, client, now, &mut self.players.out)
        });
        if !seated {
            return self.reject_link(link, Refusal::Storage, "the region has moved; try again");
        }
        if let Some((Some(old), _)) = old {
            self.set_link(old, LinkState::Parting, now);
        }
        self.set_link(link, LinkState::Playing(id, player), now);
        self.name_epoch(id, player);
        self.reach(MeshStep::PlayerSeated);
    }

    /// Sends a client to another server, which is told first.
    pub(super) fn redirect(
        &mut self,
        link: Link,
        to: (RegionId, ServerId),
        version: u8,
        now: Micros,
    ) {
        if version < MOVING_SESSIONS {
            let text = "another server is responsible, and the client cannot be redirected";
            return self.reject_link(link, Refusal::Version, text);
        }
        let Some(ticket) = self.players.draw().map(Ticket) else { return };
        let Some((LinkState::Joining(join), _)) = self.players.links.get_mut(&link) else { return };
        let (region, server) = to;
        if join.redirect.as_ref().is_none_or(|it| (it.region, it.server) != to) {
            join.redirect = Some(Redirection { ticket, server, region, sent: None });
            self.count_sent(region, server);
        }
        self.repeat_redirect(link, now);
    }

    pub(super) fn repeat_redirect(&mut self, link: Link, now: Micros) {
        let Some((LinkState::Joining(join), _)) = self.players.links.get_mut(&link) else { return };
        let (name, resume) = (join.name.clone(), join.resume);
        let Some(it) = &mut join.redirect else { return };
        if it.sent.is_some_and(|sent| now - sent < SAY_AGAIN) {
            return;
        }
        it.sent = Some(now);
        let (ticket, server, region) = (it.ticket, it.server, it.region);
        let expect = BusMessage::Expect(ticket, Expectation { name, resume, player: None, region });
        self.publish(Recipient::Server(server), expect, Micros::UNBOUNDED);
    }
}

/// A new player's objects begin in the region that takes the player in, wherever the game would put them.
fn keep_inside<G: Game>(
    spawn: &mut crate::game::Spawn,
    (id, game): (RegionId, &Arc<G>),
    layout: Option<&super::layout::Layout>,
) {
    let Some(at) = place_of(game.schema(), spawn.kind, &spawn.lanes) else { return };
    let Some(layout) = layout.filter(|it| it.region_at([at[0], at[1]]) != id) else { return };
    let kind = game.schema().kind(spawn.kind);
    let (Some(rect), Some(place)) = (layout.rect(id), kind.and_then(|it| it.place)) else { return };
    for (axis, at) in at.0.into_iter().take(2).enumerate() {
        let (min, max) = (rect.min[axis], rect.max[axis]);
        let inside = match (min.is_finite(), max.is_finite()) {
            (true, true) => at.clamp(min + (max - min) * 0.1, max - (max - min) * 0.1),
            (true, false) => at.max(min + 1.0),
            (false, true) => at.min(max - 1.0),
            (false, false) => at,
        };
        spawn.lanes[place.at + axis] = (inside / place.precision).round() as i32;
    }
}
