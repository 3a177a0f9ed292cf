//! Actions on objects that other peers own are done, and done once. The game counts what is done to an object, so that
//! doing it twice shows.

use foveate_lab::net::Latency;
use foveate_lab::peers::{NetSpec, PeerNet};
use foveate_node::game::{Game, PlayerId, Requester, Spawn, StepContext, World};
use foveate_node::peer::{PeerCounts, PeerSettings};
use foveate_sync::interest::{View, presets};
use foveate_wire::{KindId, Metres, Micros, ObjectId, Replicate, Schema};
use std::sync::Arc;

const ROUND: Micros = Micros(50_000);
const VIEW: f32 = 500.0;
const BELL: KindId = KindId(1);
const BELLS: u32 = 12;

#[derive(Clone, PartialEq, Debug, Replicate)]
struct Ringer {
    #[replicate(place, precision = 0.0625, extent = 8192.0)]
    pos: [f32; 2],
}

#[derive(Clone, PartialEq, Debug, Replicate)]
struct Bell {
    #[replicate(place, precision = 0.0625, extent = 8192.0)]
    pos: [f32; 2],
    rings: u16,
}

/// No player moves; a bell that is acted on rings.
struct Belfry(Arc<Schema>);

impl Game for Belfry {
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
        let bell = |nth| Bell { pos: [20.0 * nth as f32, 0.0], rings: 0 };
        (0..BELLS).filter_map(|nth| Spawn::new(&self.0, &bell(nth))).collect()
    }

    fn welcome(&self, _: &World<'_>, player: PlayerId, _: &str) -> Vec<Spawn> {
        let pos = [(player.0 % 240) as f32, 10.0];
        Spawn::new(&self.0, &Ringer { pos }).into_iter().collect()
    }

    fn step(&self, _: &mut StepContext<'_, Self>, _: &[u8]) {}

    fn act(&self, turn: &mut StepContext<'_, Self>, times: &u8, _: Requester) {
        if let Some(mut bell) = turn.get::<Bell>() {
            bell.rings += u16::from(*times);
            turn.set(&bell);
        }
    }

    fn view(&self, which: u8) -> Option<View> {
        (which == 0).then(|| presets::circle(VIEW))
    }
}

fn run(net: &mut PeerNet<Belfry>, seconds: u64) {
    net.run_until(net.now() + Micros(seconds * 1_000_000), |_, _, _, _| {});
}

/// The owner of a bell, and how often it has rung.
fn bell(net: &PeerNet<Belfry>, id: ObjectId) -> (usize, u16) {
    let mut owners = net.present().filter(|(_, node)| node.peer.owned().any(|it| it.0 == id));
    let (at, node) = owners.next().expect("a peer owns it");
    assert!(owners.next().is_none(), "{id:?} has two owners");
    (at, node.peer.world().get::<Bell>(id).expect("the owner has it").rings)
}

#[test]
fn an_action_on_another_peers_object_is_done_once() {
    let schema = Schema::new(vec![Ringer::spec(), Bell::spec()]).expect("a schema");
    let spec = NetSpec {
        round: ROUND,
        // A round trip takes longer than the half second after which a peer repeats an action: of 20 actions some are
        // sent twice.
        latency: Latency::Uniform(Micros(120_000), Micros(160_000)),
        loss: 0.2,
        relayed: 0.0,
        queue: 64 << 10,
        seed: 9,
    };
    let mut net = PeerNet::new(Arc::new(Belfry(Arc::new(schema))), spec);
    for contact in [None, Some(0), Some(0), Some(1)] {
        net.enter(contact, None, |address| PeerSettings::new(ROUND, Metres(VIEW), address));
        run(&mut net, 5);
    }
    let bells = (0..BELLS).map(|nth| ObjectId::new(BELL, 0, nth));
    // A peer can only act on an object that it knows.
    let ghosts = &net.nodes[1].as_ref().expect("present").peer.simulation.ghosts;
    let theirs = bells.filter(|id| ghosts.lanes(*id).is_some() && bell(&net, *id).0 != 1);
    let others: Vec<ObjectId> = theirs.collect();
    assert!(others.len() > 2, "{others:?}");
    for id in &others {
        let asker = &mut net.nodes[1].as_mut().expect("present").peer;
        assert!(asker.ask(*id, 1) && asker.ask(*id, 10));
    }
    run(&mut net, 10);
    let rung: Vec<u16> = others.iter().map(|id| bell(&net, *id).1).collect();
    assert_eq!(rung, vec![11; others.len()]);
    let counts: Vec<PeerCounts> = net.present().map(|(_, node)| *node.peer.counts()).collect();
    assert!(counts.iter().all(|it| it.asks_lost + it.taken_over == 0), "{counts:?}");
}
