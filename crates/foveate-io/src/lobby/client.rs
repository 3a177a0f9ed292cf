//! Requests to a lobby: single ones that wait for the answer, or repeated ones beside a game.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use foveate_node::lobby::{
    Announcement, Answered, Asked, COOKIE_SPAN, Cookie, Entry, MAX_TALK, MIN_HELLO, No, Reply,
    Request, Saying, decode, encode,
};
use foveate_node::peer::Signer;
use foveate_node::peer::identity::Sealed;
use ring::rand::SecureRandom;

use crate::keys::KeyPair;
use crate::options::duration;

/// A request without an answer is sent again after this time.
const AGAIN: Duration = Duration::from_millis(400);
/// Most pages of a list that are requested.
const MAX_PAGES: usize = 1_024;
/// Most replies that are read in one [`LobbyClient::poll`].
const MAX_REPLIES: usize = 16;

/// Why a lobby did not do what was requested.
#[derive(Debug, thiserror::Error)]
pub enum LobbyError {
    /// It did not answer in time; retry, or check the address.
    #[error("the lobby at {0} does not answer")]
    Silent(SocketAddr),
    /// It refused the request.
    #[error("refused by the lobby: {0}")]
    Refused(No),
    /// The socket failed.
    #[error("cannot reach the lobby: {0}")]
    Socket(#[from] std::io::Error),
}

/// A client of a lobby.
pub struct LobbyClient {
    lobby: SocketAddr,
    socket: UdpSocket,
    keys: KeyPair,
    cookie: Option<(Cookie, Instant)>,
    stamp: u64,
    keeping: Option<KeptAnnouncement>,
}

/// An announcement that is repeated.
struct KeptAnnouncement {
    said: Announcement,
    /// When the next request is due.
    next: Instant,
    /// The nonce of the last request.
    nonce: u64,
    refused: Option<No>,
}

impl LobbyClient {
    /// A client of the lobby at this address. Nothing is sent yet.
    pub fn new(lobby: SocketAddr, keys: KeyPair) -> Result<LobbyClient, LobbyError> {
        let here: SocketAddr = match lobby {
            SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
            SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
        };
        let socket = UdpSocket::bind(here)?;
        socket.connect(lobby)?;
        socket.set_nonblocking(true)?;
        Ok(LobbyClient { lobby, socket, keys, cookie: None, stamp: 0, keeping: None })
    }

    /// Announces this peer once, and waits for the answer: how long it is listed.
    pub fn announce(
        &mut self,
        said: Announcement,
        patience: Duration,
    ) -> Result<Duration, LobbyError> {
        self.say(Some(said), patience)
    }

    /// Removes this peer from the list, and stops announcing it.
    pub fn leave(&mut self, patience: Duration) -> Result<(), LobbyError> {
        self.keeping = None;
        self.say(None, patience).map(|_| ())
    }

    fn say(
        &mut self,
        here: Option<Announcement>,
        patience: Duration,
    ) -> Result<Duration, LobbyError> {
        let until = Instant::now() + patience;
        match self.ask(until, |client, cookie| client.saying(cookie, here.clone()))? {
            Reply::Heard { lasts } => Ok(Duration::from_millis(u64::from(lasts))),
            _ => Err(LobbyError::Silent(self.lobby)),
        }
    }

    /// Lists the peers of a game, or of all games if its name is empty.
    pub fn list(&mut self, game: &str, patience: Duration) -> Result<Vec<Entry>, LobbyError> {
        let until = Instant::now() + patience;
        let mut all: Vec<Entry> = Vec::new();
        for _ in 0..MAX_PAGES {
            let after = all.last().map(|entry| entry.key);
            let request =
                |_: &mut LobbyClient, cookie| Request::List { cookie, game: game.into(), after };
            let Reply::Listed { entries, more } = self.ask(until, request)? else {
                return Err(LobbyError::Silent(self.lobby));
            };
            let none = entries.is_empty();
            all.extend(entries);
            if !more || none {
                break;
            }
        }
        Ok(all)
    }

    /// Announces this peer from now on, as often as the lobby requires, whenever [`LobbyClient::poll`] is called.
    pub fn keep(&mut self, said: Announcement) {
        let fresh =
            KeptAnnouncement { said: said.clone(), next: Instant::now(), nonce: 0, refused: None };
        self.keeping.get_or_insert(fresh).said = said;
    }

