//! Walls hide what is behind them, and say for how long.

use fastrand::Rng;
use foveate_arena::game::kinds::{Avatar, position};
use foveate_arena::{Arena, ArenaMap, Place, Point, Setup, Walls};
use foveate_node::game::Game;
use foveate_sync::interest::{BySet, Line, ObjectSet, Policy, Visibility, Visible, presets};
use foveate_sync::{Observer, Pivots, Publisher, Rounds};
use foveate_wire::packet::Ack;
use foveate_wire::{Metres, Micros, ObjectId, OwnerId, Position, Tick};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn point(at: Position) -> Point {
    Point::new(f64::from(at[0]), f64::from(at[1]))
}

fn line(from: Point, to: Point) -> Line {
    let at = |point: Point| [point.x as f32, point.y as f32].into();
    let (object, tick) = (ObjectId(1), Tick(1));
    Line { pivot: None, object, from: at(from), to: at(to), tick }
}

/// Whether one side sees the other by one of the ways past the walls, each tried.
fn sees_by_any_way(walls: &Walls, from: Point, to: Point) -> bool {
    let (dx, dy) = (to.x - from.x, to.y - from.y);
    let length = dx.hypot(dy);
    let aside = |point: Point, side: f64| {
        let by = side * walls.slack / length;
        Point::new(point.x - dy * by, point.y + dx * by)
    };
    let clear = |a, b| walls.map.line_of_sight(a, b);
    clear(from, to)
        || [-1.0, 1.0].into_iter().any(|side| {
            clear(aside(from, side), to)
                || clear(from, aside(to, side))
                || clear(aside(from, side), aside(to, side))
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_is_hidden_stays_hidden_while_its_ends_move_no_further_than_said(
        seed in 0u64..50,
        a in (1.0..119.0f32, 1.0..119.0f32),
        b in (1.0..119.0f32, 1.0..119.0f32),
        moves: u64,
    ) {
        let map = Arc::new(ArenaMap::generate(seed, 120.0, 40));
        let walls = Walls { map, slack: 2.0 };
        let [a, b] = [a, b].map(|(x, y)| Point::new(f64::from(x), f64::from(y)));
        let said = line(a, b);
        prop_assert_eq!(walls.visible(&said), sees_by_any_way(&walls, a, b));
        let room = f64::from(walls.hidden_within(&said).0);
        let mut rng = Rng::with_seed(moves);
        for _ in 0..if room > 0.0 { 50 } else { 0 } {
            let mut moved = |point: Point| {
                let turn = std::f64::consts::TAU * rng.f64();
                Point::new(point.x + room * turn.cos(), point.y + room * turn.sin())
            };
            let (a, b) = (moved(a), moved(b));
            prop_assert!(!sees_by_any_way(&walls, a, b), "{} by {}", room, moves);
        }
    }
}

/// Counts how often it is asked whether something is visible, and may not say for how long it is not.
struct Counting {
    walls: Walls,
    says: bool,
    asked: AtomicUsize,
}

impl Visibility for Counting {
    fn visible(&self, line: &Line) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed);
        sees_by_any_way(&self.walls, point(line.from), point(line.to))
    }

    fn hidden_within(&self, line: &Line) -> Metres {
        if !self.says {
            return Metres::ZERO;
        }
        self.walls.hidden_within(line)
    }
}

fn policy(provider: Arc<dyn Visibility>) -> Arc<dyn Policy> {
    let inner = presets::normal(40.0, 70.0).build().expect("valid");
    let (hidden, always) = (f32::INFINITY, Metres(8.0));
    let walled = Visible { inner: Arc::clone(&inner), provider, hidden, always };
    Arc::new(BySet(vec![(ObjectSet::Mates, inner), (ObjectSet::All, Arc::new(walled))]))
}

/// Two teams on a map with walls.
struct Field {
    publisher: Publisher,
    avatars: Vec<Avatar>,
}

