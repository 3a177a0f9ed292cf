//! Who may come in, and what is kept of them: tokens and storage, as the configuration has them; or a peer's
//! own player and nobody else.

use crate::config::{Config, Tokens};
use foveate_io::host::{AllowAll, Authenticator, Kept, LoginReply};
use foveate_io::storage::{Storage, Writer};
use foveate_io::token::{Secret, TokenClaim, TokenError, Verifier};
use foveate_io::unix_now;
use foveate_node::game::{Game, PlayerId};
use foveate_node::node::ServerCommand;
use foveate_node::persistence::PlayerRegistry;
use foveate_node::session::Refusal;
use foveate_node::{IdAllocator, Link, Simulation};
use std::error::Error;

/// The authenticator of `foveate serve`, and of a peer's window.
pub struct MainAuthenticator {
    verifier: Option<Verifier>,
    keeper: Keeper,
}

/// Where players are kept.
enum Keeper {
    /// Nowhere: numbers are handed out as they come.
    Memory(AllowAll),
    /// With their peer: whoever comes in is this player.
    Peer(PlayerId),
    /// In a file.
    File(Box<PlayerRegistry<Writer>>),
}

impl MainAuthenticator {
    /// Opens what the configuration names, and puts the world that was kept into the simulation; a new one
    /// if there was none.
    pub fn open<G: Game>(
        config: &Config,
        simulation: &mut Simulation<G>,
    ) -> Result<MainAuthenticator, Box<dyn Error>> {
        let verifier = match &config.tokens {
            Tokens::Open => None,
            Tokens::Secret(file) => Some(Verifier::new(Secret::read(file)?, &config.name)),
        };
        let Some(path) = &config.storage else {
            simulation.populate()?;
            return Ok(MainAuthenticator { verifier, keeper: Keeper::Memory(AllowAll::default()) });
        };
        let mut storage = Storage::open(path, simulation.game.schema())?;
        simulation.ids = IdAllocator::for_server(storage.reserve_ids()?);
        let world = storage.world()?;
        for saved in &world {
            simulation.restore(saved.id, &saved.lanes)?;
        }
        if world.is_empty() {
            simulation.populate()?;
        }
        let used = storage.used_tokens()?;
        let mut registry = Box::new(PlayerRegistry::new(storage.write_behind()?, config.tick_hz));
        registry.used = used;
        // A new world is saved at once: of one that is half saved the other half would never be made.
        registry.save_all(simulation);
        Ok(MainAuthenticator { verifier, keeper: Keeper::File(registry) })
    }

    /// For a peer's window: every page that joins plays as the peer's player.
    pub fn of_peer(player: PlayerId) -> MainAuthenticator {
        MainAuthenticator { verifier: None, keeper: Keeper::Peer(player) }
    }

    /// After each tick: see [`PlayerRegistry::save`].
    pub fn save<G: Game>(&mut self, simulation: &mut Simulation<G>, tick: u32) {
        if let Keeper::File(registry) = &mut self.keeper {
            registry.save(simulation, tick);
        }
    }

    /// Saves everything that is to be kept: at the end.
    pub fn save_all<G: Game>(&mut self, simulation: &Simulation<G>) {
        if let Keeper::File(registry) = &mut self.keeper {
            registry.save_all(simulation);
        }
    }

    /// Why the last write failed, if it did.
    pub fn trouble(&self) -> Option<String> {
        match &self.keeper {
            Keeper::Memory(_) | Keeper::Peer(_) => None,
            Keeper::File(registry) => registry.storage.report().trouble,
        }
    }

    /// Writes what waits.
    pub fn close(self) -> Result<(), Box<dyn Error>> {
        match self.keeper {
            Keeper::Memory(_) | Keeper::Peer(_) => Ok(()),
            Keeper::File(registry) => Ok(registry.storage.close()?),
        }
    }

    /// What the token says, if it lets a player in under this name. Without a file it is used from now on; with one,
    /// the registry sees to that.
    fn check(&mut self, name: &str, token: &[u8]) -> Result<Option<TokenClaim>, Refusal> {
        let Some(verifier) = &mut self.verifier else { return Ok(None) };
        let text = std::str::from_utf8(token).map_err(|_| Refusal::Token)?;
        let refusal = |error| match error {
            TokenError::Expired(_) => Refusal::TokenExpired,
            TokenError::Replayed => Refusal::TokenReplayed,
            TokenError::Full => Refusal::Full,
            _ => Refusal::Token,
        };
        let now = unix_now();
        let claim = verifier.read(text, now).map_err(refusal)?;
        // A mistyped name has not used the token up.
        if claim.name != name {
            return Err(Refusal::Token);
        }
        if !matches!(self.keeper, Keeper::File(_)) {
            verifier.check(text, now).map_err(refusal)?;
        }
        Ok(Some(claim))
    }
}

/// A registry's answer as the host takes it.
fn reply(command: ServerCommand) -> Option<(Link, LoginReply)> {
    match command {
        ServerCommand::Admit(link, player, kept) => {
            Some((link, LoginReply::Accepted(player, kept)))
        }
        ServerCommand::Reject(link, why) => Some((link, LoginReply::Rejected(why))),
        _ => None,
    }
}

