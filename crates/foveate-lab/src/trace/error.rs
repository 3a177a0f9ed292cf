//! What can be wrong with a recording: always with the file, the line, what was found and what
//! was expected.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Characters of a field that an error quotes; the rest of a longer field adds nothing.
const QUOTED_CHARS: usize = 40;

/// A recording that could not be read. Nothing of it is kept.
#[derive(Debug, Error)]
#[error("{}{}: {fault}", file.display(), place(*line))]
pub struct TraceError {
    /// The file at fault, which may be a companion (`_ext`, `_vis`) of the one asked for.
    pub file: PathBuf,
    /// The line at fault, counted from 1; the header is line 1. 0 is the file as a whole: it could
    /// not be opened.
    pub line: u64,
    /// What was found there, and what was expected.
    pub fault: TraceFault,
}

impl TraceError {
    pub(super) fn new(file: &Path, line: u64, fault: TraceFault) -> Self {
        Self { file: file.to_path_buf(), line, fault }
    }
}

fn place(line: u64) -> String {
    if line == 0 { String::new() } else { format!(":{line}") }
}

/// The kinds of fault in a recording.
#[derive(Debug, Error)]
pub enum TraceFault {
    /// The file could not be opened or read.
    #[error("cannot read the file: {0}")]
    Io(#[from] io::Error),
    /// The gzip stream ends before its trailer: a recording that was cut off while being written
    /// or copied.
    #[error("the gzip stream ends here before its end mark, expected a complete file")]
    TruncatedGzip,
    /// The gzip stream does not decode.
    #[error("the gzip stream is damaged here ({found}), expected valid gzip data")]
    CorruptGzip {
        /// What the decoder objected to.
        found: String,
    },
    /// The file is larger than a reader may be made to unpack.
    #[error("found more than {limit} bytes of data, expected at most that")]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// A line longer than any row can be.
    #[error("found a line of more than {limit} bytes, expected at most that")]
    LineTooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// No bytes at all.
    #[error("found an empty file, expected the header {expected}")]
    Empty {
        /// The header of such a file.
        expected: String,
    },
    /// A header without rows.
    #[error("found the end of the file, expected at least one row after the header")]
    NoRows,
    /// A comment about yaw that does not state a convention, or contradicts an earlier one.
    #[error(
        "found the comment {found}, expected \"yaw: SENSE from AXIS; pitch: UP\" once: SENSE is \
         clockwise or counter-clockwise, AXIS is +x, +y, -x or -y, UP is up or down"
    )]
    BadConvention {
        /// The comment as found, without its mark.
        found: String,
    },
    /// The header lacks a column.
    #[error("column {column} is missing: found {found}, expected {expected}")]
    MissingColumn {
        /// The column that is not there.
        column: &'static str,
        /// The header as found.
        found: String,
        /// The header of such a file.
        expected: String,
    },
    /// The header has a column that such a file does not have.
    #[error("found the unknown column {column}, expected {expected}")]
    UnknownColumn {
        /// The column as found.
        column: String,
        /// The header of such a file.
        expected: String,
    },
    /// The header names a column twice.
    #[error("found column {column} twice, expected it once")]
    RepeatedColumn {
        /// The column named twice.
        column: &'static str,
    },
    /// A row with too few or too many fields.
    #[error("found {found} fields, expected {expected}")]
    FieldCount {
        /// Fields in the row.
        found: usize,
        /// Fields in the header.
        expected: usize,
    },
    /// A field that should hold a number and does not.
    #[error("{column}: found {found}, expected {expected}")]
    NotANumber {
        /// The column of the field.
        column: &'static str,
        /// The field as found.
        found: String,
        /// The kind of number that belongs there.
        expected: &'static str,
    },
    /// A field that holds NaN or an infinity.
    #[error("{column}: found {found}, expected a finite number")]
    NotFinite {
        /// The column of the field.
        column: &'static str,
        /// The field as found.
        found: String,
    },
    /// A number outside what the column allows.
    #[error("{column}: found {found}, expected {low} to {high}")]
    OutOfRange {
        /// The column of the field.
        column: &'static str,
        /// The field as found.
        found: String,
        /// The least allowed value.
        low: f64,
        /// The greatest allowed value.
        high: f64,
    },
    /// A row earlier than the row before it.
    #[error("time goes backwards: found t_ms {found}, expected {previous} or later")]
    TimeBackwards {
        /// Time of this row.
        found: u64,
        /// Time of the row before.
        previous: u64,
    },
    /// Nobody has a row for longer than a recording may be silent.
    #[error(
        "found no row of any player from t_ms {from} to {to}, expected one at least every {limit} ms"
    )]
    Silence {
        /// Time of the last row before the silence.
        from: u64,
        /// Time of this row.
        to: u64,
        /// The longest silence allowed.
        limit: u32,
    },
    /// More rows of one player in one millisecond than a burst of late packets explains.
    #[error("found {count} rows of t_ms {t_ms}, id {id}, expected at most {limit}")]
    Duplicate {
        /// Time of the row.
        t_ms: u64,
        /// Player of the row.
        id: u32,
        /// How often the pair has now been seen.
        count: u32,
        /// How often it may be seen.
        limit: u32,
    },
    /// More distinct players than the limit.
    #[error("found more than {limit} distinct ids, expected at most that")]
    TooManyPlayers {
        /// The limit.
        limit: usize,
    },
    /// A companion file speaks of a player that the recording does not have.
    #[error("{column}: found player {id}, expected a player of the recording beside this file")]
    UnknownPlayer {
        /// The column of the field.
        column: &'static str,
        /// The id as found.
        id: u32,
    },
}

/// A field as an error quotes it: printable, and never long.
pub(super) fn quoted(field: &[u8]) -> String {
    // Four bytes a character at most, so this prefix holds every quoted character.
    let prefix = &field[..field.len().min(4 * QUOTED_CHARS)];
    let text = String::from_utf8_lossy(prefix);
    let mut shown: String = text.chars().take(QUOTED_CHARS).flat_map(char::escape_debug).collect();
    if text.chars().count() > QUOTED_CHARS || prefix.len() < field.len() {
        shown.push('…');
    }
    format!("\"{shown}\"")
}
