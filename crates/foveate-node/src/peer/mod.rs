//! A game without a server: every node is a player, and owns the objects that interest it most.
//!
//! A [`Peer`] is a [`Simulation`] of the objects that it owns, with copies of other peers' objects
//! and links to a bounded number of peers. Each neighbour is an observer of this peer's publisher,
//! placed where its avatar is known to be, and each neighbour's packets fill a set of replicas. So
//! states, bounds, budgets and losses work as on a server. This folder adds which peer owns what
//! ([`ownership`], and the rules in `claims`, `transfer` and `takeover`), which peers there are
//! (`membership`, [`members`]), the links to them (`links`, `neighbourhood`), which of them are
//! trusted ([`trust`], [`identity`]), and actions on their objects ([`asks`]).
//!
//! Without IO: links, messages and datagrams are passed in and leave through an [`Outbox`];
//! [`Peer::poll`] returns requests to the host. One call of [`Peer::tick`] per round does the rest.
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
use foveate_wire::{Bytes, Metres, Micros, ObjectId, OwnerId, Position, Tick};
use links::Links;
use members::Members;
use membership::{Membership, Phase};
use ownership::{OwnerClaim, Ownership};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use trust::TrustState;

/// The most links of a peer, however large the game is.
pub const MAX_LINKS: usize = 128;
/// Links that a peer dials because it is interested in the players.
pub const NEAR_LINKS: usize = 96;
/// Links that a peer dials because they lead elsewhere. The other links are for peers that dial it.
pub const FAR_LINKS: usize = 4;
/// Rounds between two reviews of links, keepers and budgets, each peer at a different time.
const LOOK_EVERY: u32 = 20;

#[derive(Clone)]
pub struct PeerSettings {
    /// Rounds, and how long replicas linger.
    pub rounds: Rounds,
    /// The number of the view that this peer begins with; [`Peer::set_view`] changes it.
    pub view: u8,
    /// Bytes per second that may be sent; update rates fall, the least interesting first, when it
    /// is full.
    pub uplink: Option<Bytes>,
    pub interest: Arc<dyn Interest>,
    /// How many other peers keep a copy of each object's state.
    pub copies: usize,
    /// The contact at which others reach this peer.
    pub contact: Vec<u8>,
}

impl PeerSettings {
    /// The defaults for rounds of this length, in a world where players see this far.
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

/// Requests and reports to the host.
#[derive(Clone, PartialEq, Debug)]
pub enum PeerEvent<E> {
    /// Make a link to this peer; answer with [`Peer::connected`] or [`Peer::unreachable`].
    Connect(Key, Vec<u8>),
    /// The player has entered the world.
    Inside,
    /// There is a new neighbour.
    Met(PlayerId),
    /// A neighbour is gone. True: it was lost without saying goodbye.
    Parted(PlayerId, bool),
    /// A peer cheated, and was banned.
    Verdict(PlayerId, Fault),
    /// An event of the game.
    Happened(E),
}

/// Counters of a peer; they only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PeerCounts {
    /// Objects handed over because another peer is more interested.
    pub given: u64,
    /// Objects taken over from a peer that is gone.
    pub taken_over: u64,
    /// Objects given up because another peer's claim prevailed.
    pub yielded: u64,
    /// Datagrams, messages and claims that were refused, by [`Fault`].
    pub refused: [u64; Fault::ALL.len()],
    /// Actions whose object has no known owner.
    pub asks_lost: u64,
    /// Objects and links that found no room.
    pub full: u64,
    /// Claims that contradict what is known, and were not accepted.
    pub doubted: u64,
    /// Events that a neighbour was not sent, because too much waited.
    pub events_dropped: u64,
}

