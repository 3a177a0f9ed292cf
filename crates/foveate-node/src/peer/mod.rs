//! A game without a server: every node is a player, and owns what it cares for most.
//!
//! A [`Peer`] is a [`Simulation`] for the objects that it owns, ghosts of the others', and links with a
//! bounded number of other peers. Each neighbour is an observer of the own publisher, seen from where
//! its avatar is known to be; and each neighbour's packets fill a set of replicas. So states, bounds,
//! budgets and losses are those of a server; this folder adds which peer owns what ([`ownership`], and the rules in
//! `claims`, `transfer` and `takeover`), which peers there are (`membership`, [`members`]), the links with them
//! (`links`, `neighbourhood`), which of them are believed ([`trust`], [`identity`]), and what is asked of their
//! objects ([`asks`]).
//!
//! Without IO: links, messages and datagrams come in by calls and leave through an [`Outbox`]; what
//! else is to be done comes from [`Peer::poll`]. One call of [`Peer::tick`] a round does the rest.
//!
//! ```text
//! outside ─ join ─▶ hello, clock ─▶ settling ─ welcome ─▶ inside ─ leave ─▶ left
//!         └─ found ─────────────────────────────────────▶┘
//! ```

pub mod asks;
mod claims;
pub mod identity;
pub mod interest;
mod links;
pub mod members;
mod membership;
mod neighbour;
mod neighbourhood;
pub mod ownership;
mod receive;
mod send;
mod sightings;
mod takeover;
mod teams;
mod transfer;
pub mod trust;
mod viewpoints;
pub mod wire;

pub use identity::{Key, Signer};
pub use interest::{Interest, Nearness};
pub use neighbour::{GONE_AFTER, KEEP_ALIVE};
pub use trust::Fault;

use crate::game::{EventArea, Game, GameViews, PlayerId, Requester, Tenure, World};
use crate::outbox::{Link, Outbox};
use crate::simulation::Simulation;
use asks::Asks;
use foveate_sync::Rounds;
use foveate_sync::interest::Policy;
use foveate_wire::{Bytes, Metres, Micros, ObjectId, OwnerId, Tick};
use links::Links;
use members::Members;
use membership::{Membership, Phase};
use ownership::{OwnerClaim, Ownership};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use trust::TrustState;

/// Links that a peer has at most, however large the game is.
pub const MAX_LINKS: usize = 128;
/// Links that it seeks because of the players at their other ends,
pub const NEAR_LINKS: usize = 96;
/// and because they lead elsewhere. The others are for peers that seek it.
pub const FAR_LINKS: usize = 4;
/// Rounds between two looks at links, keepers, budgets: each peer at a moment of its own.
const LOOK_EVERY: u32 = 20;

/// What a peer may be told.
#[derive(Clone)]
pub struct PeerSettings {
    /// Rounds, and how long replicas linger.
    pub rounds: Rounds,
    /// Which of the game's views this peer begins with; [`Peer::set_view`] changes it.
    pub view: u8,
    /// Bytes per second that may leave; rates fall with interest when it is full.
    pub uplink: Option<Bytes>,
    /// The interest of peers in objects.
    pub interest: Arc<dyn Interest>,
    /// Further peers that keep each object's state.
    pub copies: usize,
    /// How others reach this peer.
    pub contact: Vec<u8>,
}

impl PeerSettings {
    /// The usual ones, for rounds of this length in a world where players see this far.
    pub fn new(round: Micros, view: Metres, contact: Vec<u8>) -> PeerSettings {
        PeerSettings {
            rounds: Rounds::every(round),
            view: 0,
            uplink: None,
            interest: Arc::new(Nearness::for_view(view)),
            copies: 6,
            contact,
        }
    }
}

/// What the host has to do, or may want to know.
#[derive(Clone, PartialEq, Debug)]
pub enum PeerEvent<E> {
    /// Make a link with this peer; tell [`Peer::connected`] or [`Peer::unreachable`].
    Connect(Key, Vec<u8>),
    /// The player is in the world.
    Inside,
    /// There is a neighbour more,
    Met(PlayerId),
    /// or less. True: it vanished without a word.
    Parted(PlayerId, bool),
    /// A peer lied, and was dropped.
    Verdict(PlayerId, Fault),
    /// Something to see or hear.
    Happened(E),
}