    /// Reads answers, and announces again when due; never waits. Returns why the last announcement was refused, if it
    /// was.
    pub fn poll(&mut self) -> Option<No> {
        let now = Instant::now();
        for _ in 0..MAX_REPLIES {
            match self.receive() {
                Some(answered) => self.take(now, answered),
                None => break,
            }
        }
        let mut keeping = self.keeping.take()?;
        if keeping.next <= now {
            keeping.next = now + AGAIN;
            keeping.nonce = chance();
            let request = match self.fresh_cookie(now) {
                Some(cookie) => self.saying(cookie, Some(keeping.said.clone())),
                None => Request::Hello,
            };
            self.send(keeping.nonce, request);
        }
        let refused = keeping.refused;
        self.keeping = Some(keeping);
        refused
    }

    fn take(&mut self, now: Instant, answered: Answered) {
        let Some(keeping) = &mut self.keeping else { return };
        if answered.nonce != keeping.nonce {
            return;
        }
        match answered.reply {
            Reply::Cookie(cookie) => {
                self.cookie = Some((cookie, now));
                keeping.next = now;
            }
            Reply::Heard { lasts } => {
                keeping.next = now + Duration::from_millis(u64::from(lasts) / 3);
                keeping.refused = None;
            }
            Reply::Refused(No::Cookie) => self.cookie = None,
            Reply::Refused(no) => keeping.refused = Some(no),
            Reply::Listed { .. } => {}
        }
    }

    fn saying(&mut self, cookie: Cookie, here: Option<Announcement>) -> Request {
        // It must be larger than in any earlier run, and than what the same peer sent over another socket.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.stamp = (self.stamp + 1).max(now.as_micros() as u64);
        let saying = Saying { key: self.keys.key(), cookie, stamp: self.stamp, here };
        Request::Say(Sealed::new(&saying, &self.keys))
    }

    /// A cookie that the lobby will still accept.
    fn fresh_cookie(&self, now: Instant) -> Option<Cookie> {
        let (cookie, since) = self.cookie?;
        (now - since < duration(COOKIE_SPAN)).then_some(cookie)
    }

    /// Repeats a request until it is answered, with a new cookie if necessary.
    fn ask(
        &mut self,
        until: Instant,
        mut request: impl FnMut(&mut LobbyClient, Cookie) -> Request,
    ) -> Result<Reply, LobbyError> {
        loop {
            let cookie = match self.fresh_cookie(Instant::now()) {
                Some(cookie) => cookie,
                None => match self.exchange(until, |_| Request::Hello)? {
                    Reply::Cookie(cookie) => {
                        self.cookie = Some((cookie, Instant::now()));
                        cookie
                    }
                    _ => return Err(LobbyError::Silent(self.lobby)),
                },
            };
            match self.exchange(until, |client| request(client, cookie))? {
                Reply::Refused(No::Cookie) => self.cookie = None,
                // From another sender, or a late answer to an earlier request.
                Reply::Refused(No::Rate) if Instant::now() + AGAIN < until => {
                    std::thread::sleep(AGAIN);
                }
                Reply::Refused(no) => return Err(LobbyError::Refused(no)),
                reply => return Ok(reply),
            }
        }
    }

    /// Sends one request until it is answered.
    fn exchange(
        &mut self,
        until: Instant,
        mut request: impl FnMut(&mut LobbyClient) -> Request,
    ) -> Result<Reply, LobbyError> {
        while Instant::now() < until {
            let (nonce, request) = (chance(), request(self));
            self.send(nonce, request);
            let again = until.min(Instant::now() + AGAIN);
            while Instant::now() < again {
                match self.receive() {
                    Some(answered) if answered.nonce == nonce => return Ok(answered.reply),
                    Some(_) => {}
                    None => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        }
        Err(LobbyError::Silent(self.lobby))
    }

    fn send(&self, nonce: u64, request: Request) {
        let mut bytes = encode(&Asked { nonce, request });
        bytes.resize(bytes.len().max(MIN_HELLO), 0);
        // A lost request is sent again.
        let _ = self.socket.send(&bytes);
    }

    /// The next valid reply.
    fn receive(&self) -> Option<Answered> {
        let mut bytes = [0; MAX_TALK + 1];
        for _ in 0..MAX_REPLIES {
            match self.socket.recv(&mut bytes) {
                Ok(length) => match decode(&bytes[..length]) {
                    Some(answered) => return Some(answered),
                    None => continue,
                },
                // Nothing has arrived; or no lobby listens there yet.
                Err(_) => return None,
            }
        }
        None
    }
}

/// A random number that cannot be guessed.
fn chance() -> u64 {
    let mut bytes = [0; 8];
    // Without randomness from the system there would be no key pair either.
    ring::rand::SystemRandom::new().fill(&mut bytes).unwrap_or(());
    u64::from_le_bytes(bytes)
}
