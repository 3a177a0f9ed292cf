//! Players that leave, and sessions that their servers left: notes for standbys, recovery, belongings.
//!
//! A player that leaves is first written down as away, with what is kept, then its objects are removed: whatever fails in
//! between, nothing is lost, and an avatar that stayed is removed by its owner, or taken up again.

use super::bus::{BusMessage, MAX_NOTES, Recipient, RegionEpoch, SessionNote};
use super::hosting::HostedSession;
use super::joining::BETWEEN_LOGS;
use super::layout::RegionId;
use super::log::{LogEntry, ObjectState};
use super::owner::Region;
use super::players::{KeptObject, PlayerPlace, PlayerRecord};
use super::sessions::{Claim, Join, LinkState, TELL_PLAYERS};
use super::{MeshStep, RegionServer};
use crate::game::{Game, PlayerId};
use crate::remote_objects::place_of;
use crate::sessions::Entrant;
use foveate_wire::{Micros, ObjectId};

/// Ticks between two looks at avatars without a session.
const LOOK_FOR_ORPHANS: u32 = 20;
/// An avatar whose session does not come within this is recovered.
const ALONE_FOR: Micros = Micros(1_000_000);

impl<G: Game> RegionServer<G> {
    /// Standbys hear of sessions.
    pub(super) fn send_notes(&mut self, now: Micros) {
        let mut messages = Vec::new();
        for region in self.regions.values() {
            let Some(standby) = region.standby else { continue };
            let entrants = region.sessions.hosted().filter_map(|it| region.sessions.entrant(it));
            let notes: Vec<SessionNote> = entrants
                .map(|Entrant { player, name, version, resume, view }| SessionNote {
                    player: player.0,
                    name,
                    resume,
                    version,
                    view,
                })
                .collect();
            if notes.is_empty() {
                messages.push((standby, BusMessage::Sessions(region.name(), true, notes)));
                continue;
            }
            for (nth, part) in notes.chunks(MAX_NOTES).enumerate() {
                let part = BusMessage::Sessions(region.name(), nth == 0, part.to_vec());
                messages.push((standby, part));
            }
        }
        for (standby, message) in messages {
            self.publish(Recipient::Server(standby), message, now + TELL_PLAYERS);
        }
    }

    /// An owner tells its standby of sessions.
    pub(super) fn on_notes(&mut self, by: RegionEpoch, first: bool, notes: Vec<SessionNote>) {
        let Some(standby) = self.standing.get_mut(&by.region) else { return };
        if first {
            standby.notes.clear();
        }
        standby.notes.extend(notes.into_iter().map(|it| (PlayerId(it.player), it)));
    }

    /// A region was taken over: its players may come back.
    pub(super) fn inherit_sessions(&mut self, id: RegionId, now: Micros) {
        let notes = self.awaited.remove(&id).unwrap_or_default();
        let players: Vec<PlayerId> = notes.keys().copied().collect();
        let Some(region) = self.regions.get_mut(&id) else { return };
        region.notes = notes;
        region.orphans.extend(players.iter().map(|player| (*player, now)));
        players.into_iter().for_each(|player| self.follow_player(player));
    }

    /// Avatars without a session: it is recovered if the ledger says that it should be here.
    pub(super) fn mind_orphans(&mut self, id: RegionId, now: Micros) {
        let Some(region) = self.regions.get_mut(&id) else { return };
        if region.ticked.is_multiple_of(LOOK_FOR_ORPHANS) {
            let kind = self.game.avatar();
            let players: Vec<PlayerId> = region
                .owned()
                .filter(|(it, row)| it.kind() == kind && it.origin() > 0 && row.offered.is_none())
                .map(|(it, _)| PlayerId(it.origin()))
                .filter(|it| self.game.avatar_of(*it).origin() == it.0)
                .filter(|it| region.sessions.has(*it).is_none())
                .collect();
            let missed = std::mem::take(&mut region.missed);
            let known = |it: &PlayerId| region.notes.contains_key(it) || missed.contains(it);
            region.orphans.retain(|it, _| players.contains(it) || known(it));
            for player in players {
                region.orphans.entry(player).or_insert(now);
            }
        }
        let due: Vec<(PlayerId, Micros)> =
            region.orphans.iter().map(|(player, since)| (*player, *since)).collect();
        for (player, since) in due {
            self.follow_player(player);
            self.mind_orphan(id, player, now - since);
        }
    }

    /// A session should be in a region here and is not: it is recovered if it does not come.
    pub(super) fn miss_session(&mut self, id: RegionId, player: PlayerId, now: Micros) {
        if let Some(region) = self.regions.get_mut(&id)
            && region.sessions.has(player).is_none()
        {
            region.missed.insert(player);
            region.orphans.entry(player).or_insert(now);
        }
    }