/// What was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PeerCounts {
    /// Objects handed over because a peer cares more,
    pub given: u64,
    /// taken over from a peer that is gone,
    pub taken_over: u64,
    /// and yielded to a peer whose claim prevailed.
    pub yielded: u64,
    /// Datagrams, messages and claims that were not taken in, by [`Fault`].
    pub refused: [u64; Fault::ALL.len()],
    /// Actions whose object has no known owner.
    pub asks_lost: u64,
    /// What lacked room: objects, links.
    pub full: u64,
    /// Claims that contradict what is known, and were not followed.
    pub doubted: u64,
    /// Events that a neighbour was not told of, because too much waited.
    pub events_dropped: u64,
}

/// A player's node.
pub struct Peer<G: Game> {
    /// The objects that it owns, the rules, and ghosts of all others.
    pub simulation: Simulation<G>,
    me: PlayerId,
    avatar: ObjectId,
    name: String,
    settings: PeerSettings,
    signer: Box<dyn Signer>,
    membership: Membership,
    links: Links,
    trust: TrustState,
    ownership: Ownership,
    viewing: Viewing,
    asks: Asks,
    events: VecDeque<PeerEvent<G::Event>>,
    counts: PeerCounts,
    scratch: Scratch<G::Event>,
}

/// What this peer looks from, and by which of the game's views.
#[derive(Default)]
struct Viewing {
    /// What the player looks from in the place of its avatar.
    watched: Option<ObjectId>,
    /// All neighbours have to be sent how this peer wants to be told.
    resubscribe: bool,
    /// The game's views that were asked for, by number.
    views: BTreeMap<u8, Arc<dyn Policy>>,
}

/// Memory that is used again in every round.
struct Scratch<E> {
    happened: Vec<(EventArea, E)>,
    touched: Vec<(ObjectId, bool)>,
    datagram: Vec<u8>,
}

impl<G: Game> Peer<G> {
    /// A peer outside of any game: [`found`](Peer::found) one, or [`join`](Peer::join) one.
    pub fn new(
        game: Arc<G>,
        settings: PeerSettings,
        signer: Box<dyn Signer>,
        name: &str,
    ) -> Peer<G> {
        let me = signer.key().player();
        let avatar = game.avatar_of(me);
        let simulation = Simulation::new(game, settings.rounds).owned_by(OwnerId(me.0));
        Peer {
            simulation,
            me,
            avatar,
            name: name.into(),
            settings,
            signer,
            membership: Membership::new(me),
            links: Links::default(),
            trust: TrustState::default(),
            ownership: Ownership::default(),
            viewing: Viewing::default(),
            asks: Asks::default(),
            events: VecDeque::new(),
            counts: PeerCounts::default(),
            scratch: Scratch { happened: Vec::new(), touched: Vec::new(), datagram: Vec::new() },
        }
    }

    /// One round, in this order: whether this peer stalled, which others are gone, what becomes of their objects, the
    /// rules, what is asked of others, which peer should own what, which links to seek, what to send.
    pub fn tick(&mut self, now: Micros, out: &mut impl Outbox) {
        let tick = self.tick_at(now);
        match self.membership.phase {
            Phase::Outside => return self.retry_join(now),
            Phase::Left => return,
            Phase::Settling(_) | Phase::Inside => {}
        }
        if !tick.is_after(self.simulation.publisher.store.tick()) {
            return;
        }
        self.recover_from_stall(now, out);
        self.drop_silent(now, out);
        self.follow_ghosts(tick, now);
        self.enter_world(now);
        self.take_over(now);
        self.extend_ids(now);
        self.step_rules(tick);
        self.update_relations(tick, now);
        self.track_objects(now);
        self.send_asks(now, out);
        self.hand_over(now, tick, out);
        if tick.0.wrapping_add(self.me.0).is_multiple_of(LOOK_EVERY) {
            self.maintain(now, out);
        }
        self.gossip(now, out);
        self.send_updates(tick, now, out);
        self.ban_pending(now, out);
    }

    /// The rules have their turn.
    fn step_rules(&mut self, tick: Tick) {
        let happened = &mut self.scratch.happened;
        happened.clear();
        self.simulation.step(tick, |spot, event| happened.push((spot, event)));
        self.take_asks();
    }

