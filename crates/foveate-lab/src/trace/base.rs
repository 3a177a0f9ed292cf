//! Reads `t_ms,id,x,y,z,yaw,pitch` and the comment lines before it.

use std::io::Read;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::by_player::{Grouper, Slots};
use super::csv::{Columns, Lines, number, whole};
use super::error::{TraceError, TraceFault, quoted};
use super::{
    AngleConvention, COLUMNS, Limits, MAX_ANGLE, MAX_BURST, MAX_COORDINATE, MAX_SILENCE_MS, Sample,
    Trace, TraceBounds, UnknownConvention,
};

/// Whole numbers up to this are exact in `f64`, which parsing uses.
const MAX_T_MS: f64 = (1_u64 << 53) as f64;

const COORDINATES: RangeInclusive<f64> = -MAX_COORDINATE..=MAX_COORDINATE;
const ANGLES: RangeInclusive<f64> = -MAX_ANGLE..=MAX_ANGLE;

pub(super) fn read(source: impl Read, name: &Path, limits: Limits) -> Result<Trace, TraceError> {
    let fail = |line, fault| TraceError::new(name, line, fault);
    let mut lines = Lines::new(source, limits.unpacked_bytes).map_err(|fault| fail(1, fault))?;
    let opened = opening(&mut lines);
    let (columns, convention) = opened.map_err(|fault| fail(lines.line(), fault))?;
    let mut reader = Reader::new(limits);
    loop {
        match read_row(&mut lines, &columns, &mut reader) {
            Ok(true) => {}
            Ok(false) => break,
            Err(fault) => return Err(fail(lines.line(), fault)),
        }
    }
    let trace = reader.finish().ok_or_else(|| fail(lines.line(), TraceFault::NoRows))?;
    Ok(Trace { convention, name: name.to_path_buf(), ..trace })
}

/// Reads the comment lines and the header. A comment about yaw must be a valid statement of a convention, so that a
/// misspelt one is not taken for a remark.
fn opening<R: Read>(
    lines: &mut Lines<R>,
) -> Result<(Columns<7>, Option<AngleConvention>), TraceFault> {
    let mut convention = None;
    loop {
        let Some(line) = lines.next_line()? else {
            return Err(TraceFault::Empty { expected: COLUMNS.join(",") });
        };
        let Some(comment) = line.strip_prefix(b"#") else {
            return Ok((Columns::parse(line, &COLUMNS)?, convention));
        };
        let text = String::from_utf8_lossy(comment).to_lowercase();
        if text.contains("yaw") {
            let bad = || TraceFault::BadConvention { found: quoted(comment) };
            let stated = text.parse().map_err(|UnknownConvention| bad())?;
            if convention.replace(stated).is_some_and(|before| before != stated) {
                return Err(bad());
            }
        }
    }
}

fn read_row<R: Read>(
    lines: &mut Lines<R>,
    columns: &Columns<7>,
    reader: &mut Reader,
) -> Result<bool, TraceFault> {
    let Some(line) = lines.next_line()? else { return Ok(false) };
    reader.row(columns.split(line)?)?;
    Ok(true)
}

/// Reads the header line of a companion.
pub(super) fn header<R: Read, const N: usize>(
    lines: &mut Lines<R>,
    schema: &[&'static str; N],
) -> Result<Columns<N>, TraceFault> {
    match lines.next_line()? {
        Some(line) => Columns::parse(line, schema),
        None => Err(TraceFault::Empty { expected: schema.join(",") }),
    }
}

/// The id field of a row.
pub(super) fn player_id(field: &[u8]) -> Result<u32, TraceFault> {
    Ok(whole(field, "id", 0.0..=f64::from(u32::MAX))? as u32)
}

/// Checks times: rows never go backwards, and are never far apart.
pub(super) struct Clock {
    origin: Option<u64>,
    last: u64,
    /// The latest time allowed, counted from the origin.
    span: u64,
}

impl Clock {
    /// A clock whose origin is the first row.
    fn starting_at_first_row() -> Self {
        Self { origin: None, last: 0, span: u64::from(u32::MAX) }
    }

    /// A clock for a companion file, which may end later than the recording by the longest silence allowed.
    pub(super) fn beside(trace: &Trace) -> Self {
        let span = u64::from(trace.duration_ms) + u64::from(MAX_SILENCE_MS);
        let span = span.min(u64::from(u32::MAX));
        Self { origin: Some(trace.origin_ms), last: trace.origin_ms, span }
    }

    /// Reads a time, in milliseconds since the origin. Fractions of a millisecond are accepted and rounded, which keeps
    /// the order.
    pub(super) fn read(&mut self, field: &[u8]) -> Result<u32, TraceFault> {
        let low = self.origin.unwrap_or(0);
        let high = self.origin.map_or(MAX_T_MS, |origin| (origin + self.span) as f64);
        let now = number(field, "t_ms", 0.0..=MAX_T_MS)?.round() as u64;
        let first = self.origin.is_none();
        let origin = *self.origin.get_or_insert(now);
        if !first && now < self.last {
            return Err(TraceFault::TimeBackwards { found: now, previous: self.last });
        }
        if now as f64 > high {
            let (found, low) = (super::error::quoted(field), low as f64);
            return Err(TraceFault::OutOfRange { column: "t_ms", found, low, high });
        }
        if !first && now - self.last > u64::from(MAX_SILENCE_MS) {
            let (from, limit) = (self.last, MAX_SILENCE_MS);
            return Err(TraceFault::Silence { from, to: now, limit });
        }
        self.last = now;
        Ok((now - origin) as u32)
    }

    /// Time of the last row, as in the file.
    pub(super) fn last(&self) -> u64 {
        self.last
    }
}

struct Reader {
    clock: Clock,
    slots: Slots,
    rows: Grouper<Sample>,
}

impl Reader {
    fn new(limits: Limits) -> Self {
        Self {
            clock: Clock::starting_at_first_row(),
            slots: Slots::new(limits.players),
            rows: Grouper::new(),
        }
    }

    fn row(&mut self, [t_ms, id, x, y, z, yaw, pitch]: [&[u8]; 7]) -> Result<(), TraceFault> {
        let t_ms = self.clock.read(t_ms)?;
        let id = player_id(id)?;
        let pos = [
            number(x, "x", COORDINATES)? as f32,
            number(y, "y", COORDINATES)? as f32,
            number(z, "z", COORDINATES)? as f32,
        ];
        let yaw = number(yaw, "yaw", ANGLES)? as f32;
        let pitch = number(pitch, "pitch", ANGLES)? as f32;
        let slot = self.slots.get_or_add(id)?;
        let count = self.rows.push(slot, Sample { t_ms, pos, yaw, pitch });
        if count > MAX_BURST {
            let t_ms = self.clock.last();
            return Err(TraceFault::Duplicate { t_ms, id, count, limit: MAX_BURST });
        }
        Ok(())
    }

    /// The recording; `None` without rows.
    fn finish(mut self) -> Option<Trace> {
        let origin_ms = self.clock.origin?;
        let superseded = self.rows.take_superseded();
        let (ids, rank) = self.slots.ranked();
        let (samples, arrivals) = self.rows.finish(&rank);
        let bounds = TraceBounds::of(arrivals.iter().map(|&(_, at)| samples.row(at as usize)))?;
        Some(Trace {
            name: PathBuf::new(),
            convention: None,
            origin_ms,
            duration_ms: (self.clock.last - origin_ms) as u32,
            ids,
            samples,
            arrivals,
            superseded,
            states: None,
            visibility: None,
            bounds,
        })
    }
}
