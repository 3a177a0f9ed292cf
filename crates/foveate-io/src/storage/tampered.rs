//! Databases with arbitrary rows, for [`fuzz`](crate::fuzz): the tables are ours, their contents are not. They are read
//! or rejected with an error.

use super::database::{self, Database};
use super::kinds::Kinds;
use super::{Storage, StorageError};
use foveate_node::UnixTime;
use foveate_wire::{FieldSpec, FieldType, KindSpec, Schema};
use rusqlite::params_from_iter;
use rusqlite::types::Value;
use std::cell::RefCell;
use std::sync::{Arc, LazyLock};

/// Most rows in one run.
const MAX_ROWS: usize = 24;
/// Tables with their numbers of columns.
const TABLES: [(&str, usize); 6] =
    [("meta", 2), ("players", 4), ("kinds", 3), ("fields", 7), ("objects", 4), ("tokens", 2)];
/// Texts with a meaning; others come from the bytes.
const WORDS: [&str; 10] =
    ["door", "chest", "open", "gold", "symbol", "integer", "Ada", "next_id", "token_horizon", ""];

static SCHEMA: LazyLock<Option<Schema>> = LazyLock::new(|| {
    let kind = |name: &str, field: &str, ty| KindSpec {
        name: name.into(),
        fields: vec![FieldSpec::new(field, ty)],
        max_speed: 0.0,
        fall: 0,
    };
    let door = kind("door", "open", FieldType::Symbol { count: 2 });
    Schema::new(vec![door, kind("chest", "gold", FieldType::Integer { min: 0, max: 9 })]).ok()
});

thread_local! {
    /// One for all runs, since creating tables takes longest.
    static STORAGE: RefCell<Option<Storage>> = const { RefCell::new(None) };
}

/// Inserts rows as the bytes say, and reads everything.
pub(crate) fn read_any_rows(data: &[u8]) {
    let Some(schema) = SCHEMA.as_ref() else { return };
    STORAGE.with_borrow_mut(|kept| {
        let fresh = || {
            let kinds = Arc::new(Kinds::none());
            Database::in_memory(&database::STORAGE).map(|database| Storage { database, kinds })
        };
        let Ok(mut storage) = kept.take().map_or_else(fresh, Ok) else { return };
        if fill(&storage, data).is_ok() {
            // Rejecting rows is fine.
            let _ = read(&mut storage, schema);
        }
        *kept = Some(storage);
    });
}

fn fill(storage: &Storage, mut data: &[u8]) -> rusqlite::Result<()> {
    let connection = &storage.database.connection;
    for (table, _) in TABLES.iter().rev() {
        connection.execute(&format!("DELETE FROM {table}"), [])?;
    }
    for _ in 0..MAX_ROWS {
        let Some(which) = data.split_off_first() else { break };
        let (table, columns) = TABLES[usize::from(*which) % TABLES.len()];
        let values: Vec<Value> = (0..columns).map(|_| value(&mut data)).collect();
        let marks = vec!["?"; columns].join(", ");
        let mut put = connection
            .prepare_cached(&format!("INSERT OR IGNORE INTO {table} VALUES ({marks})"))?;
        // SQLite itself rejects what its constraints forbid.
        let _ = put.execute(params_from_iter(values));
    }
    Ok(())
}

/// A value of any type, whatever the column's type.
fn value(data: &mut &[u8]) -> Value {
    let Some(kind) = data.split_off_first() else { return Value::Null };
    let first = data.first().copied().unwrap_or(0);
    let mut take = |count: usize| data.split_off(..count.min(data.len())).unwrap_or_default();
    match kind % 8 {
        0 => Value::Null,
        1..=3 => Value::Integer(take(1).first().map_or(0, |byte| i64::from(*byte as i8))),
        4 => {
            let mut bytes = [0; 8];
            take(8).iter().zip(&mut bytes).for_each(|(from, to)| *to = *from);
            if kind & 8 == 0 {
                Value::Integer(i64::from_le_bytes(bytes))
            } else {
                Value::Real(f64::from_le_bytes(bytes))
            }
        }
        5 => {
            let length = usize::from(first % 32);
            take(1);
            Value::Text(String::from_utf8_lossy(take(length)).into_owned())
        }
        6 => {
            let length = usize::from(first % 32);
            take(1);
            Value::Blob(take(length).to_vec())
        }
        _ => {
            take(1);
            Value::Text(WORDS[usize::from(first) % WORDS.len()].to_owned())
        }
    }
}

/// Reads a database as a server does.
fn read(storage: &mut Storage, schema: &Schema) -> Result<(), StorageError> {
    storage.kinds = Arc::new(Kinds::settle(&mut storage.database, schema)?);
    let used = storage.used_tokens()?;
    assert!(used.len() <= MAX_ROWS);
    let next = storage.reserve_ids()?;
    assert!(next.start < next.end);
    let (ada, saved) = storage.player("Ada", UnixTime(1))?;
    for (owner, saved) in [(0, storage.world()?), (ada.0, saved)] {
        for it in saved {
            let kind = schema.kinds().get(usize::from(it.id.kind().0)).expect("a kind there is");
            assert_eq!(it.lanes.len(), kind.lane_count());
            assert!(it.id.origin() == owner || owner == 0, "{:?} is not of {owner}", it.id);
        }
    }
    Ok(())
}
