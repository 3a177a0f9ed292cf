//! A server that is stopped and started again on the same file.

#[path = "../examples/patrol/mod.rs"]
mod patrol;

use foveate::prelude::*;
use patrol::{Patrol, Walker};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// The patrol's rules, but players are kept.
struct Kept(Arc<Patrol>);

impl Game for Kept {
    type Input = [i8; 2];
    type Action = ();
    type Event = ();

    fn schema(&self) -> &Arc<Schema> {
        self.0.schema()
    }

    fn welcome(&self, world: &World<'_>, player: PlayerId, name: &str) -> Vec<Spawn> {
        self.0.welcome(world, player, name)
    }

    fn step(&self, turn: &mut StepContext<'_, Self>, inputs: &[[i8; 2]]) {
        let Some(mut walker) = turn.get::<Walker>() else { return };
        walker.pos[0] += inputs.len() as f32;
        turn.set(&walker);
    }

    fn keeps(&self, _: KindId) -> bool {
        true
    }

    fn view(&self, which: u8) -> Option<View> {
        self.0.view(which)
    }
}

/// Plays until the walker is beyond `goal`, stops the server, and returns where the walker began.
fn play(file: &std::path::Path, goal: f32) -> f32 {
    let game = Arc::new(Kept(Patrol::new().unwrap()));
    let server = Server::builder(Arc::clone(&game)).storage(file).bind("127.0.0.1:0");
    let mut server = server.unwrap();
    let trust = Trust::Pinned(server.certificate_hash().into_iter().collect());
    let address = server.address().unwrap().to_string();
    let mut client = Client::builder(game, "ada").trust(trust).start(&address).unwrap();
    let (began, mut first) = (Instant::now(), None);
    loop {
        assert!(began.elapsed() < PATIENCE, "the walker did not arrive");
        server.poll_step().unwrap();
        client.poll_step(|_, _| [1, 0]).unwrap();
        let walker = server.world().iter::<Walker>().next();
        if let Some((_, walker)) = walker {
            first.get_or_insert(walker.pos[0]);
            if walker.pos[0] >= goal {
                break;
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    server.close(Micros::from_millis(100)).unwrap().close().unwrap();
    first.unwrap()
}

#[test]
fn a_player_finds_everything_again_after_a_restart() {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("foveate-facade-{}.db", std::process::id()));
    assert_eq!(play(&file, 5.0), 0.0, "a new player begins at the start");
    assert!(play(&file, 8.0) >= 5.0, "a known player begins where it was");
    std::fs::remove_file(&file).unwrap();
}
