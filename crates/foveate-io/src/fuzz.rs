//! Entry points for fuzzers, and for tests in their place: every parser of bytes that arrive before there is a link.
//!
//! Rejecting input is fine: a parser must never panic, stall or grow without a bound.

use crate::UnixTime;
use crate::keys::KeyPair;
use crate::token::{MIN_SECRET, Secret, Verifier};
use foveate_node::lobby::{
    Announcement, Answered, Asked, Cookie, Lobby, LobbySettings, MAX_TALK, MIN_HELLO, Reply,
    Request, Saying, decode, encode,
};
use foveate_node::peer::Signer;
use foveate_node::peer::identity::Sealed;
use foveate_wire::Micros;
use std::net::{Ipv4Addr, SocketAddr};

/// Datagrams that a lobby receives in one run.
const MAX_DATAGRAMS: usize = 32;

/// Parses any bytes as the head of a browser's request.
#[cfg(feature = "web")]
pub fn http(data: &[u8]) {
    crate::web::read_any_head(data);
}

/// Parses any bytes as a browser's HTTP/3: streams, headers and goodbyes.
#[cfg(feature = "web")]
pub fn h3(data: &[u8]) {
    crate::web::read_any_h3(data);
}

/// Parses any bytes as a proxy's statements about its clients: the PROXY protocol's header, `X-Forwarded-For`, and
/// networks as in a configuration.
#[cfg(feature = "web")]
pub fn proxy(data: &[u8]) {
    crate::web::read_any_proxy(data);
}

/// Parses any bytes as frames of a WebSocket; the first byte chooses a player's link or an operator's.
#[cfg(feature = "web")]
pub fn websocket(data: &[u8]) {
    use crate::event::Purpose;
    use std::net::{TcpListener, TcpStream};
    thread_local! {
        /// One pair for all runs, since nothing is written to it.
        static STREAM: Option<TcpStream> = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| TcpStream::connect(listener.local_addr()?))
            .ok();
    }
    let Some((which, data)) = data.split_first() else { return };
    let purpose = if which % 2 == 0 { Purpose::Play } else { Purpose::Observe };
    let stream = STREAM.with(|stream| stream.as_ref()?.try_clone().ok());
    if let Some(stream) = stream {
        crate::web::read_any_frames(stream, purpose, data);
    }
}

/// Reads a database with arbitrary rows: see [`storage`](crate::storage).
#[cfg(feature = "sqlite")]
pub fn storage(data: &[u8]) {
    crate::storage::read_any_rows(data);
}

/// Parses any bytes as a connect token, and as the signed contents of one: a token that is accepted must be one that
/// was issued.
pub fn token(data: &[u8]) {
    let secret = || Secret::new(&[7; MIN_SECRET]).expect("it is long enough");
    let (now, signed) = (UnixTime(1_000), secret().sign(data));
    let mut verifier = Verifier::new(secret(), "here");
    let made_up = verifier.check(&String::from_utf8_lossy(data), now);
    assert!(made_up.is_err(), "only the issuer can sign");
    if let Ok(claim) = verifier.check(&signed, now) {
        assert_eq!(secret().issue(&claim).ok(), Some(signed));
    }
}

/// Sends a lobby an honest peer's requests, altered or replaced as the bytes say.
pub fn lobby(mut data: &[u8]) {
    let keys = KeyPair::from_secret([7; 32]).expect("any 32 bytes are a secret");
    let settings = LobbySettings::default();
    let most = settings.max_peers;
    let mut lobby = Lobby::new(settings, Box::new(keys.clone()), Box::new(seal));
    let (mut now, mut cookie) = (Micros::from_millis(1_000), Cookie::default());
    for stamp in 0..MAX_DATAGRAMS as u64 {
        let Some((&[what, from, length], rest)) = data.split_first_chunk() else { return };
        let (some, rest) = rest.split_at(rest.len().min(usize::from(length)));
        data = rest;
        now = now + Micros::from_millis(u64::from(what >> 3) * 100);
        let from = SocketAddr::from((Ipv4Addr::new(203, 0, 113, from), 4_000));
        let request = request(what % 8, &keys, Asking { cookie, stamp, from }, some);
        let mut bytes =
            request.map_or(some.to_vec(), |it| encode(&Asked { nonce: 5, request: it }));
        bytes.resize(bytes.len().max(MIN_HELLO), 0);
        if what % 2 == 1 {
            change(&mut bytes, some);
        }
        let Some(reply) = lobby.handle(now, from, &bytes) else { continue };
        assert!(reply.len() <= MAX_TALK && lobby.len() <= most);
        if let Some(Answered { reply: Reply::Cookie(made), .. }) = decode(&reply) {
            cookie = made;
        }
    }
}

