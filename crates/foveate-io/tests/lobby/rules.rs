//! What a lobby lists, forgets and refuses. Time is an argument; signatures are real.

use std::net::SocketAddr;

use foveate_io::keys::KeyPair;
use foveate_node::lobby::{
    Announcement, Answered, Asked, COOKIE_SPAN, Cookie, Entry, Lobby, LobbySettings, MAX_ABOUT,
    MAX_CONTACTS, MAX_TALK, MIN_HELLO, No, Reply, Request, Saying, decode, encode,
};
use foveate_node::peer::identity::{Sealable, Sealed};
use foveate_node::peer::{Key, Signer};
use foveate_wire::Micros;

fn keys(seed: u32) -> KeyPair {
    let mut secret = [7; 32];
    secret[..4].copy_from_slice(&seed.to_le_bytes());
    KeyPair::from_secret(secret).expect("any 32 bytes are a secret")
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn seconds(count: u64) -> Micros {
    Micros::from_millis(count * 1_000)
}

/// The address of most peers in this file.
const HOME: &str = "203.0.113.7:4000";

fn here(game: &str, contacts: &[&str]) -> Announcement {
    let contacts = contacts.iter().map(|text| address(text)).collect();
    Announcement { game: game.into(), players: 3, room: 12, about: vec![1, 2], contacts }
}

/// A lobby with its clock.
struct Table {
    lobby: Lobby,
    now: Micros,
    stamp: u64,
}

impl Table {
    fn new(settings: LobbySettings) -> Table {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"a secret for tests");
        let seal = move |bytes: &[u8]| -> Cookie {
            let made = ring::hmac::sign(&key, bytes);
            made.as_ref()[..16].try_into().expect("16 of 32 bytes")
        };
        let lobby = Lobby::new(settings, Box::new(keys(u32::MAX)), Box::new(seal));
        Table { lobby, now: seconds(100), stamp: 0 }
    }

    fn ask(&mut self, from: &str, request: Request) -> Reply {
        let mut bytes = encode(&Asked { nonce: 5, request });
        bytes.resize(bytes.len().max(MIN_HELLO), 0);
        let reply = self.lobby.handle(self.now, address(from), &bytes).expect("a reply");
        assert!(reply.len() <= MAX_TALK);
        let answered: Answered = decode(&reply).expect("a reply that can be read");
        assert_eq!(answered.nonce, 5);
        answered.reply
    }

    fn cookie(&mut self, from: &str) -> Cookie {
        match self.ask(from, Request::Hello) {
            Reply::Cookie(cookie) => cookie,
            other => panic!("{other:?}"),
        }
    }

    fn saying(&mut self, keys: &KeyPair, from: &str, said: Option<Announcement>) -> Saying {
        self.stamp += 1;
        Saying { key: keys.key(), cookie: self.cookie(from), stamp: self.stamp, here: said }
    }

    fn say(&mut self, keys: &KeyPair, from: &str, said: Option<Announcement>) -> Reply {
        let saying = self.saying(keys, from, said);
        self.ask(from, Request::Say(Sealed::new(&saying, keys)))
    }

    fn list(&mut self, from: &str, game: &str) -> Vec<Entry> {
        let (cookie, mut all) = (self.cookie(from), Vec::<Entry>::new());
        loop {
            let after = all.last().map(|entry| entry.key);
            match self.ask(from, Request::List { cookie, game: game.into(), after }) {
                Reply::Listed { entries, more } => {
                    all.extend(entries);
                    if !more {
                        return all;
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn refused(&self, no: No) -> u64 {
        self.lobby.counters().refused.get(&no).copied().unwrap_or(0)
    }
}

fn is_heard(reply: &Reply) -> bool {
    matches!(reply, Reply::Heard { .. })
}

#[test]
fn a_peer_is_listed_as_long_as_it_gives_signs_of_life() {
    let mut table = Table::new(LobbySettings::default());
    let ada = keys(1);
    assert!(is_heard(&table.say(&ada, HOME, Some(here("flags", &[HOME])))));
    let listed = table.list("198.51.100.1:9", "");
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].key, listed[0].said.contacts.clone()), (ada.key(), vec![address(HOME)]));
    for _ in 0..4 {
        table.now = table.now + seconds(14);
        table.lobby.tick(table.now);
        let listed = table.list(HOME, "flags");
        assert_eq!(listed[0].silence(), seconds(14), "how old the sign of life is");
        assert!(is_heard(&table.say(&ada, HOME, Some(here("flags", &[HOME])))));
    }
    assert_eq!(table.list(HOME, "flags")[0].present, 56);
    table.now = table.now + seconds(15);
    assert!(table.list(HOME, "flags").is_empty(), "even before the lobby has looked");
    table.lobby.tick(table.now);
    assert!(table.lobby.is_empty());
    assert_eq!(table.lobby.counters().expired, 1);
    // What is remembered of it is forgotten, too, and it may come again.
    table.now = table.now + seconds(3_600);
    table.lobby.tick(table.now);
    assert!(is_heard(&table.say(&ada, HOME, Some(here("flags", &[HOME])))));
}

#[test]
fn games_are_listed_apart_and_long_lists_by_pages() {
    let settings = LobbySettings {
        max_peers_per_address: 500,
        requests_per_second: 10_000,
        ..LobbySettings::default()
    };
    let mut table = Table::new(settings);
    let long = |game: &str| Announcement { about: vec![9; MAX_ABOUT], ..here(game, &[HOME]) };
    let mut expected: Vec<Key> = Vec::new();
    for n in 0..100 {
        let keys = keys(n);
        let game = if n % 4 == 0 { "chess" } else { "a name of thirty-two bytes, about" };
        let said = if n % 4 == 0 { long(game) } else { long(&game[..32]) };
        assert!(is_heard(&table.say(&keys, HOME, Some(said))));
        expected.push(keys.key());
    }
    expected.sort();
    let keys_of = |entries: Vec<Entry>| entries.iter().map(|entry| entry.key).collect::<Vec<_>>();
    assert_eq!(keys_of(table.list(HOME, "")), expected);
    assert_eq!(table.list(HOME, "chess").len(), 25);
    assert!(table.list(HOME, "go").is_empty());
}

/// The same bytes, signed for another purpose.
#[derive(serde::Serialize, serde::Deserialize)]
struct Elsewhere(Saying);

impl Sealable for Elsewhere {
    const DOMAIN: &'static [u8] = b"another purpose";
    fn key(&self) -> Key {
        self.0.key
    }
}

#[test]
fn no_peer_can_announce_overwrite_or_remove_anothers_entry() {
    let mut table = Table::new(LobbySettings::default());
    let (ada, eve) = (keys(1), keys(2));
    assert!(is_heard(&table.say(&ada, HOME, Some(here("flags", &[HOME])))));
    let from = "198.51.100.66:6";
    for said in [Some(here("flags", &[from])), None] {
        // Eve signs in Ada's name.
        let saying = table.saying(&ada, from, said);
        let forged = Request::Say(Sealed::new(&saying, &eve));
        assert_eq!(table.ask(from, forged), Reply::Refused(No::Forged));
    }
    // Every bit of what was signed counts.
    let saying = table.saying(&ada, HOME, Some(here("flags", &[HOME])));
    let sealed = Sealed::new(&saying, &ada);
    for bit in (0..sealed.body.len() * 8).step_by(7) {
        let mut forged = sealed.clone();
        forged.body[bit / 8] ^= 1 << (bit % 8);
        table.now = table.now + Micros::from_millis(50);
        let reply = table.ask(HOME, Request::Say(forged));
        assert!(matches!(reply, Reply::Refused(No::Forged | No::Cookie)), "bit {bit}: {reply:?}");
    }
    // A signature for another purpose is not accepted.
    let other = Sealed::new(&Elsewhere(saying), &ada);
    assert_eq!(table.ask(HOME, Request::Say(other)), Reply::Refused(No::Forged));
    let listed = table.list(HOME, "");
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].said.contacts, [address(HOME)]);
}

