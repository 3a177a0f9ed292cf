//! Headers without a dynamic table (RFC 9204): the requests for a session, and the answers.

use super::{Fault, huffman};

/// Entries of the static table; those that a request for a session may use are named in `entry`.
const STATIC_ENTRIES: u64 = 99;

/// The relevant headers of a request. If one occurs twice, the last one counts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Fields {
    pub(super) method: String,
    pub(super) scheme: String,
    pub(super) protocol: String,
    pub(super) authority: String,
    pub(super) path: String,
    pub(super) origin: Option<String>,
}

impl Fields {
    fn set(&mut self, name: &str, value: String) {
        match name {
            ":method" => self.method = value,
            ":scheme" => self.scheme = value,
            ":protocol" => self.protocol = value,
            ":authority" => self.authority = value,
            ":path" => self.path = value,
            "origin" => self.origin = Some(value),
            _ => {}
        }
    }
}

/// Reads a header section.
pub(super) fn read(bytes: &[u8]) -> Result<Fields, Fault> {
    let mut rest = bytes;
    // The required insert count and the base of the dynamic table.
    if (integer(&mut rest, 8)?, integer(&mut rest, 7)?) != (0, 0) {
        return Err(Fault("headers that need a table"));
    }
    let mut fields = Fields::default();
    while let Some(first) = rest.first().copied() {
        match first {
            0b1100_0000.. => {
                let (name, value) = entry(integer(&mut rest, 6)?)?;
                fields.set(name, value.to_owned());
            }
            0b0101_0000..=0b0101_1111 | 0b0111_0000..=0b0111_1111 => {
                let (name, _) = entry(integer(&mut rest, 4)?)?;
                let value = string(&mut rest, 7)?;
                fields.set(name, value);
            }
            0b0010_0000..=0b0011_1111 => {
                let name = string(&mut rest, 3)?;
                let value = string(&mut rest, 7)?;
                fields.set(&name, value);
            }
            _ => return Err(Fault("headers that need a table")),
        }
    }
    Ok(fields)
}

/// An entry of the static table; irrelevant ones have no name.
fn entry(index: u64) -> Result<(&'static str, &'static str), Fault> {
    Ok(match index {
        0 => (":authority", ""),
        1 => (":path", "/"),
        15 => (":method", "CONNECT"),
        // Other methods, none of which opens a session.
        16..=21 => (":method", ""),
        22 => (":scheme", "http"),
        23 => (":scheme", "https"),
        90 => ("origin", ""),
        other if other < STATIC_ENTRIES => ("", ""),
        _ => return Err(Fault("a header beyond the static table")),
    })
}

/// Reads a number whose first `bits` are in the next byte.
fn integer(rest: &mut &[u8], bits: u32) -> Result<u64, Fault> {
    let mask = (1u64 << bits) - 1;
    let mut number = u64::from(take(rest, 1)?[0]) & mask;
    if number < mask {
        return Ok(number);
    }
    // More than four further bytes cannot be part of a length that fits a frame.
    for shift in [0, 7, 14, 21] {
        let byte = take(rest, 1)?[0];
        number += u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Fault("a number in headers is too large"))
}

/// Reads a string whose length begins with `bits` of the next byte, after a bit for its encoding.
fn string(rest: &mut &[u8], bits: u32) -> Result<String, Fault> {
    let coded = rest.first().is_some_and(|first| first >> bits & 1 == 1);
    let length = integer(rest, bits)? as usize;
    let bytes = take(rest, length)?;
    let plain = match coded {
        true => huffman::decode(bytes).ok_or(Fault("a header with invalid Huffman code"))?,
        false => bytes.to_vec(),
    };
    String::from_utf8(plain).map_err(|_| Fault("a header that is not UTF-8"))
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], Fault> {
    let (taken, left) = rest.split_at_checked(count).ok_or(Fault("truncated headers"))?;
    *rest = left;
    Ok(taken)
}

/// The header section of an answer.
pub(super) fn answer(status: u16) -> Vec<u8> {
    // No dynamic table; `:status`, by its name in the static table; a header that old drafts require.
    let mut bytes = vec![0, 0, 0b0101_1111, 24 - 15, 3];
    bytes.extend_from_slice(status.to_string().as_bytes());
    let (name, value) = ("sec-webtransport-http3-draft", "draft02");
    bytes.extend_from_slice(&[0b0010_0111, name.len() as u8 - 7]);
    bytes.extend_from_slice(name.as_bytes());
    bytes.push(value.len() as u8);
    bytes.extend_from_slice(value.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header section of entries of the static table, and of names and values in plain text.
    fn section(entries: &[u8], literals: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = vec![0, 0];
        bytes.extend(entries.iter().map(|index| 0b1100_0000 | index));
        for (name, value) in literals {
            for (text, first, most) in [(name, 0b0010_0000, 7), (value, 0, 127)] {
                match text.len() {
                    short if short < most => bytes.push(first | short as u8),
                    long => bytes.extend([first | most as u8, (long - most) as u8]),
                }
                bytes.extend_from_slice(text.as_bytes());
            }
        }
        bytes
    }

    #[test]
    fn a_request_is_read_from_all_kinds_of_fields() {
        let long = "x".repeat(200);
        let literals =
            [(":protocol", "webtransport"), ("origin", "http://a"), ("user-agent", &long)];
        let mut bytes = section(&[15, 23, 1, 50], &literals);
        // The name from the table, the value in Huffman code.
        bytes.extend([0b0101_0000, 0x8c]);
        bytes.extend([0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff]);
        let fields = read(&bytes).expect("well-formed");
        assert_eq!((fields.method.as_str(), fields.scheme.as_str()), ("CONNECT", "https"));
        assert_eq!((fields.path.as_str(), fields.protocol.as_str()), ("/", "webtransport"));
        assert_eq!(fields.authority, "www.example.com");
        assert_eq!(fields.origin.as_deref(), Some("http://a"));
    }

    #[test]
    fn dynamic_tables_and_truncated_bytes_are_rejected() {
        for bytes in [
            &[][..],
            &[0],
            &[1, 0],
            &[0, 0, 0b1000_0001],
            &[0, 0, 0b0001_0001],
            &[0, 0, 0b0100_0001, 1, 65],
            &[0, 0, 0b0000_0001, 1, 65],
            &[0, 0, 0xff, 60],
            &[0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
            &[0, 0, 0b0101_0000, 9, 65],
            &[0, 0, 0b0101_0000, 1, 0xff],
        ] {
            assert!(read(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn an_answer_is_encoded_as_in_the_standard() {
        // The name's index in more than four bits: 24 = 15 + 9.
        assert_eq!(answer(403)[..8], [0, 0, 0x5f, 9, 3, b'4', b'0', b'3']);
        let text = String::from_utf8_lossy(&answer(200)).into_owned();
        assert!(text.ends_with("\x27\x15sec-webtransport-http3-draft\x07draft02"), "{text:?}");
    }

    #[test]
    fn random_headers_never_panic() {
        let mut random = fastrand::Rng::with_seed(17);
        for _ in 0..100_000 {
            let bytes: Vec<u8> = (0..random.usize(0..60)).map(|_| random.u8(..)).collect();
            let _ = read(&bytes);
            let after = [&[0, 0][..], &bytes[..]].concat();
            let _ = read(&after);
            let _ = huffman::decode(&bytes);
        }
    }
}
