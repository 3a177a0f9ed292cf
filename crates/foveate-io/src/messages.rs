//! Whole messages on a stream of bytes: a length of four bytes, least significant first, then that many bytes.
//!
//! An empty message is not delivered. The side that opens the stream sends one, because a QUIC stream does not exist at
//! the other end until something is sent on it.

use bytes::{Buf, BytesMut};
use foveate_wire::Bytes;

/// Bytes before each message.
const HEAD: usize = 4;

/// The most memory that an empty buffer keeps.
const KEPT: usize = 4 * 1024;

/// Messages that wait for the stream.
#[derive(Default)]
pub(crate) struct Outbox {
    waiting: BytesMut,
}

impl Outbox {
    pub(crate) fn push(&mut self, message: &[u8]) {
        self.waiting.extend_from_slice(&(message.len() as u32).to_le_bytes());
        self.waiting.extend_from_slice(message);
    }

    pub(crate) fn waiting(&self) -> &[u8] {
        &self.waiting
    }

    /// Removes `count` bytes that the stream accepted.
    pub(crate) fn taken(&mut self, count: usize) {
        self.waiting.advance(count);
        shrink(&mut self.waiting);
    }
}

/// Bytes of a stream until they form whole messages.
#[derive(Default)]
pub(crate) struct Inbox {
    buffer: BytesMut,
}

impl Inbox {
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message that is not empty. An error is the length of one that is too large.
    pub(crate) fn next(&mut self, limit: Bytes) -> Result<Option<bytes::Bytes>, Bytes> {
        while let Some(head) = self.buffer.first_chunk::<HEAD>() {
            let length = u32::from_le_bytes(*head);
            if length > limit.0 {
                return Err(Bytes(length));
            }
            if self.buffer.len() < HEAD + length as usize {
                return Ok(None);
            }
            self.buffer.advance(HEAD);
            if length > 0 {
                return Ok(Some(self.buffer.split_to(length as usize).freeze()));
            }
        }
        shrink(&mut self.buffer);
        Ok(None)
    }
}

fn shrink(buffer: &mut BytesMut) {
    if buffer.is_empty() && buffer.capacity() > KEPT {
        *buffer = BytesMut::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_whole_however_the_stream_is_split() {
        let sent: Vec<Vec<u8>> = vec![vec![1], vec![2; 300], vec![3; 70], vec![4; 1_000]];
        for cut in [1, 3, 4, 5, 64, 10_000] {
            let mut outbox = Outbox::default();
            sent.iter().for_each(|message| outbox.push(message));
            let mut inbox = Inbox::default();
            let mut received = Vec::new();
            while !outbox.waiting().is_empty() {
                let count = cut.min(outbox.waiting().len());
                inbox.feed(&outbox.waiting()[..count]);
                outbox.taken(count);
                while let Some(message) = inbox.next(Bytes(1_000)).expect("within the limit") {
                    received.push(message.to_vec());
                }
            }
            assert_eq!(received, sent, "cut into {cut}");
        }
    }

    #[test]
    fn empty_messages_are_not_delivered() {
        let mut outbox = Outbox::default();
        outbox.push(b"");
        outbox.push(b"x");
        outbox.push(b"");
        let mut inbox = Inbox::default();
        inbox.feed(outbox.waiting());
        assert_eq!(inbox.next(Bytes(9)).expect("small").as_deref(), Some(&b"x"[..]));
        assert_eq!(inbox.next(Bytes(9)).expect("small"), None);
    }

    #[test]
    fn a_length_beyond_the_limit_is_rejected_before_its_bytes_arrive() {
        let mut inbox = Inbox::default();
        inbox.feed(&u32::MAX.to_le_bytes());
        assert_eq!(inbox.next(Bytes(65_536)), Err(Bytes(u32::MAX)));
    }
}
