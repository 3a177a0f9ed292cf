//! The database file: locking, integrity checks and migrations.

use super::error::StorageError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fs::{File, TryLockError};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The purpose and versions of a database file.
pub(crate) struct DatabaseFormat {
    /// The application id in the file's header; a file with another one is rejected.
    pub application: i64,
    /// Statement `i` migrates version `i` to version `i + 1`. Statements are never edited, only added, since databases
    /// of every version exist. The first one makes a table `meta (key, value)`.
    pub migrations: &'static [&'static str],
}

impl DatabaseFormat {
    /// The version that this program writes.
    const fn version(&self) -> i64 {
        self.migrations.len() as i64
    }
}

/// Players and objects: "fove" in the header of the file.
pub(super) const STORAGE: DatabaseFormat =
    DatabaseFormat { application: 0x666f_7665, migrations: MIGRATIONS };

/// How long to wait for another process that reads the file until a transaction fails.
const LOCK_WAIT: Duration = Duration::from_millis(100);

/// The log is truncated to this size after it was copied into the file.
const MAX_LOG: i64 = 16 << 20;

const MIGRATIONS: &[&str] = &["
    CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
    CREATE TABLE players (
        number INTEGER PRIMARY KEY CHECK (number BETWEEN 1 AND 16777215),
        name TEXT NOT NULL UNIQUE,
        first_seen INTEGER NOT NULL,
        last_seen INTEGER NOT NULL
    );
    CREATE TABLE kinds (
        number INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        version INTEGER NOT NULL
    );
    CREATE TABLE fields (
        kind INTEGER NOT NULL REFERENCES kinds,
        name TEXT NOT NULL,
        lane INTEGER NOT NULL,
        lanes INTEGER NOT NULL,
        type TEXT NOT NULL,
        least REAL NOT NULL,
        most REAL NOT NULL,
        PRIMARY KEY (kind, name)
    ) WITHOUT ROWID;
    CREATE TABLE objects (
        player INTEGER NOT NULL,
        kind INTEGER NOT NULL REFERENCES kinds,
        serial INTEGER NOT NULL,
        state BLOB NOT NULL,
        PRIMARY KEY (player, kind, serial)
    ) WITHOUT ROWID;
    CREATE TABLE tokens (id BLOB PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;
"];

/// An open, sound database file of this program's version.
pub(crate) struct Database {
    pub connection: Connection,
    pub path: PathBuf,
    identity: Option<FileIdentity>,
    /// Held as long as the database is open; the system releases it when the process ends.
    _lock: Option<File>,
}

/// Device and inode of a file. Writes to a deleted file succeed and are lost, so the file's name is checked before
/// every transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileIdentity(u64, u64);

#[cfg(unix)]
fn identity(path: &Path) -> Option<FileIdentity> {
    use std::os::unix::fs::MetadataExt;
    let data = std::fs::metadata(path).ok()?;
    Some(FileIdentity(data.dev(), data.ino()))
}

/// On other systems an open file cannot be deleted.
#[cfg(not(unix))]
fn identity(_: &Path) -> Option<FileIdentity> {
    None
}

impl Database {
    /// Opens or creates a file. Nothing is written until the file is known to be ours and sound.
    pub fn open(path: &Path, format: &DatabaseFormat) -> Result<Database, StorageError> {
        let path = &resolve(path)?;
        let lock = lock(path)?;
        check_names(path)?;
        check_header(path)?;
        let failed = |cause| refusal(path, cause);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        connection.busy_timeout(LOCK_WAIT).map_err(failed)?;
        // The log of a file that is rejected must not be copied into it on closing.
        let no_copy = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        connection.set_db_config(no_copy, true).map_err(failed)?;
        let version = check(&connection, path, format)?;
        connection.set_db_config(no_copy, false).map_err(failed)?;
        configure(&connection).map_err(failed)?;
        let mut database =
            Database { connection, path: path.into(), identity: identity(path), _lock: Some(lock) };
        database.migrate(version, format)?;
        Ok(database)
    }

    /// A database in memory.
    pub fn in_memory(format: &DatabaseFormat) -> Result<Database, StorageError> {
        let path = PathBuf::from(":memory:");
        let connection = Connection::open_in_memory().map_err(|cause| refusal(&path, cause))?;
        let mut database = Database { connection, path, identity: None, _lock: None };
        database.migrate(0, format)?;
        Ok(database)
    }

    fn migrate(&mut self, from: i64, format: &DatabaseFormat) -> Result<(), StorageError> {
        let failed = |cause| refusal(&self.path, cause);
        if from == format.version() {
            return Ok(());
        }
        let transaction = self.connection.transaction().map_err(failed)?;
        for migration in format.migrations.iter().skip(from as usize) {
            transaction.execute_batch(migration).map_err(failed)?;
        }
        let put = "INSERT OR REPLACE INTO meta VALUES ('database_version', ?1)";
        transaction.execute(put, [format.version()]).map_err(failed)?;
        transaction.pragma_update(None, "application_id", format.application).map_err(failed)?;
        transaction.commit().map_err(failed)
    }

    /// Fails unless the file is still at its path.
    pub fn check_place(&self) -> Result<(), StorageError> {
        if self.identity == identity(&self.path) {
            return Ok(());
        }
        Err(StorageError::Gone { file: self.path.clone() })
    }

    /// SQLite's check of every page, index and constraint.
    pub fn integrity_check(&self) -> Result<(), StorageError> {
        sound(&self.connection, &self.path, "integrity_check")
    }
}

/// Converts an error of SQLite.
pub(crate) fn refusal(path: &Path, cause: rusqlite::Error) -> StorageError {
    let file = path.to_owned();
    match cause.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StorageError::DiskFull { file },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StorageError::Damaged { file, what: cause.to_string() }
        }
        _ => StorageError::Sqlite { file, cause },
    }
}

