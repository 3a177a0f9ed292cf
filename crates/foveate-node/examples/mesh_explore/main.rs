mod net;
mod mesh {
    pub mod check;
    pub mod cost;
    pub mod faults;
    pub mod game;
    pub mod ledger;
    pub mod run;
    pub mod world;
}
use mesh::faults::*;
use mesh::run::*;
use foveate_wire::Micros;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let (from, to, secs): (u64, u64, u64) = (a[2].parse().unwrap(), a[3].parse().unwrap(), a[4].parse().unwrap());
    let mut f = match a[1].as_str() { "all" => FaultSpec::ALL, "crash" => FaultSpec::CRASHES, _ => FaultSpec::NONE };
    let players = a.get(5).map_or(8, |it| it.parse().unwrap());
    for flag in a.iter().skip(6) { match flag.as_str() {
        "nolayout" => f.layout_every = Micros::ZERO, "noloss" => { f.loss = 0.0; f.double = 0.0 },
        "nocrash" => f.crashes = 0.0, "nolinks" => f.links = 0.0, "nodrift" => f.drift = 0, "nolate" => { f.late_followers=0.0; f.stalls=0.0; f.spikes=0.0 } _ => {} } }
    for seed in from..to {
        let t = std::time::Instant::now();
        let r = run(&MeshSpec { players, ..MeshSpec::small(f, Micros(secs * 1_000_000), seed) }).unwrap();
        let c = &r.counts;
        let max = |v: &Vec<Micros>| v.iter().max().map_or(0, |m| m.0 / 1000);
        println!("seed {seed} {:.1}s: handoffs {} avatars {} moves {} joins {} leaves {} kept {}+{}/{} missed {} right {:?} faults {} takeovers {} max {} succ {} silences {} max {} tally {:?}", t.elapsed().as_secs_f32(), c.handoffs, c.avatars, c.moves, c.joins, c.leaves, c.replicas_kept, c.replicas_whole, c.replicas_moved, c.inputs_missed, r.right, c.faults.values().sum::<u64>(), r.takeovers.len(), max(&r.takeovers), max(&r.successions), r.silences.len(), max(&r.silences), r.tally);
        for f in r.findings.iter().take(4) { println!("   {:?} at {:.2}: {}", f.kind, f.at.0 as f64 / 1e6, f.text); }
        let _ = std::fs::write(format!("/tmp/mesh_late_{seed}"), format!("{:?}\n{:?}", c.late, c.faults));
    }
}