    /// What was read may be old: whatever is done about an orphan is appended first.
    fn mind_orphan(&mut self, id: RegionId, player: PlayerId, alone: Micros) {
        let (now, record) = (self.woken, self.players.records.get(&player).cloned());
        let host = record.as_ref().and_then(|(_, record)| record.host());
        let closed = host.is_some_and(|host| self.is_past(host));
        let Some(region) = self.regions.get_mut(&id) else { return };
        if region.sessions.has(player).is_some() {
            region.orphans.remove(&player);
            return;
        }
        // The session may be on its way here; only from when it should be here it is missed.
        let Some((last, record)) = record else {
            region.orphans.insert(player, now);
            return;
        };
        let noted = region.notes.contains_key(&player);
        let (claim, due) = match record.place {
            PlayerPlace::Hosted { region: host, .. } if host == id => {
                (Claim::Recover(id), noted || alone >= ALONE_FOR)
            }
            // Its host was closed: the record is brought here.
            PlayerPlace::Hosted { .. } if closed => (Claim::Recover(id), alone >= ALONE_FOR),
            // It left, and what it left was not removed: the server stopped in between.
            PlayerPlace::Away { .. } => (Claim::Away(id), alone >= ALONE_FOR),
            // Should the session come back, it is on its way: the former owner's note says nothing of that.
            PlayerPlace::Hosted { .. } => {
                region.notes.remove(&player);
                region.orphans.insert(player, now);
                return;
            }
        };
        if due {
            let place = match record.place {
                PlayerPlace::Hosted { kept, .. } => PlayerPlace::Hosted { region: id, kept },
                PlayerPlace::Away { kept: before, .. } => {
                    let Some((at, kept)) =
                        region.belongings_of(player, self.game.avatar_of(player))
                    else {
                        return;
                    };
                    region.staying.insert(player);
                    PlayerPlace::Away { at, kept: with_others(kept, before) }
                }
            };
            let record = PlayerRecord { epoch: record.epoch + 1, place, ..record };
            self.claim(player, last, (claim, record), now);
        }
    }

    /// A session that was lost begins anew; its client may be waiting for it.
    pub(super) fn recover(&mut self, id: RegionId, player: PlayerId, record: &PlayerRecord) {
        let now = self.woken;
        let Some(region) = self.regions.get_mut(&id) else { return };
        region.orphans.remove(&player);
        let noted = region.notes.remove(&player);
        let key = region.sessions.draw_key();
        let (resume, view, version) =
            noted.map_or((key, 0, record.version), |it| (it.resume, it.view, it.version));
        let entrant = Entrant { player, name: record.name.clone(), version, resume, view };
        if region.sessions.begin(&mut region.simulation, entrant, now) {
            let (epoch, stream) = (record.epoch, record.epoch << 8);
            let hosted = HostedSession { epoch, stream, ..Default::default() };
            region.hosted.insert(player, hosted);
        }
        self.welcome_waiting(id, player, now);
    }

    /// Clients that wait here for a session that is here by now.
    pub(super) fn welcome_waiting(&mut self, id: RegionId, player: PlayerId, now: Micros) {
        let Some(region) = self.regions.get(&id) else { return };
        let Some(entrant) = region.sessions.entrant(player) else { return };
        let waiting = self.players.links.iter().find_map(|(link, (state, _))| match state {
            LinkState::Waiting { name, key, version } => {
                (*name == entrant.name && *key == entrant.resume).then_some((*link, *version))
            }
            LinkState::Expected(_, it, _) => (*it == player).then_some((*link, entrant.version)),
            _ => None,
        });
        let Some((link, version)) = waiting else { return };
        let resume = Some(entrant.resume);
        let join =
            Join { name: entrant.name, version, resume, region: None, probe: 0, redirect: None };
        self.set_link(link, LinkState::Joining(join), now);
        self.seat(link, id, player, now);
    }

    /// Players that leave, and whose avatars are here: what they leave goes to the ledger, then out of the world.
    pub(super) fn finish_leaves(&mut self, id: RegionId, now: Micros) {
        let Some(region) = self.regions.get_mut(&id) else { return };
        let leaving: Vec<PlayerId> =
            region.sessions.hosted().filter(|it| region.sessions.is_leaving(*it)).collect();
        for player in leaving {
            if self.players.claims.contains_key(&player) {
                continue;
            }
            let Some((last, record)) = self.players.records.get(&player).cloned() else { continue };
            let Some(region) = self.regions.get_mut(&id) else { return };
            let avatar = self.game.avatar_of(player);
            let Some((at, kept)) = region.belongings_of(player, avatar) else {
                let nowhere = !region.rows.contains_key(&avatar)
                    && self.region_of(avatar).is_none()
                    && self.heard_of(avatar).is_none();
                if self.is_gone((id, player), nowhere, now) {
                    // What the player came with may never have been logged.
                    let (PlayerPlace::Hosted { kept, .. } | PlayerPlace::Away { kept, .. }) =
                        record.place;
                    let place = PlayerPlace::Away { at: [0.0; 2], kept };
                    let epoch = record.epoch + 1;
                    let record = PlayerRecord { epoch, place, ..record };
                    self.claim(player, last, (Claim::Away(id), record), now);
                }
                continue;
            };
            region.staying.insert(player);
            let place = PlayerPlace::Away { at, kept };
            let record = PlayerRecord { epoch: record.epoch + 1, place, ..record };
            if self.claim(player, last, (Claim::Away(id), record), now) {
                self.reach(MeshStep::LeaveAsked);
            }
        }
    }

