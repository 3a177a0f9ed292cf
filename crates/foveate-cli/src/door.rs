//! Who may come in, and what is kept of them: tokens and storage, as the configuration has them; or a peer's
//! own player and nobody else.

use crate::config::{Config, Tokens};
use foveate_io::UnixTime;
use foveate_io::host::{Door, Entry, Kept, OpenDoor};
use foveate_io::storage::{Change, Storage, Writer};
use foveate_io::token::{Secret, TokenError, Verifier};
use foveate_node::game::{Game, PlayerId};
use foveate_node::session::Refusal;
use foveate_node::{Link, Stage};
use std::collections::BTreeMap;
use std::error::Error;

/// Objects are saved in so many parts, one a tick: each of them within half a second.
const PARTS: u32 = 8;

/// The door of `foveate serve`, and of a peer's window.
pub struct MainDoor {
    verifier: Option<Verifier>,
    keeper: Keeper,
}

/// Where players are kept.
enum Keeper {
    /// Nowhere: numbers are handed out as they come.
    Memory(OpenDoor),
    /// With their peer: whoever comes in is this player.
    Peer(PlayerId),
    /// In a file; who waits for an answer.
    File { writer: Box<Writer>, asked: BTreeMap<String, Link> },
}

impl MainDoor {
    /// Opens what the configuration names, and puts the world that was kept onto the stage; a new one
    /// if there was none.
    pub fn open<G: Game>(
        config: &Config,
        stage: &mut Stage<G>,
    ) -> Result<MainDoor, Box<dyn Error>> {
        let mut verifier = match &config.tokens {
            Tokens::Open => None,
            Tokens::Secret(file) => Some(Verifier::new(Secret::read(file)?, &config.name)),
        };
        let Some(path) = &config.storage else {
            stage.populate()?;
            return Ok(MainDoor { verifier, keeper: Keeper::Memory(OpenDoor::default()) });
        };
        let storage = Storage::open(path, stage.game.schema())?;
        let world = storage.world()?;
        for saved in &world {
            stage.restore(saved.id, &saved.lanes)?;
        }
        if world.is_empty() {
            stage.populate()?;
        }
        if let Some(verifier) = &mut verifier {
            for (id, until) in storage.used_tokens(UnixTime::now())? {
                verifier.remember(id, until);
            }
        }
        let writer = Box::new(storage.write_behind()?);
        Ok(MainDoor { verifier, keeper: Keeper::File { writer, asked: BTreeMap::new() } })
    }

    /// The door of a peer's window: whoever comes in sits down as the peer's player.
    pub fn of_peer(player: PlayerId) -> MainDoor {
        MainDoor { verifier: None, keeper: Keeper::Peer(player) }
    }

    /// Saves the part of the kept objects whose turn it is. Unchanged ones cost a comparison.
    pub fn save<G: Game>(&mut self, stage: &Stage<G>, tick: u32) {
        let Keeper::File { writer, .. } = &mut self.keeper else { return };
        let store = &stage.publisher.store;
        let part = store
            .iter()
            .filter(|(id, slot)| stage.game.keeps(id.kind()) && slot.0 % PARTS == tick % PARTS);
        writer.save(part.map(|(id, slot)| Change::Saved(id, store.lanes(slot))));
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

    /// Whether the token lets somebody in under this name.
    fn check(&mut self, name: &str, token: &[u8]) -> Result<(), Refusal> {
        let Some(verifier) = &mut self.verifier else { return Ok(()) };
        let text = std::str::from_utf8(token).map_err(|_| Refusal::Token)?;
        let claim = verifier.check(text, UnixTime::now()).map_err(|error| match error {
            TokenError::Expired(_) => Refusal::TokenExpired,
            TokenError::Replayed => Refusal::TokenReplayed,
            TokenError::Full => Refusal::Full,
            _ => Refusal::Token,
        })?;
        if let Keeper::File { writer, .. } = &mut self.keeper {
            writer.use_token(claim.id, claim.expires);
        }
        if claim.name == name { Ok(()) } else { Err(Refusal::Token) }
    }
}

impl Door for MainDoor {
    fn enter(&mut self, link: Link, name: &str, token: &[u8]) -> Entry {
        if let Err(why) = self.check(name, token) {
            return Entry::No(why);
        }
        match &mut self.keeper {
            Keeper::Memory(door) => door.enter(link, name, token),
            Keeper::Peer(player) => Entry::Now(*player, Kept::new()),
            Keeper::File { writer, asked } => match writer.join(name, UnixTime::now()) {
                Ok(()) => {
                    asked.insert(name.into(), link);
                    Entry::Later
                }
                Err(_) => Entry::No(Refusal::Full),
            },
        }
    }

    fn answered(&mut self) -> Option<(Link, Entry)> {
        let Keeper::File { writer, asked } = &mut self.keeper else { return None };
        let joined = writer.poll()?;
        let link = asked.remove(&joined.name)?;
        Some(match joined.player {
            Ok((player, saved)) => {
                let kept = saved.into_iter().map(|saved| (saved.id, saved.lanes)).collect();
                (link, Entry::Now(player, kept))
            }
            Err(_) => (link, Entry::No(Refusal::Full)),
        })
    }

    fn leave(&mut self, player: PlayerId, objects: Kept) {
        match &mut self.keeper {
            Keeper::Memory(door) => door.leave(player, objects),
            // The objects are the peer's all the while.
            Keeper::Peer(_) => {}
            Keeper::File { writer, .. } => {
                writer.save(objects.iter().map(|(id, lanes)| Change::Saved(*id, lanes)));
                objects.iter().for_each(|(id, _)| writer.forget(*id));
            }
        }
    }
}