#[test]
fn a_captured_request_is_rejected_elsewhere_later_or_twice() {
    let mut table = Table::new(LobbySettings::default());
    let ada = keys(1);
    let saying = table.saying(&ada, HOME, Some(here("flags", &[HOME])));
    let overheard = Request::Say(Sealed::new(&saying, &ada));
    assert!(is_heard(&table.ask(HOME, overheard.clone())));
    assert_eq!(table.ask(HOME, overheard.clone()), Reply::Refused(No::Stale), "twice");
    let elsewhere = table.ask("198.51.100.66:4000", overheard.clone());
    assert_eq!(elsewhere, Reply::Refused(No::Cookie), "elsewhere");
    assert!(is_heard(&table.say(&ada, HOME, None)));
    assert!(table.list(HOME, "").is_empty());
    table.lobby.tick(table.now);
    assert_eq!(table.ask(HOME, overheard.clone()), Reply::Refused(No::Stale), "after it left");
    for _ in 0..12 {
        table.now = table.now + Micros(COOKIE_SPAN.0 / 4);
        table.lobby.tick(table.now);
        let reply = table.ask(HOME, overheard.clone());
        assert!(matches!(reply, Reply::Refused(No::Stale | No::Cookie)), "later: {reply:?}");
    }
    assert_eq!(table.ask(HOME, overheard), Reply::Refused(No::Cookie));
}

