//! Who may come in, and what is kept of them: tokens and storage, as the configuration has them; or a peer's
//! own player only.

use crate::config::{Config, Tokens};
use foveate_io::UnixTime;
use foveate_io::host::{AllowAll, Authenticator, Kept, LoginReply};
use foveate_io::storage::{RESERVED, Storage, StorageChange, StorageError, Writer};
use foveate_io::token::{Secret, TokenError, Verifier};
use foveate_node::game::{Game, PlayerId};
use foveate_node::session::Refusal;
use foveate_node::{IdAllocator, Link, Simulation};
use std::collections::BTreeMap;
use std::error::Error;

/// Objects are saved in parts, one a tick: in so many at most,
const MAX_PARTS: u32 = 8;
/// and at slow rates in fewer, so that each of them is saved within half a second.
fn parts(tick_hz: u32) -> u32 {
    (tick_hz * 2 / 5).clamp(1, MAX_PARTS)
}

/// The authenticator of `foveate serve`, and of a peer's window.
pub struct MainAuthenticator {
    verifier: Option<Verifier>,
    keeper: Keeper,
}

/// Where players are kept.
enum Keeper {
    /// Nowhere: numbers are handed out as they come.
    Memory(AllowAll),
    /// With their peer: every session is this player's.
    Peer(PlayerId),
    /// In a file; who waits for an answer.
    File { writer: Box<Writer>, asked: BTreeMap<String, Link>, parts: u32 },
}

impl MainAuthenticator {
    /// Opens what the configuration names, and puts the world that was kept into the simulation; a new one
    /// if there was none.
    pub fn open<G: Game>(
        config: &Config,
        simulation: &mut Simulation<G>,
    ) -> Result<MainAuthenticator, Box<dyn Error>> {
        let mut verifier = match &config.tokens {
            Tokens::Open => None,
            Tokens::Secret(file) => Some(Verifier::new(Secret::read(file)?, &config.name)),
        };
        let Some(path) = &config.storage else {
            if verifier.is_some() {
                tracing::warn!(
                    "tokens without storage: after a restart, tokens that were used before and have \
                     not expired are accepted again; state storage.path to remember them"
                );
            }
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
        if let Some(verifier) = &mut verifier {
            for (id, until) in storage.used_tokens(UnixTime::now())? {
                verifier.remember(id, until);
            }
        }
        let writer = Box::new(storage.write_behind()?);
        let (asked, parts) = (BTreeMap::new(), parts(config.tick_hz));
        let mut door =
            MainAuthenticator { verifier, keeper: Keeper::File { writer, asked, parts } };
        // A new world is saved at once: of one that is half saved the other half would never be made.
        door.save_all(simulation);
        Ok(door)
    }

    /// For a peer's window: every page that joins plays as the peer's player.
    pub fn of_peer(player: PlayerId) -> MainAuthenticator {
        MainAuthenticator { verifier: None, keeper: Keeper::Peer(player) }
    }

    /// After each tick: saves the part of the kept objects whose turn it is, of which unchanged ones cost
    /// a comparison; forgets those that rules removed; and sees to it that numbers for new ids are left.
    pub fn save<G: Game>(&mut self, simulation: &mut Simulation<G>, tick: u32) {
        let Keeper::File { parts, writer, .. } = &mut self.keeper else { return };
        let removed = simulation.removed().iter().filter(|id| simulation.game.keeps(id.kind()));
        writer.save(removed.map(|id| StorageChange::Removed(*id)));
        if simulation.ids.left() < RESERVED / 2 {
            writer.reserve_ids(simulation.ids.next() + RESERVED);
            simulation.ids.extend_to(writer.reserved_ids());
        }
        let parts = *parts;
        self.save_some(simulation, |row| row % parts == tick % parts);
    }

    /// Saves all of them: at the beginning and at the end.
    pub fn save_all<G: Game>(&mut self, simulation: &Simulation<G>) {
        self.save_some(simulation, |_| true);
    }

    fn save_some<G: Game>(&mut self, simulation: &Simulation<G>, is_one: impl Fn(u32) -> bool) {
        let Keeper::File { writer, .. } = &mut self.keeper else { return };
        let store = &simulation.publisher.store;
        let some =
            store.iter().filter(|(id, slot)| simulation.game.keeps(id.kind()) && is_one(slot.0));
        writer.save(some.map(|(id, slot)| StorageChange::Saved(id, store.lanes(slot))));
    }

    /// Why the last write failed, if it did.
    pub fn trouble(&self) -> Option<String> {
        match &self.keeper {
            Keeper::Memory(_) | Keeper::Peer(_) => None,
            Keeper::File { writer, .. } => writer.report().trouble,
        }
    }

    /// Writes what waits.
    pub fn close(self) -> Result<(), Box<dyn Error>> {
        match self.keeper {
            Keeper::Memory(_) | Keeper::Peer(_) => Ok(()),
            Keeper::File { writer, .. } => Ok(writer.close()?),
        }
    }

    /// Whether the token admits a player under this name.
    fn check(&mut self, name: &str, token: &[u8]) -> Result<(), Refusal> {
        let Some(verifier) = &mut self.verifier else { return Ok(()) };
        let text = std::str::from_utf8(token).map_err(|_| Refusal::Token)?;
        let refusal = |error| match error {
            TokenError::Expired(_) => Refusal::TokenExpired,
            TokenError::Replayed => Refusal::TokenReplayed,
            TokenError::LivesTooLong(_) => Refusal::TokenClock,
            TokenError::Full => Refusal::Full,
            _ => Refusal::Token,
        };
        let now = UnixTime::now();
        // Who mistypes a name has not used the token up.
        if verifier.read(text, now).map_err(refusal)?.name != name {
            return Err(Refusal::Token);
        }
        let claim = verifier.check(text, now).map_err(refusal)?;
        if let Keeper::File { writer, .. } = &mut self.keeper {
            writer.use_token(claim.id, claim.expires);
        }
        Ok(())
    }
}

/// What a player is told whom the store did not take.
fn refusal(error: &StorageError) -> Refusal {
    match error {
        StorageError::PlayersFull { .. } => Refusal::Full,
        StorageError::Name { .. } => Refusal::Name,
        _ => Refusal::Storage,
    }
}

impl Authenticator for MainAuthenticator {
    fn enter(&mut self, link: Link, name: &str, token: &[u8]) -> LoginReply {
        if let Err(why) = self.check(name, token) {
            return LoginReply::Rejected(why);
        }
        match &mut self.keeper {
            Keeper::Memory(door) => door.enter(link, name, token),
            Keeper::Peer(player) => LoginReply::Accepted(*player, Kept::new()),
            Keeper::File { writer, asked, .. } => match writer.join(name, UnixTime::now()) {
                Ok(()) => {
                    asked.insert(name.into(), link);
                    LoginReply::Pending
                }
                Err(error) => LoginReply::Rejected(refusal(&error)),
            },
        }
    }

