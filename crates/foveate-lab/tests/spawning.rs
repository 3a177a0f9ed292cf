//! Objects that peers create during the game: ids of different creators never collide.

use foveate_lab::net::Latency;
use foveate_lab::peers::{NetSpec, PeerNet, PlacedPeer};
use foveate_node::game::{Game, PlayerId, Requester, Spawn, StepContext, World};
use foveate_node::peer::PeerSettings;
use foveate_sync::interest::{View, presets};
use foveate_wire::{KindId, Metres, Micros, ObjectId, Replicate, Schema};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const ROUND: Micros = Micros(50_000);
const APPLE: KindId = KindId(2);
const TREES: usize = 10;
/// Rounds in which an apple grows on a tree.
const RIPENS: u32 = 25;

#[derive(Replicate, Clone, PartialEq, Debug)]
#[replicate(max_speed = 10.0)]
struct Walker {
    #[replicate(place, motion)]
    pos: [f32; 2],
}

#[derive(Replicate, Clone, PartialEq, Debug)]
struct Tree {
    #[replicate(place)]
    pos: [f32; 2],
    made: u16,
}

#[derive(Replicate, Clone, PartialEq, Debug)]
struct Apple {
    #[replicate(place)]
    pos: [f32; 2],
}

/// Players that stand still, each among its own trees, on which apples grow.
struct Grove(Arc<Schema>);

impl Game for Grove {
    type Input = u8;
    type Action = u8;
    type Event = u8;

    fn schema(&self) -> &Arc<Schema> {
        &self.0
    }

    fn avatar(&self) -> KindId {
        KindId(0)
    }

    fn populate(&self) -> Vec<Spawn> {
        let tree = |n: usize| Tree { pos: [(n % 5) as f32 * 20.0, (n / 5) as f32 * 4.0], made: 0 };
        (0..TREES).filter_map(|n| Spawn::new(&self.0, &tree(n))).collect()
    }

    fn welcome(&self, world: &World<'_>, _: PlayerId, _: &str) -> Vec<Spawn> {
        let taken = world.of_kind(KindId(0)).len();
        let walker = Walker { pos: [taken as f32 * 20.0, 2.0] };
        Spawn::new(&self.0, &walker).into_iter().collect()
    }

    fn step(&self, turn: &mut StepContext<'_, Self>, _: &[u8]) {
        let Some(mut tree) = turn.get::<Tree>() else { return };
        if turn.tick().plus(turn.id().serial()).0.is_multiple_of(RIPENS) {
            tree.made += 1;
            turn.set(&tree);
            turn.spawn_world(&Apple { pos: [tree.pos[0] + 1.0, tree.pos[1]] });
        }
    }

    fn act(&self, _: &mut StepContext<'_, Self>, _: &u8, _: Requester) {}

    fn view(&self, which: u8) -> Option<View> {
        (which == 0).then(|| presets::circle(200.0))
    }
}

#[test]
fn ids_created_by_five_peers_never_collide() {
    let schema = Schema::new(vec![Walker::spec(), Tree::spec(), Apple::spec()]).unwrap();
    let spec = NetSpec {
        round: ROUND,
        latency: Latency::Constant(Micros::from_millis(20)),
        loss: 0.01,
        relayed: 0.0,
        queue: 1 << 20,
        seed: 5,
    };
    let mut net = PeerNet::new(Arc::new(Grove(Arc::new(schema))), spec);
    for n in 0..5u64 {
        let contact = (n > 0).then_some(0);
        net.enter(contact, None, |address| PeerSettings::new(ROUND, Metres(200.0), address))
            .unwrap();
        net.run_until(net.now() + Micros::from_millis(1_200), |_, _, _, _| {});
    }
    let mut minted: BTreeMap<ObjectId, BTreeSet<usize>> = BTreeMap::new();
    let began = net.now();
    while net.now() < began + Micros::from_secs(20.0) {
        net.run_until(net.now() + ROUND, |_, _, _, _| {});
        for (at, node) in net.present() {
            let new = node.peer.owned().filter(|(id, epoch)| id.kind() == APPLE && *epoch == 0);
            new.for_each(|(id, _)| _ = minted.entry(id).or_default().insert(at));
        }
    }
    net.run_until(net.now() + Micros::from_secs(4.0), |_, _, _, _| {});
    let trees = |made: u32, node: &PlacedPeer<Grove>| {
        let own = node.peer.owned().filter_map(|(id, _)| node.peer.world().get::<Tree>(id));
        made + own.map(|tree| u32::from(tree.made)).sum::<u32>()
    };
    let made = net.present().map(|(_, node)| node).fold(0, trees);
    let mut owners: BTreeMap<ObjectId, usize> = BTreeMap::new();
    for (id, _) in net.present().flat_map(|(_, node)| node.peer.owned()) {
        *owners.entry(id).or_default() += usize::from(id.kind() == APPLE);
    }
    owners.retain(|id, _| id.kind() == APPLE);
    let verdicts: usize = net.present().map(|(_, node)| node.verdicts.len()).sum();
    let (ids, copies) = (owners.len(), owners.values().sum::<usize>());
    let twice = minted.values().filter(|by| by.len() > 1).count();
    println!("made {made}, {ids} ids, {copies} copies, {twice} minted twice, {verdicts} verdicts");
    assert_eq!(twice, 0, "ids minted by two peers");
    assert_eq!(verdicts, 0, "honest peers named liars");
    assert_eq!((ids as u32, copies), (made, ids), "every apple made is there, with one owner");
}
