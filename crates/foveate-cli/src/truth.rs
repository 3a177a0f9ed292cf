//! True places, and places of replicas: two files written by two processes, which are compared afterwards.

use foveate_sync::{ReplicaSet, Store};
use foveate_wire::{ObjectId, Position, Tick};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

/// Rounds between two that are written.
pub const EVERY: u32 = 20;

/// A file of places.
pub struct Truth(BufWriter<File>);

impl Truth {
    pub fn create(path: &Path) -> std::io::Result<Truth> {
        Ok(Truth(BufWriter::new(File::create(path)?)))
    }

    /// Writes the true places of all objects, if this round is due.
    pub fn note(&mut self, tick: Tick, store: &Store) -> std::io::Result<()> {
        if !tick.0.is_multiple_of(EVERY) {
            return Ok(());
        }
        for (id, slot) in store.iter() {
            let Position([x, y, z]) = store.position(slot);
            writeln!(self.0, "{} {} {x} {y} {z}", tick.0, id.0)?;
        }
        self.0.flush()
    }

    /// Writes where a client's live replicas are predicted to be in a round.
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
            let Some(Position([x, y, z])) = view.predicted(tick) else { continue };
            writeln!(self.0, "{} {} {x} {y} {z} {}", tick.0, view.id().0, me.0)?;
        }
        self.0.flush()
    }
}

/// Records all players' movement for the laboratory: `t_ms,id,x,y,z,yaw,pitch`.
pub struct TraceRecorder(BufWriter<File>);

impl TraceRecorder {
    pub fn create(path: &Path) -> std::io::Result<TraceRecorder> {
        let named = |cause: std::io::Error| {
            std::io::Error::new(cause.kind(), format!("{}: {cause}", path.display()))
        };
        let mut file = BufWriter::new(File::create(path).map_err(named)?);
        writeln!(file, "{}", foveate_lab::trace::opening_lines())?;
        Ok(TraceRecorder(file))
    }

    /// Writes the poses of all objects with a facing.
    pub fn note(&mut self, tick: Tick, tick_ms: f64, store: &Store) -> std::io::Result<()> {
        for (id, slot) in store.iter() {
            let Some((lane, steps)) = store.kind(slot).yaw else { continue };
            let yaw = store.lanes(slot)[lane] as f32 * 360.0 / steps as f32;
            let Position([x, y, z]) = store.position(slot);
            let at = f64::from(tick.0) * tick_ms;
            writeln!(self.0, "{at},{},{x},{y},{z},{yaw},0", id.origin())?;
        }
        // Flushed, so that the round is in the file whatever ends the server.
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

/// The error of one replica.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StateError {
    /// The round.
    pub tick: u32,
    /// Distance between the replica and the true place, in world units.
    pub off: f64,
    /// Distance between the true place and the observer's avatar.
    pub away: f64,
}

impl StateError {
    /// The error as an angle, seen from the observer.
    pub fn degrees(&self) -> f64 {
        self.off.atan2(self.away.max(1e-3)).to_degrees()
    }
}

/// Reads all true places of a file.
fn places(truth: &Path) -> std::io::Result<Places> {
    let mut places = Places::new();
    for line in BufReader::new(File::open(truth)?).lines() {
        if let Some((tick, id, at, _)) = numbers(&line?) {
            places.insert((tick, id), at);
        }
    }
    Ok(places)
}

fn apart(a: &[f32; 3], b: &[f32; 3]) -> f64 {
    (0..3).map(|axis| f64::from(a[axis] - b[axis]).powi(2)).sum::<f64>().sqrt()
}

/// The share of objects within `radius` of a client's avatar of which it had no live replica.
pub fn missing(truth: &Path, believed: &Path, radius: f64) -> std::io::Result<f64> {
    let places = places(truth)?;
    let mut shown: BTreeMap<(u32, u64), BTreeSet<u64>> = BTreeMap::new();
    for line in BufReader::new(File::open(believed)?).lines() {
        if let Some((tick, id, _, Some(eye))) = numbers(&line?) {
            shown.entry((tick, eye)).or_default().insert(id);
        }
    }
    let (mut near, mut absent) = (0_u64, 0_u64);
    for ((tick, eye), seen) in &shown {
        let Some(here) = places.get(&(*tick, *eye)) else { continue };
        for ((_, id), there) in places.range((*tick, 0)..=(*tick, u64::MAX)) {
            if id != eye && apart(here, there) <= radius {
                near += 1;
                absent += u64::from(!seen.contains(id));
            }
        }
    }
    Ok(absent as f64 / near.max(1) as f64)
}

/// The errors of all replicas that are in both files for the same round.
pub fn errors(truth: &Path, believed: &Path) -> std::io::Result<Vec<StateError>> {
    let places = places(truth)?;
    let mut errors = Vec::new();
    for line in BufReader::new(File::open(believed)?).lines() {
        let Some((tick, id, at, Some(eye))) = numbers(&line?) else { continue };
        let (Some(there), Some(eye)) = (places.get(&(tick, id)), places.get(&(tick, eye))) else {
            continue;
        };
        errors.push(StateError { tick, off: apart(there, &at), away: apart(there, eye) });
    }
    Ok(errors)
}