/// The file's real name: through a symbolic link, the lock would be another file.
fn resolve(path: &Path) -> Result<PathBuf, StorageError> {
    let failed = |cause| StorageError::File { file: path.into(), cause };
    match path.canonicalize() {
        // A dangling link is rejected; a file that does not exist yet is created in its folder.
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound && !path.is_symlink() => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new(".")).canonicalize().map_err(failed)?;
            Ok(folder.join(path.file_name().unwrap_or_default()))
        }
        resolved => resolved.map_err(failed),
    }
}

/// A file with several names would have a lock and a log for each of them, so two servers could write it.
#[cfg(unix)]
fn check_names(path: &Path) -> Result<(), StorageError> {
    use std::os::unix::fs::MetadataExt;
    match std::fs::metadata(path).map(|data| data.nlink()) {
        Ok(names @ 2..) => Err(StorageError::Linked { file: path.into(), names }),
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn check_names(_: &Path) -> Result<(), StorageError> {
    Ok(())
}

/// Locks the database for one server: two would overwrite each other's objects. The lock is a separate file, because
/// closing any handle of the database's file would release SQLite's locks on it.
fn lock(path: &Path) -> Result<File, StorageError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let failed = |cause| StorageError::File { file: path.into(), cause };
    let file = File::options().create(true).truncate(false).write(true).open(name);
    let file = file.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StorageError::InUse { file: path.into() }),
        Err(TryLockError::Error(cause)) => Err(failed(cause)),
    }
}

/// Checks the header: an absent or empty file is a new database; any other must be one already.
fn check_header(path: &Path) -> Result<(), StorageError> {
    const MAGIC: &[u8; 16] = b"SQLite format 3\0";
    let mut head = Vec::new();
    match File::open(path).and_then(|file| file.take(16).read_to_end(&mut head)) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(cause) => Err(StorageError::File { file: path.into(), cause }),
        Ok(0) => Ok(()),
        Ok(_) if head == MAGIC => Ok(()),
        Ok(_) => {
            let what = "no SQLite database".to_owned();
            Err(StorageError::Damaged { file: path.into(), what })
        }
    }
}

/// The database's version, without writing; 0 for a new one.
fn check(
    connection: &Connection,
    path: &Path,
    format: &DatabaseFormat,
) -> Result<i64, StorageError> {
    let failed = |cause| refusal(path, cause);
    let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(failed);
    if number("SELECT count(*) FROM sqlite_schema")? == 0 {
        return Ok(0);
    }
    if number("SELECT application_id FROM pragma_application_id")? != format.application {
        let what = "a database of another program or for another purpose".to_owned();
        return Err(StorageError::Damaged { file: path.into(), what });
    }
    let found = number("SELECT value FROM meta WHERE key = 'database_version'")?;
    if found > format.version() {
        return Err(StorageError::Newer { file: path.into(), found, known: format.version() });
    }
    sound(connection, path, "quick_check")?;
    Ok(found)
}

fn sound(connection: &Connection, path: &Path, pragma: &str) -> Result<(), StorageError> {
    let sql = format!("PRAGMA {pragma}(1)");
    let said = connection.query_row(&sql, [], |row| row.get::<_, String>(0));
    match said.map_err(|cause| refusal(path, cause))?.as_str() {
        "ok" => Ok(()),
        what => Err(StorageError::Damaged { file: path.into(), what: what.into() }),
    }
}

/// With a write-ahead log a commit is one flushed append: a killed process loses none of it, and with `FULL` neither
/// does a power failure, if the disk really flushes.
fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "journal_size_limit", MAX_LOG)?;
    connection.pragma_update(None, "foreign_keys", true)
}
