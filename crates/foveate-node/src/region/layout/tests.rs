use super::*;

const EXTENT: f32 = 100.0;

/// A layout of random cuts.
fn random(rng: &mut fastrand::Rng) -> Layout {
    let mut layout = Layout::new(7, Micros(50_000), ServerId(1));
    for _ in 0..rng.usize(..12) {
        let at = (rng.f32() - 0.5) * 2.0 * EXTENT;
        let region = layout.region_at([at, (rng.f32() - 0.5) * 2.0 * EXTENT]);
        // Cuts outside of the region are refused, which is fine here.
        let _ = layout.split(
            region,
            SplitLine { axis: rng.u8(..2), at },
            ServerId(rng.u32(1..5)),
            true,
        );
    }
    layout
}

fn place(rng: &mut fastrand::Rng) -> [f32; 2] {
    let far = if rng.u8(..10) == 0 { 1e6 } else { 2.0 * EXTENT };
    [0, 1].map(|_| (rng.f32() - 0.5) * far)
}

/// Every place has exactly one region, and the tree and the rectangles agree on it.
fn assert_partition(layout: &Layout, rng: &mut fastrand::Rng) {
    for _ in 0..50 {
        let at = place(rng);
        let holds: Vec<RegionId> =
            layout.leaves().filter(|(_, rect)| rect.contains(at)).map(|(id, _)| id).collect();
        assert_eq!(holds, [layout.region_at(at)], "{at:?} in {layout:?}");
    }
    let corners = layout.leaves().flat_map(|(_, rect)| [rect.min, [rect.min[0], rect.max[1]]]);
    for at in corners.filter(|at| at.iter().all(|it| it.is_finite())).collect::<Vec<_>>() {
        assert_eq!(layout.leaves().filter(|(_, rect)| rect.contains(at)).count(), 1, "{at:?}");
    }
}

#[test]
fn any_series_of_changes_leaves_one_region_at_each_place() {
    for seed in 0..300 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut layout = random(&mut rng);
        let mut ids: Vec<RegionId> = layout.regions().map(|it| it.0).collect();
        for _ in 0..20 {
            let region = layout.region_at(place(&mut rng));
            let at = (rng.f32() - 0.5) * 2.0 * EXTENT;
            let before = layout.clone();
            let done = match rng.u8(..5) {
                0 => layout
                    .split(region, SplitLine { axis: rng.u8(..2), at }, ServerId(2), false)
                    .map(|new| {
                        assert!(!ids.contains(&new), "ids are never used again");
                        ids.push(new);
                    }),
                1 => layout.move_split(region, at),
                2 => layout.replace(region, ServerId(3)).map(|heir| {
                    assert!(!ids.contains(&heir) && layout.rect(heir) == before.rect(region));
                    assert_eq!(layout.get(region).and_then(|it| it.successor), Some(heir));
                    ids.push(heir);
                }),
                3 => match layout.cuts().get(rng.usize(..8)) {
                    Some(cut) => layout.move_cut(cut, at),
                    None => Ok(()),
                },
                _ => layout.merge(region).map(|heir| {
                    assert!(layout.remove(region) && layout.rect(heir).is_some());
                }),
            };
            if done.is_err() {
                assert_eq!(layout, before, "what is refused changes nothing");
            }
            assert_partition(&layout, &mut rng);
            assert_eq!(Layout::read(&layout.write()), Ok(layout.clone()));
        }
    }
}

#[test]
fn cuts_name_what_is_on_their_sides_and_come_before_those_above() {
    for seed in 0..100 {
        let layout = random(&mut fastrand::Rng::with_seed(seed));
        let cuts = layout.cuts();
        assert_eq!(cuts.len() + 1, layout.leaves().count());
        for (at, cut) in cuts.iter().enumerate() {
            let axis = usize::from(cut.axis);
            let rect = |id: &RegionId| layout.rect(*id).unwrap();
            assert!(cut.low.iter().all(|id| rect(id).max[axis] <= cut.at));
            assert!(cut.high.iter().all(|id| rect(id).min[axis] >= cut.at));
            let all = |it: &RegionCut| [&it.low[..], &it.high[..]].concat();
            let above = cuts[..at].iter().any(|it| {
                all(it).len() > all(cut).len() && all(cut).iter().all(|id| all(it).contains(id))
            });
            assert!(!above, "{cuts:?}");
        }
    }
}