    /// Players whose server stopped before the log had what they came with: they are given it again.
    pub(super) fn bring_back(&mut self, id: RegionId, now: Micros) {
        let Some(region) = self.regions.get(&id) else { return };
        let players: Vec<(PlayerId, ObjectId)> =
            region.sessions.hosted().map(|it| (it, self.game.avatar_of(it))).collect();
        for (player, avatar) in players {
            let Some(region) = self.regions.get_mut(&id) else { return };
            let Some(hosted) = region.hosted.get_mut(&player) else { continue };
            if region.sessions.is_leaving(player) {
                continue;
            }
            if region.rows.contains_key(&avatar) {
                hosted.nowhere_since = None;
                continue;
            }
            let Some((_, record)) = self.players.records.get(&player).cloned() else { continue };
            // A newcomer that was not let in twice, and brought nothing.
            let fresh = record.epoch <= 2;
            let unlogged = matches!(&record.place, PlayerPlace::Hosted { region, kept }
                if *region == id && (fresh || !kept.is_empty()));
            let nowhere = unlogged
                && !self.players.claims.contains_key(&player)
                && self.region_of(avatar).is_none()
                && self.heard_of(avatar).is_none_or(|region| region == id);
            if self.is_gone((id, player), nowhere, now) {
                self.bring_in(id, player, &record);
                let tick = self.ticked;
                if let Some(region) = self.regions.get_mut(&id) {
                    region.settling.insert(player, tick);
                }
            }
        }
    }

    /// Whether a player's avatar has been nowhere for so long that it is no more: logs are read at different times.
    fn is_gone(&mut self, (id, player): (RegionId, PlayerId), nowhere: bool, now: Micros) -> bool {
        let region = self.regions.get_mut(&id);
        let Some(hosted) = region.and_then(|it| it.hosted.get_mut(&player)) else { return nowhere };
        let since = *hosted.nowhere_since.get_or_insert(now);
        if !nowhere {
            hosted.nowhere_since = None;
        }
        nowhere && now - since >= BETWEEN_LOGS
    }

    /// A player has left: the session ends, and the objects go.
    pub(super) fn take_out(&mut self, id: RegionId, player: PlayerId) {
        self.reach(MeshStep::LeaveLogged);
        let Some(region) = self.regions.get_mut(&id) else { return };
        region.orphans.remove(&player);
        region.notes.remove(&player);
        region.hosted.remove(&player);
        region.sessions.end(&mut region.simulation, player);
        region.remove_objects_of(player);
        region.staying.remove(&player);
    }
}

/// What a player has here, and what it left elsewhere before.
fn with_others(mut kept: Vec<KeptObject>, before: Vec<KeptObject>) -> Vec<KeptObject> {
    let others = before.into_iter().filter(|it| kept.iter().all(|here| here.object != it.object));
    let others: Vec<KeptObject> = others.collect();
    kept.extend(others);
    kept
}

impl<G: Game> Region<G> {
    /// An object of a player's comes into the world here; the log hears of it.
    pub(super) fn add_object(&mut self, id: ObjectId, epoch: u32, lanes: Vec<i32>) {
        let state = ObjectState { tick: self.ticked, lanes, marks: Vec::new() };
        if self.own(id, epoch, &state, true) {
            self.queue.push(LogEntry::Checkpoint { object: id.0, epoch, state: Some(state) });
        }
    }

    /// What a player has here, if all of it may be taken out: where the avatar is, and what is kept.
    fn belongings_of(
        &self,
        player: PlayerId,
        avatar: ObjectId,
    ) -> Option<([f32; 2], Vec<KeptObject>)> {
        let theirs = self.owned().filter(|(id, _)| id.origin() == player.0);
        let theirs: Vec<_> = theirs.collect();
        let here = theirs.iter().any(|(id, _)| *id == avatar);
        if !here || theirs.iter().any(|(_, row)| row.offered.is_some()) {
            return None;
        }
        let game = &self.simulation.game;
        let at =
            self.state(avatar).and_then(|it| place_of(game.schema(), avatar.kind(), &it.lanes));
        let kept = theirs.iter().filter(|(id, _)| *id == avatar || game.keeps(id.kind()));
        let kept = kept.filter_map(|(id, row)| {
            let lanes = self.state(*id)?.lanes;
            Some(KeptObject { object: id.0, epoch: row.epoch, lanes })
        });
        let at = at.unwrap_or_default();
        Some(([at[0], at[1]], kept.collect()))
    }

    /// Takes a player's objects out of the world, and says so in the log.
    pub(super) fn remove_objects_of(&mut self, player: PlayerId) {
        let theirs: Vec<(ObjectId, LogEntry)> = self
            .owned()
            .filter(|(id, _)| id.origin() == player.0)
            .map(|(id, row)| (id, row.entry(id, None)))
            .collect();
        for (id, entry) in theirs {
            self.queue.push(entry);
            self.forget(id);
        }
        self.simulation.forget_player(player);
    }
}
