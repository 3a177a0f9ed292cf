//! Entries for fuzzers and for tests that stand in for them: readers of messages and records, by any bytes.
//!
//! The first byte chooses the reader. What is refused is no finding; what is read must come back the same when it
//! is written and read again, and a reader must never panic, stall or grow without a bound. Nodes that get such
//! messages are tried by the games' own entries.

use crate::peer::identity::Sealed;
use crate::peer::wire::{Ask, Digest, PeerDatagram, PeerMessage};
use crate::region::bus::Envelope;
use crate::region::layout::Layout;
use crate::region::ledger::{AppendId, MAX_RECORD, read_record, write_record};
use crate::region::log::{LogBatch, LogView, read_batch};
use crate::session::{
    ClientDatagram, ClientMessage, MAX_MESSAGE, ServerDatagram, ServerMessage, read_message,
    write_message,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Records of a log that are applied one after the other in one run.
const MAX_RECORDS: usize = 32;

/// Reads any bytes as what clients and servers say to each other.
pub fn session(data: &[u8]) {
    let Some((which, bytes)) = data.split_first() else { return };
    match which % 4 {
        0 => message::<ClientMessage<u32>>(bytes),
        1 => message::<ServerMessage>(bytes),
        2 => {
            let mut read = ClientDatagram::<u32>::default();
            if read.read(bytes) {
                let (mut written, mut again) = (Vec::new(), ClientDatagram::default());
                read.write(&mut written);
                assert!(again.read(&written) && again == read);
            }
        }
        _ => {
            let Some(read) = ServerDatagram::read(bytes) else { return };
            let mut written = Vec::new();
            read.write(&mut written);
            assert_eq!(ServerDatagram::read(&written), Some(read));
        }
    }
}

/// Reads any bytes as what peers say to each other.
pub fn peer_message(data: &[u8]) {
    let Some((which, bytes)) = data.split_first() else { return };
    match which % 4 {
        0 => message::<PeerMessage>(bytes),
        1 => {
            let Some(read) = PeerDatagram::read(bytes) else { return };
            let mut written = Vec::new();
            read.write(&mut written);
            assert_eq!(PeerDatagram::read(&written), Some(read));
        }
        // What is signed is opened before its signature is checked.
        2 => drop(read_message::<Sealed>(bytes).and_then(|sealed| sealed.peek::<Digest>())),
        _ => drop(read_message::<Sealed>(bytes).and_then(|sealed| sealed.peek::<Ask>())),
    }
}

/// Reads any bytes as what region servers say to each other.
pub fn bus(data: &[u8]) {
    let Ok(envelope) = Envelope::read(data) else { return };
    let written = envelope.write();
    assert_eq!(Envelope::read(&written), Ok(envelope));
}

/// Reads any bytes as records of the ledger: layouts, and a log record by record, each with its length before it.
pub fn ledger(data: &[u8]) {
    let Some((which, mut bytes)) = data.split_first() else { return };
    if which % 2 == 0 {
        let Ok(layout) = Layout::read(bytes) else { return };
        assert_eq!(Layout::read(&layout.write()), Ok(layout.clone()));
        assert!(layout.rect(layout.region_at([0.0, 0.0])).is_some(), "every place has a region");
        let _ = read_record::<(AppendId, Vec<u8>)>(bytes);
        return;
    }
    let (mut view, mut entries) = (LogView::default(), 0);
    for sequence in 1..=MAX_RECORDS as u64 {
        let Some((length, rest)) = bytes.split_first() else { return };
        let (record, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        bytes = rest;
        let Ok((id, batch)) = read_batch(record) else { continue };
        let again: Result<(AppendId, LogBatch), _> = read_record(&write_record(&(id, &batch)));
        assert_eq!(again, Ok((id, batch.clone())));
        view.apply(sequence, &batch);
        entries += batch.entries.len();
        assert!(view.objects.len() + view.pending.len() <= entries && entries <= MAX_RECORD);
    }
}

/// Reads a message, writes it and reads it again.
fn message<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
    let Some(read) = read_message::<T>(bytes) else { return };
    let written = write_message(&read);
    // Numbers may come with more digits than they need, never with fewer.
    assert!(written.len() <= bytes.len() && bytes.len() <= MAX_MESSAGE);
    assert_eq!(read_message::<T>(&written).as_ref(), Some(&read));
}

#[cfg(test)]
mod tests {
    type Entry = fn(&[u8]);
    const ENTRIES: [(&str, Entry); 4] = [
        ("session", super::session),
        ("peer_message", super::peer_message),
        ("bus", super::bus),
        ("ledger", super::ledger),
    ];

    /// Runs each entry with every committed seed.
    #[test]
    fn committed_seeds_are_read_or_refused() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds");
        for (target, run) in ENTRIES {
            let folder = std::path::Path::new(folder).join(target);
            let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(Result::unwrap).collect();
            assert!(files.len() > 3, "the seeds of {target} are missing");
            for file in files {
                println!("{target}: {}", file.path().display());
                run(&std::fs::read(file.path()).unwrap());
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        for seed in 0..2_000 {
            let mut random = fastrand::Rng::with_seed(seed);
            // Small numbers are the ones with a meaning.
            let data: Vec<u8> = (0..random.usize(0..80))
                .map(|_| if random.bool() { random.u8(..8) } else { random.u8(..) })
                .collect();
            for (name, run) in ENTRIES {
                println!("{name}, seed {seed}");
                run(&data);
            }
        }
    }
}