impl Field {
    fn new(arena: &Arena, policy: &Arc<dyn Policy>) -> Field {
        let rounds = Rounds::every(Micros::from_millis(50));
        let mut publisher = Publisher::new(Arc::clone(arena.schema()), rounds);
        let mut rng = Rng::with_seed(3);
        let mut avatars = Vec::new();
        for player in 1..=40u8 {
            let side = arena.map().side();
            let place = Place::near(Point::new(side * rng.f64(), side * rng.f64()));
            let avatar = Avatar::at(place, 1 + player % 2);
            let id = Avatar::of(u32::from(player));
            let slot = publisher.store.create(id, OwnerId(0), &avatar).expect("new");
            publisher.store.set_team(slot, avatar.team).expect("there");
            avatars.push(avatar);
        }
        let slots: Vec<_> = publisher.store.iter().map(|(_, slot)| slot).collect();
        for (at, slot) in slots.iter().enumerate() {
            // Some look from two places.
            let second = (at % 4 == 0).then(|| slots[(at + 20) % slots.len()]);
            let pivots = std::iter::once(*slot).chain(second).collect();
            let observer = Observer::new(Arc::clone(policy), Pivots::Objects(pivots), Tick(0));
            publisher.add(observer.in_team(avatars[at].team));
        }
        Field { publisher, avatars }
    }

    /// Moves all avatars a little and some far; returns what is sent.
    fn round(&mut self, tick: u32, side: f64) -> Vec<(u32, Vec<u8>)> {
        let mut rng = Rng::with_seed(u64::from(tick));
        for (at, avatar) in self.avatars.iter_mut().enumerate() {
            let at_now = avatar.point();
            let mut drawn = |by: f64| by * (rng.f64() - 0.5);
            let (dx, dy) = (drawn(0.5), drawn(0.5));
            let lean = if (at + tick as usize / 60).is_multiple_of(2) { 0.15 } else { -0.15 };
            let jumps = rng.u32(..2_000) == 0;
            let by = if jumps { 40.0 } else { 0.0 };
            let keep = |at: f64| at.clamp(0.0, side);
            let to = Point::new(keep(at_now.x + dx + lean + by), keep(at_now.y + dy + lean));
            avatar.pos = position(Place::near(to));
            let slot = self.publisher.store.find(Avatar::of(at as u32 + 1)).expect("there");
            self.publisher.store.set(slot, avatar).expect("its own kind");
        }
        let now = Micros::from_millis(50 * u64::from(tick));
        let mut sent = Vec::new();
        self.publisher.round(Tick(tick), now, |to, packet| sent.push((to, packet.to_vec())));
        for (to, packet) in &sent {
            // Some are lost.
            if rng.u32(..20) > 0 {
                let newest = u16::from_le_bytes([packet[1], packet[2]]);
                let ack = Ack { newest, before: u32::MAX };
                self.publisher.on_ack(*to, &ack, now + Micros::from_millis(20));
            }
        }
        sent.into_iter().map(|(to, packet)| (to.0, packet)).collect()
    }
}

#[test]
fn pairs_behind_walls_rest_and_the_same_bytes_are_sent() {
    let arena = Arena::new(Setup::for_players(40, 7)).expect("valid");
    let walls = [true, false].map(|says| {
        let walls = Walls { map: Arc::clone(arena.map()), slack: 2.0 };
        Arc::new(Counting { walls, says, asked: AtomicUsize::new(0) })
    });
    let provider = |at: usize| Arc::clone(&walls[at]) as Arc<dyn Visibility>;
    let mut fields = [0, 1].map(|at| Field::new(&arena, &policy(provider(at))));
    let mut bytes = 0;
    for tick in 1..=600 {
        let [one, two] = fields.each_mut().map(|field| field.round(tick, arena.map().side()));
        assert_eq!(one, two, "tick {tick}");
        bytes += one.iter().map(|(_, packet)| packet.len()).sum::<usize>();
    }
    assert!(bytes > 100_000, "{bytes}");
    let [resting, plain] = fields.map(|field| field.publisher.totals().broken);
    assert_eq!(resting, plain);
    let [resting, plain] = walls.map(|walls| walls.asked.load(Ordering::Relaxed));
    assert!(10 * resting < 9 * plain, "{resting} of {plain}");
}
