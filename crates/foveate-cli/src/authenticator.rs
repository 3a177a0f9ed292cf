//! Which players may join, and what is kept of them: accounts as configured, or a peer's own player only.

use crate::config::{Config, Tokens};
use foveate_io::host::{Accounts, Authenticator, Kept, LoginReply};
use foveate_io::token::{Secret, Verifier};
use foveate_node::game::{Game, PlayerId};
use foveate_node::{Link, Simulation};
use foveate_wire::Tick;
use std::error::Error;

/// The authenticator of `foveate serve` and of a peer's window.
pub enum MainAuthenticator {
    /// Players by name, as configured.
    Accounts(Box<Accounts>),
    /// In a peer's window: every page that joins plays as this player, whose objects the peer keeps.
    Peer(PlayerId),
}

impl MainAuthenticator {
    /// Opens the configured storage, and restores the saved world into the simulation, or populates a new one.
    pub fn open<G: Game>(
        config: &Config,
        simulation: &mut Simulation<G>,
    ) -> Result<MainAuthenticator, Box<dyn Error>> {
        let verifier = match &config.tokens {
            Tokens::Open => None,
            Tokens::Secret(file) => Some(Verifier::new(Secret::read(file)?, &config.name)),
        };
        let mut accounts = match &config.storage {
            Some(path) => Accounts::in_file(path, simulation)?,
            None => {
                if verifier.is_some() {
                    tracing::warn!(
                        "tokens without storage: after a restart, tokens that were used before and \
                         have not expired are accepted again; state storage.path to remember them"
                    );
                }
                simulation.populate()?;
                Accounts::in_memory()
            }
        };
        if let Some(verifier) = verifier {
            accounts = accounts.with_tokens(verifier);
        }
        Ok(MainAuthenticator::Accounts(Box::new(accounts)))
    }

    /// Why the last write failed, if it did.
    pub fn trouble(&self) -> Option<String> {
        match self {
            MainAuthenticator::Accounts(accounts) => accounts.trouble(),
            MainAuthenticator::Peer(_) => None,
        }
    }

    /// Writes all pending changes.
    pub fn close(self) -> Result<(), Box<dyn Error>> {
        match self {
            MainAuthenticator::Accounts(accounts) => Ok(accounts.close()?),
            MainAuthenticator::Peer(_) => Ok(()),
        }
    }
}

impl Authenticator for MainAuthenticator {
    fn enter(&mut self, link: Link, name: &str, token: &[u8]) -> LoginReply {
        match self {
            MainAuthenticator::Accounts(accounts) => accounts.enter(link, name, token),
            MainAuthenticator::Peer(player) => LoginReply::Accepted(*player, Kept::new()),
        }
    }

    fn answered(&mut self) -> Option<(Link, LoginReply)> {
        match self {
            MainAuthenticator::Accounts(accounts) => accounts.answered(),
            MainAuthenticator::Peer(_) => None,
        }
    }

    fn joined(&mut self, player: PlayerId) {
        if let MainAuthenticator::Accounts(accounts) = self {
            accounts.joined(player);
        }
    }

    fn leave(&mut self, player: PlayerId, objects: Kept) {
        if let MainAuthenticator::Accounts(accounts) = self {
            accounts.leave(player, objects);
        }
    }

    fn on_round<G: Game>(&mut self, simulation: &mut Simulation<G>, tick: Tick) {
        if let MainAuthenticator::Accounts(accounts) = self {
            accounts.on_round(simulation, tick);
        }
    }

