//! The lobbies that a peer is listed at, and finds its game at.

use foveate_io::keys::KeyPair;
use foveate_io::lobby::LobbyClient;
use foveate_node::lobby::{Announcement, Entry};
use foveate_node::peer::{Key, Signer};
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

/// How long a lobby may take to answer,
const PATIENCE: Duration = Duration::from_secs(5);
/// and one that is told good-bye.
const FAREWELL: Duration = Duration::from_millis(500);
/// How long those who are about to begin a game wait for others who are.
const MOMENT: Duration = Duration::from_millis(500);

/// What ends a peer's thread.
pub type Failure = Box<dyn Error + Send + Sync>;

/// All lobbies that were named.
pub struct Lobbies {
    clients: Vec<LobbyClient>,
    me: Key,
}

impl Lobbies {
    /// No lobby was asked yet.
    pub fn new(lobbies: &[SocketAddr], keys: &KeyPair) -> Result<Lobbies, Failure> {
        let clients = lobbies.iter().map(|lobby| LobbyClient::new(*lobby, keys.clone()));
        Ok(Lobbies { clients: clients.collect::<Result<_, _>>()?, me: keys.key() })
    }

    /// Peers to join through; none: this peer is to begin the game. Before it does so it says that it is
    /// about to, and looks again after a moment: of those who begin at once, the one with the lowest key
    /// does.
    pub fn seek(&mut self, coming: &Announcement) -> Result<Vec<Entry>, Failure> {
        let is_inside = |entry: &Entry| entry.said.players > 0;
        let found = self.contacts(&coming.game)?;
        if found.iter().any(is_inside) {
            return Ok(found.into_iter().filter(is_inside).collect());
        }
        self.announce(coming)?;
        std::thread::sleep(MOMENT);
        let mut found = self.contacts(&coming.game)?;
        if found.iter().any(is_inside) {
            found.retain(is_inside);
        } else {
            found.retain(|entry| entry.key < self.me);
            found.sort_by_key(|entry| entry.key);
        }
        Ok(found)
    }

    /// Tells all of them, and waits until one has heard it.
    pub fn announce(&mut self, said: &Announcement) -> Result<(), Failure> {
        let mut heard = Err("no lobby was named".into());
        for lobby in &mut self.clients {
            match lobby.announce(said.clone(), PATIENCE) {
                Ok(_) => heard = Ok(()),
                Err(error) if heard.is_err() => heard = Err(error.into()),
                Err(_) => {}
            }
        }
        heard
    }

    /// Everybody who is listed for the game, in an order that differs from peer to peer, so that not all
    /// newcomers knock at the same door.
    pub fn contacts(&mut self, game: &str) -> Result<Vec<Entry>, Failure> {
        let (mut found, mut failure) = (Vec::<Entry>::new(), None);
        for lobby in &mut self.clients {
            match lobby.list(game, PATIENCE) {
                Ok(entries) => found.extend(entries),
                Err(error) => failure = Some(error),
            }
        }
        if let (true, Some(failure)) = (found.is_empty(), failure) {
            return Err(failure.into());
        }
        found.retain(|entry| entry.key != self.me);
        found.sort_by_key(|entry| entry.key);
        found.dedup_by_key(|entry| entry.key);
        let mut random = fastrand::Rng::with_seed(u64::from(self.me.player().0));
        random.shuffle(&mut found);
        Ok(found)
    }

    /// What they are to say of this peer from now on.
    pub fn keep(&mut self, said: &Announcement) {
        self.clients.iter_mut().for_each(|lobby| lobby.keep(said.clone()));
    }

    /// Signs of life, and answers to them.
    pub fn poll(&mut self) {
        for lobby in &mut self.clients {
            lobby.poll();
        }
    }

    /// Good-bye. A lobby that is away forgets by itself.
    pub fn leave(&mut self) {
        self.clients.iter_mut().for_each(|lobby| lobby.leave(FAREWELL).unwrap_or(()));
    }
}
