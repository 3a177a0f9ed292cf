use super::*;
use crate::token::TokenId;
use foveate_wire::{FieldSpec, FieldType, KindId, KindSpec, ObjectId};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const NOW: UnixTime = UnixTime(1_000_000);
/// The longest that anything may take, short of a hang.
const PATIENCE: Duration = Duration::from_secs(120);

/// A temporary folder, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let name = format!("foveate-io-storage-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("temporary folder is writable");
        Folder(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("world.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The folder is temporary anyway.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn integer(max: i32) -> FieldType {
    FieldType::Integer { min: 0, max }
}

fn kind(name: &str, fields: &[(&str, FieldType)]) -> KindSpec {
    let fields = fields.iter().map(|(name, ty)| FieldSpec::new(name, ty.clone())).collect();
    KindSpec { name: name.into(), fields, max_speed: 0.0, fall: 0 }
}

fn schema_of(kinds: Vec<KindSpec>) -> Schema {
    Schema::new(kinds).expect("a schema that makes sense")
}

fn schema() -> Schema {
    schema_of(vec![
        kind("avatar", &[("health", integer(100)), ("gold", integer(1_000))]),
        kind("door", &[("open", FieldType::Symbol { count: 2 })]),
    ])
}

fn avatar(player: u32, serial: u32) -> ObjectId {
    ObjectId::new(KindId(0), player, serial)
}

/// A file with one player, its avatar (health 50, gold 7), and an open door of the world's.
fn filled(file: &Path) {
    let mut storage = Storage::open(file, &schema()).unwrap();
    let (ada, saved) = storage.player("Ada", NOW).unwrap();
    assert_eq!((ada, saved.len()), (PlayerId(1), 0));
    let mut writer = storage.write_behind().unwrap();
    let door = ObjectId::new(KindId(1), 0, 3);
    let taken = writer.save([
        StorageChange::Saved(avatar(1, 0), &[0, 4, 50, 7]),
        StorageChange::Saved(avatar(1, 9), &[0, 0, 1, 1]),
        StorageChange::Saved(door, &[0, 0, 1]),
        StorageChange::Removed(avatar(1, 9)),
    ]);
    assert_eq!(taken, Taken { taken: 4, ..Taken::default() });
    writer.close().unwrap();
}

fn eventually(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "did not happen in time");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn ask(writer: &mut Writer, name: &str, token: Option<(TokenId, UnixTime)>) -> bool {
    writer.ask(JoinQuestion { ticket: 0, name: name.into(), token, now: NOW })
}

fn answer(writer: &mut Writer) -> StorageAnswer {
    let mut joined = None;
    eventually(|| {
        joined = writer.next_answer();
        joined.is_some()
    });
    joined.expect("was waited for")
}

#[test]
fn players_and_objects_come_back() {
    let folder = Folder::new("round-trip");
    filled(&folder.file());
    let mut storage = Storage::open(&folder.file(), &schema()).unwrap();
    storage.integrity_check().unwrap();
    let door = Saved { id: ObjectId::new(KindId(1), 0, 3), lanes: vec![0, 0, 1] };
    assert_eq!(storage.world().unwrap(), [door]);
    let (ada, saved) = storage.player("Ada", NOW).unwrap();
    assert_eq!(ada, PlayerId(1));
    assert_eq!(saved, [Saved { id: avatar(1, 0), lanes: vec![0, 4, 50, 7] }]);
    assert_eq!(storage.player("Bea", NOW).unwrap(), (PlayerId(2), vec![]));
}

#[test]
fn invalid_player_names_are_rejected() {
    let folder = Folder::new("names");
    let mut storage = Storage::open(&folder.file(), &schema()).unwrap();
    for name in ["", "a\nb", &"x".repeat(MAX_NAME + 1)] {
        assert!(matches!(storage.player(name, NOW), Err(StorageError::Name { .. })), "{name:?}");
    }
    let mut writer = storage.write_behind().unwrap();
    assert!(ask(&mut writer, "", None));
    assert!(matches!(answer(&mut writer).player, Err(StorageError::Name { .. })));
    assert_eq!(writer.report().trouble, None);
}

#[test]
fn numbers_of_players_end_where_ids_do() {
    let folder = Folder::new("numbers");
    let mut storage = Storage::open(&folder.file(), &schema()).unwrap();
    let add = "INSERT INTO players VALUES (16777215, 'last', 0, 0)";
    storage.database.connection.execute(add, []).unwrap();
    assert_eq!(storage.player("last", NOW).unwrap().0, PlayerId(MAX_PLAYER));
    assert!(matches!(storage.player("late", NOW), Err(StorageError::PlayersFull { .. })));
}

#[test]
fn pending_changes_are_written_once_and_unchanged_objects_are_not() {
    let folder = Folder::new("coalesce");
    let mut writer = Storage::open(&folder.file(), &schema()).unwrap().write_behind().unwrap();
    for gold in 0..1_000 {
        writer.save([StorageChange::Saved(avatar(1, 0), &[0, 0, 50, gold])]);
    }
    let unchanged = writer.save([StorageChange::Saved(avatar(1, 0), &[0, 0, 50, 999])]);
    assert_eq!(unchanged, Taken { unchanged: 1, ..Taken::default() });
    eventually(|| writer.report().waiting == 0 && writer.report().turns > 0);
    // Once per transaction, however many rounds there were meanwhile.
    let report = writer.report();
    assert!(report.written <= report.turns && report.turns < 1_000, "{report:?}");
    let unfit = [
        StorageChange::Saved(avatar(1, 0), &[0, 0, 50]),
        StorageChange::Saved(ObjectId::new(KindId(9), 1, 0), &[0, 0]),
    ];
    assert_eq!(writer.save(unfit).unfit, 2);
    writer.close().unwrap();
    let mut storage = Storage::open(&folder.file(), &schema()).unwrap();
    storage.player("Ada", NOW).unwrap();
    assert_eq!(storage.player("Ada", NOW).unwrap().1[0].lanes, [0, 0, 50, 999]);
}

#[test]
fn a_player_that_joins_gets_what_was_saved_just_before() {
    let folder = Folder::new("join");
    let mut writer = Storage::open(&folder.file(), &schema()).unwrap().write_behind().unwrap();
    assert!(ask(&mut writer, "Ada", None));
    let (ada, saved) = answer(&mut writer).player.unwrap();
    assert!(saved.is_empty());
    writer.save([StorageChange::Saved(avatar(ada.0, 0), &[0, 0, 12, 34])]);
    writer.forget(avatar(ada.0, 0));
    assert!(ask(&mut writer, "Ada", None));
    let joined = answer(&mut writer);
    let (again, saved) = joined.player.unwrap();
    assert_eq!((joined.question.name.as_str(), again), ("Ada", ada));
    assert_eq!(saved[0].lanes, [0, 0, 12, 34]);
    assert_eq!(writer.save([StorageChange::Saved(saved[0].id, &saved[0].lanes)]).unchanged, 1);
}

#[test]
fn the_number_of_requests_is_limited() {
    let folder = Folder::new("questions");
    let mut writer = Storage::open(&folder.file(), &schema()).unwrap().write_behind().unwrap();
    (0..MAX_QUESTIONS).for_each(|n| assert!(ask(&mut writer, &format!("p{n}"), None)));
    assert!(!ask(&mut writer, "one more", None));
    (0..MAX_QUESTIONS).for_each(|_| assert!(answer(&mut writer).player.is_ok()));
    assert!(ask(&mut writer, "one more", None));
}

#[test]
fn a_schema_that_gains_loses_and_moves_fields_keeps_what_it_names() {
    let folder = Folder::new("migrate");
    filled(&folder.file());
    let changed = schema_of(vec![
        kind("door", &[("open", FieldType::Symbol { count: 3 })]),
        kind(
            "avatar",
            &[
                ("speed", FieldType::Integer { min: 5, max: 9 }),
                ("gold", integer(9_000)),
                ("title", FieldType::Text { max: 8 }),
            ],
        ),
    ]);
    for _ in 0..2 {
        let mut storage = Storage::open(&folder.file(), &changed).unwrap();
        let (_, saved) = storage.player("Ada", NOW).unwrap();
        let id = ObjectId::new(KindId(1), 1, 0);
        assert_eq!(saved, [Saved { id, lanes: vec![0, 4, 5, 7, 0, 0, 0] }]);
        assert_eq!(storage.world().unwrap()[0].id, ObjectId::new(KindId(0), 0, 3));
        let sql = "SELECT version FROM kinds WHERE name = 'avatar'";
        let version = storage.database.connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        assert_eq!(version.unwrap(), 2, "migrated once");
    }
}

#[test]
fn a_kind_that_the_schema_forgot_stays_stored() {
    let folder = Folder::new("forgotten");
    filled(&folder.file());
    let less = schema_of(vec![kind("door", &[("open", FieldType::Symbol { count: 2 })])]);
    let mut storage = Storage::open(&folder.file(), &less).unwrap();
    assert_eq!(storage.player("Ada", NOW).unwrap().1, []);
    drop(storage);
    let mut storage = Storage::open(&folder.file(), &schema()).unwrap();
    assert_eq!(storage.player("Ada", NOW).unwrap().1.len(), 1);
}

#[test]
fn a_changed_type_is_refused_by_name_and_changes_nothing() {
    let folder = Folder::new("changed-type");
    filled(&folder.file());
    let text = FieldType::Text { max: 8 };
    let changed = schema_of(vec![
        kind("door", &[("locked", integer(1))]),
        kind("avatar", &[("health", integer(100)), ("gold", text)]),
    ]);
    let refused = Storage::open(&folder.file(), &changed).err().expect("refused").to_string();
    assert!(refused.contains("avatar.gold") && refused.contains("integer 0..1000"), "{refused}");
    assert!(refused.contains("text 0..8"), "{refused}");
    let mut storage = Storage::open(&folder.file(), &schema()).unwrap();
    assert_eq!(storage.player("Ada", NOW).unwrap().1[0].lanes, [0, 4, 50, 7]);
    assert_eq!(storage.world().unwrap()[0].lanes, [0, 0, 1], "the door, too");
}

#[test]
fn an_object_cut_short_is_named() {
    let folder = Folder::new("cut");
    filled(&folder.file());
    let connection = Connection::open(folder.file()).unwrap();
    connection.execute("UPDATE objects SET state = x'0102030405' WHERE player = 1", []).unwrap();
    drop(connection);
    let mut storage = Storage::open(&folder.file(), &schema()).unwrap();
    assert!(matches!(storage.player("Ada", NOW), Err(StorageError::Lanes { found: 5, .. })));
}

/// Checks what every rejection must leave: the same bytes, and no lock.
fn refused_untouched(file: &Path) -> StorageError {
    let before = std::fs::read(file).unwrap();
    let error = Storage::open(file, &schema()).err().expect("refused");
    assert!(before == std::fs::read(file).unwrap(), "the file was changed: {error}");
    error
}

#[test]
fn a_newer_database_is_refused_with_both_versions() {
    let folder = Folder::new("newer");
    filled(&folder.file());
    let connection = Connection::open(folder.file()).unwrap();
    connection.execute("UPDATE meta SET value = 99", []).unwrap();
    drop(connection);
    let message = refused_untouched(&folder.file()).to_string();
    assert!(message.contains("99") && message.contains("up to 1"), "{message}");
}

#[test]
fn files_that_are_no_store_are_refused_and_left_as_they_are() {
    let folder = Folder::new("damaged");
    std::fs::write(folder.file(), "dear diary").unwrap();
    let error = refused_untouched(&folder.file());
    assert!(error.to_string().contains("no SQLite database"), "{error}");

    std::fs::remove_file(folder.file()).unwrap();
    let other = Connection::open(folder.file()).unwrap();
    other.execute("CREATE TABLE songs (title)", []).unwrap();
    drop(other);
    let error = refused_untouched(&folder.file());
    assert!(error.to_string().contains("another program"), "{error}");

    for hurt in [4_096..20_000, 100..4_096, 16..60] {
        std::fs::remove_file(folder.file()).unwrap();
        filled(&folder.file());
        let mut bytes = std::fs::read(folder.file()).unwrap();
        bytes[hurt].fill(0xa5);
        std::fs::write(folder.file(), bytes).unwrap();
        let error = refused_untouched(&folder.file());
        assert!(matches!(error, StorageError::Damaged { .. }), "{error}");
    }
    let error = Storage::open(&folder.0.join("no/such/folder.db"), &schema()).err();
    assert!(matches!(error, Some(StorageError::File { .. })), "{error:?}");
}

#[test]
fn a_second_server_is_rejected_while_the_first_has_the_file() {
    let folder = Folder::new("twice");
    let first = Storage::open(&folder.file(), &schema()).unwrap();
    let second = Storage::open(&folder.file(), &schema()).err();
    assert!(matches!(second, Some(StorageError::InUse { .. })), "{second:?}");
    drop(first);
    Storage::open(&folder.file(), &schema()).unwrap();
}

#[cfg(unix)]
#[test]
fn a_second_server_is_rejected_by_any_name_of_the_file() {
    let folder = Folder::new("names");
    let (symbolic, hard) = (folder.0.join("symbolic.db"), folder.0.join("hard.db"));
    let first = Storage::open(&folder.file(), &schema()).unwrap();
    std::os::unix::fs::symlink(folder.file(), &symbolic).unwrap();
    let second = Storage::open(&symbolic, &schema()).err();
    assert!(matches!(second, Some(StorageError::InUse { .. })), "{second:?}");
    std::fs::hard_link(folder.file(), &hard).unwrap();
    let second = Storage::open(&hard, &schema()).err();
    assert!(matches!(second, Some(StorageError::Linked { names: 2, .. })), "{second:?}");
    drop(first);
    std::fs::remove_file(&hard).unwrap();
    Storage::open(&symbolic, &schema()).unwrap();
}

#[test]
fn a_failing_store_is_retried_and_nothing_is_lost() {
    let folder = Folder::new("away");
    let mut writer = Storage::open(&folder.file(), &schema()).unwrap().write_behind().unwrap();
    let hidden = folder.0.join("elsewhere.db");
    std::fs::rename(folder.file(), &hidden).unwrap();
    writer.save([StorageChange::Saved(avatar(1, 0), &[0, 0, 1, 1])]);
    eventually(|| writer.report().errors > 0);
    assert!(writer.report().trouble.is_some_and(|why| why.contains("was moved or deleted")));
    assert!(ask(&mut writer, "Ada", None));
    let refused = answer(&mut writer).player.expect_err("the store is away");
    assert!(refused.is_retryable(), "{refused}");
    writer.save([StorageChange::Saved(avatar(1, 0), &[0, 0, 2, 2])]);
    assert_eq!(writer.report().waiting, 1);
    std::fs::rename(&hidden, folder.file()).unwrap();
    eventually(|| writer.report().turns > 0);
    assert_eq!(writer.report().trouble, None);
    assert!(ask(&mut writer, "Ada", None));
    assert_eq!(answer(&mut writer).player.unwrap().1[0].lanes, [0, 0, 2, 2]);
    writer.close().unwrap();
}

#[test]
fn a_lock_of_another_program_is_waited_for() {
    let folder = Folder::new("locked");
    let mut writer = Storage::open(&folder.file(), &schema()).unwrap().write_behind().unwrap();
    let other = Connection::open(folder.file()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    writer.save([StorageChange::Saved(avatar(1, 0), &[0, 0, 1, 1])]);
    eventually(|| writer.report().errors > 0);
    other.execute_batch("ROLLBACK").unwrap();
    eventually(|| writer.report().waiting == 0 && writer.report().turns == 1);
}

#[test]
fn a_store_that_failed_a_request_is_retried_although_nothing_waits() {
    let folder = Folder::new("asked");
    let mut writer = Storage::open(&folder.file(), &schema()).unwrap().write_behind().unwrap();
    let other = Connection::open(folder.file()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(ask(&mut writer, "Ada", None));
    answer(&mut writer).player.expect_err("another program has the file");
    other.execute_batch("ROLLBACK").unwrap();
    eventually(|| writer.report().trouble.is_none());
    assert!(ask(&mut writer, "Ada", None));
    answer(&mut writer).player.unwrap();
}

#[test]
fn a_full_disk_is_reported_and_the_database_stays_sound() {
    let folder = Folder::new("full");
    let storage = Storage::open(&folder.file(), &schema()).unwrap();
    let pages = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
    let count = storage.database.connection.query_row("PRAGMA page_count", [], pages).unwrap();
    let limit = format!("PRAGMA max_page_count = {}", count + 2);
    storage.database.connection.query_row(&limit, [], pages).unwrap();
    let mut writer = storage.write_behind().unwrap();
    let lanes = [0, 0, 1, 1];
    let taken = writer.save((0..10_000).map(|n| StorageChange::Saved(avatar(1, n), &lanes)));
    assert_eq!(taken.taken, 10_000);
    eventually(|| writer.report().errors > 0);
    assert!(writer.report().trouble.is_some_and(|why| why.contains("the disk is full")));
    let lost = writer.close().expect_err("there is no room");
    assert!(matches!(lost, StorageError::Unsaved { unsaved: 10_000, .. }), "{lost}");
    Storage::open(&folder.file(), &schema()).unwrap().integrity_check().unwrap();
}

#[test]
fn changes_without_room_are_refused_and_counted() {
    let folder = Folder::new("bounded");
    let mut writer = Storage::open(&folder.file(), &schema()).unwrap().write_behind().unwrap();
    let other = Connection::open(folder.file()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let lanes = [0, 0, 1, 1];
    let all =
        |lanes| (0..MAX_WAITING as u32).map(move |n| StorageChange::Saved(avatar(1, n), lanes));
    writer.save([StorageChange::Saved(avatar(2, 0), &lanes)]);
    eventually(|| writer.report().errors > 0);
    let mut refused = 0;
    eventually(|| {
        refused += writer.save(all(&lanes)).refused;
        refused > 0
    });
    assert_eq!(writer.report().refused, refused as u64);
    assert!(writer.report().waiting <= 2 * MAX_WAITING);
    assert_eq!(
        writer.save([StorageChange::Saved(avatar(2, 0), &[0, 0, 2, 2])]).taken,
        1,
        "a newer state"
    );
    other.execute_batch("ROLLBACK").unwrap();
    eventually(|| writer.report().waiting == 0);
    writer.close().unwrap();
}

#[test]
fn a_token_is_used_with_its_answer_and_stays_used_whatever_the_clock() {
    let folder = Folder::new("tokens");
    let mut writer = Storage::open(&folder.file(), &schema()).unwrap().write_behind().unwrap();
    let late = NOW.plus(Duration::from_secs(60));
    assert!(ask(&mut writer, "Ada", Some(([1; 16], late))));
    assert!(answer(&mut writer).player.is_ok());
    writer.close().unwrap();
    let storage = Storage::open(&folder.file(), &schema()).unwrap();
    let used = storage.used_tokens().unwrap();
    assert!(used.contains(&[1; 16]) && used.len() == 1);
    // The clock is ten days ahead for a while.
    let mut writer = storage.write_behind().unwrap();
    let (now, token) =
        (late.plus(Duration::from_secs(864_000)), Some(([2; 16], UnixTime(u64::MAX))));
    assert!(writer.ask(JoinQuestion { ticket: 0, name: "Bea".into(), token, now }));
    assert!(answer(&mut writer).player.is_ok());
    writer.close().unwrap();
    let used = Storage::open(&folder.file(), &schema()).unwrap().used_tokens().unwrap();
    assert!(!used.contains(&[1; 16]) && used.contains(&[2; 16]));
    assert_eq!(used.horizon(), late, "the first one's expiry");
}

#[test]
fn ids_are_never_reserved_twice_and_created_objects_come_back() {
    let folder = Folder::new("ids");
    let mut storage = Storage::open(&folder.file(), &schema()).unwrap();
    let mut ids = foveate_node::IdAllocator::for_server(storage.reserve_ids().unwrap());
    let (door, avatar_kind) = (KindId(1), KindId(0));
    let made: Vec<ObjectId> = (0..3).filter_map(|_| ids.allocate(door, PlayerId(0))).collect();
    let own = ids.allocate(avatar_kind, PlayerId(1)).unwrap();
    // One of a run that had created a billion objects before: its creator's bits are not 0.
    let late = ObjectId::minted_for_world(door, 5, 9);
    assert_eq!(storage.player("Ada", NOW).unwrap().0, PlayerId(1));
    let mut writer = storage.write_behind().unwrap();
    let doors = made.iter().chain([&late]);
    writer.save(doors.map(|id| StorageChange::Saved(*id, &[0, 0, 1])));
    writer.save([StorageChange::Saved(own, &[0, 0, 9, 9]), StorageChange::Removed(made[1])]);
    let end = RESERVED + 77;
    writer.reserve_ids(end);
    let began = Instant::now();
    while writer.reserved_ids() < end && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(writer.reserved_ids(), end, "usable once it is on the disk");
    writer.close().unwrap();

    let mut storage = Storage::open(&folder.file(), &schema()).unwrap();
    let world: Vec<ObjectId> = storage.world().unwrap().iter().map(|saved| saved.id).collect();
    assert_eq!(world, [made[0], made[2], late], "what was removed stays away");
    let (_, saved) = storage.player("Ada", NOW).unwrap();
    assert_eq!(saved.iter().map(|saved| saved.id).collect::<Vec<_>>(), [own]);
    assert_eq!(storage.reserve_ids().unwrap().start, end, "not even of objects that are gone");
    assert_eq!(storage.reserve_ids().unwrap().start, end + RESERVED);
}
