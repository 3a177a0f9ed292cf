//! The authenticator of most servers: players by name, kept in memory or in a file, with or without tokens.

#[cfg(feature = "sqlite")]
use foveate_node::IdAllocator;
use foveate_node::game::{Game, PlayerId};
#[cfg(feature = "sqlite")]
use foveate_node::node::ServerCommand;
#[cfg(feature = "sqlite")]
use foveate_node::persistence::PlayerRegistry;
use foveate_node::session::Refusal;
use foveate_node::{Link, Simulation};
use foveate_wire::Tick;

use super::{AllowAll, Authenticator, Kept, LoginReply};
#[cfg(feature = "sqlite")]
use crate::storage::{Storage, Writer};
use crate::time::{UnixTime, unix_now};
use crate::token::{TokenError, TokenId, Verifier};

/// Players by name. Their objects and the world's are kept in memory or, with the feature `sqlite`, in a file. With a
/// [`Verifier`], players need a connect token to join.
#[derive(Default)]
pub struct Accounts {
    verifier: Option<Verifier>,
    keeper: Keeper,
}

enum Keeper {
    Memory(AllowAll),
    #[cfg(feature = "sqlite")]
    File(Box<PlayerRegistry<Writer>>),
}

impl Default for Keeper {
    fn default() -> Keeper {
        Keeper::Memory(AllowAll::default())
    }
}

impl Accounts {
    /// Keeps players in memory until the process ends.
    pub fn in_memory() -> Accounts {
        Accounts::default()
    }

    /// Opens or creates a file, and restores the saved world into the simulation; without one, populates the game's new
    /// world. Changed objects are saved within half a second.
    #[cfg(feature = "sqlite")]
    pub fn in_file<G: Game>(
        path: &std::path::Path,
        simulation: &mut Simulation<G>,
    ) -> Result<Accounts, super::StartError> {
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
        let tick_hz = 1_000_000 / simulation.publisher.rounds().length.0.max(1);
        let mut registry = PlayerRegistry::new(storage.write_behind()?, tick_hz as u32);
        registry.used = used;
        // A new world is saved at once: if only half of it were, the other half would never be made.
        registry.save_all(simulation);
        Ok(Accounts { verifier: None, keeper: Keeper::File(Box::new(registry)) })
    }

    /// Requires connect tokens. Tokens that were used before a restart and are kept in the file stay used.
    pub fn with_tokens(mut self, verifier: Verifier) -> Accounts {
        self.verifier = Some(verifier);
        self
    }

    /// Why the last write failed, if it did.
    pub fn trouble(&self) -> Option<String> {
        match &self.keeper {
            Keeper::Memory(_) => None,
            #[cfg(feature = "sqlite")]
            Keeper::File(registry) => registry.storage.report().trouble,
        }
    }

    /// Writes all pending changes. Dropping does the same, without reporting failure.
    #[cfg(feature = "sqlite")]
    pub fn close(self) -> Result<(), crate::storage::StorageError> {
        match self.keeper {
            Keeper::Memory(_) => Ok(()),
            Keeper::File(registry) => registry.storage.close(),
        }
    }

    /// The token's id and expiry, if it permits joining under this name. In memory it is used from now on; with a
    /// file, the registry sees to that.
    pub(crate) fn check(
        &mut self,
        name: &str,
        token: &[u8],
    ) -> Result<Option<(TokenId, UnixTime)>, Refusal> {
        let Some(verifier) = &mut self.verifier else { return Ok(None) };
        let text = std::str::from_utf8(token).map_err(|_| Refusal::Token)?;
        let refusal = |error| match error {
            TokenError::Expired(_) => Refusal::TokenExpired,
            TokenError::Replayed => Refusal::TokenReplayed,
            TokenError::LivesTooLong(_) => Refusal::TokenClock,
            TokenError::Full => Refusal::Full,
            _ => Refusal::Token,
        };
        let now = unix_now();
        let claim = verifier.read(text, now).map_err(refusal)?;
        // A mistyped name does not use up the token.
        if claim.name != name {
            return Err(Refusal::Token);
        }
        if matches!(self.keeper, Keeper::Memory(_)) {
            verifier.check(text, now).map_err(refusal)?;
        }
        Ok(Some((claim.id, claim.expires)))
    }
}

