//! Compares the server and its disk with what players did and what the disk acknowledged, and reports each invariant
//! that does not hold.

use super::actors::Observed;
use super::disk::{Disk, Image};
use super::market::{ITEM, ITEMS, Market, TRADER, TradeItem, Trader};
use foveate_node::persistence::{Batch, TokenId};
use foveate_node::session::Refusal;
use foveate_node::{Client, Game, Link, Server};
use foveate_sync::replica::Life;
use foveate_wire::{KindId, Micros, ObjectId, Replicate};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// While the disk works, changes older than this are stored: the promised second, plus the time until the next flush
/// and for its transaction.
const PROMISED: Micros = Micros(1_200_000);
/// After the disk failed, nothing is promised for this long.
const RECOVERY: Micros = Micros(5_000_000);
/// Samples kept of each player; five are taken a second.
const MAX_SAMPLES: usize = 16;
/// The most violations that are kept.
const MAX_VIOLATIONS: usize = 16;

/// An invariant that did not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Virtual time.
    pub at: Micros,
    /// The invariant, and the values that break it.
    pub what: String,
}

/// The checker of one run.
pub struct Checker {
    /// Invariants that did not hold.
    pub violations: Vec<Violation>,
    game: Arc<Market>,
    now: Micros,
    /// The server's open links, each with the player that was welcomed on it.
    live: BTreeMap<Link, u32>,
    /// Tokens with which a player joined.
    admitted: BTreeSet<TokenId>,
    /// Each name's number.
    numbers: BTreeMap<String, u32>,
    /// Each player's steps, as acknowledged by the disk.
    steps: BTreeMap<u32, u32>,
    /// How often each item was recast, as acknowledged by the disk.
    casts: BTreeMap<u8, u16>,
    /// Each player's steps when it last left, since the server started.
    left: BTreeMap<u32, u32>,
    /// Each player's latest steps, with the time of each sample.
    samples: BTreeMap<u32, VecDeque<(Micros, u32)>>,
    /// When the disk or the server was last not working.
    disturbed: Micros,
    /// When the server's wall clock was last wrong.
    clock_wrong: Micros,
}

impl Checker {
    /// A checker before the server's first start.
    pub fn new(game: Arc<Market>) -> Checker {
        Checker {
            violations: Vec::new(),
            game,
            now: Micros::ZERO,
            live: BTreeMap::new(),
            admitted: BTreeSet::new(),
            numbers: BTreeMap::new(),
            steps: BTreeMap::new(),
            casts: BTreeMap::new(),
            left: BTreeMap::new(),
            samples: BTreeMap::new(),
            disturbed: Micros::ZERO,
            clock_wrong: Micros::ZERO,
        }
    }

    /// Sets the virtual time.
    pub fn set_now(&mut self, now: Micros) {
        self.now = now;
    }

    fn fail(&mut self, what: String) {
        if self.violations.len() < MAX_VIOLATIONS {
            self.violations.push(Violation { at: self.now, what });
        }
    }

    fn value<T: Replicate>(&self, kind: KindId, lanes: &[i32]) -> Option<T> {
        let kind = self.game.schema().kind(kind)?;
        (kind.lane_count() == lanes.len()).then(|| T::get(kind, lanes))
    }

    /// The disk or the server does not work now.
    pub fn on_disturbance(&mut self) {
        self.disturbed = self.now;
    }

    /// The server's wall clock is wrong now.
    pub fn on_wrong_clock(&mut self) {
        self.clock_wrong = self.now;
    }

    /// The disk acknowledged a transaction.
    pub fn on_acknowledged(&mut self, batch: &Batch) {
        for (id, lanes) in &batch.changes {
            let Some(lanes) = lanes else { continue };
            if id.kind() == TRADER
                && let Some(trader) = self.value::<Trader>(TRADER, lanes)
            {
                self.steps.insert(id.origin(), trader.steps);
            } else if id.kind() == ITEM
                && let Some(item) = self.value::<TradeItem>(ITEM, lanes)
            {
                let casts = self.casts.entry(item.label).or_default();
                *casts = item.casts.max(*casts);
            }
        }
    }

