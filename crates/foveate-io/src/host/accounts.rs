//! The authenticator of most servers: players by name, kept in memory or in a file, with or without tokens.

#[cfg(feature = "sqlite")]
mod saved;

use foveate_node::game::{Game, PlayerId};
use foveate_node::session::Refusal;
use foveate_node::{Link, Simulation};
use foveate_wire::Tick;

use super::{AllowAll, Authenticator, Kept, LoginReply};
use crate::time::UnixTime;
use crate::token::{TokenError, Verifier};

/// Players by name. Their objects and the world's are kept in memory or, with the feature `sqlite`, in a
/// file. With a [`Verifier`], only those who bring a connect token may join.
#[derive(Default)]
pub struct Accounts {
    verifier: Option<Verifier>,
    keeper: Keeper,
}

enum Keeper {
    Memory(AllowAll),
    #[cfg(feature = "sqlite")]
    File(Box<saved::SavedPlayers>),
}

impl Default for Keeper {
    fn default() -> Keeper {
        Keeper::Memory(AllowAll::default())
    }
}

impl Accounts {
    /// Everything is forgotten when the process ends.
    pub fn in_memory() -> Accounts {
        Accounts::default()
    }

    /// Opens the file, or creates it, and puts the world that was kept into the simulation; the game's new
    /// one if there was none. Objects are saved within half a second of a change.
    #[cfg(feature = "sqlite")]
    pub fn in_file<G: Game>(
        path: &std::path::Path,
        simulation: &mut Simulation<G>,
    ) -> Result<Accounts, super::StartError> {
        let saved = saved::SavedPlayers::open(path, simulation)?;
        Ok(Accounts { verifier: None, keeper: Keeper::File(Box::new(saved)) })
    }

    /// The same for players with a connect token only. Tokens that were used before a restart and are kept
    /// in the file stay used.
    pub fn with_tokens(mut self, verifier: Verifier) -> Accounts {
        self.verifier = Some(verifier);
        #[cfg(feature = "sqlite")]
        if let (Keeper::File(saved), Some(verifier)) = (&mut self.keeper, &mut self.verifier) {
            saved.recall_tokens(verifier);
        }
        self
    }

    /// Why the last write failed, if it did.
    pub fn trouble(&self) -> Option<String> {
        match &self.keeper {
            Keeper::Memory(_) => None,
            #[cfg(feature = "sqlite")]
            Keeper::File(saved) => saved.trouble(),
        }
    }

    /// Writes what waits. Dropping does the same, without telling whether it succeeded.
    #[cfg(feature = "sqlite")]
    pub fn close(self) -> Result<(), crate::storage::StorageError> {
        match self.keeper {
            Keeper::Memory(_) => Ok(()),
            Keeper::File(saved) => saved.close(),
        }
    }

    /// Whether the token permits joining under this name.
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
        // A mistyped name does not use the token up.
        if verifier.read(text, now).map_err(refusal)?.name != name {
            return Err(Refusal::Token);
        }
        let _claim = verifier.check(text, now).map_err(refusal)?;
        #[cfg(feature = "sqlite")]
        if let Keeper::File(saved) = &mut self.keeper {
            saved.use_token(_claim.id, _claim.expires);
        }
        Ok(())
    }
}

impl Authenticator for Accounts {
    fn enter(&mut self, link: Link, name: &str, token: &[u8]) -> LoginReply {
        if let Err(why) = self.check(name, token) {
            return LoginReply::Rejected(why);
        }
        match &mut self.keeper {
            Keeper::Memory(all) => all.enter(link, name, token),
            #[cfg(feature = "sqlite")]
            Keeper::File(saved) => saved.enter(link, name),
        }
    }

    fn answered(&mut self) -> Option<(Link, LoginReply)> {
        match &mut self.keeper {
            Keeper::Memory(_) => None,
            #[cfg(feature = "sqlite")]
            Keeper::File(saved) => saved.answered(),
        }
    }

    fn leave(&mut self, player: PlayerId, kept: Kept) {
        match &mut self.keeper {
            Keeper::Memory(all) => all.leave(player, kept),
            #[cfg(feature = "sqlite")]
            Keeper::File(saved) => saved.leave(&kept),
        }
    }

    fn on_round<G: Game>(&mut self, _simulation: &mut Simulation<G>, _tick: Tick) {
        #[cfg(feature = "sqlite")]
        if let Keeper::File(saved) = &mut self.keeper {
            saved.save_part(_simulation, _tick);
        }
    }

    fn on_close<G: Game>(&mut self, _simulation: &Simulation<G>) {
        #[cfg(feature = "sqlite")]
        if let Keeper::File(saved) = &mut self.keeper {
            saved.save_all(_simulation);
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
        let expires = UnixTime(UnixTime::now().0 + 60);
        let claim =
            TokenClaim { name: "ada".into(), server: None, expires, id: random_id().unwrap() };
        let token = secret.issue(&claim).unwrap();
        // As long as tokens may live, by an issuer whose clock is a minute ahead.
        let expires = UnixTime(UnixTime::now().0 + crate::token::MAX_LIFE.as_secs() + 60);
        let ahead = secret.issue(&TokenClaim { expires, ..claim }).unwrap();
        let mut accounts = Accounts::in_memory().with_tokens(Verifier::new(secret, "here"));
        assert_eq!(accounts.check("eda", token.as_bytes()), Err(Refusal::Token));
        assert_eq!(accounts.check("ada", token.as_bytes()), Ok(()));
        assert_eq!(accounts.check("ada", token.as_bytes()), Err(Refusal::TokenReplayed));
        assert_eq!(accounts.check("ada", ahead.as_bytes()), Err(Refusal::TokenClock));
    }
}
