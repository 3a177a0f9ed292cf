//! Sessions in virtual time: every violation has a cause, and a seed gives the same bytes.

use foveate_lab::audit::{Broken, Findings};
use foveate_lab::avatar::AvatarSpec;
use foveate_lab::movement::{Crowd, Movement};
use foveate_lab::net::{Latency, LinkSpec, Loss};
use foveate_lab::session::{Session, SessionSpec};
use foveate_sync::interest::presets;
use foveate_wire::{Bytes, Metres, Micros};

const ROUND: Micros = Micros(50_000);

const BAD: LinkSpec = LinkSpec {
    latency: Latency::Normal(Micros(80_000), Micros(20_000)),
    loss: Loss::Bursty { share: 0.05, burst: 3.0 },
    ..LinkSpec::PERFECT
};

/// The findings of a number of rounds, and the digest of all packets.
fn run(link: LinkSpec, budget: Option<Bytes>, seed: u64, rounds: u32) -> (Findings, u64) {
    let movement = Crowd::new(16, 20.0, seed);
    let side = movement.side();
    let avatar = AvatarSpec::of(&movement, 1.0 / 64.0);
    let policy = presets::normal(0.2 * side, 0.4 * side).build().unwrap();
    let spec = SessionSpec {
        round: ROUND,
        policy,
        down: link,
        up: link,
        budget,
        avatar,
        seed,
        audited: true,
    };
    let mut session = Session::new(movement, spec).unwrap().binned(Metres(20.0), 12);
    for _ in 0..rounds {
        assert!(session.round().unwrap());
    }
    let digest = session.digest();
    (session.findings(), digest)
}

#[test]
fn with_a_perfect_link_observed_and_audited_bounds_agree() {
    let (found, _) = run(LinkSpec::PERFECT, None, 1, 600);
    assert_eq!((found.kept, found.causes.total()), (found.samples, 0));
    assert_eq!(found.counters.bounds_scheduled(), 1.0);
    assert_eq!((found.bounds_audited(), found.sender.samples), (1.0, found.samples));
    assert_eq!(
        found.relayed,
        600 * 16 * 15,
        "no recording: each player to all others in each round"
    );
    assert_eq!(found.longest_wait, found.longest_sender_wait);
    let binned: u64 = found.by_distance.iter().map(|bin| bin.error.count()).sum();
    assert!(binned > 0 && binned <= found.samples);
}

#[test]
fn every_observed_violation_has_a_cause() {
    let worse = LinkSpec { reorder: 0.1, duplicate: 0.1, ..BAD };
    for (seed, link) in [(1, BAD), (2, BAD), (3, worse), (4, worse)] {
        let (found, _) = run(link, None, seed, 1_200);
        assert_eq!(found.counters.bounds_scheduled(), 1.0, "seed {seed}");
        assert_eq!(found.sender.broken, 0, "seed {seed}: {:#?}", found.sender.described);
        assert!(found.causes.latency > 0 && found.causes.loss > 0, "seed {seed}");
        assert_eq!(found.causes.budget, 0, "seed {seed}: something was never sent");
        assert_eq!(found.malformed, 0, "seed {seed}");
        let by_bound: u64 = found.violations.iter().flatten().map(|causes| causes.total()).sum();
        assert_eq!(
            by_bound + found.kept,
            found.samples,
            "seed {seed}: each has a zone and a bound"
        );
    }
}

#[test]
fn with_a_budget_of_a_few_bytes_all_objects_still_become_known() {
    // Less than a record per round, and far less than a first state.
    let (found, _) = run(LinkSpec::PERFECT, Some(Bytes(6)), 1, 2_400);
    assert!(found.longest_first_wait < Micros::from_secs(30.0), "{:?}", found.longest_first_wait);
    let unknown = found.violations.iter().map(|bounds| bounds[Broken::Unknown as usize].budget);
    assert!(unknown.sum::<u64>() < found.samples / 4);
    let (audited, scheduled) = (found.bounds_audited(), found.counters.bounds_scheduled());
    assert!(audited < 0.9 && (audited - scheduled).abs() < 0.1, "{audited}, {scheduled}");
    let bytes = found.bytes_per_round();
    assert!((5.0..6.2).contains(&bytes), "the budget is used, and kept: {bytes}");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for budget in [None, Some(Bytes(20))] {
        let digest = |seed| run(BAD, budget, seed, 300).1;
        assert_eq!(digest(7), digest(7));
        assert_ne!(digest(7), digest(8));
    }
}

/// Errors are separated by zone and field of view: objects behind may be further off than those ahead.
#[test]
fn errors_are_counted_by_zone_and_field() {
    let (found, _) = run(LinkSpec::PERFECT, None, 1, 1_200);
    let (ahead, behind) = (&found.degrees_by_class[6], &found.degrees_by_class[8]);
    assert!(ahead.count() > 1_000 && behind.count() > 1_000);
    assert!(ahead.mean() < behind.mean(), "{} ahead, {} behind", ahead.mean(), behind.mean());
    let counted: u64 = found.degrees_by_class[..9].iter().map(|spread| spread.count()).sum();
    assert_eq!(counted, found.degrees.count(), "three zones and three fields");
}
