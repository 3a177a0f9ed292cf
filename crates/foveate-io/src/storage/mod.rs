//! What must survive a restart: players with their objects, the world's objects, used tokens.
//!
//! A [`Storage`] is one SQLite file, owned by one server. It is opened, checked and, if program or schema have changed,
//! migrated. Then the world is read, and the storage becomes a [`Writer`], which accepts changes from the game's thread
//! without making it wait, and writes them to the disk within [`FLUSH_EVERY`].
//!
//! What it refuses to do: it answers no queries about game state, which the game has in memory; it does not interpret
//! lanes; it repairs nothing: a damaged file is reported and left unchanged.
//!
//! What it guarantees: a process that is killed at any moment loses at most its last second, and never the database.
//! The same holds after a power failure if the disk really flushes.
//!
//! ```
//! use foveate_io::{unix_now, storage::{StorageChange, PlayerStorage, Storage}};
//! use foveate_wire::{FieldSpec, FieldType, KindId, KindSpec, ObjectId, Schema};
//! # let folder = std::env::temp_dir().join(format!("foveate-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let path = folder.join("world.db");
//! let open = FieldSpec::new("open", FieldType::Symbol { count: 2 });
//! let door = KindSpec { name: "door".into(), fields: vec![open], max_speed: 0.0, fall: 0 };
//! let schema = Schema::new(vec![door])?;
//!
//! let mut storage = Storage::open(&path, &schema)?;
//! let (ada, _) = storage.player("Ada", unix_now())?;
//! let door = ObjectId::new(KindId(0), ada.0, 0);
//! let mut writer = storage.write_behind()?;
//! writer.save([StorageChange::Saved(door, &[0, 0, 1])]);
//! writer.close()?;
//!
//! let (_, saved) = Storage::open(&path, &schema)?.player("Ada", unix_now())?;
//! assert_eq!((saved[0].id, saved[0].lanes.as_slice()), (door, &[0, 0, 1][..]));
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod database;
mod error;
mod kinds;
mod layout;
mod tampered;
mod thread;
mod writer;

pub use error::StorageError;
pub use foveate_node::persistence::{
    JoinQuestion, MAX_KNOWN, MAX_QUESTIONS, MAX_WAITING, PlayerStorage, RESERVED, Saved,
    StorageChange, Taken, UsedTokens, WriterReport,
};
pub use writer::{FLUSH_EVERY, StorageAnswer, Writer};

pub(crate) use tampered::read_any_rows;

use crate::token::{MAX_NAME, is_name};
use database::{Database, STORAGE, refusal};
use foveate_node::UnixTime;
use foveate_node::game::PlayerId;
use foveate_wire::Schema;
use kinds::Kinds;
use rusqlite::{Connection, OptionalExtension, params};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The largest number of a player, which fits the origin of an [`ObjectId`](foveate_wire::ObjectId).
pub const MAX_PLAYER: u32 = (1 << 24) - 1;
/// The end of numbers for new objects: there are no more bits for creators and their serial numbers.
const LAST_ID: u64 = 1 << 54;

/// An open database with the schema's layout.
pub struct Storage {
    database: Database,
    kinds: Arc<Kinds>,
}

impl Storage {
    /// Opens or creates the file. Objects that were stored with another schema are migrated: fields are found by name,
    /// new ones get their default, removed ones are dropped, and a changed type is an error. Objects of kinds that the
    /// schema does not have stay stored unchanged.
    pub fn open(path: &Path, schema: &Schema) -> Result<Storage, StorageError> {
        let mut database = Database::open(path, &STORAGE)?;
        let kinds = Arc::new(Kinds::settle(&mut database, schema)?);
        Ok(Storage { database, kinds })
    }

    /// The player of this name with its objects. A new name gets a new number.
    pub fn player(
        &mut self,
        name: &str,
        now: UnixTime,
    ) -> Result<(PlayerId, Vec<Saved>), StorageError> {
        let path = self.database.path.clone();
        let failed = |cause| refusal(&path, cause);
        let transaction = self.database.connection.transaction().map_err(failed)?;
        let player = player(&transaction, &path, name, now)?;
        let saved = self.kinds.load(&transaction, &path, player.0)?;
        transaction.commit().map_err(failed)?;
        Ok((player, saved))
    }

