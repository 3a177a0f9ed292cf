//! try
use foveate_lab::experiments::ownership::*;
use foveate_lab::experiments::peers::{liars, swarm};
use foveate_lab::movement::{Crowd, Movement, Waypoint, WaypointSpec};
use foveate_lab::net::Latency;
use foveate_wire::Micros;
fn show(name: &str, l: &Looks) {
    println!("{name}: delta mean {:.5} p95 {:.5} | agree {:.3} lack {:.4} unclean {:.4} | bytes/s mean {:.0} p95 {:.0} max {:.0} | packets {:.1} msgs {:.1} | owned {:?}",
        l.delta.mean(), l.delta.quantile(0.95), l.share(l.agreeing), l.share(l.lacking), l.share(l.unclean), l.bytes.mean(), l.bytes.quantile(0.95), l.bytes.max(), l.packets.mean(), l.line.iter().map(|s| s.protocol_s).sum::<f64>() / l.line.len() as f64, l.owned);
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let what = args[1].as_str();
    let n: u64 = args.get(2).and_then(|s| s.parse().ok()).unwrap_or(20);
    let start = std::time::Instant::now();
    match what {
        "crash" => for (players, objects) in [(16, 72), (32, 72)] {
            let c = crash(Size { players, objects }, Micros(n * 1_000_000), 1).unwrap();
            show(&format!("{players} before"), &c.before);
            show(&format!("{players} after"), &c.after);
            println!("lost {} settled {:.2}s  [{:?}]", c.lost, c.settled_s, start.elapsed());
        },
        "mix" => {
            let c = partition(Size { players: 32, objects: 72 }, Micros(20_000_000), 1).unwrap();
            show("partition", &c.during);
            show("healed", &c.after);
            println!("kept {} clean {} settled {:.2}s [{:?}]", c.kept, c.clean, c.settled_s, start.elapsed());
            let c = churn(Size { players: 32, objects: 72 }, Micros(60_000_000), 0.1, 1).unwrap();
            show("churn", &c.during);
            show("after", &c.after);
            println!("kept {} clean {} settled {:.2}s [{:?}]", c.kept, c.clean, c.settled_s, start.elapsed());
        }
        "graded" => {
            let nodes = n as usize;
            let side = 300.0 * (nodes as f32 / 100.0).sqrt();
            let walk: Box<dyn Movement> = Box::new(Waypoint::new(WaypointSpec { count: nodes + 1, side, speed: [3.0, 8.0], pause: [0.0, 2.0], leg: 40.0, rate: 20.0 }, 3));
            let _ = Crowd::new(1, 1.0, 1);
            let wide = nodes > 100;
            let game = swarm::Game { nodes, latency: Latency::Constant(Micros(30_000)), loss: 0.01, relayed: if wide { 0.3 } else { 0.0 }, uplinks: [125_000, 2_500_000], measured: Micros(10_000_000), seed: 1 };
            let f = swarm::measure(&game, walk).unwrap();
            let mean = f.bytes.iter().sum::<f64>() / f.bytes.len() as f64;
            println!("{nodes}: bytes {mean:.0} max {:.0} uplink share {:.3} packets {:.0} inc {:.4} share {:.4} inj {:.5} near {:.1}ms far {:.0}ms deeds {:?} links {} seen {:.4} join {:?} {:?} wronged {} [{:?}]", f.bytes.iter().fold(0.0, |a: f64, b| a.max(*b)), f.uplink_share, f.packets, f.inc.inc / f.looks, f.inc.share(), f.inj / f.looks, f.delay_near.mean(), f.delay_far.mean(), f.deeds, f.links, f.seen.0 as f64 / f.seen.1 as f64, f.join_all_s, f.join_near_s, f.wronged, start.elapsed());
        }
        _ => {
            for lie in liars::Lie::ALL {
                let h = liars::harm(Size { players: 16, objects: 36 }, lie, Micros(n * 1_000_000), 1).unwrap();
                println!("{lie:?}: {h:?} [{:?}]", start.elapsed());
            }
            println!("tampered {}", liars::tampered(3000, 1));
        }
    }
}