    /// A player left with these objects.
    pub fn on_left(&mut self, player: u32, kept: &[(ObjectId, Vec<i32>)]) {
        let lanes = kept.iter().find(|(id, _)| id.kind() == TRADER).map(|(_, lanes)| lanes);
        let trader = lanes.and_then(|lanes| self.value::<Trader>(TRADER, lanes));
        match trader {
            Some(trader) => drop(self.left.insert(player, trader.steps)),
            None => self.fail(format!("nothing lost: player {player} left without an avatar")),
        }
        self.live.retain(|_, other| *other != player);
    }

    /// An honest client was refused.
    pub fn on_refused(&mut self, name: &str, why: Refusal) {
        // For a clock that is behind, valid tokens seem to expire later than the maximum allows.
        let by_clock = matches!(why, Refusal::Token | Refusal::TokenClock)
            && self.now.0 <= self.clock_wrong.0 + RECOVERY.0;
        let fits = by_clock
            || matches!(
                why,
                Refusal::TokenExpired
                    | Refusal::TokenReplayed
                    | Refusal::NameTaken
                    | Refusal::Full
                    | Refusal::Storage
                    | Refusal::Timeout
                    | Refusal::HandshakeTimeout
                    | Refusal::Closing
            );
        if !fits {
            self.fail(format!("sessions end with a reason: {name} was refused as {why:?}"));
        }
    }

    /// Handles what the server did to its links; `tokens` holds the token shown on each link.
    pub fn on_observed(
        &mut self,
        observed: &[Observed],
        tokens: &BTreeMap<Link, TokenId>,
        server: &Server<Market>,
    ) {
        for event in observed {
            match *event {
                Observed::Closed(link, _) | Observed::Ended(link) => {
                    self.live.remove(&link);
                }
                Observed::Welcome(link, player, resumed) => {
                    self.live.insert(link, player);
                    if !resumed {
                        self.on_admitted(player, tokens.get(&link), server);
                    }
                }
            }
        }
        let mut players = BTreeSet::new();
        let twice: Vec<u32> =
            self.live.values().copied().filter(|player| !players.insert(*player)).collect();
        for player in twice {
            self.fail(format!("one session: player {player} has two open links"));
            self.live.retain(|_, other| *other != player);
        }
    }

    fn on_admitted(&mut self, player: u32, token: Option<&TokenId>, server: &Server<Market>) {
        if let Some(token) = token.filter(|token| !self.admitted.insert(**token)) {
            let id = u128::from_le_bytes(*token);
            self.fail(format!("tokens once: token {id} let player {player} in again"));
        }
        let trader = ObjectId::new(TRADER, player, 0);
        let Some(trader) = server.simulation.world().get::<Trader>(trader) else { return };
        match (self.left.get(&player), self.steps.get(&player)) {
            (Some(left), _) if *left != trader.steps => self.fail(format!(
                "nothing lost: player {player} left with {left} steps and came back with {}",
                trader.steps
            )),
            (None, Some(known)) if trader.steps < *known => self.fail(format!(
                "nothing lost: {known} steps of player {player} were saved, {} came back",
                trader.steps
            )),
            _ => {}
        }
    }

    /// Inspects the server's world and players; called a few times a second.
    pub fn inspect(&mut self, server: &Server<Market>, most: usize) {
        let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
        let world = server.simulation.world();
        for it in server.present_players() {
            let player = it.player.0;
            if !names.insert(it.name.to_owned()) || !numbers.insert(player) {
                self.fail(format!("one session: {} is in twice as player {player}", it.name));
            }
            let number = *self.numbers.entry(it.name.to_owned()).or_insert(player);
            if number != player {
                let name = it.name;
                self.fail(format!("names are numbers: {name} was {number} and is {player}"));
            }
            if let Some(trader) = world.get::<Trader>(it.avatar) {
                let samples = self.samples.entry(player).or_default();
                samples.push_back((self.now, trader.steps));
                if samples.len() > MAX_SAMPLES {
                    samples.pop_front();
                }
            }
        }
        if server.players() > most {
            self.fail(format!("bounded: {} players, {most} at most", server.players()));
        }
        let lanes = |id: &ObjectId| world.get::<TradeItem>(*id);
        let items: Vec<TradeItem> = world.of_kind(ITEM).iter().filter_map(lanes).collect();
        self.count_items(items.iter().map(|item| item.label), "in the world");
    }

