//! Clients on real sockets of this machine reach the server that they named, at any of its
//! addresses, or get the reason at once.
//!
//! Link timeouts are an hour here, so that no session ends by a timeout within the test's patience.

#[path = "../examples/patrol/mod.rs"]
mod patrol;

use foveate::io::Unreachable;
use foveate::node::session::Refusal;
use foveate::prelude::*;
use patrol::Patrol;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

type Server = foveate::Server<Patrol>;
type Clients = ClientsHost<Patrol>;

fn hour() -> Micros {
    Micros::from_millis(3_600_000)
}

/// A self-signed certificate for one host, and the trust in it.
struct Issued {
    certificate: Certificate,
    trust: Trust,
}

fn issue(host: &str) -> Issued {
    let made = rcgen::generate_simple_self_signed([host.to_owned()]).unwrap();
    let file = |what: &str, label: &str, der: &[u8]| -> PathBuf {
        let unique = host.replace(':', "_") + "-" + &std::process::id().to_string();
        let thread = format!("{:?}", std::thread::current().id()).replace(['(', ')'], "");
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("foveate-{unique}-{thread}.{what}.pem"));
        let text = format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", base64(der));
        std::fs::write(&path, text).unwrap();
        path
    };
    let chain = file("chain", "CERTIFICATE", made.cert.der());
    let key = file("key", "PRIVATE KEY", &made.signing_key.serialize_der());
    Issued { trust: Trust::Roots(chain.clone()), certificate: Certificate::Files { chain, key } }
}

