//! Writes recordings that [`Trace::read`](super::Trace::read) accepts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{
    AngleConvention, COLUMNS, MAX_ANGLE, MAX_BURST, MAX_COORDINATE, MAX_PLAYERS, MAX_SILENCE_MS,
};

/// Writes `t_ms,id,x,y,z,yaw,pitch`, plain or gzip.
///
/// Rows have yaw in degrees counter-clockwise from +x and pitch up; the file's first line states this.
///
/// A row that the reader would reject is rejected with [`io::ErrorKind::InvalidInput`] and not written; earlier rows
/// are kept, and writing can go on.
///
/// ```
/// use foveate_lab::trace::{Trace, TraceWriter};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut writer = TraceWriter::gzip(Vec::new());
/// writer.write_header()?;
/// writer.row(0, 7, [1.5, 2.0, 0.0], 90.0, -5.0)?;
/// let bytes = writer.finish()?;
/// let trace = Trace::from_reader(&bytes[..], "memory".as_ref())?;
/// assert_eq!(trace.player_id(0), 7);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TraceWriter<W: Write> {
    sink: Sink<W>,
    header_written: bool,
    last_ms: Option<u64>,
    /// For each player, the time of its newest row and how many rows had it.
    bursts: BTreeMap<u32, (u64, u32)>,
}

#[derive(Debug)]
enum Sink<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
}

impl TraceWriter<BufWriter<File>> {
    /// Creates or overwrites a file; gzip if its name ends in `.gz`.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = BufWriter::new(File::create(path)?);
        let packed = path.extension().is_some_and(|ending| ending == "gz");
        Ok(if packed { Self::gzip(file) } else { Self::plain(file) })
    }
}

impl<W: Write> TraceWriter<W> {
    /// A writer of plain text.
    pub fn plain(sink: W) -> Self {
        Self::new(Sink::Plain(sink))
    }

    /// A writer of gzip.
    pub fn gzip(sink: W) -> Self {
        Self::new(Sink::Gzip(GzEncoder::new(sink, Compression::default())))
    }

    fn new(sink: Sink<W>) -> Self {
        Self { sink, header_written: false, last_ms: None, bursts: BTreeMap::new() }
    }

    /// Writes the header, unless it has been written. The first row does this by itself.
    pub fn write_header(&mut self) -> io::Result<()> {
        if !self.header_written {
            writeln!(self.sink, "{}", opening_lines())?;
            self.header_written = true;
        }
        Ok(())
    }

    /// Writes one sample of one player, no earlier than the row before and no more than
    /// [`MAX_SILENCE_MS`] after it.
    pub fn row(
        &mut self,
        t_ms: u64,
        id: u32,
        pos: [f32; 3],
        yaw: f32,
        pitch: f32,
    ) -> io::Result<()> {
        for (value, column) in pos.into_iter().zip(["x", "y", "z"]) {
            check(value, column, MAX_COORDINATE)?;
        }
        check(yaw, "yaw", MAX_ANGLE)?;
        check(pitch, "pitch", MAX_ANGLE)?;
        self.check_time(t_ms)?;
        let count = self.check_player(t_ms, id)?;
        self.write_header()?;
        let [x, y, z] = pos;
        writeln!(self.sink, "{t_ms},{id},{x},{y},{z},{yaw},{pitch}")?;
        self.last_ms = Some(t_ms);
        self.bursts.insert(id, (t_ms, count));
        Ok(())
    }

    /// Writes everything that is buffered, and returns the sink.
    pub fn finish(mut self) -> io::Result<W> {
        self.write_header()?;
        match self.sink {
            Sink::Plain(mut sink) => sink.flush().map(|()| sink),
            Sink::Gzip(encoder) => {
                let mut sink = encoder.finish()?;
                sink.flush().map(|()| sink)
            }
        }
    }

    fn check_time(&self, t_ms: u64) -> io::Result<()> {
        let Some(last) = self.last_ms else { return Ok(()) };
        if t_ms < last {
            return Err(refusal(format!("t_ms {t_ms} is earlier than the row before ({last})")));
        }
        if t_ms - last > u64::from(MAX_SILENCE_MS) {
            return Err(refusal(format!(
                "t_ms {t_ms} is more than {MAX_SILENCE_MS} ms after the row before ({last}): \
                 start a new recording"
            )));
        }
        Ok(())
    }

    /// How many rows of the player will have this time.
    fn check_player(&self, t_ms: u64, id: u32) -> io::Result<u32> {
        match self.bursts.get(&id) {
            None if self.bursts.len() >= MAX_PLAYERS => {
                Err(refusal(format!("id {id} is one more than the {MAX_PLAYERS} players allowed")))
            }
            Some(&(last, count)) if last == t_ms && count >= MAX_BURST => {
                Err(refusal(format!("id {id} has {count} rows at t_ms {t_ms} already")))
            }
            Some(&(last, count)) if last == t_ms => Ok(count + 1),
            _ => Ok(1),
        }
    }
}

/// The first two lines of a recording with the engine's own angles, without the last line end.
pub fn opening_lines() -> String {
    format!("{}\n{}", AngleConvention::default().statement(), COLUMNS.join(","))
}

impl<W: Write> Write for Sink<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(sink) => sink.write(bytes),
            Self::Gzip(sink) => sink.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(sink) => sink.flush(),
            Self::Gzip(sink) => sink.flush(),
        }
    }
}

fn check(value: f32, column: &str, limit: f64) -> io::Result<()> {
    if f64::from(value).abs() <= limit {
        return Ok(());
    }
    Err(refusal(format!("{column} is {value}, expected a finite number within ±{limit}")))
}

fn refusal(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}
