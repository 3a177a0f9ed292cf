//! The lobbies at which a peer is listed and finds its game.

use foveate_io::keys::KeyPair;
use foveate_io::lobby::LobbyClient;
use foveate_node::lobby::{Announcement, Entry};
use foveate_node::peer::{Key, Signer};
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

/// The longest that a lobby may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest that a lobby may take to confirm a leave.
const FAREWELL: Duration = Duration::from_millis(500);
/// How long peers that are about to start a game wait for other such peers.
const MOMENT: Duration = Duration::from_millis(500);

/// An error that ends a peer's thread.
pub type Failure = Box<dyn Error + Send + Sync>;

/// All lobbies given on the command line.
pub struct Lobbies {
    clients: Vec<LobbyClient>,
    me: Key,
}

impl Lobbies {
    /// Makes the clients; nothing is sent yet.
    pub fn new(lobbies: &[SocketAddr], keys: &KeyPair) -> Result<Lobbies, Failure> {
        let clients = lobbies.iter().map(|lobby| LobbyClient::new(*lobby, keys.clone()));
        Ok(Lobbies { clients: clients.collect::<Result<_, _>>()?, me: keys.key() })
    }

    /// Peers through which to join; empty if this peer has to start the game. Before that it announces that it is about
    /// to, and looks again after a moment: of peers that start at once, the one with the lowest key does it.
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

    /// Announces this peer to all lobbies; fails if none answers.
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

    /// All peers listed for the game, in an order that differs from peer to peer, so that not all newcomers ask the
    /// same one.
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

    /// Sets what the lobbies are told of this peer from now on.
    pub fn keep(&mut self, said: &Announcement) {
        self.clients.iter_mut().for_each(|lobby| lobby.keep(said.clone()));
    }

    /// Repeats announcements when due, and reads the answers.
    pub fn poll(&mut self) {
        for lobby in &mut self.clients {
            lobby.poll();
        }
    }

    /// Leaves all lobbies. A lobby that does not answer forgets this peer after a while.
    pub fn leave(&mut self) {
        self.clients.iter_mut().for_each(|lobby| lobby.leave(FAREWELL).unwrap_or(()));
    }
}
