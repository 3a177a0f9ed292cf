//! Entry points for fuzzers, and for the tests that stand in for them: readers of messages and
//! records.
//!
//! The first byte chooses the reader. Bytes may be refused; a message that is read must stay the
//! same when it is written and read again; and a reader must never panic, hang or use memory
//! without a bound. The games have entry points of their own that pass such messages to nodes.

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

/// The most log records applied in one run.
const MAX_RECORDS: usize = 32;

/// Reads any bytes as messages between clients and servers.
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

/// Reads any bytes as messages between peers.
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
        // The content of a signed message is read before its signature is checked.
        2 => drop(read_message::<Sealed>(bytes).and_then(|sealed| sealed.peek::<Digest>())),
        _ => drop(read_message::<Sealed>(bytes).and_then(|sealed| sealed.peek::<Ask>())),
    }
}

/// Reads any bytes as messages between region servers.
pub fn bus(data: &[u8]) {
    let Ok(envelope) = Envelope::read(data) else { return };
    let written = envelope.write();
    assert_eq!(Envelope::read(&written), Ok(envelope));
}

/// Reads any bytes as ledger records: layouts, and a log in which a length precedes each record.
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
    // A number may be written with more digits than it needs, never with fewer.
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
            // Most small numbers are valid tags.
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