    fn on_close<G: Game>(&mut self, simulation: &Simulation<G>) {
        if let MainAuthenticator::Accounts(accounts) = self {
            accounts.on_close(simulation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::CliOverrides;
    use foveate_arena::{Arena, Setup};
    use foveate_io::storage::Storage;
    use foveate_node::session::Refusal;
    use foveate_sync::Rounds;
    use foveate_wire::Micros;
    use foveate_wire::schema::LANE_EPOCH;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::time::Duration;

    /// A game and the configuration of a server that stores it.
    struct Stored {
        folder: PathBuf,
        config: Config,
        game: Arc<Arena>,
    }

    fn stored(name: &str) -> Stored {
        let folder = std::env::temp_dir().join(format!("foveate-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let text = "[storage]\npath = \"world.db\"\n";
        let file = folder.join("foveate.toml");
        let config = Config::parse(&file, text, CliOverrides::default()).unwrap();
        Stored { folder, config, game: Arc::new(Arena::new(Setup::for_players(8, 1)).unwrap()) }
    }

    #[test]
    fn a_world_is_saved_whole_before_its_first_round_and_after_its_last() {
        let Stored { folder, config, game } = stored("authenticator");
        let mut simulation = Simulation::new(game, Rounds::every(Micros(50_000)));
        let kept = |simulation: &Simulation<Arena>| -> Kept {
            let store = &simulation.publisher.store;
            let kept = store.iter().filter(|(id, _)| simulation.game.keeps(id.kind()));
            let mut kept: Kept = kept.map(|(id, slot)| (id, store.lanes(slot).to_vec())).collect();
            kept.sort();
            kept
        };
        let saved = |simulation: &Simulation<Arena>| -> Kept {
            let storage =
                Storage::open(&folder.join("world.db"), simulation.game.schema()).unwrap();
            storage.world().unwrap().into_iter().map(|saved| (saved.id, saved.lanes)).collect()
        };
        MainAuthenticator::open(&config, &mut simulation).unwrap().close().unwrap();
        assert!(!saved(&simulation).is_empty());
        assert_eq!(saved(&simulation), kept(&simulation));

        // All of it again at the end, whatever has changed since it was last saved.
        let mut simulation =
            Simulation::new(Arc::clone(&simulation.game), Rounds::every(Micros(50_000)));
        let mut authenticator = MainAuthenticator::open(&config, &mut simulation).unwrap();
        for (id, mut lanes) in kept(&simulation) {
            lanes[LANE_EPOCH] += 1;
            let slot = simulation.publisher.store.find(id).unwrap();
            simulation.publisher.store.set_lanes(slot, &lanes).unwrap();
        }
        authenticator.on_close(&simulation);
        authenticator.close().unwrap();
        assert_eq!(saved(&simulation), kept(&simulation));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn objects_created_and_removed_at_run_time_are_so_after_a_restart() {
        let Stored { folder, config, game } = stored("made");
        let spawn = game.populate().into_iter().find(|it| game.keeps(it.kind)).unwrap();
        let (mut made, mut there) = (Vec::new(), Vec::new());
        for run in 0..3 {
            let mut simulation = Simulation::new(Arc::clone(&game), Rounds::every(Micros(50_000)));
            let mut authenticator = MainAuthenticator::open(&config, &mut simulation).unwrap();
            let store = &simulation.publisher.store;
            let kept: Vec<_> = store.iter().map(|it| it.0).filter(|id| id.is_minted()).collect();
            assert_eq!(kept, there, "run {run}");
            let new: Vec<_> =
                (0..4).filter_map(|_| simulation.create(PlayerId(0), &spawn)).collect();
            assert!(new.iter().all(|id| !made.contains(id)), "{new:?} among {made:?}");
            made.extend(new);
            there.extend(&made[made.len() - 4..]);
            (1..=8).for_each(|tick| authenticator.on_round(&mut simulation, Tick(tick)));
            authenticator.close().unwrap();
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn players_are_told_when_storage_fails() {
        let Stored { folder, config, game } = stored("away");
        let mut simulation = Simulation::new(game, Rounds::every(Micros(50_000)));
        let mut authenticator = MainAuthenticator::open(&config, &mut simulation).unwrap();
        std::fs::rename(folder.join("world.db"), folder.join("moved.db")).unwrap();
        let mut reply = authenticator.enter(Link(1), "ada", b"");
        let deadline = std::time::Instant::now() + Duration::from_secs(120);
        while reply == LoginReply::Pending {
            assert!(std::time::Instant::now() < deadline, "no answer");
            std::thread::sleep(Duration::from_millis(1));
            reply = authenticator.answered().map_or(LoginReply::Pending, |(_, reply)| reply);
        }
        assert_eq!(reply, LoginReply::Rejected(Refusal::Storage));
        assert!(
            authenticator.trouble().is_some_and(|trouble| trouble.contains("was moved or deleted"))
        );
        // Unsaved changes cannot be saved, since the file is gone.
        assert!(authenticator.close().is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