impl Authenticator for MainAuthenticator {
    fn enter(&mut self, link: Link, name: &str, token: &[u8]) -> LoginReply {
        let claim = match self.check(name, token) {
            Ok(claim) => claim.map(|claim| (claim.id, claim.expires)),
            Err(why) => return LoginReply::Rejected(why),
        };
        match &mut self.keeper {
            Keeper::Memory(door) => door.enter(link, name, token),
            Keeper::Peer(player) => LoginReply::Accepted(*player, Kept::new()),
            Keeper::File(registry) => {
                let command = registry.enter(link, name, claim, unix_now());
                command.and_then(reply).map_or(LoginReply::Pending, |(_, reply)| reply)
            }
        }
    }

    fn joined(&mut self, player: PlayerId) {
        if let Keeper::Memory(door) = &mut self.keeper {
            door.joined(player);
        }
    }

    fn answered(&mut self) -> Option<(Link, LoginReply)> {
        let Keeper::File(registry) = &mut self.keeper else { return None };
        registry.poll().and_then(reply)
    }

    fn leave(&mut self, player: PlayerId, objects: Kept) {
        match &mut self.keeper {
            Keeper::Memory(door) => door.leave(player, objects),
            // The objects are the peer's all the while.
            Keeper::Peer(_) => {}
            Keeper::File(registry) => registry.leave(player, &objects),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::CliOverrides;
    use foveate_arena::{Arena, Setup};
    use foveate_sync::Rounds;
    use foveate_wire::Micros;
    use foveate_wire::schema::LANE_EPOCH;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn a_world_is_saved_whole_before_its_first_round_and_after_its_last() {
        let folder = std::env::temp_dir().join(format!("foveate-door-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let text = "[storage]\npath = \"world.db\"\n";
        let config =
            Config::parse(&folder.join("foveate.toml"), text, CliOverrides::default()).unwrap();
        let game = Arc::new(Arena::new(Setup::for_players(8, 1)).unwrap());
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

        // And whole again at the end, whatever changed since it was saved last.
        let mut simulation =
            Simulation::new(Arc::clone(&simulation.game), Rounds::every(Micros(50_000)));
        let mut door = MainAuthenticator::open(&config, &mut simulation).unwrap();
        for (id, mut lanes) in kept(&simulation) {
            lanes[LANE_EPOCH] += 1;
            let slot = simulation.publisher.store.find(id).unwrap();
            simulation.publisher.store.set_lanes(slot, &lanes).unwrap();
        }
        door.save_all(&simulation);
        door.close().unwrap();
        assert_eq!(saved(&simulation), kept(&simulation));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_created_and_removed_at_run_time_is_so_after_a_restart() {
        let folder = std::env::temp_dir().join(format!("foveate-made-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let text = "[storage]\npath = \"world.db\"\n";
        let config =
            Config::parse(&folder.join("foveate.toml"), text, CliOverrides::default()).unwrap();
        let game = Arc::new(Arena::new(Setup::for_players(8, 1)).unwrap());
        let spawn = game.populate().into_iter().find(|it| game.keeps(it.kind)).unwrap();
        let (mut made, mut there) = (Vec::new(), Vec::new());
        for run in 0..3 {
            let mut simulation = Simulation::new(Arc::clone(&game), Rounds::every(Micros(50_000)));
            let mut door = MainAuthenticator::open(&config, &mut simulation).unwrap();
            let store = &simulation.publisher.store;
            let kept: Vec<_> = store.iter().map(|it| it.0).filter(|id| id.is_minted()).collect();
            assert_eq!(kept, there, "run {run}");
            let new: Vec<_> =
                (0..4).filter_map(|_| simulation.create(PlayerId(0), &spawn)).collect();
            assert!(new.iter().all(|id| !made.contains(id)), "{new:?} among {made:?}");
            made.extend(new);
            there.extend(&made[made.len() - 4..]);
            (1..=8).for_each(|tick| door.save(&mut simulation, tick));
            door.close().unwrap();
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn who_mistypes_a_name_has_not_used_the_token_up() {
        let folder = std::env::temp_dir().join(format!("foveate-names-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("secret"), [7; 32]).unwrap();
        let text = "[tokens]\nsecret = \"secret\"\n";
        let config =
            Config::parse(&folder.join("foveate.toml"), text, CliOverrides::default()).unwrap();
        let secret = Secret::read(&folder.join("secret")).unwrap();
        let token = crate::token::issue(&secret, "ada", None, Duration::from_secs(60)).unwrap();
        let game = Arc::new(Arena::new(Setup::for_players(8, 1)).unwrap());
        let mut simulation = Simulation::new(game, Rounds::every(Micros(50_000)));
        let mut door = MainAuthenticator::open(&config, &mut simulation).unwrap();
        assert_eq!(door.check("eda", token.as_bytes()), Err(Refusal::Token));
        assert!(door.check("ada", token.as_bytes()).is_ok());
        assert_eq!(door.check("ada", token.as_bytes()), Err(Refusal::TokenReplayed));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