    /// What the player does in the coming tick.
    pub fn input(&mut self, input: G::Input) -> bool {
        self.simulation.input(self.avatar, input)
    }

    /// The player asks something of an object, whichever peer owns it. False: it breaks the game's limits, or
    /// there is no room for it.
    pub fn ask(&mut self, object: ObjectId, action: G::Action) -> bool {
        let seen = self.simulation.publisher.store.tick();
        self.simulation.request(object, action, Requester::Player(self.me, seen)) == Ok(true)
    }

    /// From now on the interest of the peer with this key counts `weight` times as much as that of others
    /// (at least 1; 1: no more than theirs), as does this peer's own if the key is its own. A peer that is
    /// trusted much is a server among peers: it owns whatever it has a link with the owner of.
    ///
    /// Nothing that another peer says changes this, and nothing is told of it. All peers of a game should
    /// trust the same ones: where they differ each object still has one owner, because conflicts go by
    /// epochs, but two peers that disagree hand it to and fro, once a second.
    pub fn trust(&mut self, key: Key, weight: f32) {
        self.trust.set_weight(key, weight);
    }

    /// Looks by another of the game's views from now on: neighbours are told in the coming round. False:
    /// the game has no such view, and nothing changes.
    pub fn set_view(&mut self, which: u8) -> bool {
        if self.view(which).is_none() {
            return false;
        }
        self.viewing.resubscribe |= self.settings.view != which;
        self.settings.view = which;
        true
    }

    /// Looks from another object from now on, or from the avatar again: neighbours are told in the coming
    /// round. False: the game does not allow it ([`Game::may_watch`]), and nothing changes. It is asked
    /// again while it lasts, here and by the neighbours.
    pub fn spectate(&mut self, object: Option<ObjectId>) -> bool {
        let allows = |id| self.simulation.game.may_watch(&self.simulation.world(), self.avatar, id);
        if object.is_some_and(|id| !allows(id)) {
            return false;
        }
        self.viewing.resubscribe |= self.viewing.watched != object;
        self.viewing.watched = object;
        true
    }

    /// Bytes a round that a link carries, as its host measures: states to this neighbour keep within. `None`:
    /// not known.
    pub fn set_capacity(&mut self, link: Link, capacity: Option<Bytes>) {
        let Some(it) = self.links.get_mut(&link) else { return };
        it.capacity = capacity;
        let observer = it.observer.and_then(|id| self.simulation.publisher.observer_mut(id));
        if let Some(observer) = observer {
            it.keep_within(observer);
        }
    }

    /// The next thing for the host, if any.
    pub fn poll(&mut self) -> Option<PeerEvent<G::Event>> {
        self.events.pop_front()
    }