fn base64(bytes: &[u8]) -> String {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let word =
            (0..3).fold(0, |word, at| word << 8 | u32::from(three.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            let letter = letters[(word >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

fn serve(ip: IpAddr, certificate: Certificate) -> (Server, SocketAddr) {
    let options = EndpointOptions { idle_timeout: hour(), ..EndpointOptions::server() };
    let server = foveate::Server::builder(Patrol::new().unwrap());
    let server = server.certificate(certificate).options(options).bind((ip, 0)).unwrap();
    let address = server.address().unwrap();
    (server, address)
}

fn clients(trust: &Trust) -> Clients {
    let options = EndpointOptions { idle_timeout: hour(), ..EndpointOptions::client() };
    let endpoint = Endpoint::client("0.0.0.0:0".parse().unwrap(), trust, options).unwrap();
    ClientsHost::new(endpoint)
}

fn ask(host: &str, address: SocketAddr) -> ServerAddress {
    format!("{host}:{}", address.port()).parse().unwrap()
}

/// Lets both run until the client's session has begun or ended.
fn settle(server: Option<&mut Server>, clients: &mut Clients) -> Result<(), SessionEnd> {
    run(server, clients, |clients| {
        let player = &clients.players()[0];
        player.client.joined().is_some() || player.ended.is_some()
    });
    clients.player(0).ended.clone().map_or(Ok(()), Err)
}

fn run(
    mut server: Option<&mut Server>,
    clients: &mut Clients,
    mut done: impl FnMut(&mut Clients) -> bool,
) {
    let begun = Instant::now();
    while !done(clients) {
        assert!(begun.elapsed() < PATIENCE, "waited in vain");
        if let Some(server) = &mut server {
            server.poll_step().unwrap();
        }
        clients.poll_step(|_, _, _, _| [0, 0]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether this machine has a loopback address of this family.
fn has(ip: IpAddr) -> bool {
    let there = UdpSocket::bind((ip, 0)).is_ok();
    if !there {
        println!("skipped: this machine has no {ip}");
    }
    there
}

/// A port of this machine on which nothing listens.
fn closed_port(ip: IpAddr) -> SocketAddr {
    UdpSocket::bind((ip, 0)).unwrap().local_addr().unwrap()
}

fn both_families() -> impl Iterator<Item = IpAddr> {
    [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()]
        .into_iter()
        .filter(|ip| has(*ip))
}

#[test]
fn a_server_is_joined_by_its_number_in_either_family() {
    for ip in both_families() {
        let issued = issue(&ip.to_string());
        let (mut server, address) = serve(ip, issued.certificate);
        let mut clients = clients(&issued.trust);
        clients.join(Patrol::new().unwrap(), address, "ada", &[]).unwrap();
        settle(Some(&mut server), &mut clients).unwrap();
    }
}

#[test]
fn a_server_is_joined_by_its_name() {
    let issued = issue("localhost");
    let (mut server, address) = serve(Ipv4Addr::LOCALHOST.into(), issued.certificate);
    let mut clients = clients(&issued.trust);
    clients.join(Patrol::new().unwrap(), ask("localhost", address), "ada", &[]).unwrap();
    settle(Some(&mut server), &mut clients).unwrap();
}

#[test]
fn a_certificate_for_another_name_is_refused_unless_its_hash_is_pinned() {
    let issued = issue("other.example");
    let (mut server, address) = serve(Ipv4Addr::LOCALHOST.into(), issued.certificate);
    let asked = ask("localhost", address);
    let mut strict = clients(&issued.trust);
    strict.join(Patrol::new().unwrap(), &asked, "ada", &[]).unwrap();
    let end = settle(Some(&mut server), &mut strict).expect_err("another name");
    assert!(matches!(end.cause, EndCause::Untrusted(_)), "{end}");
    assert_eq!((&end.server, end.address), (&asked, Some(address)));
    assert!(end.to_string().contains("localhost"), "{end}");

    // The server that the certificate names, at the same address, is trusted.
    let named = ask("other.example", address);
    let mut right = clients(&issued.trust);
    right.set_addresses(&named, &[address]);
    right.join(Patrol::new().unwrap(), named, "eve", &[]).unwrap();
    settle(Some(&mut server), &mut right).unwrap();

    let hash = server.endpoint.certificate_hash().unwrap();
    let mut pinned = clients(&Trust::Pinned(vec![hash]));
    pinned.join(Patrol::new().unwrap(), &asked, "bob", &[]).unwrap();
    settle(Some(&mut server), &mut pinned).unwrap();
}

#[test]
fn addresses_of_a_host_are_tried_in_turn_across_families() {
    for ip in both_families() {
        let issued = issue("localhost");
        let (mut server, address) = serve(ip, issued.certificate);
        let asked = ask("localhost", address);
        let mut clients = clients(&issued.trust);
        let dead: Vec<SocketAddr> = both_families().map(closed_port).collect();
        clients.set_addresses(&asked, &[&dead[..], &[address]].concat());
        clients.join(Patrol::new().unwrap(), &asked, "ada", &[]).unwrap();
        settle(Some(&mut server), &mut clients).unwrap();
    }
}

#[test]
fn a_port_at_which_nothing_listens_is_reported_at_once() {
    for ip in both_families() {
        let nowhere = closed_port(ip);
        let mut clients = clients(&Trust::InsecureDevelopmentOnly);
        clients.join(Patrol::new().unwrap(), nowhere, "ada", &[]).unwrap();
        let end = settle(None, &mut clients).expect_err("nothing listens");
        assert_eq!(end.cause, EndCause::Unreachable(Unreachable::Port), "{end}");
        assert_eq!(end.address, Some(nowhere));
        assert!(end.to_string().contains(&nowhere.to_string()), "{end}");
    }
}

#[test]
fn a_name_without_an_address_is_reported_by_the_join_itself() {
    let mut clients = clients(&Trust::InsecureDevelopmentOnly);
    let asked: ServerAddress = "nowhere.invalid:4433".parse().unwrap();
    clients.join(Patrol::new().unwrap(), &asked, "ada", &[]).unwrap();
    let end = clients.player(0).ended.clone().expect("at once");
    assert!(matches!(end.cause, EndCause::NotResolved(_)), "{end}");
    assert_eq!((&end.server, end.address), (&asked, None));
}

#[test]
fn a_server_that_goes_away_is_reported_and_can_be_joined_again() {
    let ip = IpAddr::from(Ipv4Addr::LOCALHOST);
    let (mut server, address) = serve(ip, Certificate::development());
    let mut clients = clients(&Trust::InsecureDevelopmentOnly);
    clients.join(Patrol::new().unwrap(), address, "ada", &[]).unwrap();
    settle(Some(&mut server), &mut clients).unwrap();
    drop(server);
    run(None, &mut clients, |clients| clients.player(0).ended.is_some());
    let end = clients.player(0).ended.clone().expect("ended");
    assert!(matches!(end.cause, EndCause::Lost(_)), "{end}");

    let (mut server, other) = serve(ip, Certificate::development());
    clients.rejoin(0, other).unwrap();
    settle(Some(&mut server), &mut clients).unwrap();
}

#[test]
fn a_refusal_by_the_server_has_its_code_and_text() {
    let (mut server, address) = serve(Ipv4Addr::LOCALHOST.into(), Certificate::development());
    let mut clients = clients(&Trust::InsecureDevelopmentOnly);
    clients.join(Patrol::new().unwrap(), address, &"x".repeat(99), &[]).unwrap();
    let end = settle(Some(&mut server), &mut clients).expect_err("too long a name");
    let EndCause::Refused { code, text } = &end.cause else { panic!("{end}") };
    assert_eq!(*code, Refusal::Name);
    assert!(!text.is_empty() && end.to_string().contains(text.as_str()), "{end}");
}

#[test]
fn a_host_asks_for_names_and_views() {
    let (mut server, address) = serve(Ipv4Addr::LOCALHOST.into(), Certificate::development());
    let mut clients = clients(&Trust::InsecureDevelopmentOnly);
    clients.join(Patrol::new().unwrap(), address, "ada", &[]).unwrap();
    settle(Some(&mut server), &mut clients).unwrap();
    let me = clients.player(0).client.joined().unwrap();
    clients.set_view(0, 0);
    clients.watch(0, Some(me.avatar));
    clients.who(0, me.player);
    run(Some(&mut server), &mut clients, |clients| {
        std::iter::from_fn(|| clients.player(0).client.poll())
            .any(|news| news == News::Named(me.player, "ada".into()))
    });
}