pub struct Peer<G: Game> {
    /// The objects that this peer owns, the rules, and copies of all others.
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

/// What this peer looks from, and by which view.
#[derive(Default)]
struct Viewing {
    /// The object that the player watches instead of its avatar.
    watched: Option<ObjectId>,
    /// Whether all neighbours must be sent this peer's view and pivot again.
    resubscribe: bool,
    /// The game's views used so far, by number.
    views: BTreeMap<u8, Arc<dyn Policy>>,
}

/// Buffers that are reused every round.
struct Scratch<E> {
    happened: Vec<(EventArea, E)>,
    touched: Vec<(ObjectId, bool)>,
    datagram: Vec<u8>,
}

impl<G: Game> Peer<G> {
    /// A peer outside of any game; call [`found`](Peer::found) or [`join`](Peer::join) next.
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

    /// Plays one round, in this order: stalls, lost peers and their objects, rules, actions,
    /// ownership, links, sending.
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

    fn step_rules(&mut self, tick: Tick) {
        let happened = &mut self.scratch.happened;
        happened.clear();
        self.simulation.step(tick, |spot, event| happened.push((spot, event)));
        self.take_asks();
    }

    /// Adds an input for the coming tick; false if there is no room.
    pub fn input(&mut self, input: G::Input) -> bool {
        self.simulation.input(self.avatar, input)
    }

    /// Sends an action to an object, whichever peer owns it. False if it breaks the game's limits,
    /// or there is no room for it.
    pub fn ask(&mut self, object: ObjectId, action: G::Action) -> bool {
        let seen = self.simulation.publisher.store.tick();
        self.simulation.request(object, action, Requester::Player(self.me, seen)) == Ok(true)
    }

    /// From now on the interest of the peer with this key, which may be this peer's own, counts
    /// `weight` times as much as that of others (at least 1, which is the default). A peer that is
    /// trusted highly acts as a server among peers: it owns every object whose owner it has a link
    /// to.
    ///
    /// Other peers cannot change this, and are not told. All peers of a game should trust the same
    /// ones. If they differ, each object still has one owner, because conflicts are decided by
    /// epochs, but two peers that disagree pass it back and forth once a second.
    pub fn trust(&mut self, key: Key, weight: f32) {
        self.trust.set_weight(key, weight);
    }

    /// Looks by another of the game's views; neighbours are told in the coming round. False,
    /// without effect, if the game has no such view.
    pub fn set_view(&mut self, which: u8) -> bool {
        if self.view(which).is_none() {
            return false;
        }
        self.viewing.resubscribe |= self.settings.view != which;
        self.settings.view = which;
        true
    }

    /// Looks from another object, or `None` for the avatar; neighbours are told in the coming
    /// round. False, without effect, if the game does not allow it ([`Game::may_watch`]), which is
    /// checked again as long as it lasts, here and by the neighbours.
    pub fn spectate(&mut self, object: Option<ObjectId>) -> bool {
        let allows = |id| self.simulation.game.may_watch(&self.simulation.world(), self.avatar, id);
        if object.is_some_and(|id| !allows(id)) {
            return false;
        }
        self.viewing.resubscribe |= self.viewing.watched != object;
        self.viewing.watched = object;
        true
    }

    /// Sets the measured capacity of a link in bytes per round: states to this neighbour stay
    /// within it. `None`: not known.
    pub fn set_capacity(&mut self, link: Link, capacity: Option<Bytes>) {
        let Some(it) = self.links.get_mut(&link) else { return };
        it.capacity = capacity;
        let observer = it.observer.and_then(|id| self.simulation.publisher.observer_mut(id));
        if let Some(observer) = observer {
            it.keep_within(observer);
        }
    }

    /// The next event for the host, if any.
    pub fn poll(&mut self) -> Option<PeerEvent<G::Event>> {
        self.events.pop_front()
    }

    /// The world as this peer knows it.
    pub fn world(&self) -> World<'_> {
        self.simulation.world()
    }

    pub fn player(&self) -> PlayerId {
        self.me
    }

    pub fn avatar(&self) -> ObjectId {
        self.avatar
    }

    /// Whether the player is in the world.
    pub fn is_inside(&self) -> bool {
        self.membership.phase == Phase::Inside
    }