#[test]
fn one_address_cannot_use_up_the_share_of_others() {
    let settings = LobbySettings {
        max_peers: 6,
        max_peers_per_address: 4,
        requests_per_second: 10,
        ..LobbySettings::default()
    };
    let mut table = Table::new(settings);
    let from = |host: u32, port: u32| format!("198.51.100.{host}:{}", 1_000 + port);
    let announce = |table: &mut Table, n: u32, host: u32| {
        let place = from(host, n);
        table.say(&keys(n), &place, Some(here("flags", &[&place])))
    };
    let taken = (0..8).filter(|n| is_heard(&announce(&mut table, *n, 1))).count();
    assert_eq!((taken, table.refused(No::Full)), (4, 4));
    assert!(is_heard(&announce(&mut table, 20, 2)));
    assert!(is_heard(&announce(&mut table, 21, 2)));
    assert_eq!(announce(&mut table, 22, 3), Reply::Refused(No::Full), "six in all");
    assert!(is_heard(&announce(&mut table, 21, 2)), "a listed peer stays listed");
    // A peer that moves counts for its new address.
    table.now = table.now + seconds(1);
    assert!(is_heard(&announce(&mut table, 0, 4)));
    assert_eq!(announce(&mut table, 23, 1), Reply::Refused(No::Full), "of six places none is free");
    // A flood is refused from the eleventh request of a second on; others are not.
    let cookie = table.cookie("198.51.100.9:9");
    let list = Request::List { cookie, game: String::new(), after: None };
    let answered = (0..1_000)
        .filter(|_| matches!(table.ask("198.51.100.9:9", list.clone()), Reply::Listed { .. }));
    assert_eq!(answered.count(), 10);
    assert_eq!(table.list("198.51.100.8:9", "").len(), 6);
    table.now = table.now + seconds(1);
    assert_eq!(table.list("198.51.100.9:9", "").len(), 6);
}

#[test]
fn the_number_of_verified_signatures_is_bounded() {
    let settings = LobbySettings { checks_per_second: 5, ..LobbySettings::default() };
    let mut table = Table::new(settings);
    let mut heard = 0;
    for n in 0..20 {
        let place = format!("198.51.{n}.1:1");
        heard += usize::from(is_heard(&table.say(&keys(n), &place, Some(here("x", &[&place])))));
    }
    assert_eq!((heard, table.refused(No::Full)), (5, 15));
}

#[test]
fn names_that_cannot_be_shown_are_refused() {
    let mut table = Table::new(LobbySettings::default());
    let long = "x".repeat(33);
    let wrong = ["", " x", "x\n", "\u{1b}[31mred", "a\u{202e}b", "\u{feff}x", "a\u{200b}b", &long];
    for name in wrong {
        let reply = table.say(&keys(1), HOME, Some(here(name, &[HOME])));
        assert_eq!(reply, Reply::Refused(No::Name), "{name:?}");
    }
    assert!(is_heard(&table.say(&keys(1), HOME, Some(here("Ärger, 遊ぶ & co", &[HOME])))));
    let wordy = Announcement { about: vec![0; MAX_ABOUT + 1], ..here("x", &[HOME]) };
    assert_eq!(table.say(&keys(1), HOME, Some(wordy)), Reply::Refused(No::About));
}