    /// The objects that belong to no player.
    pub fn world(&self) -> Result<Vec<Saved>, StorageError> {
        self.kinds.load(&self.database.connection, &self.database.path, 0)
    }

    /// Reserves [`RESERVED`] numbers for ids of new objects that no run of the server has used; see
    /// [`IdAllocator::for_server`](foveate_node::IdAllocator::for_server). They are never reused.
    pub fn reserve_ids(&mut self) -> Result<Range<u64>, StorageError> {
        let failed = |cause| refusal(&self.database.path, cause);
        let connection = &self.database.connection;
        let sql = "SELECT value FROM meta WHERE key = 'next_id'";
        let next = connection.query_row(sql, [], |row| row.get::<_, i64>(0)).optional();
        let next = next.map_err(failed)?.unwrap_or(0);
        let Some(next) = u64::try_from(next).ok().filter(|next| *next <= LAST_ID) else {
            let what = format!("next_id is {next}, where 0 to {LAST_ID} is possible");
            return Err(StorageError::Damaged { file: self.database.path.clone(), what });
        };
        put_next_id(connection, next + RESERVED).map_err(failed)?;
        Ok(next..next + RESERVED)
    }

    /// Used tokens, including those that have expired by a clock that may be wrong.
    pub fn used_tokens(&self) -> Result<UsedTokens, StorageError> {
        let failed = |cause| refusal(&self.database.path, cause);
        let connection = &self.database.connection;
        let time = |value: i64| UnixTime(value.max(0) as u64);
        let sql = "SELECT value FROM meta WHERE key = 'token_horizon'";
        let horizon = connection.query_row(sql, [], |row| row.get::<_, i64>(0)).optional();
        let mut used = UsedTokens::default();
        used.raise_horizon(time(horizon.map_err(failed)?.unwrap_or(0)));
        let mut query = connection.prepare("SELECT id, until FROM tokens").map_err(failed)?;
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)));
        for row in rows.map_err(failed)? {
            let (id, until) = row.map_err(failed)?;
            used.insert(id, time(until));
        }
        Ok(used)
    }

    /// A full check of the file; opening it makes a quick one.
    pub fn integrity_check(&self) -> Result<(), StorageError> {
        self.database.integrity_check()
    }

    /// Starts a thread that writes changes, which the caller hands over without waiting.
    pub fn write_behind(self) -> Result<Writer, StorageError> {
        Writer::start(self)
    }
}

/// Stores the first id that is not reserved. It never decreases.
fn put_next_id(connection: &Connection, next: u64) -> rusqlite::Result<()> {
    let sql = "INSERT INTO meta VALUES ('next_id', ?1) \
               ON CONFLICT (key) DO UPDATE SET value = max(value, excluded.value)";
    connection.execute(sql, [next as i64]).map(|_| ())
}

/// Finds or creates a player, within the caller's transaction.
fn player(
    connection: &Connection,
    path: &Path,
    name: &str,
    now: UnixTime,
) -> Result<PlayerId, StorageError> {
    if !is_name(name) {
        let name = name.chars().take(MAX_NAME).collect();
        return Err(StorageError::Name { name, limit: MAX_NAME });
    }
    let failed = |cause| refusal(path, cause);
    let seen = "UPDATE players SET last_seen = max(last_seen, ?2) WHERE name = ?1 RETURNING number";
    let mut query = connection.prepare_cached(seen).map_err(failed)?;
    let known = query.query_row(params![name, now.0 as i64], |row| row.get(0)).optional();
    if let Some(number) = known.map_err(failed)? {
        return Ok(PlayerId(number));
    }
    let next = "SELECT coalesce(max(number), 0) + 1 FROM players";
    let number: u32 = connection.query_row(next, [], |row| row.get(0)).map_err(failed)?;
    if number > MAX_PLAYER {
        return Err(StorageError::PlayersFull { limit: MAX_PLAYER });
    }
    let add = "INSERT INTO players VALUES (?1, ?2, ?3, ?3)";
    let mut add = connection.prepare_cached(add).map_err(failed)?;
    add.execute(params![number, name, now.0 as i64]).map_err(failed)?;
    Ok(PlayerId(number))
}

#[cfg(test)]
mod tests;