    pub fn counts(&self) -> &PeerCounts {
        &self.counts
    }

    /// The players at the other ends of this peer's links.
    pub fn neighbours(&self) -> impl Iterator<Item = PlayerId> {
        self.links.players()
    }

    /// The links, with the players at their other ends.
    pub fn links(&self) -> impl Iterator<Item = (Link, PlayerId)> + '_ {
        self.links.iter().map(|(link, it)| (*link, it.player))
    }

    /// The predicted place of another peer's object in a round.
    pub fn predicted(&self, id: ObjectId, tick: Tick) -> Option<Position> {
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

    /// The objects that this peer owns, with their epochs.
    pub fn owned(&self) -> impl Iterator<Item = (ObjectId, u32)> + '_ {
        let store = &self.simulation.publisher.store;
        store.iter().map(|(id, slot)| (id, store.owner(slot).1.0))
    }

    /// Objects handed to another peer that has not acknowledged them yet.
    pub fn giving(&self) -> impl Iterator<Item = (ObjectId, PlayerId)> + '_ {
        self.ownership.giving.iter().map(|(id, giving)| (*id, giving.to))
    }

    /// The owner of an object, as far as this peer knows.
    pub fn claim_on(&self, id: ObjectId) -> Option<OwnerClaim> {
        self.my_claim(id).or_else(|| self.ownership.ghost(id).map(|known| known.claim))
    }

    /// Cheating peers that this peer detected.
    pub fn banned(&self) -> impl Iterator<Item = (PlayerId, Fault)> + '_ {
        self.trust.banned()
    }

    /// The round at a time.
    pub fn tick_at(&self, now: Micros) -> Tick {
        Tick((self.time(now).0 / self.settings.rounds.length.0) as u32)
    }

    /// When the next round begins: all peers' rounds begin at the same time, by the world's clock.
    pub fn next_round(&self, now: Micros) -> Micros {
        let length = self.settings.rounds.length.0;
        let left = length - self.time(now).0 % length;
        now + Micros(left)
    }

    /// The world's time.
    fn time(&self, now: Micros) -> Micros {
        Micros(now.0.saturating_add_signed(self.membership.offset))
    }

    /// Where a player's avatar is, as far as is known.
    fn place_of(&self, player: PlayerId) -> Option<Position> {
        if player == self.me {
            let store = &self.simulation.publisher.store;
            return store.find(self.avatar).map(|slot| store.position(slot));
        }
        let avatar = ObjectId::new(self.avatar.kind(), player.0, 0);
        let seen = self.simulation.ghosts.place(avatar);
        seen.or_else(|| self.membership.members.get(player).map(members::Member::at))
    }

    /// Where the player looks from: the avatar's place, or that of what it watches.
    fn viewpoint(&self) -> Position {
        let store = &self.simulation.publisher.store;
        let own = |id| store.find(id).map(|slot| store.position(slot));
        let watched = self
            .viewing
            .watched
            .and_then(|id| own(id).or_else(|| self.simulation.ghosts.place(id)));
        watched.unwrap_or_else(|| self.here())
    }

    /// Where this peer's avatar is.
    fn here(&self) -> Position {
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

    /// How far this peer sees, by its chosen view.
    fn own_sight(&mut self) -> f32 {
        self.reach_of(self.settings.view)
    }

    fn reach_of(&mut self, which: u8) -> f32 {
        let reach = self.view(which).map_or(f32::INFINITY, |view| view.reach().0);
        if reach.is_finite() { reach } else { f32::MAX }
    }

    /// Counts a fault of a peer; too many, and the peer is banned.
    fn record_violation(&mut self, link: Link, fault: Fault, now: Micros) {
        self.counts.refused[fault as usize] += 1;
        let Some(neighbour) = self.links.get_mut(&link) else { return };
        if neighbour.patience.record_violation(now, fault) {
            self.trust.plan_ban(link, fault);
        }
    }
}