#[test]
fn no_peer_can_send_players_to_another_address() {
    let mut table = Table::new(LobbySettings::default());
    let foreign = ["198.51.100.1:80", "127.0.0.1:80", "[2001:db8::1]:80", "224.0.0.1:5"];
    for contact in foreign.iter().chain(&["203.0.113.7:0"]) {
        let reply = table.say(&keys(1), HOME, Some(here("x", &[HOME, contact])));
        assert_eq!(reply, Reply::Refused(No::Contacts), "{contact}");
    }
    let many = vec![HOME; MAX_CONTACTS + 1];
    assert_eq!(table.say(&keys(1), HOME, Some(here("x", &many))), Reply::Refused(No::Contacts));
    assert_eq!(table.say(&keys(1), HOME, Some(here("x", &[]))), Reply::Refused(No::Contacts));
    // The observed address is filled in; neighbours may use private addresses.
    let said = here("x", &["0.0.0.0:4100", "192.168.1.5:4100"]);
    assert!(is_heard(&table.say(&keys(1), HOME, Some(said))));
    let expected = [address("192.168.1.5:4100"), address("203.0.113.7:4100")];
    assert_eq!(table.list(HOME, "")[0].said.contacts, expected);
}

#[test]
fn a_peer_with_both_families_is_listed_with_both() {
    let mut table = Table::new(LobbySettings::default());
    let (ada, six) = (keys(1), "[2001:db8::7]:4000");
    assert!(is_heard(&table.say(&ada, HOME, Some(here("x", &["0.0.0.0:4100"])))));
    assert!(is_heard(&table.say(&ada, six, Some(here("x", &["[::]:4100"])))));
    let both = [address("203.0.113.7:4100"), address("[2001:db8::7]:4100")];
    let listed = |table: &mut Table| {
        let mut contacts = table.list(HOME, "")[0].said.contacts.clone();
        contacts.sort();
        contacts
    };
    assert_eq!(listed(&mut table), both);
    assert!(is_heard(&table.say(&ada, HOME, Some(here("x", &["0.0.0.0:4200"])))));
    assert_eq!(listed(&mut table), [address("203.0.113.7:4200"), both[1]], "the newer port");
    // A socket for both families shows IPv4 as IPv6; it is the same address.
    let mapped = "[::ffff:203.0.113.7]:4000";
    assert!(is_heard(&table.say(&ada, mapped, Some(here("x", &[HOME])))));
}

#[test]
fn malformed_bytes_get_no_answer_and_change_nothing() {
    let mut table = Table::new(LobbySettings::default());
    assert!(is_heard(&table.say(&keys(1), HOME, Some(here("x", &[HOME])))));
    let (before, mut random) = (table.list(HOME, ""), fastrand::Rng::with_seed(9));
    let saying = table.saying(&keys(2), HOME, Some(here("y", &[HOME])));
    let request = Request::Say(Sealed::new(&saying, &keys(2)));
    let good = encode(&Asked { nonce: 1, request });
    let (mut answered, from) = (0, address(HOME));
    for n in 0..20_000 {
        let mut bytes = match n % 3 {
            0 => (0..random.usize(0..1_400)).map(|_| random.u8(..)).collect(),
            // Truncated.
            1 => good[..random.usize(0..good.len())].to_vec(),
            // A valid head and arbitrary bytes.
            _ => [&good[..5], &(0..80).map(|_| random.u8(..)).collect::<Vec<_>>()].concat(),
        };
        if n % 7 == 0 && bytes.len() > 6 {
            bytes[5] = random.u8(..4);
        }
        answered += usize::from(table.lobby.handle(table.now, from, &bytes).is_some());
    }
    assert!(answered < 20_000);
    assert_eq!(table.lobby.len(), 1);
    table.now = table.now + seconds(1);
    let mut after = table.list(HOME, "");
    after[0].silent = before[0].silent;
    after[0].present = before[0].present;
    assert_eq!(after, before);
    assert!(table.lobby.counters().malformed > 10_000);
    // Too short for a cookie: no reply is longer than its request.
    let short = encode(&Asked { nonce: 1, request: Request::Hello });
    assert!(short.len() < MIN_HELLO);
    assert_eq!(table.lobby.handle(table.now, from, &short), None);
    let mut long = short;
    long.resize(MAX_TALK + 1, 0);
    assert_eq!(table.lobby.handle(table.now, from, &long), None);
}
