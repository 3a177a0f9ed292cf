//! The orchard as a program: a server, bots that join it, or a peer of a game without a server.

use foveate::prelude::*;
use foveate_orchard::{Apple, Basket, Gatherer, Orchard, OrchardSpec, Picker};
use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const USAGE: &str = "usage: orchard serve [ADDRESS]
       orchard bots ADDRESS [COUNT [SECONDS]]
       orchard peer [KEY@ADDRESS]";
/// Rounds between two lines of output: one second.
const EVERY: u32 = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["serve"] => serve("127.0.0.1:4480"),
        ["serve", address] => serve(address),
        ["bots", address] => bots(address.parse()?, 8, u64::MAX),
        ["bots", address, count] => bots(address.parse()?, count.parse()?, u64::MAX),
        ["bots", address, count, seconds] => {
            bots(address.parse()?, count.parse()?, seconds.parse()?)
        }
        ["peer"] => play(None),
        ["peer", contact] => play(Some(contact)),
        _ => Err(USAGE.into()),
    }
}

/// The visible world in one line.
fn describe(world: &World<'_>) -> String {
    let points: u32 = world.iter::<Basket>().map(|(_, basket)| u32::from(basket.score)).sum();
    let (players, apples) = (world.iter::<Picker>().count(), world.iter::<Apple>().count());
    format!("{players} players, {apples} apples, {points} points")
}

/// Prints a line, and continues if the output is closed.
fn print(line: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{line}").and_then(|()| out.flush()).unwrap_or(());
}

fn serve(address: &str) -> Result<(), Box<dyn Error>> {
    let mut server = Server::bind(Orchard::new(OrchardSpec::default())?, address)?;
    print(&format!("listening on {}", server.address()?));
    loop {
        server.step()?;
        if server.tick().0.is_multiple_of(EVERY) {
            print(&describe(&server.world()));
        }
    }
}

fn bots(server: SocketAddr, count: usize, seconds: u64) -> Result<(), Box<dyn Error>> {
    let orchard = Orchard::new(OrchardSpec::default())?;
    // On one machine only: a client elsewhere pins the server's certificate, or trusts the
    // system's.
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

fn play(contact: Option<&str>) -> Result<(), Box<dyn Error>> {
    let builder = Peer::builder(Orchard::new(OrchardSpec::default())?, "gatherer");
    let mut host = match contact {
        Some(contact) => builder.join("127.0.0.1:0", contact)?,
        None => builder.found("127.0.0.1:0")?,
    };
    print(&format!("peer {}", host.address()));
    let mut brain = Gatherer::default();
    loop {
        host.step(|peer| {
            let mut actions = Vec::new();
            let input = brain.think(&peer.world(), peer.avatar(), &mut actions);
            peer.input(input);
            actions.into_iter().for_each(|(object, action)| _ = peer.ask(object, action));
        })?;
        if host.is_stranded() {
            return Err("cannot join the given peer; check its key and address".into());
        }
        if host.peer.is_inside() && host.tick().0.is_multiple_of(EVERY) {
            let owned = host.peer.owned().count();
            print(&format!("{}, owns {owned}", describe(&host.world())));
        }
    }
}
