//! `foveate lobby`: lists games, and peers through which to join them.

use foveate_io::keys::KeyPair;
use foveate_io::lobby::{LobbyClient, LobbyHost};
use foveate_node::lobby::{Entry, LobbySettings};
use foveate_wire::Micros;
use std::collections::BTreeMap;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval between checks whether to stop.
const STEP: Duration = Duration::from_millis(200);
/// The longest that a lobby may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A list of games without a server
#[derive(clap::Args)]
pub struct LobbyArgs {
    /// Address to listen on; may be given several times: IPv4, IPv6, or [::] for both where the system allows it
    #[arg(long, default_value = "[::]:7780")]
    listen: Vec<SocketAddr>,
    /// Seconds for which a peer is listed after its last announcement
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(2..=3600))]
    life: u64,
    /// Most peers from one address
    #[arg(long, default_value_t = LobbySettings::default().max_peers_per_address)]
    per_address: usize,
    /// Ask the lobby at this address instead, and print its list
    #[arg(long, conflicts_with_all = ["listen", "life", "per_address"])]
    list: Option<SocketAddr>,
}

/// Runs a lobby until told to stop, or prints another lobby's list.
pub fn run(args: &LobbyArgs) -> Result<(), Box<dyn Error>> {
    match args.list {
        Some(lobby) => print(lobby),
        None => serve(args),
    }
}

fn serve(args: &LobbyArgs) -> Result<(), Box<dyn Error>> {
    let settings = LobbySettings {
        life: Micros::from_millis(args.life * 1_000),
        max_peers_per_address: args.per_address,
        ..LobbySettings::default()
    };
    let mut host = LobbyHost::bind(&args.listen, settings)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    for address in host.addresses()? {
        println!("listening on {address}");
    }
    while !stop.load(Ordering::Relaxed) {
        host.step(Instant::now() + STEP)?;
    }
    let counters = host.lobby.counters();
    println!(
        "{} requests, {} announcements, {} lists, {} peers fell silent, {} malformed",
        counters.requests, counters.heard, counters.lists, counters.expired, counters.malformed
    );
    for (why, count) in &counters.refused {
        println!("refused {count} times: {why}");
    }
    Ok(())
}

fn print(lobby: SocketAddr) -> Result<(), Box<dyn Error>> {
    let mut client = LobbyClient::new(lobby, KeyPair::generate()?)?;
    let mut games: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
    for entry in client.list("", PATIENCE)? {
        games.entry(entry.said.game.clone()).or_default().push(entry);
    }
    if games.is_empty() {
        println!("no games");
    }
    for (game, entries) in games {
        let most = entries.iter().map(|entry| entry.said.players).max().unwrap_or(0);
        let room = entries.iter().map(|entry| entry.said.room).max().unwrap_or(0);
        println!("{game}: {most} of {room} players, {} contacts", entries.len());
        for entry in entries {
            let contacts: Vec<String> =
                entry.said.contacts.iter().map(SocketAddr::to_string).collect();
            let silence = entry.silence().0 / 1_000;
            println!("  {} heard {silence} ms ago, at {}", entry.key, contacts.join(", "));
        }
    }
    Ok(())
}
