//! Lines and fields of a CSV file, plain or gzip: without an allocation per row, and with a limit on every length.

use std::io::{self, BufRead, BufReader, Read};
use std::ops::RangeInclusive;

use flate2::bufread::MultiGzDecoder;

use super::error::{TraceFault, quoted};

/// Longest accepted line. A full `_ext` row has about 120 bytes; the masks of a `_vis` row for
/// 4,096 players have 2,048.
pub(super) const MAX_LINE_BYTES: usize = 8 * 1024;
const READ_BYTES: usize = 128 * 1024;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A stream of bytes, unpacked if it is gzip. This is detected from its first bytes, since names may be wrong.
enum Unpacked<R: Read> {
    Plain(BufReader<R>),
    Gzip(BufReader<MultiGzDecoder<BufReader<R>>>),
}

impl<R: Read> Unpacked<R> {
    fn new(source: R) -> io::Result<Self> {
        let mut source = BufReader::with_capacity(READ_BYTES, source);
        let is_gzip = source.fill_buf()?.starts_with(&GZIP_MAGIC);
        Ok(match is_gzip {
            true => Self::Gzip(BufReader::with_capacity(READ_BYTES, MultiGzDecoder::new(source))),
            false => Self::Plain(source),
        })
    }

    /// Appends a line with its end, or the start of one that is too long.
    fn read_line(&mut self, into: &mut Vec<u8>) -> Result<usize, TraceFault> {
        let most = MAX_LINE_BYTES as u64 + 2;
        let read = match self {
            Self::Plain(source) => source.take(most).read_until(b'\n', into),
            Self::Gzip(source) => source.take(most).read_until(b'\n', into),
        };
        read.map_err(|error| match (self, error.kind()) {
            (Self::Gzip(_), io::ErrorKind::UnexpectedEof) => TraceFault::TruncatedGzip,
            (Self::Gzip(_), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => {
                TraceFault::CorruptGzip { found: error.to_string() }
            }
            _ => TraceFault::Io(error),
        })
    }
}

/// The lines of a file, one at a time, in one buffer.
pub(super) struct Lines<R: Read> {
    source: Unpacked<R>,
    text: Vec<u8>,
    taken: u64,
    limit: u64,
    line: u64,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(source: R, limit: u64) -> Result<Self, TraceFault> {
        Ok(Self { source: Unpacked::new(source)?, text: Vec::new(), taken: 0, limit, line: 0 })
    }

    /// Number of the line that was last asked for, from 1.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// The next line without its end (`
    /// ` or `\r
    /// `); `None` at the end of the file.
    pub(super) fn next_line(&mut self) -> Result<Option<&[u8]>, TraceFault> {
        self.line += 1;
        self.text.clear();
        let count = self.source.read_line(&mut self.text)?;
        self.taken += count as u64;
        if self.taken > self.limit {
            return Err(TraceFault::TooLarge { limit: self.limit });
        }
        if count == 0 {
            return Ok(None);
        }
        let line = self.text.strip_suffix(b"\n").unwrap_or(&self.text);
        if line.len() > MAX_LINE_BYTES {
            return Err(TraceFault::LineTooLong { limit: MAX_LINE_BYTES });
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_header = self.line == 1;
        Ok(Some(if is_header { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) } else { line }))
    }
}

/// Maps fields of a row to columns of the schema.
pub(super) struct Columns<const N: usize> {
    schema_of_field: [usize; N],
}

impl<const N: usize> Columns<N> {
    /// Reads the header line, which has each of the schema's columns once, in any order.
    pub(super) fn parse(line: &[u8], schema: &[&'static str; N]) -> Result<Self, TraceFault> {
        let mut schema_of_field = [0; N];
        let mut seen = [false; N];
        for (field, name) in line.split(|&byte| byte == b',').enumerate() {
            let name = name.trim_ascii();
            let Some(column) = schema.iter().position(|known| known.as_bytes() == name) else {
                let column = quoted(name);
                return Err(TraceFault::UnknownColumn { column, expected: schema.join(",") });
            };
            if seen[column] {
                return Err(TraceFault::RepeatedColumn { column: schema[column] });
            }
            seen[column] = true;
            // Each field so far had a different column, so `field` is below N.
            schema_of_field[field] = column;
        }
        match seen.iter().position(|seen| !seen) {
            None => Ok(Self { schema_of_field }),
            Some(column) => Err(TraceFault::MissingColumn {
                column: schema[column],
                found: quoted(line),
                expected: schema.join(","),
            }),
        }
    }

    /// The fields of a row in the order of the schema.
    pub(super) fn split<'a>(&self, line: &'a [u8]) -> Result<[&'a [u8]; N], TraceFault> {
        let mut fields = [&b""[..]; N];
        let mut found = 0;
        for field in line.split(|&byte| byte == b',') {
            if let Some(&column) = self.schema_of_field.get(found) {
                fields[column] = field;
            }
            found += 1;
        }
        if found != N {
            return Err(TraceFault::FieldCount { found, expected: N });
        }
        Ok(fields)
    }
}

/// A number of a named column, finite and within the range.
pub(super) fn number(
    field: &[u8],
    column: &'static str,
    range: RangeInclusive<f64>,
) -> Result<f64, TraceFault> {
    let expected = "a number";
    let Some(value) = decimal(field) else {
        return Err(TraceFault::NotANumber { column, found: quoted(field), expected });
    };
    if !value.is_finite() {
        return Err(TraceFault::NotFinite { column, found: quoted(field) });
    }
    if !range.contains(&value) {
        let (low, high) = range.into_inner();
        return Err(TraceFault::OutOfRange { column, found: quoted(field), low, high });
    }
    Ok(value)
}

/// A whole number of a named column, within the range.
pub(super) fn whole(
    field: &[u8],
    column: &'static str,
    range: RangeInclusive<f64>,
) -> Result<i64, TraceFault> {
    let value = number(field, column, range)?;
    if value.fract() != 0.0 {
        let expected = "a whole number";
        return Err(TraceFault::NotANumber { column, found: quoted(field), expected });
    }
    Ok(value as i64)
}

/// This many digits always fit a `u64`.
const FAST_DIGITS: usize = 18;
const POWERS_OF_TEN: [f64; FAST_DIGITS + 1] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18,
];

/// Parses a decimal. Plain ones (`-12.5`) take a fast path; all others (exponents, many digits, `NaN`) go to the
/// standard library.
fn decimal(field: &[u8]) -> Option<f64> {
    let (negative, digits) = match field {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut mantissa = 0_u64;
    let mut point = None;
    for (at, &byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' if at <= FAST_DIGITS => {
                mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
            }
            b'.' if point.is_none() => point = Some(at),
            _ => return slow_decimal(field),
        }
    }
    let count = digits.len() - usize::from(point.is_some());
    if count == 0 || count > FAST_DIGITS {
        return slow_decimal(field);
    }
    let decimals = point.map_or(0, |at| digits.len() - at - 1);
    let value = mantissa as f64 / POWERS_OF_TEN[decimals];
    Some(if negative { -value } else { value })
}

fn slow_decimal(field: &[u8]) -> Option<f64> {
    std::str::from_utf8(field).ok()?.trim().parse().ok()
}
