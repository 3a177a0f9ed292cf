//! Stored objects, and the layouts that give their bytes a meaning.
//!
//! A kind is identified by its name, since its number in the schema may change between versions of a game, and with it
//! the ids of its objects. Within the database it has a number of its own.

use super::Saved;
use super::database::{Database, refusal};
use super::error::StorageError;
use super::layout::{self, Field};
use foveate_wire::schema::HIDDEN_LANES;
use foveate_wire::{Kind, KindId, ObjectId, Schema};
use rusqlite::{Connection, OptionalExtension, params};
use std::path::Path;

/// The schema's kinds and their numbers in the database.
pub(super) struct Kinds {
    /// For each [`KindId`] the number in the database, and the lanes of an object.
    kinds: Vec<(i64, usize)>,
}

impl Kinds {
    /// No kinds, before [`Kinds::settle`].
    pub fn none() -> Kinds {
        Kinds { kinds: Vec::new() }
    }

    /// Migrates layouts and objects to the schema's, in one transaction.
    pub fn settle(database: &mut Database, schema: &Schema) -> Result<Kinds, StorageError> {
        let path = database.path.clone();
        let failed = |cause| refusal(&path, cause);
        let transaction = database.connection.transaction().map_err(failed)?;
        let mut kinds = Vec::new();
        for (at, kind) in schema.kinds().iter().enumerate() {
            let settling = Settling { connection: &transaction, path: &path, kind };
            kinds.push((settling.settle(KindId(at as u8))?, kind.lane_count()));
        }
        transaction.commit().map_err(failed)?;
        Ok(Kinds { kinds })
    }

    /// A player's objects in the order of their ids; for player 0 the world's.
    pub fn load(
        &self,
        connection: &Connection,
        path: &Path,
        player: u32,
    ) -> Result<Vec<Saved>, StorageError> {
        let failed = |cause| refusal(path, cause);
        let mut all = Vec::new();
        let sql = "SELECT serial, state FROM objects WHERE player = ?1 AND kind = ?2 \
                   ORDER BY serial";
        let mut query = connection.prepare_cached(sql).map_err(failed)?;
        for (at, (number, count)) in self.kinds.iter().enumerate() {
            let mut rows = query.query(params![player, number]).map_err(failed)?;
            while let Some(row) = rows.next().map_err(failed)? {
                let serial = row.get(0).map_err(failed)?;
                let id = id_of(KindId(at as u8), player, serial);
                if id.kind().0 != at as u8 || id.origin() != player || stored_serial(id) != serial {
                    let what = format!("serial {serial} is of no object of player {player}");
                    return Err(StorageError::Damaged { file: path.into(), what });
                }
                let state: Vec<u8> = row.get(1).map_err(failed)?;
                let (found, expected) = (state.len(), count * 4);
                if found != expected {
                    return Err(StorageError::Lanes { id, found, expected });
                }
                all.push(Saved { id, lanes: layout::from_bytes(&state) });
            }
        }
        Ok(all)
    }

    /// Whether an object with this many lanes could be stored.
    pub fn check(&self, id: ObjectId, lanes: usize) -> Result<(), StorageError> {
        match self.kinds.get(usize::from(id.kind().0)) {
            None => Err(StorageError::UnknownKind { id }),
            Some((_, count)) if *count == lanes => Ok(()),
            Some((_, count)) => {
                Err(StorageError::Lanes { id, found: lanes * 4, expected: count * 4 })
            }
        }
    }

    /// Stores an object, or with `None` removes it. Its kind and lanes have been checked.
    pub fn put(
        &self,
        connection: &Connection,
        id: ObjectId,
        lanes: Option<&[i32]>,
    ) -> rusqlite::Result<()> {
        let Some((kind, _)) = self.kinds.get(usize::from(id.kind().0)) else { return Ok(()) };
        let done = match lanes {
            Some(lanes) => {
                let sql = "INSERT OR REPLACE INTO objects VALUES (?1, ?2, ?3, ?4)";
                let state = layout::to_bytes(lanes);
                let mut put = connection.prepare_cached(sql)?;
                put.execute(params![id.origin(), kind, stored_serial(id), state])
            }
            None => {
                let sql = "DELETE FROM objects WHERE player = ?1 AND kind = ?2 AND serial = ?3";
                let mut remove = connection.prepare_cached(sql)?;
                remove.execute(params![id.origin(), kind, stored_serial(id)])
            }
        };
        done.map(|_| ())
    }
}

/// The number that identifies an object among its player's objects of the same kind. Among the world's, it includes the
/// creator.
fn stored_serial(id: ObjectId) -> i64 {
    match id.origin() {
        0 => (id.0 & ((1 << 56) - 1)) as i64,
        _ => id.serial().into(),
    }
}