    fn count_items(&mut self, labels: impl Iterator<Item = u8>, place: &str) {
        let mut labels: Vec<u8> = labels.collect();
        labels.sort_unstable();
        if labels != (0..ITEMS).collect::<Vec<u8>>() {
            self.fail(format!("items conserved: {labels:?} {place}"));
        }
    }

    /// The server's process ended; `disk` is in the state in which the next one opens it.
    pub fn on_server_gone(&mut self, disk: &Disk, crashed: bool) {
        let image = disk.image().clone();
        if crashed && self.now.0 > self.disturbed.0 + RECOVERY.0 {
            self.check_fresh();
        }
        let steps: Vec<(u32, u32)> = self.steps.iter().map(|(player, it)| (*player, *it)).collect();
        for (player, steps) in steps {
            let id = ObjectId::new(TRADER, player, 0);
            let lanes = image.objects.get(&id).cloned().unwrap_or_else(|| Arc::from([]));
            let found = self.value::<Trader>(TRADER, &lanes).map_or(0, |trader| trader.steps);
            if found < steps {
                self.fail(format!(
                    "nothing lost: {steps} steps of player {player} were acknowledged, {found} are stored"
                ));
            }
            self.steps.insert(player, found);
        }
        self.check_items(&image);
        self.live.clear();
        self.left.clear();
        self.samples.clear();
    }

    /// Checks that all steps older than [`PROMISED`] are stored.
    fn check_fresh(&mut self) {
        let due = Micros(self.now.0.saturating_sub(PROMISED.0));
        let mut late = Vec::new();
        for (player, samples) in &self.samples {
            let before = samples.iter().rev().find(|(at, _)| *at <= due);
            let known = self.steps.get(player).copied().unwrap_or(0);
            late.extend(before.filter(|(_, steps)| *steps > known).map(|(at, steps)| {
                format!(
                    "nothing lost: player {player} had {steps} steps {} ms ago, {known} are stored",
                    (self.now.0 - at.0) / 1_000
                )
            }));
        }
        late.into_iter().for_each(|what| self.fail(what));
    }

    fn check_items(&mut self, image: &Image) {
        let items = image.objects.iter().filter(|(id, _)| id.kind() == ITEM);
        let items: Vec<TradeItem> =
            items.filter_map(|(_, lanes)| self.value::<TradeItem>(ITEM, lanes)).collect();
        // Before the first transaction nothing is stored.
        if items.is_empty() && self.casts.is_empty() {
            return;
        }
        self.count_items(items.iter().map(|item| item.label), "in the storage");
        for item in items {
            let known = self.casts.insert(item.label, item.casts).unwrap_or(0);
            if item.casts < known {
                let (label, casts) = (item.label, item.casts);
                self.fail(format!(
                    "nothing lost: item {label} was cast {known} times, now {casts}"
                ));
            }
        }
    }

    /// Checks at rest that a client has the same objects as the server.
    pub fn check_converged(
        &mut self,
        name: &str,
        client: &Client<Market>,
        server: &Server<Market>,
    ) {
        let world = server.simulation.world();
        let mut differing = Vec::new();
        for (id, _) in server.simulation.publisher.store.iter() {
            let replica = client.replicas.get(id).filter(|view| view.life() == Life::Live);
            let same = match id.kind() {
                TRADER => {
                    world.get::<Trader>(id) == replica.and_then(|view| view.value::<Trader>())
                }
                _ => {
                    world.get::<TradeItem>(id) == replica.and_then(|view| view.value::<TradeItem>())
                }
            };
            differing.extend((!same).then_some(id));
        }
        let store = &server.simulation.publisher.store;
        let live = client.replicas.in_any_order().filter(|view| view.life() == Life::Live);
        differing.extend(live.map(|view| view.id()).filter(|id| store.find(*id).is_none()));
        if let Some(id) = differing.first() {
            let count = differing.len();
            self.fail(format!("replicas converge: {name} differs in {count} objects, as {id:?}"));
        }
    }

    /// Checks at rest, after all faults ended, that an honest client is in the game.
    pub fn check_is_in(&mut self, name: &str, is_in: bool, state: &str) {
        if !is_in {
            self.fail(format!("sessions end with a reason: {name} is not in again, but {state}"));
        }
    }
}
