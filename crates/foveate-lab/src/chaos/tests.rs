use super::*;

const MINUTE: Micros = Micros(60_000_000);

#[test]
fn invariants_hold_while_everything_breaks() {
    let mut failed = Vec::new();
    for seed in 1..=10 {
        let report = run(ChaosSpec::new(seed, MINUTE * 6)).unwrap();
        println!(
            "{seed} {:?} {:?} {:?}",
            report.counts,
            report.coverage.total(),
            report.coverage.least()
        );
        failed.extend(report.violations.first().map(|it| (seed, it.clone())));
    }
    assert_eq!(failed, []);
}

#[test]
fn every_planted_bug_is_found() {
    for flaw in Flaw::ALL {
        let found = (1..=10).find_map(|seed| {
            let spec = ChaosSpec { flaw: Some(flaw), ..ChaosSpec::new(seed, MINUTE * 6) };
            let report = run(spec).unwrap();
            report.violations.first().map(|it| (seed, it.clone()))
        });
        println!("{flaw:?}: {found:?}");
    }
}

#[test]
fn a_seed_replays_a_run_to_the_byte() {
    let digest = |seed| run(ChaosSpec::new(seed, MINUTE)).unwrap().digest;
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}
