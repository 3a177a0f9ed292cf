//! Errors in a recording, each with the file, the line, what was found and what was expected.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Characters of a field that an error quotes.
const QUOTED_CHARS: usize = 40;

/// A recording could not be read. None of it is kept.
#[derive(Debug, Error)]
#[error("{}{}: {fault}", file.display(), place(*line))]
pub struct TraceError {
    /// The file with the error, which may be a companion (`_ext`, `_vis`) of the one that was read.
    pub file: PathBuf,
    /// The line, counted from 1 with the header as line 1. 0 is the file as a whole: it could not be opened.
    pub line: u64,
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

/// The kinds of errors in a recording.
#[derive(Debug, Error)]
pub enum TraceFault {
    /// The file could not be opened or read.
    #[error("cannot read the file: {0}")]
    Io(#[from] io::Error),
    /// The gzip stream ends before its trailer, as when writing or copying the recording was interrupted.
    #[error("the gzip stream ends here before its end mark, expected a complete file")]
    TruncatedGzip,
    /// The gzip stream is corrupt.
    #[error("the gzip stream is damaged here ({found}), expected valid gzip data")]
    CorruptGzip {
        /// The decoder's message.
        found: String,
    },
    /// The unpacked file is larger than the reader accepts.
    #[error("found more than {limit} bytes of data, expected at most that")]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// A line is longer than any row can be.
    #[error("found a line of more than {limit} bytes, expected at most that")]
    LineTooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// The file is empty.
    #[error("found an empty file, expected the header {expected}")]
    Empty {
        /// The expected header.
        expected: String,
    },
    /// The file has a header and no rows.
    #[error("found the end of the file, expected at least one row after the header")]
    NoRows,
    /// A comment about yaw does not state a convention, or contradicts an earlier one.
    #[error(
        "found the comment {found}, expected \"yaw: SENSE from AXIS; pitch: UP\" once: SENSE is \
         clockwise or counter-clockwise, AXIS is +x, +y, -x or -y, UP is up or down"
    )]
    BadConvention {
        /// The comment without its mark.
        found: String,
    },
    /// The header lacks a column.
    #[error("column {column} is missing: found {found}, expected {expected}")]
    MissingColumn {
        column: &'static str,
        /// The header.
        found: String,
        /// The expected header.
        expected: String,
    },
    /// The header has an unknown column.
    #[error("found the unknown column {column}, expected {expected}")]
    UnknownColumn {
        column: String,
        /// The expected header.
        expected: String,
    },
    /// The header names a column twice.
    #[error("found column {column} twice, expected it once")]
    RepeatedColumn { column: &'static str },
    /// A row has too few or too many fields.
    #[error("found {found} fields, expected {expected}")]
    FieldCount {
        /// Number of fields in the row.
        found: usize,
        /// Number of fields in the header.
        expected: usize,
    },
    /// A field is not a number.
    #[error("{column}: found {found}, expected {expected}")]
    NotANumber {
        /// Its column.
        column: &'static str,
        /// The field.
        found: String,
        /// The kind of number that belongs there.
        expected: &'static str,
    },
    /// A field is NaN or infinite.
    #[error("{column}: found {found}, expected a finite number")]
    NotFinite {
        /// Its column.
        column: &'static str,
        /// The field.
        found: String,
    },
    /// A number is outside the column's range.
    #[error("{column}: found {found}, expected {low} to {high}")]
    OutOfRange {
        /// Its column.
        column: &'static str,
        /// The field.
        found: String,
        /// The least allowed value.
        low: f64,
        /// The greatest allowed value.
        high: f64,
    },
    /// A row is earlier than the row before it.
    #[error("time goes backwards: found t_ms {found}, expected {previous} or later")]
    TimeBackwards {
        /// Time of this row.
        found: u64,
        /// Time of the row before.
        previous: u64,
    },
    /// There is no row of any player for longer than allowed.
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
    /// A player has more rows in one millisecond than late packets can explain.
    #[error("found {count} rows of t_ms {t_ms}, id {id}, expected at most {limit}")]
    Duplicate {
        /// Time of the row.
        t_ms: u64,
        /// Id of the player.
        id: u32,
        /// Rows of the player in this millisecond so far.
        count: u32,
        /// The most rows allowed.
        limit: u32,
    },
    /// There are too many distinct players.
    #[error("found more than {limit} distinct ids, expected at most that")]
    TooManyPlayers { limit: usize },
    /// A companion file has a player that the recording does not have.
    #[error("{column}: found player {id}, expected a player of the recording beside this file")]
    UnknownPlayer {
        /// Its column.
        column: &'static str,
        id: u32,
    },
}

/// A field as an error quotes it: printable and short.
pub(super) fn quoted(field: &[u8]) -> String {
    // A character has at most four bytes, so this prefix holds every quoted character.
    let prefix = &field[..field.len().min(4 * QUOTED_CHARS)];
    let text = String::from_utf8_lossy(prefix);
    let mut shown: String = text.chars().take(QUOTED_CHARS).flat_map(char::escape_debug).collect();
    if text.chars().count() > QUOTED_CHARS || prefix.len() < field.len() {
        shown.push('…');
    }
    format!("\"{shown}\"")
}
