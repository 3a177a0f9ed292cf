//! The part of HTTP/3 that WebTransport needs, without IO: bytes of streams in, bytes of streams out.
//!
//! One session on one connection needs no dynamic table of QPACK (its capacity is stated as 0), no pushes and no
//! further requests, so these are left out. RFC 9000 (numbers), 9114 (frames), 9204 (QPACK), 9297 (datagrams,
//! capsules), draft-ietf-webtrans-http3.

mod huffman;
mod qpack;
mod session;

pub(crate) use session::{Fault, Session, Step, read_anything};

use bytes::{Buf, BytesMut};

/// Most bytes of a frame, a capsule or a stream's head that are buffered until it is complete.
pub const MAX_FRAME: usize = 8 * 1024;

/// Reads a number of one to eight bytes, and returns its length. `None` if it is incomplete.
fn read_number(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let length = 1 << (first >> 6);
    let rest = bytes.get(1..length)?;
    let number = rest.iter().fold(u64::from(first & 0x3f), |n, byte| n << 8 | u64::from(*byte));
    Some((number, length))
}

/// Writes a number. Numbers of 62 bits and more do not occur.
fn write_number(number: u64, into: &mut Vec<u8>) {
    match number {
        0..0x40 => into.push(number as u8),
        0x40..0x4000 => into.extend_from_slice(&(number as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => {
            into.extend_from_slice(&(number as u32 | 0x8000_0000).to_be_bytes());
        }
        _ => into.extend_from_slice(&(number | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Writes a frame or a capsule: type, length, contents.
fn write_part(kind: u64, content: &[u8], into: &mut Vec<u8>) {
    write_number(kind, into);
    write_number(content.len() as u64, into);
    into.extend_from_slice(content);
}

/// Splits a stream into frames or capsules. Unwanted ones are skipped without being buffered.
#[derive(Default)]
struct Parts {
    buffer: BytesMut,
    /// Bytes of an unwanted part that are still to come.
    skip: u64,
}

impl Parts {
    fn feed(&mut self, bytes: &[u8]) {
        let skipped = self.skip.min(bytes.len() as u64);
        self.skip -= skipped;
        self.buffer.extend_from_slice(&bytes[skipped as usize..]);
    }

    /// The next complete part of a wanted type. An error is one that is too large.
    fn next(&mut self, wanted: &[u64]) -> Result<Option<(u64, BytesMut)>, Fault> {
        loop {
            let Some((kind, first)) = read_number(&self.buffer) else { return Ok(None) };
            let Some((length, second)) = read_number(&self.buffer[first..]) else {
                return Ok(None);
            };
            if !wanted.contains(&kind) {
                self.buffer.advance(first + second);
                let here = length.min(self.buffer.len() as u64);
                self.buffer.advance(here as usize);
                self.skip = length - here;
                if self.skip > 0 {
                    return Ok(None);
                }
                continue;
            }
            if length > MAX_FRAME as u64 {
                return Err(Fault("a frame is too long"));
            }
            if ((self.buffer.len() - first - second) as u64) < length {
                return Ok(None);
            }
            self.buffer.advance(first + second);
            return Ok(Some((kind, self.buffer.split_to(length as usize))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_back_and_only_when_complete() {
        for (number, length) in [(0, 1), (63, 1), (64, 2), (16_383, 2), (16_384, 4), (1 << 40, 8)] {
            let mut bytes = Vec::new();
            write_number(number, &mut bytes);
            assert_eq!(bytes.len(), length);
            assert_eq!(read_number(&bytes), Some((number, length)));
            assert_eq!(read_number(&bytes[..length - 1]), None);
        }
        // The examples of RFC 9000, A.1.
        assert_eq!(read_number(&[0x9d, 0x7f, 0x3e, 0x7d]), Some((494_878_333, 4)));
        assert_eq!(read_number(&[0x40, 0x25]), Some((37, 2)), "longer than needed is fine");
    }

    #[test]
    fn parts_come_out_however_the_stream_is_split_and_others_are_skipped() {
        let mut stream = Vec::new();
        write_part(4, b"settings", &mut stream);
        write_part(0x21, &[9; 20_000], &mut stream);
        write_part(1, b"", &mut stream);
        write_part(0xf0700, b"whatever", &mut stream);
        write_part(4, &[7; MAX_FRAME], &mut stream);
        for cut in [1, 2, 7, 1_000, 100_000] {
            let (mut parts, mut found) = (Parts::default(), Vec::new());
            for piece in stream.chunks(cut) {
                parts.feed(piece);
                while let Some((kind, content)) = parts.next(&[1, 4]).expect("fits") {
                    found.push((kind, content.len()));
                }
                assert!(parts.buffer.len() <= MAX_FRAME + cut + 16, "{}", parts.buffer.len());
            }
            assert_eq!(found, [(4, 8), (1, 0), (4, MAX_FRAME)], "cut into {cut}");
        }
        let mut large = Vec::new();
        write_number(4, &mut large);
        write_number(MAX_FRAME as u64 + 1, &mut large);
        let mut parts = Parts::default();
        parts.feed(&large);
        assert!(parts.next(&[4]).is_err());
    }
}
