use super::*;

fn check(part: &PartResult) {
    part.tables.iter().for_each(|table| println!("{table}"));
    part.verdicts.iter().for_each(|it| println!("{} {}", it.figure(), it.holds));
    let broken: Vec<_> = part.verdicts.iter().filter(|it| it.required && !it.holds).collect();
    assert!(broken.is_empty(), "{broken:?}");
    assert!(!part.rows.is_empty());
}

const QUICK: PartSpec = PartSpec { quick: true, seed: 1 };

#[test]
fn regions_follow_load_and_nothing_is_lost() {
    check(&change::run(QUICK).unwrap());
}

#[test]
fn players_at_borders_are_told_as_well_as_others() {
    check(&capacity::run(QUICK).unwrap());
}

#[test]
fn news_spread_and_age() {
    check(&hearsay::run(QUICK).unwrap());
}

#[test]
fn hits_across_borders_take_effect_soon() {
    check(&hit::run(QUICK).unwrap());
}

#[test]
fn crowds_are_shared_by_helpers() {
    check(&crowd::run(QUICK).unwrap());
}
