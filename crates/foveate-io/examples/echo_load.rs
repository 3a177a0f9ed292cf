//! The cost of a client for a server: one datagram down and one up per client and tick.
//!
//! `cargo run --release -p foveate-io --example echo_load -- [clients] [seconds] [spread ms] [gather µs] [timer slack
//! ms]` starts a second process for the clients, so that each side's processor time is separate, and prints one figure
//! per line. The server does nothing but IO.

use std::error::Error;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use foveate_io::{
    Certificate, Endpoint, EndpointOptions, Limits, LinkEvent, LinkId, LinkMeter, RateLimit, Trust,
};
use foveate_wire::Micros;

const TICK: Duration = Duration::from_millis(50);
const DOWN: [u8; 150] = [7; 150];
const UP: [u8; 20] = [9; 20];
/// Clients send at one of this many moments of a tick.
const PHASES: u32 = 50;
/// Time for the work of handshakes to finish before measuring.
const SETTLING: Duration = Duration::from_secs(2);

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [role, server, clients, slack] = args.as_slice()
        && role == "clients"
    {
        return clients_side(server.parse()?, clients.parse()?, Micros(slack.parse()?));
    }
    let number = |place: usize, default| args.get(place).map_or(Ok(default), |text| text.parse());
    let spread = Micros::from_millis(number(2, 0)?);
    let gather = Micros(number(3, EndpointOptions::server().gather.0)?);
    let timer_slack = Micros::from_millis(number(4, 30)?);
    let options = EndpointOptions { spread, gather, timer_slack, ..EndpointOptions::server() };
    server_side(number(0, 500)?, number(1, 10)?, options)
}

fn server_side(clients: u64, seconds: u64, mut options: EndpointOptions) -> Outcome {
    options.limits = Limits {
        max_links: clients as u32 + 10,
        max_links_per_address: clients as u32 + 10,
        handshakes_per_address: RateLimit::per_second(100_000),
        retry_above: 100_000,
        ..Limits::server()
    };
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    let slack = options.timer_slack.0.to_string();
    let mut server = Endpoint::server(here, Certificate::development(), options)?;
    let idle_memory = resident()?;
    let mut load = Command::new(std::env::current_exe()?)
        .args(["clients", &server.address()?.to_string(), &clients.to_string(), &slack])
        .stdin(Stdio::null())
        .spawn()?;
    let mut links = Vec::new();
    let began = processor_time()?;
    accept(&mut server, &mut links, clients as usize)?;
    let handshake = (processor_time()? - began).as_secs_f64() * 1e3 / clients as f64;

    run(&mut server, &links, SETTLING)?;
    let (before, began) = (server.total(), processor_time()?);
    let ticks = run(&mut server, &links, Duration::from_secs(seconds))?;
    let spent = processor_time()? - began;
    let rounds = (clients * ticks) as f64;
    let memory = (resident()? - idle_memory) as f64 / 1024.0 / clients as f64;
    println!("clients                         {clients}");
    println!("ticks                           {ticks}");
    println!("server CPU / client and tick    {:.1} µs", spent.as_micros() as f64 / rounds);
    println!("server CPU / handshake          {handshake:.2} ms");
    println!("resident memory / connection    {memory:.1} KiB");
    print_traffic(&before, &server.total(), rounds);
    println!("{:?}", server.counters());
    server.shutdown(Micros::from_millis(500), &mut Vec::new())?;
    load.wait()?;
    Ok(())
}

fn print_traffic(before: &LinkMeter, after: &LinkMeter, rounds: f64) {
    for (way, before, after) in
        [("down", before.sent, after.sent), ("up", before.received, after.received)]
    {
        let packets = (after.packets - before.packets) as f64;
        let bytes = (after.bytes - before.bytes) as f64;
        let datagrams = (after.datagrams - before.datagrams) as f64;
        println!("datagrams {way:4} / client and tick {:.3}", datagrams / rounds);
        println!("packets {way:4} / client and tick   {:.3}", packets / rounds);
        println!("bytes {way:4} / packet              {:.1}", bytes / packets);
    }
    println!("lost packets                    {}", after.lost_packets - before.lost_packets);
    println!("mean round trip                 {:?}", after.round_trip);
}

fn accept(server: &mut Endpoint, links: &mut Vec<LinkId>, count: usize) -> Outcome {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut events = Vec::new();
    while links.len() < count {
        if Instant::now() > deadline {
            return Err(format!("only {} of {count} clients connected", links.len()).into());
        }
        server.wait(Instant::now() + TICK, &mut events)?;
        links.extend(events.drain(..).filter_map(|event| match event {
            LinkEvent::Connected { link, .. } => Some(link),
            _ => None,
        }));
    }
    Ok(())
}

/// Sends a datagram to every client in each tick; returns the number of ticks.
fn run(server: &mut Endpoint, links: &[LinkId], span: Duration) -> Result<u64, Box<dyn Error>> {
    let begun = Instant::now();
    let mut events = Vec::new();
    let mut ticks = 0;
    while begun.elapsed() < span {
        for link in links {
            server.send_datagram(*link, &DOWN)?;
        }
        server.flush();
        ticks += 1;
        let until = begun + TICK * ticks;
        while Instant::now() < until {
            server.wait(until, &mut events)?;
            events.clear();
        }
    }
    Ok(u64::from(ticks))
}

/// Every client sends once a tick, each at its own moment, until the server closes the links.
fn clients_side(server: SocketAddr, clients: u64, timer_slack: Micros) -> Outcome {
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut options = EndpointOptions { timer_slack, ..EndpointOptions::client() };
    options.limits.max_links = clients as u32;
    let mut endpoint = Endpoint::client(here, &Trust::InsecureDevelopmentOnly, options)?;
    let mut phases: Vec<Vec<LinkId>> = vec![Vec::new(); PHASES as usize];
    let (mut dialled, mut turn) = (0, 0);
    let mut events = Vec::new();
    let start = Instant::now();
    loop {
        // A few handshakes at a time, as on a real server.
        for _ in 0..(clients - dialled).min(2) {
            endpoint.connect(server, "localhost")?;
            dialled += 1;
        }
        for link in &phases[(turn % PHASES) as usize] {
            endpoint.send_datagram(*link, &UP)?;
        }
        endpoint.flush();
        turn += 1;
        let until = start + TICK * turn / PHASES;
        while Instant::now() < until {
            endpoint.wait(until, &mut events)?;
            for event in events.drain(..) {
                match event {
                    LinkEvent::Connected { link, .. } => {
                        phases[link.index() % PHASES as usize].push(link);
                    }
                    LinkEvent::Closed { .. } => return Ok(()),
                    _ => {}
                }
            }
        }
    }
}

/// Processor time of this process so far, user and kernel.
fn processor_time() -> Result<Duration, Box<dyn Error>> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Ok(Duration::new(u64::try_from(now.tv_sec)?, u32::try_from(now.tv_nsec)?))
}

/// Resident memory of this process in bytes.
fn resident() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()).unwrap_or("0");
    Ok(kibibytes.parse::<u64>()? * 1024)
}
