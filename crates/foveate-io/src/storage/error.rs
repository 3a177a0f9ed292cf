//! Errors of the storage, and what state they leave.

use foveate_wire::ObjectId;
use std::path::PathBuf;

/// Why the storage did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The file or its folder cannot be used. Nothing was changed.
    #[error("{file}: {cause}", file = file.display())]
    File {
        /// The file, as given.
        file: PathBuf,
        cause: std::io::Error,
    },
    /// Another process, or another `Storage` of this one, has the file open. Nothing was changed.
    #[error("{file}: in use by another server; stop it, or name another file", file = file.display())]
    InUse {
        /// The file, as given.
        file: PathBuf,
    },
    /// The file has several names, so that two servers could use it at once. Nothing was changed.
    #[error("{file}: has {names} names (hard links); remove all but one, or copy the file", file = file.display())]
    Linked {
        /// The file, as given.
        file: PathBuf,
        /// Number of its names.
        names: u64,
    },
    /// The file is damaged or not a database of this kind. It is unchanged.
    #[error("{file}: {what}; the file was left untouched: restore a backup, or name another file", file = file.display())]
    Damaged {
        /// The file, as given.
        file: PathBuf,
        /// What was found.
        what: String,
    },
    /// A newer program wrote the file. It is unchanged.
    #[error("{file}: a database of version {found}, this program knows versions up to {known}; use a newer program", file = file.display())]
    Newer {
        /// The file, as given.
        file: PathBuf,
        /// The file's version.
        found: i64,
        /// The version that this program writes.
        known: i64,
    },
    /// A field's stored type differs from the schema's. Nothing was changed.
    #[error(
        "{kind}.{field}: stored as '{stored}', the schema now says '{stated}'; \
         give the field a new name to drop the old values, or go back to the old type"
    )]
    ChangedType {
        kind: String,
        field: String,
        /// The stored type.
        stored: String,
        /// The schema's type.
        stated: String,
    },
    /// An object does not have the lanes of its kind. Nothing was changed.
    #[error("object {id:?}: {found} bytes of state where its kind has {expected}")]
    Lanes {
        id: ObjectId,
        /// Bytes that are stored.
        found: usize,
        /// Bytes that are expected.
        expected: usize,
    },
    /// An object's kind is not in the schema. Nothing of it was saved.
    #[error("object {id:?}: the schema has no such kind")]
    UnknownKind { id: ObjectId },
    /// A name is not a valid player name. Nothing was changed.
    #[error("player name {name:?}: expected 1 to {limit} bytes without control characters")]
    Name {
        /// The name, truncated if it is long.
        name: String,
        /// The most bytes.
        limit: usize,
    },
    /// All player numbers are used. Nothing was changed.
    #[error("all {limit} player numbers are taken")]
    PlayersFull {
        /// The largest number.
        limit: u32,
    },
    /// The disk is full. Unwritten changes are still in memory; retry.
    #[error("{file}: the disk is full", file = file.display())]
    DiskFull {
        /// The file, as given.
        file: PathBuf,
    },
    /// The file was moved, deleted or replaced while in use. Unwritten changes are still in memory; put the file back.
    #[error("{file}: the file was moved or deleted; put it back", file = file.display())]
    Gone {
        /// The file, as given.
        file: PathBuf,
    },
    /// Too many requests wait for the writer; retry later. Nothing was changed.
    #[error("{limit} requests wait for the storage already; retry later")]
    Busy {
        /// The most that may wait.
        limit: usize,
    },
    /// The storage failed recently, and is retried automatically. Nothing was changed.
    #[error("the storage failed and will be retried: {0}")]
    Away(String),
    /// The writer was closed with changes that could not be written. They are lost.
    #[error("{unsaved} changes could not be saved: {cause}")]
    Unsaved {
        /// Number of lost changes.
        unsaved: usize,
        /// The last error.
        cause: String,
    },
    /// An error of SQLite. An open transaction was rolled back.
    #[error("{file}: {cause}", file = file.display())]
    Sqlite {
        /// The file, as given.
        file: PathBuf,
        cause: rusqlite::Error,
    },
}

impl StorageError {
    /// Whether the same call may succeed later without a change by the caller.
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
