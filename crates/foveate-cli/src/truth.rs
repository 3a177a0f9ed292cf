//! Where everybody was, and where others believed them to be: the two ends of a measurement, written
//! by two processes and laid side by side afterwards.

use foveate_sync::{ReplicaSet, Store};
use foveate_wire::{ObjectId, Tick};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

/// One round in so many is written.
pub const EVERY: u32 = 20;

/// A file of places.
pub struct Truth(BufWriter<File>);

impl Truth {
    pub fn create(path: &Path) -> std::io::Result<Truth> {
        Ok(Truth(BufWriter::new(File::create(path)?)))
    }

    /// Writes where everybody is, if it is time.
    pub fn note(&mut self, tick: Tick, store: &Store) -> std::io::Result<()> {
        if !tick.0.is_multiple_of(EVERY) {
            return Ok(());
        }
        for (id, slot) in store.iter() {
            let [x, y, z] = store.position(slot);
            writeln!(self.0, "{} {} {x} {y} {z}", tick.0, id.0)?;
        }
        self.0.flush()
    }

    /// Writes where one who looks believes others to be in a round.
    pub fn believe(
        &mut self,
        me: ObjectId,
        replicas: &ReplicaSet,
        tick: Tick,
    ) -> std::io::Result<()> {
        for view in replicas.iter().filter(|view| view.id() != me) {
            if view.life() != foveate_sync::replica::Life::Live {
                continue;
            }
            let Some([x, y, z]) = view.predicted(tick) else { continue };
            writeln!(self.0, "{} {} {x} {y} {z} {}", tick.0, view.id().0, me.0)?;
        }
        self.0.flush()
    }
}

/// Everybody's movement, as the laboratory reads it: `t_ms,id,x,y,z,yaw,pitch`.
pub struct StateRecord(BufWriter<File>);

impl StateRecord {
    pub fn create(path: &Path) -> std::io::Result<StateRecord> {
        let named = |cause: std::io::Error| {
            std::io::Error::new(cause.kind(), format!("{}: {cause}", path.display()))
        };
        let mut file = BufWriter::new(File::create(path).map_err(named)?);
        writeln!(file, "{}", foveate_lab::trace::opening_lines())?;
        Ok(StateRecord(file))
    }

    /// Writes where everybody with a facing is.
    pub fn note(&mut self, tick: Tick, tick_ms: f64, store: &Store) -> std::io::Result<()> {
        for (id, slot) in store.iter() {
            let Some((lane, steps)) = store.kind(slot).yaw else { continue };
            let yaw = store.lanes(slot)[lane] as f32 * 360.0 / steps as f32;
            let [x, y, z] = store.position(slot);
            let at = f64::from(tick.0) * tick_ms;
            writeln!(self.0, "{at},{},{x},{y},{z},{yaw},0", id.origin())?;
        }
        // Whatever ends the server, the round is there.
        self.0.flush()
    }
}

type Places = BTreeMap<(u32, u64), [f32; 3]>;

fn numbers(line: &str) -> Option<(u32, u64, [f32; 3], Option<u64>)> {
    let mut words = line.split(' ');
    let (tick, id) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let mut next = || words.next()?.parse::<f32>().ok();
    let at = [next()?, next()?, next()?];
    Some((tick, id, at, words.next().and_then(|word| word.parse().ok())))
}

/// How far one was from where another believed it to be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StateError {
    /// In which round.
    pub tick: u32,
    /// How far off, in world units.
    pub off: f64,
    /// How far away it really was from who believed.
    pub away: f64,
}

impl StateError {
    /// As an angle, seen by who believed.
    pub fn degrees(&self) -> f64 {
        self.off.atan2(self.away.max(1e-3)).to_degrees()
    }
}

/// The errors of everything in the two files that is of the same round.
pub fn errors(truth: &Path, believed: &Path) -> std::io::Result<Vec<StateError>> {
    let lines = |path: &Path| Ok::<_, std::io::Error>(BufReader::new(File::open(path)?).lines());
    let mut places = Places::new();
    for line in lines(truth)? {
        if let Some((tick, id, at, _)) = numbers(&line?) {
            places.insert((tick, id), at);
        }
    }
    let mut errors = Vec::new();
    for line in lines(believed)? {
        let Some((tick, id, at, Some(eye))) = numbers(&line?) else { continue };
        let (Some(there), Some(eye)) = (places.get(&(tick, id)), places.get(&(tick, eye))) else {
            continue;
        };
        let apart = |a: &[f32; 3], b: &[f32; 3]| {
            (0..3).map(|axis| f64::from(a[axis] - b[axis]).powi(2)).sum::<f64>().sqrt()
        };
        errors.push(StateError { tick, off: apart(there, &at), away: apart(there, eye) });
    }
    Ok(errors)
}