fn id_of(kind: KindId, player: u32, serial: i64) -> ObjectId {
    ObjectId(ObjectId::new(kind, player, 0).0 | serial as u64)
}

/// A kind that is being migrated to the schema's layout.
struct Settling<'a> {
    connection: &'a Connection,
    path: &'a Path,
    kind: &'a Kind,
}

impl Settling<'_> {
    fn settle(&self, id: KindId) -> Result<i64, StorageError> {
        let failed = |cause| refusal(self.path, cause);
        let stated = layout::fields(self.kind);
        let sql = "SELECT number FROM kinds WHERE name = ?1";
        let name = &self.kind.spec.name;
        let known = self.connection.query_row(sql, [name], |row| row.get(0)).optional();
        let Some(number) = known.map_err(failed)? else {
            let add = "INSERT INTO kinds (name, version) VALUES (?1, 1)";
            self.connection.execute(add, [name]).map_err(failed)?;
            let number = self.connection.last_insert_rowid();
            self.write_fields(number, &stated).map_err(failed)?;
            return Ok(number);
        };
        let stored = self.read_fields(number).map_err(failed)?;
        if stored != stated {
            self.convert(id, number, &stored)?;
            let sql = "UPDATE kinds SET version = version + 1 WHERE number = ?1";
            self.connection.execute(sql, [number]).map_err(failed)?;
            self.connection
                .execute("DELETE FROM fields WHERE kind = ?1", [number])
                .map_err(failed)?;
            self.write_fields(number, &stated).map_err(failed)?;
        }
        Ok(number)
    }

    fn read_fields(&self, number: i64) -> rusqlite::Result<Vec<Field>> {
        let sql = "SELECT name, lane, lanes, type, least, most FROM fields WHERE kind = ?1 \
                   ORDER BY lane";
        let mut query = self.connection.prepare(sql)?;
        let rows = query.query_map([number], |row| {
            let (at, count): (u16, u16) = (row.get(1)?, row.get(2)?);
            let at = usize::from(at);
            Ok(Field {
                name: row.get(0)?,
                lanes: at..at + usize::from(count),
                meaning: row.get(3)?,
                range: (row.get(4)?, row.get(5)?),
            })
        })?;
        rows.collect()
    }

    fn write_fields(&self, number: i64, fields: &[Field]) -> rusqlite::Result<()> {
        let sql = "INSERT INTO fields VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let mut add = self.connection.prepare_cached(sql)?;
        for Field { name, lanes, meaning, range } in fields {
            let (at, count, (least, most)) = (lanes.start as u16, lanes.len() as u16, range);
            add.execute(params![number, name, at, count, meaning, least, most])?;
        }
        Ok(())
    }

    /// Rewrites every object of the kind.
    fn convert(&self, id: KindId, number: i64, stored: &[Field]) -> Result<(), StorageError> {
        let failed = |cause| refusal(self.path, cause);
        let mapping = layout::map(stored, self.kind).map_err(|changed| {
            let kind = self.kind.spec.name.clone();
            let layout::Changed { field, stored, stated } = changed;
            StorageError::ChangedType { kind, field, stored, stated }
        })?;
        let count = stored.last().map_or(HIDDEN_LANES, |field| field.lanes.end);
        // Keys first: a table must not be changed while it is iterated.
        let sql = "SELECT player, serial FROM objects WHERE kind = ?1";
        let mut keys = self.connection.prepare(sql).map_err(failed)?;
        let keys = keys.query_map([number], |row| Ok((row.get(0)?, row.get(1)?)));
        let keys: rusqlite::Result<Vec<(u32, i64)>> = keys.and_then(Iterator::collect);
        let read = "SELECT state FROM objects WHERE player = ?1 AND kind = ?2 AND serial = ?3";
        let mut read = self.connection.prepare(read).map_err(failed)?;
        let write = "UPDATE objects SET state = ?4 WHERE player = ?1 AND kind = ?2 AND serial = ?3";
        let mut write = self.connection.prepare(write).map_err(failed)?;
        for (player, serial) in keys.map_err(failed)? {
            let key = params![player, number, serial];
            let state: Vec<u8> = read.query_row(key, |row| row.get(0)).map_err(failed)?;
            let lanes = layout::from_bytes(&state);
            let moved = mapping.apply(&lanes).filter(|_| state.len() == count * 4);
            let moved = moved.ok_or_else(|| {
                let (found, expected) = (state.len(), count * 4);
                StorageError::Lanes { id: id_of(id, player, serial), found, expected }
            })?;
            let state = layout::to_bytes(&moved);
            write.execute(params![player, number, serial, state]).map_err(failed)?;
        }
        Ok(())
    }
}
