//! With lossless links and ample budget, every pair is within its bounds in every round, whatever the engine skips.

mod common;

use common::{AuditSummary, World};
use foveate_lab::avatar::AvatarSpec;
use foveate_lab::movement::{AvatarPose, Crowd, Movement, Recorded, Waypoint, WaypointSpec};
use foveate_lab::trace::Trace;
use foveate_sync::interest::{View, presets};
use foveate_wire::Micros;
use std::path::Path;

const ROUND: Micros = Micros(50_000);

/// All presets, and VFC with a bound on missed changes.
fn views(side: f32) -> Vec<(&'static str, View)> {
    let (near, middle) = (0.2 * side, 0.4 * side);
    let mut counted = presets::vfc(near, middle);
    for (zone, missed) in counted.kappa.iter_mut().zip([1, 2, 5]) {
        zone[0].missed = Some(missed);
    }
    // Far away θ is long, so replicas are rarely checked; but ahead only few changes may be missed.
    let mut slow = presets::normal(near, middle);
    slow.kappa[2].iter_mut().for_each(|bound| bound.age_ms = Some(500));
    slow.kappa.iter_mut().for_each(|zone| zone[0].missed = Some(2));
    vec![
        ("slow with σ ahead", slow),
        ("normal", presets::normal(near, middle)),
        ("zoom", presets::zoom(near, middle)),
        ("vfc", presets::vfc(near, middle)),
        ("vfc with σ", counted),
        ("a3", presets::a3(middle, 250)),
        ("a3, every round", presets::a3(middle, 0)),
        ("circle", presets::circle(middle)),
        ("broadcast", presets::broadcast()),
    ]
}

/// Checks the bounds of a movement under every view.
fn judge<M: Movement>(make: impl Fn() -> M, spec: AvatarSpec, rounds: u32) {
    judge_under(views(make().side()), make, spec, rounds);
}

