//! The orchard as a program: a server, bots that join it, or a peer of a game without a server.

use foveate::io::host::PeerHost;
use foveate::io::keys::KeyPair;
use foveate::io::peer::{PeerEndpoint, PeerOptions};
use foveate::node::game::Brain;
use foveate::node::peer;
use foveate::prelude::*;
use foveate_orchard::{APPLE, BASKET, Basket, Gatherer, Orchard, OrchardSpec, PICKER, ROUND, VIEW};
use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const USAGE: &str = "usage: orchard serve [ADDRESS]
       orchard bots ADDRESS [COUNT [SECONDS]]
       orchard peer [KEY ADDRESS]";
/// Rounds between two lines of output: one second.
const EVERY: u32 = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["serve"] => serve("127.0.0.1:4480".parse()?),
        ["serve", address] => serve(address.parse()?),
        ["bots", address] => bots(address.parse()?, 8, u64::MAX),
        ["bots", address, count] => bots(address.parse()?, count.parse()?, u64::MAX),
        ["bots", address, count, seconds] => {
            bots(address.parse()?, count.parse()?, seconds.parse()?)
        }
        ["peer"] => play(None),
        ["peer", key, address] => play(Some((key.parse()?, address.parse()?))),
        _ => Err(USAGE.into()),
    }
}

/// What there is to see, in one line.
fn describe(world: &World<'_>) -> String {
    let baskets = world.of_kind(BASKET).into_iter().filter_map(|id| world.get::<Basket>(id));
    let points: u32 = baskets.map(|basket| u32::from(basket.score)).sum();
    let (players, apples) = (world.of_kind(PICKER).len(), world.of_kind(APPLE).len());
    format!("{players} players, {apples} apples, {points} points")
}

/// Prints a line; that nobody reads it is no reason to stop.
fn print(line: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{line}").and_then(|()| out.flush()).unwrap_or(());
}

fn serve(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let orchard = Orchard::new(OrchardSpec::default())?;
    let endpoint =
        Endpoint::server(address, Certificate::development(), EndpointOptions::server())?;
    let settings = ServerSettings { rounds: Rounds::every(ROUND), ..ServerSettings::default() };
    let mut host = ServerHost::new(orchard, settings, endpoint, AllowAll::default());
    host.server.simulation.populate()?;
    print(&format!("listening on {}", host.endpoint.address()?));
    loop {
        host.step()?;
        if host.tick().0.is_multiple_of(EVERY) {
            print(&describe(&host.server.simulation.world()));
        }
    }
}

fn bots(server: SocketAddr, count: usize, seconds: u64) -> Result<(), Box<dyn Error>> {
    let orchard = Orchard::new(OrchardSpec::default())?;
    // On one machine only: a client elsewhere pins the server's certificate, or asks the system.
    let trust = Trust::InsecureDevelopmentOnly;
    let endpoint = Endpoint::client("0.0.0.0:0".parse()?, &trust, EndpointOptions::client())?;
    let mut host = ClientsHost::new(endpoint);
    let mut brains = vec![Gatherer::default(); count];
    for nth in 0..count {
        host.join(orchard.clone(), server, &format!("bot {nth}"), &[])?;
    }
    let began = Instant::now();
    while began.elapsed().as_secs() < seconds {
        let until = Instant::now() + Duration::from_secs(1);
        host.step(until, |at, world, me, actions| brains[at].think(world, me, actions))?;
        host.players()[0].client.see(host.now(), |world| print(&describe(world)));
        if let Some(why) = host.players().iter().find_map(|player| player.ended.clone()) {
            return Err(format!("a bot's link ended: {why}").into());
        }
    }
    host.leave(Micros::from_millis(1_000))?;
    Ok(())
}

fn play(contact: Option<(peer::Key, SocketAddr)>) -> Result<(), Box<dyn Error>> {
    let orchard = Orchard::new(OrchardSpec::default())?;
    let keys = KeyPair::generate()?;
    let endpoint = PeerEndpoint::bind(&["127.0.0.1:0".parse()?], &keys, PeerOptions::default())?;
    let address = endpoint.addresses().first().map(SocketAddr::to_string).unwrap_or_default();
    print(&format!("peer {} {address}", endpoint.key()));
    let settings = peer::PeerSettings::new(ROUND, Metres(VIEW), Vec::new());
    let mut host = PeerHost::new(orchard, settings, keys, endpoint, "gatherer");
    match contact {
        Some((key, address)) => host.join([(key, vec![address])]),
        None => host.found()?,
    }
    let mut brain = Gatherer::default();
    loop {
        host.step(|peer| {
            let mut actions = Vec::new();
            let input = brain.think(&peer.world(), peer.avatar(), &mut actions);
            peer.input(input);
            actions.into_iter().for_each(|(object, action)| _ = peer.ask(object, action));
        })?;
        if host.is_stranded() {
            return Err("the named peer does not let this one in; check its key and address".into());
        }
        if host.peer.is_inside() && host.tick().0.is_multiple_of(EVERY) {
            let owned = host.peer.owned().count();
            print(&format!("{}, owns {owned}", describe(&host.peer.world())));
        }
    }
}
