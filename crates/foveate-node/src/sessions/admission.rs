//! Decides which links get a session: checks hellos, applies the host's answers, resumes sessions.

use super::player_session::{PlayerSession, SessionIdentity};
use super::work::{Credit, JOIN_COST, WorkBudget};
use super::{PendingLink, PlayerSessions, RoundTime, ServerEvent, allowance};
use crate::game::{Game, PlayerId};
use crate::outbox::{Link, Outbox};
use crate::session::{
    MAX_NAME, Refusal, ResumeKey, ServerMessage, VERSIONS, is_player_name, write_message,
};
use crate::simulation::Simulation;
use foveate_sync::{Observer, Pivots, StoreError};
use foveate_wire::{Micros, ObjectId};
use std::sync::Arc;

/// The host's answer to [`ServerEvent::Asked`]: the player behind a link.
pub(crate) struct Admitted<'a> {
    pub link: Link,
    pub player: PlayerId,
    /// The player's objects from an earlier visit.
    pub kept: &'a [(ObjectId, Vec<i32>)],
}

/// A client's request to take up its session on another link.
pub(crate) struct ResumeRequest<'a> {
    pub link: Link,
    pub name: &'a str,
    /// The key that the client was given when it joined.
    pub key: ResumeKey,
    /// The version of the wire that client and server share; 0 if there is none.
    pub version: u8,
}

/// A link that becomes the link of a session.
pub(super) struct NewLink {
    pub link: Link,
    /// Whether the client still has the session's state.
    pub resumed: bool,
}

impl<G: Game> PlayerSessions<G> {
    /// Charges a link for a join; returns what is left of its budget, or `None` if that is too
    /// little.
    pub(super) fn charge_join(&mut self, link: Link, now: Micros) -> Option<Credit> {
        let known = self.pending_links.get(&link).and_then(|it| it.joins);
        let mut joins = known.unwrap_or_else(|| Credit::new(WorkBudget::JOINS, now));
        let paid = joins.charge(JOIN_COST, now);
        match paid {
            true => self.work.charged += u64::from(JOIN_COST),
            false => self.work.refused += u64::from(JOIN_COST),
        }
        paid.then_some(joins)
    }

    pub(crate) fn check(
        &self,
        versions: &[u8],
        schema: u64,
        name: &str,
    ) -> Result<(), (Refusal, String)> {
        if !VERSIONS.iter().any(|version| versions.contains(version)) {
            let text = format!("client speaks wire versions {versions:?}, server {VERSIONS:?}");
            return Err((Refusal::Version, text));
        }
        self.game
            .schema()
            .check_hash(schema)
            .map_err(|error| (Refusal::Schema, error.to_string()))?;
        if !is_player_name(name) {
            let text = format!(
                "a name has 1 to {MAX_NAME} bytes, no control or invisible characters, and no spaces around it"
            );
            return Err((Refusal::Name, text));
        }
        let mut waiting = self.pending_links.values().filter_map(|it| it.name.as_deref());
        if self.by_name.contains_key(name) || waiting.any(|other| other == name) {
            return Err((Refusal::NameTaken, format!("name `{name}` is taken")));
        }
        let max = self.settings.max_players;
        let waiting = self.pending_links.values().filter(|it| it.name.is_some()).count();
        if self.by_player.len() + waiting >= max {
            return Err((Refusal::Full, format!("the server is full: {max} players")));
        }
        Ok(())
    }

    /// Rejects a link that asked to join.
    pub fn refuse(&mut self, link: Link, why: Refusal, out: &mut impl Outbox) {
        let text = match why {
            Refusal::Token => "a connect token for this name and this server is required",
            Refusal::TokenExpired => "the connect token has expired",
            Refusal::TokenReplayed => "the connect token was already used",
            Refusal::TokenClock => {
                "the connect token would live too long: the issuer's clock is ahead of the server's"
            }
            Refusal::Storage => "the server cannot reach its storage; try again later",
            Refusal::Full => "the server has no room at the moment; try again later",
            _ => return self.reject(link, why, &format!("{why:?}"), out),
        };
        self.reject(link, why, text, out);
    }

    pub(super) fn reject(&mut self, link: Link, why: Refusal, text: &str, out: &mut impl Outbox) {
        self.pending_links.remove(&link);
        let schema = match why {
            Refusal::Schema => self.game.schema().describe(),
            _ => String::new(),
        };
        let refused = ServerMessage::Refused { why, text: text.into(), schema };
        out.message(link, &write_message(&refused));
        out.close(link, why);
        *self.refused.sessions.entry(why).or_default() += 1;
        self.events.push_back(ServerEvent::Refused(why));
    }

