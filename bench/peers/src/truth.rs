//! Where everybody was, and what clients were shown: written by two processes, compared afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use crate::crowd::{Walker, is_near};

/// One tick in so many is written…
pub const EVERY: u32 = 20;
/// …and one client in so many writes.
pub const WITNESSES: usize = 10;

/// A file of places.
pub struct Log(BufWriter<File>);

impl Log {
    pub fn create(folder: &Path, name: &str) -> std::io::Result<Log> {
        Ok(Log(BufWriter::new(File::create(folder.join(name))?)))
    }

    pub fn note(&mut self, tick: u32, eye: usize, who: usize, at: &Walker) -> std::io::Result<()> {
        let [x, y, z] = at.pos;
        writeln!(self.0, "{tick} {eye} {who} {x} {y} {z}")
    }

    pub fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

pub struct Shown {
    pub error_p95: f64,
    /// Share of players within the radius that a client was not shown.
    pub missing: f64,
}

fn lines(path: &Path) -> std::io::Result<Vec<(u32, usize, usize, Walker)>> {
    let mut rows = Vec::new();
    for line in BufReader::new(File::open(path)?).lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let [tick, eye, who, x, y, z] = words[..] else { continue };
        let part = |word: &str| word.parse().unwrap_or(f32::NAN);
        let walker = Walker { pos: [part(x), part(y), part(z)], ..Walker::default() };
        let (Ok(tick), Ok(eye), Ok(who)) = (tick.parse(), eye.parse(), who.parse()) else {
            continue;
        };
        rows.push((tick, eye, who, walker));
    }
    Ok(rows)
}

/// Compares the two files of a folder.
pub fn compare(folder: &Path) -> std::io::Result<Shown> {
    let was = lines(&folder.join("was"))?;
    let places: BTreeMap<(u32, usize), Walker> =
        was.iter().map(|(tick, _, who, at)| ((*tick, *who), *at)).collect();
    let mut shown: BTreeMap<(u32, usize), BTreeSet<usize>> = BTreeMap::new();
    let mut errors = Vec::new();
    for (tick, eye, who, at) in lines(&folder.join("shown"))? {
        shown.entry((tick, eye)).or_default().insert(who);
        let Some(there) = places.get(&(tick, who)) else { continue };
        let off = (0..3).map(|axis| f64::from(there.pos[axis] - at.pos[axis]).powi(2));
        errors.push(off.sum::<f64>().sqrt());
    }
    let (mut near, mut missing) = (0_u64, 0_u64);
    for ((tick, eye), seen) in &shown {
        let Some(here) = places.get(&(*tick, *eye)) else { continue };
        for ((_, who), there) in places.range((*tick, 0)..(*tick + 1, 0)) {
            if who != eye && is_near(here, there) {
                near += 1;
                missing += u64::from(!seen.contains(who));
            }
        }
    }
    errors.sort_by(f64::total_cmp);
    let at = (errors.len() * 95).div_ceil(100).max(1) - 1;
    let error_p95 = errors.get(at).copied().unwrap_or(f64::NAN);
    Ok(Shown { error_p95, missing: missing as f64 / near.max(1) as f64 })
}