#[test]
fn neighbours_are_the_regions_within_the_border() {
    for seed in 0..100 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let layout = random(&mut rng);
        let within = rng.f32() * 40.0;
        for (region, rect) in layout.leaves() {
            let near = layout.neighbours(region, within);
            for (other, theirs) in layout.leaves().filter(|(other, _)| *other != region) {
                assert_eq!(near.contains(&other), theirs.gap(&rect) <= within);
                assert_eq!(
                    near.contains(&other),
                    layout.neighbours(other, within).contains(&region),
                    "being neighbours is mutual"
                );
            }
            // Whatever is within the border of a region belongs to it or to a neighbour.
            for _ in 0..20 {
                let at = place(&mut rng);
                if rect.distance(at) <= within {
                    let there = layout.region_at(at);
                    assert!(there == region || near.contains(&there));
                }
            }
        }
    }
}

#[test]
fn a_merged_region_hands_over_to_its_sibling_and_heirs_follow() {
    let mut layout = Layout::new(7, Micros(50_000), ServerId(1));
    let east =
        layout.split(RegionId(0), SplitLine { axis: 0, at: 0.0 }, ServerId(2), true).unwrap();
    let north_east = layout.split(east, SplitLine { axis: 1, at: 0.0 }, ServerId(3), true).unwrap();
    assert_eq!(layout.merge(RegionId(0)), Err(LayoutError::NoSibling(RegionId(0))));
    assert_eq!(layout.merge(north_east), Ok(east));
    assert_eq!(layout.region_at([5.0, 5.0]), east);
    assert_eq!(layout.merge(east), Ok(RegionId(0)));
    assert_eq!(layout.get(north_east).unwrap().successor, Some(RegionId(0)), "not a closing one");
    assert_eq!(layout.merge(RegionId(0)), Err(LayoutError::NoSibling(RegionId(0))));
    assert!(!layout.remove(RegionId(0)), "it has an area");
    assert_eq!(Layout::read(&layout.write()), Ok(layout.clone()));
}

#[test]
fn broken_records_are_refused_with_a_reason() {
    let text = |bytes: &[u8]| Layout::read(bytes).unwrap_err().to_string();
    let layout = Layout::new(7, Micros(50_000), ServerId(1));
    let bytes = layout.write();
    assert_eq!(text(&[9, 9]), "the layout record has version 9, this server reads version 1");
    assert_eq!(text(&bytes[..4]), "the layout record cannot be read: it is malformed");
    let broken = |change: &dyn Fn(&mut Layout)| {
        let mut broken = layout.clone();
        broken.split(RegionId(0), SplitLine { axis: 0, at: 0.0 }, ServerId(2), true).unwrap();
        change(&mut broken);
        text(&broken.write())
    };
    let tree = "the layout record has a broken tree: ";
    let cut = |low, high| TreeNode::Cut { axis: 0, at: 0.0, low, high };
    assert_eq!(
        broken(&|it| it.nodes[0] = cut(0, 2)),
        format!("{tree}a child does not come after its parent")
    );
    assert_eq!(
        broken(&|it| it.nodes[0] = cut(1, 1)),
        format!("{tree}a node has no parent, or two")
    );
    assert_eq!(
        broken(&|it| it.nodes[2] = TreeNode::Leaf(RegionId(0))),
        format!("{tree}a region has two areas")
    );
    assert_eq!(
        broken(&|it| assert!(it.regions.remove(&RegionId(1)).is_some())),
        format!("{tree}an area has no region")
    );
    let mut rng = fastrand::Rng::with_seed(1);
    let whole = random(&mut rng).write();
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(..bytes.len());
            bytes[at] = rng.u8(..);
        }
        if let Ok(layout) = Layout::read(&bytes) {
            assert_partition(&layout, &mut rng);
        }
    }
}
