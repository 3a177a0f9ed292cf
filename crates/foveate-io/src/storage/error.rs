//! What a store refuses, and what is left of it.

use foveate_wire::ObjectId;
use std::path::PathBuf;

/// Why the store did not do as asked.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The file or its folder cannot be used. Nothing was changed.
    #[error("{file}: {cause}", file = file.display())]
    File {
        /// The file as it was named.
        file: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// Another process, or another `Storage` of this one, has the file. Nothing was changed.
    #[error("{file}: in use by another server; stop it, or name another file", file = file.display())]
    InUse {
        /// The file as it was named.
        file: PathBuf,
    },
    /// The file has several names, so that two servers could use it at once. Nothing was changed.
    #[error("{file}: has {names} names (hard links); remove all but one, or copy the file", file = file.display())]
    Linked {
        /// The file as it was named.
        file: PathBuf,
        /// How many.
        names: u64,
    },
    /// The file is something else, or is damaged. It was left as it is.
    #[error("{file}: {what}; the file was left untouched: restore a backup, or name another file", file = file.display())]
    Damaged {
        /// The file as it was named.
        file: PathBuf,
        /// What was found.
        what: String,
    },
    /// The file was written by a newer program. It was left as it is.
    #[error("{file}: a database of version {found}, this program knows versions up to {known}; use a newer program", file = file.display())]
    Newer {
        /// The file as it was named.
        file: PathBuf,
        /// Its version.
        found: i64,
        /// The version that this program writes.
        known: i64,
    },
    /// A field means something else than when it was stored. Nothing was changed.
    #[error(
        "{kind}.{field}: stored as '{stored}', the schema now says '{stated}'; \
         give the field a new name to drop the old values, or go back to the old type"
    )]
    ChangedType {
        /// The kind's name.
        kind: String,
        /// The field's name.
        field: String,
        /// The type as stored.
        stored: String,
        /// The type as the schema states it.
        stated: String,
    },
    /// An object does not have the lanes of its kind. Nothing was changed.
    #[error("object {id:?}: {found} bytes of state where its kind has {expected}")]
    Lanes {
        /// Which object.
        id: ObjectId,
        /// The bytes that are there.
        found: usize,
        /// The bytes that should be.
        expected: usize,
    },
    /// An object of a kind that the schema does not have. Nothing was saved of it.
    #[error("object {id:?}: the schema has no such kind")]
    UnknownKind {
        /// Which object.
        id: ObjectId,
    },
    /// A name that no player may have. Nothing was changed.
    #[error("player name {name:?}: expected 1 to {limit} bytes without control characters")]
    Name {
        /// The name, cut if it is long.
        name: String,
        /// The most bytes.
        limit: usize,
    },
    /// There are no more numbers for players. Nothing was changed.
    #[error("all {limit} numbers of players are taken")]
    PlayersFull {
        /// The largest number.
        limit: u32,
    },
    /// The disk is full. What was to be written is still in memory; retry.
    #[error("{file}: the disk is full", file = file.display())]
    DiskFull {
        /// The file as it was named.
        file: PathBuf,
    },
    /// The file was moved, deleted or replaced while in use. What was to be written is still in
    /// memory; put the file back.
    #[error("{file}: the file is not there any more", file = file.display())]
    Gone {
        /// The file as it was named.
        file: PathBuf,
    },
    /// Too many questions wait for the writer; retry later. Nothing was changed.
    #[error("{limit} questions wait for the store already")]
    Busy {
        /// The most that may wait.
        limit: usize,
    },
    /// The store did not answer lately; it is tried again by itself. Nothing was changed.
    #[error("the store is away: {0}")]
    Away(String),
    /// The writer was closed with changes that could not be written. They are lost.
    #[error("{unsaved} changes could not be saved: {cause}")]
    Unsaved {
        /// How many.
        unsaved: usize,
        /// The last refusal.
        cause: String,
    },
    /// SQLite refused. A transaction that was going on was undone.
    #[error("{file}: {cause}", file = file.display())]
    Sqlite {
        /// The file as it was named.
        file: PathBuf,
        /// What SQLite said.
        cause: rusqlite::Error,
    },
}

impl StorageError {
    /// Whether the same call may succeed later without any change by the caller.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::DiskFull { .. } | Self::Gone { .. } | Self::Busy { .. } | Self::Away(_)
        ) || matches!(self, Self::Sqlite { cause, .. } if is_busy(cause))
    }
}

fn is_busy(cause: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, DatabaseBusy, DatabaseLocked, SystemIoFailure};
    let code = cause.sqlite_error_code();
    matches!(code, Some(CannotOpen | DatabaseBusy | DatabaseLocked | SystemIoFailure))
}