/// Checks the bounds of a movement under some views.
fn judge_under<M: Movement>(
    views: Vec<(&'static str, View)>,
    make: impl Fn() -> M,
    spec: AvatarSpec,
    rounds: u32,
) {
    let mut broken = Vec::new();
    for (name, view) in views {
        let world = World::new(make(), view.build().unwrap(), spec, ROUND);
        let summary: AuditSummary = world.judge(rounds);
        assert!(summary.audited.samples > 10_000, "{name}: {summary:?}");
        assert_eq!(summary.scheduled, 1.0, "{name}: the engine's own count");
        if summary.audited.broken > 0 {
            broken.push(format!("{name}: {summary:#?}"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// An engine that keeps looser bounds than it should counts no violations. The auditor does.
#[test]
fn the_auditor_finds_what_the_scheduler_does_not_count() {
    let make = || Crowd::new(16, 20.0, 5);
    let (near, middle) = (0.2 * make().side(), 0.4 * make().side());
    let stated = presets::normal(near, middle);
    let mut late = stated.clone();
    late.kappa[2].iter_mut().for_each(|bound| bound.age_ms = bound.age_ms.map(|age| age + 100));
    let mut narrow = stated.clone();
    narrow.fields[0] = 60.0;
    for (name, kept) in [("late", late), ("narrow", narrow)] {
        let world =
            World::new(make(), kept.build().unwrap(), AvatarSpec::of(&make(), 1.0 / 64.0), ROUND);
        let summary = world.judged_by(stated.build().unwrap()).judge(400);
        assert_eq!(summary.scheduled, 1.0, "{name}");
        let AuditSummary { audited, .. } = summary;
        assert!(audited.broken > 10 && audited.kept() < 1.0, "{name}: {audited:?}");
    }
}

#[test]
fn bounds_hold_for_places_that_are_not_predicted() {
    let make = || {
        let spec = WaypointSpec {
            count: 24,
            side: 200.0,
            speed: [2.0, 8.0],
            pause: [0.0, 1.0],
            leg: f32::INFINITY,
            rate: 20.0,
        };
        Waypoint::new(spec, 5)
    };
    let spec = AvatarSpec { motion: false, ..AvatarSpec::of(&make(), 1.0 / 32.0) };
    judge(make, spec, 300);
}

#[test]
fn lossless_and_budget_to_spare_keeps_every_bound() {
    for (seed, pause, leg) in [(1, [0.0, 3.0], 40.0), (2, [0.0, 0.0], f32::INFINITY)] {
        let spec =
            WaypointSpec { count: 24, side: 300.0, speed: [2.0, 10.0], pause, leg, rate: 20.0 };
        let make = || Waypoint::new(spec, seed);
        judge(make, AvatarSpec::of(&make(), 1.0 / 64.0), 600);
    }
}

#[test]
fn bounds_hold_for_a_crowd_that_sways_and_stops() {
    let make = || Crowd::new(24, 20.0, 5);
    judge(make, AvatarSpec::of(&make(), 1.0 / 64.0), 600);
}

#[test]
fn bounds_hold_for_walkers_among_walls() {
    let make = || Corridors::new(24, 7);
    judge(make, AvatarSpec::of(&make(), 1.0 / 256.0), 800);
}

#[test]
fn bounds_hold_for_recorded_players() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/openarena_oa_dm3_16bots.csv.gz");
    let trace = Trace::read(&path).unwrap();
    let make = || Recorded::new(&trace, 50.0).unwrap();
    let spec = AvatarSpec { fall: make().fall(0.125), ..AvatarSpec::of(&make(), 0.125) };
    judge(make, spec, 1_200);
}

/// A walker that turns back at full speed separates from its replica as fast as possible. Where θ allows long
/// intervals, ν and the edges of the zones decide when a pair is checked again.
#[test]
fn bounds_hold_for_walkers_that_turn_back_at_full_speed() {
    let make = || Shuttles::new(32, 11);
    let (near, middle) = (0.1 * Shuttles::SIDE, 0.25 * Shuttles::SIDE);
    let patient = |shares: [f32; 3], absolute: bool| {
        let mut view = presets::vfc(near, middle);
        for (zone, share) in view.kappa.iter_mut().zip(shares) {
            zone[0].age_ms = Some(2_000);
            (zone[0].share, zone[0].error) = match absolute {
                true => (None, Some(share * middle)),
                false => (Some(share), None),
            };
        }
        view
    };
    let views = vec![
        ("by share", patient([0.05, 0.05, 0.05], false)),
        ("by zones", patient([0.0, 0.02, 0.10], false)),
        ("by length", patient([0.0, 0.05, 0.20], true)),
    ];
    judge_under(views, make, AvatarSpec::of(&make(), 1.0 / 64.0), 2_000);
}

/// Walkers at full speed, straight, that turn back or aside at any moment.
struct Shuttles {
    rng: fastrand::Rng,
    walkers: Vec<(AvatarPose, f32)>,
}

impl Shuttles {
    const SIDE: f32 = 150.0;
    const STEP: f32 = 0.5;

    fn new(count: usize, seed: u64) -> Shuttles {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut walker = || {
            let pos = [rng.f32() * Shuttles::SIDE, rng.f32() * Shuttles::SIDE, 0.0];
            (AvatarPose { pos, ..AvatarPose::default() }, rng.f32() * std::f32::consts::TAU)
        };
        let walkers = (0..count).map(|_| walker()).collect();
        Shuttles { rng, walkers }
    }
}

impl Movement for Shuttles {
    fn len(&self) -> usize {
        self.walkers.len()
    }

    fn step(&mut self) -> bool {
        for (pose, heading) in &mut self.walkers {
            let centre = [0, 1].map(|axis| Shuttles::SIDE / 2.0 - pose.pos[axis]);
            let outside = centre.iter().any(|off| off.abs() > Shuttles::SIDE / 2.0);
            if outside {
                *heading = centre[1].atan2(centre[0]);
            } else if self.rng.u32(..25) == 0 {
                *heading += std::f32::consts::PI;
            } else if self.rng.u32(..100) == 0 {
                *heading = self.rng.f32() * std::f32::consts::TAU;
            }
            pose.pos[0] += heading.cos() * Shuttles::STEP;
            pose.pos[1] += heading.sin() * Shuttles::STEP;
        }
        true
    }

    fn pose(&self, at: usize) -> Option<AvatarPose> {
        self.walkers.get(at).map(|(pose, _)| *pose)
    }

    fn side(&self) -> f32 {
        Shuttles::SIDE
    }

    fn extent(&self) -> f32 {
        2.0 * Shuttles::SIDE
    }

    fn max_speed(&self) -> f32 {
        Shuttles::STEP * 20.0
    }
}

/// Movement as in the arena: along corridors, with inertia, stopping at walls, looking around while waiting, with
/// occasional respawns elsewhere.
struct Corridors {
    rng: fastrand::Rng,
    walkers: Vec<Walker>,
}

struct Walker {
    pose: AvatarPose,
    speed: f32,
    heading: f32,
    gaze: f32,
    /// Rounds until the next decision.
    left: u32,
}

impl Corridors {
    const SIDE: f32 = 256.0;
    const MAX_STEP: f32 = 0.5;

    fn new(count: usize, seed: u64) -> Corridors {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut walker = || {
            let pos = [rng.f32() * Corridors::SIDE, rng.f32() * Corridors::SIDE, 0.0];
            let pose = AvatarPose { pos, ..AvatarPose::default() };
            Walker { pose, speed: 0.0, heading: 0.0, gaze: 0.0, left: 0 }
        };
        let walkers = (0..count).map(|_| walker()).collect();
        Corridors { rng, walkers }
    }
}

impl Movement for Corridors {
    fn len(&self) -> usize {
        self.walkers.len()
    }

    fn step(&mut self) -> bool {
        let Corridors { rng, walkers } = self;
        for walker in walkers {
            if walker.left == 0 {
                walker.left = rng.u32(1..60);
                walker.heading = rng.f32() * std::f32::consts::TAU;
                walker.gaze = rng.f32() * std::f32::consts::TAU;
                // A third waits; one in twenty respawns elsewhere.
                let wish = rng.f32();
                walker.speed = if wish < 0.3 { 0.0 } else { walker.speed };
                if wish > 0.95 {
                    walker.pose.pos = [0; 3].map(|_| rng.f32() * Corridors::SIDE);
                    walker.pose.pos[2] = 0.0;
                }
                walker.pose.state = if wish > 0.9 { rng.u8(..4) } else { walker.pose.state };
            }
            walker.left -= 1;
            let waits = walker.speed == 0.0 && walker.left % 7 != 0;
            let push = if waits { 0.0 } else { 0.15 };
            walker.speed = (walker.speed + push).min(Corridors::MAX_STEP);
            let step = if waits { 0.0 } else { walker.speed };
            let way = [walker.heading.cos() * step, walker.heading.sin() * step];
            for (axis, way) in way.into_iter().enumerate() {
                let to = walker.pose.pos[axis] + way;
                // Walls every 16 units, along which a walker slides.
                let blocked = (to / 16.0).floor() != (walker.pose.pos[axis] / 16.0).floor()
                    && walker.left % 5 != 0;
                if (0.0..Corridors::SIDE).contains(&to) && !blocked {
                    walker.pose.pos[axis] = to;
                }
            }
            let turn = (walker.gaze - walker.pose.yaw).clamp(-0.3, 0.3);
            walker.pose.yaw += turn;
        }
        true
    }

    fn pose(&self, at: usize) -> Option<AvatarPose> {
        self.walkers.get(at).map(|walker| walker.pose)
    }

    fn side(&self) -> f32 {
        Corridors::SIDE
    }

    fn extent(&self) -> f32 {
        Corridors::SIDE
    }

    fn max_speed(&self) -> f32 {
        Corridors::MAX_STEP * 20.0
    }
}