    /// Accepts the player that [`ServerEvent::Asked`] named.
    pub(crate) fn admit(
        &mut self,
        simulation: &mut Simulation<G>,
        admitted: Admitted<'_>,
        now: Micros,
        out: &mut impl Outbox,
    ) -> Result<(), StoreError> {
        let Admitted { link, player, kept } = admitted;
        let pending = self.pending_links.remove(&link);
        let Some(PendingLink { name: Some(name), version, joins, .. }) = pending else {
            return Ok(());
        };
        // An answer can come twice, or for a link that was made since: a player joins only once.
        if self.by_player.contains_key(&player) || self.by_name.contains_key(&name) {
            self.reject(link, Refusal::NameTaken, &format!("name `{name}` is taken"), out);
            return Ok(());
        }
        let avatar = match bring_in(simulation, player, &name, kept) {
            Ok(avatar) => avatar,
            Err(error) => {
                // Part of a player's objects would obstruct the next attempt.
                remove_objects_of(simulation, player);
                return Err(error);
            }
        };
        let Some(slot) = simulation.publisher.store.find(avatar) else {
            return Err(StoreError::UnknownKind("avatar".into()));
        };
        let view = self.view_override.clone().or_else(|| self.chosen_view(0));
        let Some(view) = view.and_then(|view| self.policy(&view).ok()) else {
            return Err(StoreError::UnknownKind("view".into()));
        };
        let budget = self.settings.budget;
        let tick = simulation.publisher.store.tick();
        let observer =
            Observer::new(view, Pivots::Object(slot), tick).with_budget(allowance(budget));
        let observer = simulation.publisher.add(observer);
        let key = (self.keys)();
        let identity = SessionIdentity { player, avatar, name, resume: key };
        let mut session = PlayerSession::new(identity, observer, now);
        (session.budget, session.version) = (budget, version);
        session.credit = Credit::new(self.settings.work, now);
        session.joins = joins.unwrap_or(session.joins);
        self.events.push_back(ServerEvent::Joined(player, session.name.clone()));
        let at = self.place(session);
        let round = RoundTime { tick: simulation.publisher.store.tick(), now };
        self.attach_link(at, NewLink { link, resumed: false }, round, out);
        Ok(())
    }

    pub(crate) fn resume(
        &mut self,
        simulation: &Simulation<G>,
        request: ResumeRequest<'_>,
        now: Micros,
        out: &mut impl Outbox,
    ) -> bool {
        let ResumeRequest { link, name, key, version } = request;
        let Some(at) = self.by_name.get(name).copied() else { return false };
        let Some(session) = &mut self.sessions[at as usize] else { return false };
        if session.resume != key || version == 0 {
            return false;
        }
        session.version = version;
        // The old link may not have timed out yet.
        if let Some(old) = session.link.take() {
            self.by_link.remove(&old);
            out.close(old, Refusal::NameTaken);
        }
        self.pending_links.remove(&link);
        self.events.push_back(ServerEvent::Joined(session.player, session.name.clone()));
        let round = RoundTime { tick: simulation.publisher.store.tick(), now };
        self.attach_link(at, NewLink { link, resumed: true }, round, out);
        true
    }

    pub(super) fn attach_link(
        &mut self,
        at: u32,
        new: NewLink,
        round: RoundTime,
        out: &mut impl Outbox,
    ) {
        let (NewLink { link, resumed }, RoundTime { tick, now }) = (new, round);
        let Some(session) = &mut self.sessions[at as usize] else { return };
        session.come_back(link, now);
        self.by_link.insert(link, at);
        let welcome = ServerMessage::Welcome {
            version: session.version,
            player: session.player.0,
            avatar: session.avatar.0,
            tick: tick.0,
            round: self.settings.rounds.length.0,
            resume: session.resume,
            resumed,
        };
        out.message(link, &write_message(&welcome));
    }
}

/// Restores a player's objects, or spawns the first ones; returns the avatar.
fn bring_in<G: Game>(
    simulation: &mut Simulation<G>,
    player: PlayerId,
    name: &str,
    kept: &[(ObjectId, Vec<i32>)],
) -> Result<ObjectId, StoreError> {
    for (id, lanes) in kept.iter().filter(|(id, _)| id.origin() == player.0) {
        simulation.restore(*id, lanes)?;
    }
    let avatar = simulation.game.avatar_of(player);
    if simulation.avatar(player).is_none() {
        let game = Arc::clone(&simulation.game);
        let mut spawns = game.welcome(&simulation.world(), player, name).into_iter();
        // The avatar's serial is 0, even if the player was here before and other serials were used.
        if let Some(spawn) = spawns.next() {
            simulation.restore(avatar, &spawn.lanes)?;
        }
        for spawn in spawns {
            simulation.spawn(player, &spawn)?;
        }
    }
    Ok(avatar)
}

/// Removes all objects of a player from the world, and returns those to keep.
pub(super) fn remove_objects_of<G: Game>(
    simulation: &mut Simulation<G>,
    player: PlayerId,
) -> Vec<(ObjectId, Vec<i32>)> {
    let store = &mut simulation.publisher.store;
    let theirs: Vec<_> = store.iter().filter(|(id, _)| id.origin() == player.0).collect();
    let mut kept = Vec::new();
    for (id, slot) in theirs {
        if simulation.game.keeps(id.kind()) {
            kept.push((id, store.lanes(slot).to_vec()));
        }
        let removed = store.remove(slot);
        debug_assert!(removed.is_ok());
    }
    simulation.forget_player(player);
    kept
}
