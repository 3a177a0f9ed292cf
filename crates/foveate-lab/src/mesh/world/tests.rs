//! What players notice when their links break, and nothing else goes wrong.

use super::super::faults::FaultSpec;
use super::super::run::{MeshSpec, ROUND, begin};
use super::clients::ClientHappening;
use super::*;

const TIME: Micros = Micros(120_000_000);
const PLAYERS: usize = 8;

fn world(seed: u64) -> MeshWorld {
    let spec = MeshSpec::small(FaultSpec::NONE, TIME, seed);
    begin(&MeshSpec { players: PLAYERS as u32, ..spec }).unwrap()
}

/// Since when each player that was in does not play.
#[derive(Default)]
struct Silences {
    since: BTreeMap<usize, Micros>,
    longest: Micros,
}

impl Silences {
    fn look(&mut self, world: &MeshWorld) {
        for (at, it) in world.clients.clients.iter().enumerate() {
            let began = self.since.get(&at).copied().unwrap_or(world.now());
            if it.away || world.plays(at) {
                self.since.remove(&at);
            } else if it.client.joined().is_some() || self.since.contains_key(&at) {
                self.since.insert(at, began);
                self.longest = self.longest.max(world.now() - began);
            }
        }
    }
}

#[test]
fn clients_that_lose_their_host_while_they_wait_at_the_next_server_play_on_soon() {
    let (mut world, mut silences, mut cuts) = (world(3), Silences::default(), 0);
    while world.now() < TIME {
        world.run_until(world.now() + ROUND);
        silences.look(&world);
        for at in 0..PLAYERS {
            let client = &world.clients.clients[at].client;
            let waits = client.has_ahead() && !client.awaits_link();
            if let Some(link) = client.host_link().filter(|_| waits && world.plays(at)) {
                world.on_client(ClientHappening::Ended(link));
                cuts += 1;
            }
        }
    }
    println!("{cuts} links, longest {:?}", silences.longest);
    assert!(cuts > 100, "{cuts} links were cut");
    assert!(silences.longest <= Micros(3_000_000), "{:?}", silences.longest);
}