/// Runs two ends of a direct path, and alters their packets as the bytes say.
pub fn direct(data: &[u8]) {
    crate::direct::bend(data);
}

/// The peer that asks a lobby.
struct Asking {
    /// The lobby's newest cookie.
    cookie: Cookie,
    stamp: u64,
    from: SocketAddr,
}

/// A request that an honest peer could make; `None` for arbitrary bytes.
fn request(what: u8, keys: &KeyPair, peer: Asking, some: &[u8]) -> Option<Request> {
    let Asking { cookie, stamp, from } = peer;
    let text = String::from_utf8_lossy(&some[..some.len().min(8)]).into_owned();
    match what {
        0 | 1 => Some(Request::Hello),
        2..=4 => {
            let (players, room, about) = (3, 12, some.to_vec());
            let here = Announcement { game: text, players, room, about, contacts: vec![from] };
            let here = (what != 4).then_some(here);
            let saying = Saying { key: keys.key(), cookie, stamp, here };
            Some(Request::Say(Sealed::new(&saying, keys)))
        }
        5 | 6 => Some(Request::List { cookie, game: text, after: None }),
        _ => None,
    }
}

/// Changes a few bytes; `by` has pairs of a position and a value.
fn change(bytes: &mut [u8], by: &[u8]) {
    for pair in by.chunks_exact(2).take(4) {
        let at = usize::from(pair[0]) % bytes.len().max(1);
        bytes.get_mut(at).into_iter().for_each(|byte| *byte = pair[1]);
    }
}

/// A cookie that changes whenever its input does.
fn seal(bytes: &[u8]) -> Cookie {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"a secret that only fuzzers have");
    let made = ring::hmac::sign(&key, bytes);
    std::array::from_fn(|at| made.as_ref()[at])
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "web")]
    type Target = (&'static str, fn(&[u8]));

    #[cfg(feature = "web")]
    const WEB: [Target; 4] = [
        ("http", super::http),
        ("h3", super::h3),
        ("proxy", super::proxy),
        ("websocket", super::websocket),
    ];

    /// Runs one target with every committed seed.
    fn replay(target: &str, run: fn(&[u8])) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds");
        let folder = std::path::Path::new(folder).join(target);
        let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap()).collect();
        assert!(files.len() > 3, "the seeds of {target} are missing");
        for file in files {
            println!("{target}: {}", file.path().display());
            run(&std::fs::read(file.path()).unwrap());
        }
    }

    #[test]
    fn committed_seeds_are_rejected_or_harmless() {
        #[cfg(feature = "web")]
        WEB.iter().for_each(|(target, run)| replay(target, *run));
        #[cfg(feature = "sqlite")]
        replay("storage", super::storage);
        replay("token", super::token);
        replay("lobby", super::lobby);
    }

    #[test]
    fn arbitrary_bytes_are_rejected_or_harmless() {
        for seed in 0..300 {
            let mut random = fastrand::Rng::with_seed(seed);
            let data: Vec<u8> = (0..random.usize(0..600)).map(|_| random.u8(..)).collect();
            println!("seed {seed}");
            #[cfg(feature = "web")]
            WEB.iter().for_each(|(_, run)| run(&data));
            #[cfg(feature = "sqlite")]
            super::storage(&data);
            super::token(&data);
            // One that is valid up to its names.
            let named = |name: &str| [&[name.len() as u8], name.as_bytes()].concat();
            let parts =
                [&[1][..], &1_060u64.to_be_bytes(), &[9; 16], &named("Ada"), &named("here")];
            let mut said = parts.concat();
            super::token(&said);
            super::token(&[&said[..], &data[..data.len().min(3)]].concat());
            super::change(&mut said, &data);
            super::token(&said);
            super::lobby(&data);
            super::direct(&data);
        }
    }
}
