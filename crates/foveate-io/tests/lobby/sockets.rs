//! A lobby that listens, and its clients.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use foveate_io::keys::KeyPair;
use foveate_io::lobby::{LobbyClient, LobbyError, LobbyHost};
use foveate_node::lobby::{Announcement, LobbySettings, No};
use foveate_node::peer::Signer;
use foveate_wire::Micros;

/// The longest that anything may take, short of a hang.
const PATIENCE: Duration = Duration::from_secs(120);
/// Packets of a flood that are sent before the first request, and between two pauses.
const BURST: u64 = 64;

/// A lobby in a thread; it ends when dropped.
struct Running {
    addresses: Vec<SocketAddr>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<LobbyHost>>,
}

impl Running {
    fn start(addresses: &[&str], settings: LobbySettings) -> Running {
        let addresses: Vec<SocketAddr> =
            addresses.iter().map(|text| text.parse().expect("an address")).collect();
        let mut host = bind(&addresses, &settings);
        let (addresses, stop) =
            (host.addresses().expect("bound"), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                host.step(Instant::now() + Duration::from_millis(5)).expect("sockets work");
            }
            host
        });
        Running { addresses, stop, thread: Some(thread) }
    }

    fn end(&mut self) -> Option<LobbyHost> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(|thread| thread.join().expect("the lobby ends"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Another program may be given the port of a closed lobby for a moment.
fn bind(addresses: &[SocketAddr], settings: &LobbySettings) -> LobbyHost {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match LobbyHost::bind(addresses, settings.clone()) {
            Ok(host) => return host,
            Err(error) => assert!(Instant::now() < deadline, "{addresses:?}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn client(lobby: SocketAddr, seed: u8) -> LobbyClient {
    let keys = KeyPair::from_secret([seed; 32]).expect("any 32 bytes are a secret");
    LobbyClient::new(lobby, keys).expect("a free port")
}

fn here(contact: &str) -> Announcement {
    let contacts = vec![contact.parse().expect("an address")];
    Announcement { game: "flags".into(), players: 1, room: 12, about: Vec::new(), contacts }
}

#[test]
fn peers_announce_list_and_leave_over_both_families() {
    let lobby = Running::start(&["127.0.0.1:0", "[::1]:0"], LobbySettings::default());
    for (seed, contact) in [(1, "127.0.0.1:4000"), (2, "[::1]:4000")] {
        let address = lobby.addresses[usize::from(seed == 2)];
        let lasts = client(address, seed).announce(here(contact), PATIENCE).expect("heard");
        assert_eq!(lasts, Duration::from_secs(15));
    }
    let mut asker = client(lobby.addresses[1], 3);
    let listed = asker.list("flags", PATIENCE).expect("a list");
    assert_eq!(listed.len(), 2);
    assert_eq!(listed.iter().filter(|entry| entry.said.contacts[0].is_ipv6()).count(), 1);
    client(lobby.addresses[0], 1).leave(PATIENCE).expect("heard");
    let left = asker.list("", PATIENCE).expect("a list");
    assert_eq!(left.len(), 1);
    let expected = KeyPair::from_secret([2; 32]).expect("a secret").key();
    assert_eq!(left[0].key, expected);
}

#[test]
fn a_kept_announcement_outlives_a_restart_of_the_lobby_and_ends_with_its_peer() {
    let brief = LobbySettings { life: Micros::from_millis(1_500), ..LobbySettings::default() };
    let mut lobby = Running::start(&["127.0.0.1:0"], brief.clone());
    let address = lobby.addresses[0];
    let (mut ada, mut asker) = (client(address, 1), client(address, 2));
    ada.keep(here("127.0.0.1:4000"));
    let mut listed_after = |ada: &mut LobbyClient, span: Duration, expected: usize| {
        let (begun, deadline) = (Instant::now(), Instant::now() + PATIENCE);
        loop {
            assert_eq!(ada.poll(), None);
            let listed = asker.list("flags", PATIENCE).expect("a list").len();
            if begun.elapsed() >= span && listed == expected {
                return;
            }
            assert!(Instant::now() < deadline, "waited in vain for {expected}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    // Longer than an announcement lasts.
    listed_after(&mut ada, Duration::from_secs(3), 1);
    lobby.end();
    // Its secret is a new one, so that no old cookie is valid.
    let again = Running::start(&[&address.to_string()], brief);
    listed_after(&mut ada, Duration::ZERO, 1);
    let mut gone = client(again.addresses[0], 3);
    drop(ada);
    listed_after(&mut gone, Duration::ZERO, 0);
}

#[test]
fn refusals_and_timeouts_are_distinguished() {
    let lobby = Running::start(&["127.0.0.1:0"], LobbySettings::default());
    let mut ada = client(lobby.addresses[0], 1);
    let refused = ada.announce(here("198.51.100.1:80"), PATIENCE);
    assert!(matches!(refused, Err(LobbyError::Refused(No::Contacts))), "{refused:?}");
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let mut lonely = client(silent.local_addr().expect("bound"), 1);
    let said = lonely.list("", Duration::from_millis(900));
    assert!(matches!(said, Err(LobbyError::Silent(_))), "{said:?}");
}

#[test]
fn a_flood_of_rubbish_does_not_keep_a_lobby_from_its_peers() {
    let mut lobby = Running::start(&["127.0.0.1:0"], LobbySettings::default());
    let (address, stop) = (lobby.addresses[0], Arc::new(AtomicBool::new(false)));
    let flooding = Arc::clone(&stop);
    let (begun, has_begun) = std::sync::mpsc::channel();
    let flood = std::thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let (mut random, mut sent) = (fastrand::Rng::with_seed(3), 0);
        while !flooding.load(Ordering::Relaxed) {
            let bytes: Vec<u8> = (0..random.usize(0..300)).map(|_| random.u8(..)).collect();
            sent += u64::from(socket.send_to(&bytes, address).is_ok());
            if sent % BURST == 0 {
                // The test may have failed and ended.
                let _ = begun.send(());
                // The lobby must get the processor, even if there is only one.
                std::thread::yield_now();
            }
        }
        sent
    });
    has_begun.recv_timeout(PATIENCE).expect("the flood begins");
    let mut ada = client(address, 1);
    ada.announce(here("127.0.0.1:4000"), PATIENCE).expect("heard in the noise");
    assert_eq!(ada.list("flags", PATIENCE).expect("a list").len(), 1);
    stop.store(true, Ordering::Relaxed);
    assert!(flood.join().expect("the flood ends") >= BURST);
    let host = lobby.end().expect("it ran");
    // What was sent before the announcement was read before it.
    assert!(host.lobby.counters().malformed > 0);
}

#[test]
fn a_peer_with_two_sockets_can_repeatedly_announce_on_both() {
    let running = Running::start(&["127.0.0.1:0"], LobbySettings::default());
    let (mut one, mut two) = (client(running.addresses[0], 7), client(running.addresses[0], 7));
    for turn in 0..3 {
        for way in [&mut one, &mut two] {
            let heard = way.announce(here("127.0.0.1:7777"), PATIENCE);
            assert!(heard.is_ok(), "turn {turn}: {heard:?}");
        }
    }
}