    /// The world as this peer knows it.
    pub fn world(&self) -> World<'_> {
        self.simulation.world()
    }

    /// The player.
    pub fn player(&self) -> PlayerId {
        self.me
    }

    /// The player's avatar.
    pub fn avatar(&self) -> ObjectId {
        self.avatar
    }

    /// Whether the player is in the world.
    pub fn is_inside(&self) -> bool {
        self.membership.phase == Phase::Inside
    }

    /// What was counted.
    pub fn counts(&self) -> &PeerCounts {
        &self.counts
    }

    /// Whom this peer has links with.
    pub fn neighbours(&self) -> impl Iterator<Item = PlayerId> {
        self.links.players()
    }

    /// The links, and the peers at their other ends.
    pub fn links(&self) -> impl Iterator<Item = (Link, PlayerId)> + '_ {
        self.links.iter().map(|(link, it)| (*link, it.player))
    }

    /// Where this peer believes another peer's object to be in a round.
    pub fn predicted(&self, id: ObjectId, tick: Tick) -> Option<[f32; 3]> {
        let source = self.ownership.ghost(id).and_then(|known| known.source);
        let view = source.and_then(|link| self.links.get(&link)?.replicas.get(id));
        view.and_then(|view| view.predicted(tick)).or_else(|| self.simulation.ghosts.place(id))
    }

    /// The round of the newest state of another peer's object.
    pub fn newest(&self, id: ObjectId) -> Option<Tick> {
        self.ownership.ghost(id).map(|known| known.tick)
    }

    /// The members that this peer knows.
    pub fn members(&self) -> &Members {
        &self.membership.members
    }

    /// The objects that this peer owns, and their epochs.
    pub fn owned(&self) -> impl Iterator<Item = (ObjectId, u32)> + '_ {
        let store = &self.simulation.publisher.store;
        store.iter().map(|(id, slot)| (id, store.owner(slot).1.0))
    }

    /// Objects on their way to another peer, not acknowledged yet.
    pub fn giving(&self) -> impl Iterator<Item = (ObjectId, PlayerId)> + '_ {
        self.ownership.giving.iter().map(|(id, giving)| (*id, giving.to))
    }

    /// Whose an object is, as far as this peer knows.
    pub fn claim_on(&self, id: ObjectId) -> Option<OwnerClaim> {
        self.my_claim(id).or_else(|| self.ownership.ghost(id).map(|known| known.claim))
    }

    /// Cheating peers that this peer found out.
    pub fn banned(&self) -> impl Iterator<Item = (PlayerId, Fault)> + '_ {
        self.trust.banned()
    }

    /// The round of a moment.
    pub fn tick_at(&self, now: Micros) -> Tick {
        Tick((self.time(now).0 / self.settings.rounds.length.0) as u32)
    }

    /// When the round after that of a moment begins: all peers' rounds begin together, by the world's clock.
    pub fn next_round(&self, now: Micros) -> Micros {
        let length = self.settings.rounds.length.0;
        let left = length - self.time(now).0 % length;
        now + Micros(left)
    }

    /// The world's time.
    fn time(&self, now: Micros) -> Micros {
        Micros(now.0.saturating_add_signed(self.membership.offset))
    }

    /// Where a peer's avatar is, as far as is known.
    fn place_of(&self, player: PlayerId) -> Option<[f32; 3]> {
        if player == self.me {
            let store = &self.simulation.publisher.store;
            return store.find(self.avatar).map(|slot| store.position(slot));
        }
        let avatar = ObjectId::new(self.avatar.kind(), player.0, 0);
        let seen = self.simulation.ghosts.place(avatar);
        seen.or_else(|| self.membership.members.get(player).map(members::Member::at))
    }

    /// Where the player looks from: the avatar's place, or that of what it watches.
    fn viewpoint(&self) -> [f32; 3] {
        let store = &self.simulation.publisher.store;
        let own = |id| store.find(id).map(|slot| store.position(slot));
        let watched = self
            .viewing
            .watched
            .and_then(|id| own(id).or_else(|| self.simulation.ghosts.place(id)));
        watched.unwrap_or_else(|| self.here())
    }

    /// Where this peer's avatar is.
    fn here(&self) -> [f32; 3] {
        self.place_of(self.me).unwrap_or_default()
    }

    fn tenure(&self, id: ObjectId) -> Tenure {
        self.simulation.game.tenure(id)
    }

    /// One of the game's views.
    fn view(&mut self, which: u8) -> Option<Arc<dyn Policy>> {
        if let Some(view) = self.viewing.views.get(&which) {
            return Some(Arc::clone(view));
        }
        let view = self.simulation.game.view(which)?;
        let view = view.build_in(&GameViews(&*self.simulation.game)).ok()?;
        self.viewing.views.insert(which, Arc::clone(&view));
        Some(view)
    }

    /// How far the players of this game see, by its first view.
    fn sight(&mut self) -> f32 {
        self.reach_of(0)
    }

    /// How far this peer sees, by the view that it chose.
    fn own_sight(&mut self) -> f32 {
        self.reach_of(self.settings.view)
    }

    fn reach_of(&mut self, which: u8) -> f32 {
        let reach = self.view(which).map_or(f32::INFINITY, |view| view.reach().0);
        if reach.is_finite() { reach } else { f32::MAX }
    }

    /// A peer was caught; too often, and they go.
    fn record_violation(&mut self, link: Link, fault: Fault, now: Micros) {
        self.counts.refused[fault as usize] += 1;
        let Some(neighbour) = self.links.get_mut(&link) else { return };
        if neighbour.patience.record_violation(now, fault) {
            self.trust.plan_ban(link, fault);
        }
    }
}