/// Converts a registry's answer.
#[cfg(feature = "sqlite")]
fn reply(command: ServerCommand) -> Option<(Link, LoginReply)> {
    match command {
        ServerCommand::Admit(link, player, kept) => {
            Some((link, LoginReply::Accepted(player, kept)))
        }
        ServerCommand::Reject(link, why) => Some((link, LoginReply::Rejected(why))),
        _ => None,
    }
}

impl Authenticator for Accounts {
    fn enter(&mut self, link: Link, name: &str, token: &[u8]) -> LoginReply {
        let _token = match self.check(name, token) {
            Ok(token) => token,
            Err(why) => return LoginReply::Rejected(why),
        };
        match &mut self.keeper {
            Keeper::Memory(all) => all.enter(link, name, token),
            #[cfg(feature = "sqlite")]
            Keeper::File(registry) => {
                let command = registry.enter(link, name, _token, unix_now());
                command.and_then(reply).map_or(LoginReply::Pending, |(_, reply)| reply)
            }
        }
    }

    fn answered(&mut self) -> Option<(Link, LoginReply)> {
        match &mut self.keeper {
            Keeper::Memory(_) => None,
            #[cfg(feature = "sqlite")]
            Keeper::File(registry) => registry.poll().and_then(reply),
        }
    }

    fn joined(&mut self, player: PlayerId) {
        match &mut self.keeper {
            Keeper::Memory(all) => all.joined(player),
            #[cfg(feature = "sqlite")]
            Keeper::File(_) => {}
        }
    }

    fn leave(&mut self, player: PlayerId, kept: Kept) {
        match &mut self.keeper {
            Keeper::Memory(all) => all.leave(player, kept),
            #[cfg(feature = "sqlite")]
            Keeper::File(registry) => registry.leave(player, &kept),
        }
    }

    fn on_round<G: Game>(&mut self, _simulation: &mut Simulation<G>, _tick: Tick) {
        #[cfg(feature = "sqlite")]
        if let Keeper::File(registry) = &mut self.keeper {
            registry.save(_simulation, _tick.0);
        }
    }

    fn on_close<G: Game>(&mut self, _simulation: &Simulation<G>) {
        #[cfg(feature = "sqlite")]
        if let Keeper::File(registry) = &mut self.keeper {
            registry.save_all(_simulation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::{Secret, TokenClaim, random_id};

    #[test]
    fn a_mistyped_name_does_not_use_the_token_up() {
        let secret = Secret::new(&[7; 32]).unwrap();
        let expires = UnixTime(unix_now().0 + 60);
        let claim =
            TokenClaim { name: "ada".into(), server: None, expires, id: random_id().unwrap() };
        let token = secret.issue(&claim).unwrap();
        // The longest life of a token, from an issuer whose clock is two minutes ahead.
        let expires = UnixTime(unix_now().0 + crate::token::MAX_LIFE.as_secs() + 120);
        let ahead = secret.issue(&TokenClaim { expires, ..claim.clone() }).unwrap();
        let mut accounts = Accounts::in_memory().with_tokens(Verifier::new(secret, "here"));
        assert_eq!(accounts.check("eda", token.as_bytes()), Err(Refusal::Token));
        assert_eq!(accounts.check("ada", token.as_bytes()), Ok(Some((claim.id, claim.expires))));
        assert_eq!(accounts.check("ada", token.as_bytes()), Err(Refusal::TokenReplayed));
        assert_eq!(accounts.check("ada", ahead.as_bytes()), Err(Refusal::TokenClock));
    }
}