    fn answered(&mut self) -> Option<(Link, LoginReply)> {
        let Keeper::File { writer, asked, .. } = &mut self.keeper else { return None };
        let joined = writer.poll()?;
        let link = asked.remove(&joined.name)?;
        Some(match joined.player {
            Ok((player, saved)) => {
                let kept = saved.into_iter().map(|saved| (saved.id, saved.lanes)).collect();
                (link, LoginReply::Accepted(player, kept))
            }
            Err(error) => (link, LoginReply::Rejected(refusal(&error))),
        })
    }

    fn leave(&mut self, player: PlayerId, objects: Kept) {
        match &mut self.keeper {
            Keeper::Memory(door) => door.leave(player, objects),
            // The objects are the peer's all the while.
            Keeper::Peer(_) => {}
            Keeper::File { writer, .. } => {
                writer.save(objects.iter().map(|(id, lanes)| StorageChange::Saved(*id, lanes)));
                objects.iter().for_each(|(id, _)| writer.forget(*id));
            }
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
        assert_eq!(door.check("ada", token.as_bytes()), Ok(()));
        assert_eq!(door.check("ada", token.as_bytes()), Err(Refusal::TokenReplayed));
        // As long as tokens may live, by an issuer whose clock is a minute ahead.
        let ahead = foveate_io::token::MAX_LIFE + Duration::from_secs(60);
        let token = crate::token::issue(&secret, "ada", None, ahead).unwrap();
        assert_eq!(door.check("ada", token.as_bytes()), Err(Refusal::TokenClock));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn players_are_told_when_storage_is_away() {
        let folder = std::env::temp_dir().join(format!("foveate-away-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let text = "[storage]\npath = \"world.db\"\n";
        let config =
            Config::parse(&folder.join("foveate.toml"), text, CliOverrides::default()).unwrap();
        let game = Arc::new(Arena::new(Setup::for_players(8, 1)).unwrap());
        let mut simulation = Simulation::new(game, Rounds::every(Micros(50_000)));
        let mut door = MainAuthenticator::open(&config, &mut simulation).unwrap();
        std::fs::rename(folder.join("world.db"), folder.join("moved.db")).unwrap();
        let mut reply = door.enter(Link(1), "ada", b"");
        let deadline = std::time::Instant::now() + Duration::from_secs(120);
        while reply == LoginReply::Pending {
            assert!(std::time::Instant::now() < deadline, "no answer");
            std::thread::sleep(Duration::from_millis(1));
            reply = door.answered().map_or(LoginReply::Pending, |(_, reply)| reply);
        }
        assert_eq!(reply, LoginReply::Rejected(Refusal::Storage));
        assert!(door.trouble().is_some_and(|trouble| trouble.contains("not there any more")));
        // What was not saved cannot be: the file is away.
        assert!(door.close().is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn every_object_has_its_turn_within_half_a_second() {
        for tick_hz in [1, 2, 10, 20, 60, 120] {
            let parts = parts(tick_hz);
            assert!(parts == 1 || parts * 2 <= tick_hz, "{parts} parts at {tick_hz} Hz");
        }
    }
}
