use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::*;

const HEADER: &str = "t_ms,id,x,y,z,yaw,pitch\n";
const EXT_HEADER: &str = "t_ms,id,x,y,z,vx,vy,vz,yaw,pitch,health,pm_type,team,weapon,eflags,score,\
                          spawn_count,speed\n";
const VIS_HEADER: &str = "t_ms,id,pvs_mask_hex,los_mask_hex\n";

fn parse(text: &str) -> Result<Trace, TraceError> {
    Trace::from_reader(text.as_bytes(), Path::new("walk.csv"))
}

/// Parses rows below a correct header.
fn rows(text: &str) -> Result<Trace, TraceError> {
    parse(&format!("{HEADER}{text}"))
}

/// The line and the message of an error.
fn refusal(result: Result<Trace, TraceError>) -> (u64, String) {
    let error = result.expect_err("this must be refused");
    let message = error.to_string();
    assert!(message.starts_with(&error.file.display().to_string()), "{message}");
    (error.line, message.split_once(": ").expect("a message after the place").1.to_owned())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A temporary folder, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let name = format!("foveate-lab-trace-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn reads_players_in_order_of_id_and_samples_in_order_of_time() {
    let trace = rows("100,9,1,2,3,4,5\n100,2,-1.5,0,0,0,0\n150,9,6.25,7,8,-9,10\n").unwrap();
    assert_eq!(trace.players(), 2);
    assert_eq!((trace.player_id(0), trace.player_id(1)), (2, 9));
    assert_eq!((trace.origin_ms(), trace.duration_ms()), (100, 50));
    let expected = Sample { t_ms: 50, pos: [6.25, 7.0, 8.0], yaw: -9.0, pitch: 10.0 };
    assert_eq!(trace.samples(1)[1], expected);
    let order: Vec<(usize, u32)> = trace.arrivals().map(|(player, at)| (player, at.t_ms)).collect();
    assert_eq!(order, [(1, 0), (0, 0), (1, 50)]);
    assert_eq!(trace.bounds(), TraceBounds { min: [-1.5, 0.0, 0.0], max: [6.25, 7.0, 8.0] });
    assert_eq!(trace.longer_side(), 7.75);
}

#[test]
fn columns_may_stand_in_any_order() {
    let trace = parse("pitch,id,t_ms,z,y,x,yaw\n1,2,3,4,5,6,7\n").unwrap();
    let expected = Sample { t_ms: 0, pos: [6.0, 5.0, 4.0], yaw: 7.0, pitch: 1.0 };
    assert_eq!(trace.samples(0), [expected]);
    assert_eq!((trace.player_id(0), trace.origin_ms()), (2, 3));
}

#[test]
fn accepts_what_other_programs_write() {
    let text = "\u{feff}t_ms,id,x,y,z,yaw,pitch\r\n0.4,1,1e2,+2,.5,-0.25, 3 \r\n50,1,1,1,1,1,1";
    let trace = parse(text).unwrap();
    assert_eq!(trace.samples(0)[0].pos, [100.0, 2.0, 0.5]);
    assert_eq!(trace.samples(0)[1].t_ms, 50);
}

#[test]
fn gzip_is_detected_by_its_bytes_and_not_by_its_name() {
    let text = format!("{HEADER}0,1,1,1,1,1,1\n");
    let name = Path::new("walk.csv");
    assert!(Trace::from_reader(&gzip(text.as_bytes())[..], name).is_ok());
    assert!(Trace::from_reader(text.as_bytes(), Path::new("walk.csv.gz")).is_ok());
}

#[test]
fn an_empty_file_is_refused() {
    let (line, message) = refusal(parse(""));
    assert_eq!(line, 1);
    assert_eq!(message, "found an empty file, expected the header t_ms,id,x,y,z,yaw,pitch");
    let (line, message) = refusal(parse(HEADER));
    assert_eq!(line, 2);
    assert_eq!(message, "found the end of the file, expected at least one row after the header");
}

#[test]
fn a_missing_column_is_named() {
    let (line, message) = refusal(parse("t_ms,id,x,y,z,yaw\n0,0,0,0,0,0\n"));
    assert_eq!(line, 1);
    let expected = "column pitch is missing: found \"t_ms,id,x,y,z,yaw\", \
                    expected t_ms,id,x,y,z,yaw,pitch";
    assert_eq!(message, expected);
}

#[test]
fn an_unknown_column_is_named_with_the_known_ones() {
    let (line, message) = refusal(parse("t_ms,id,x,y,z,yaw,pitch,mood\n"));
    assert_eq!(line, 1);
    assert_eq!(message, "found the unknown column \"mood\", expected t_ms,id,x,y,z,yaw,pitch");
}

#[test]
fn a_repeated_column_is_named() {
    let (line, message) = refusal(parse("t_ms,id,x,x,z,yaw,pitch\n"));
    assert_eq!((line, message.as_str()), (1, "found column x twice, expected it once"));
}

#[test]
fn a_wrong_number_of_fields_is_counted() {
    let (line, message) = refusal(rows("0,0,0,0,0,0,0\n0,1,0,0,0,0\n"));
    assert_eq!((line, message.as_str()), (3, "found 6 fields, expected 7"));
    let (line, message) = refusal(rows("0,0,0,0,0,0,0,0\n"));
    assert_eq!((line, message.as_str()), (2, "found 8 fields, expected 7"));
    let (line, message) = refusal(rows("0,0,0,0,0,0,0\n\n5,0,0,0,0,0,0\n"));
    assert_eq!((line, message.as_str()), (3, "found 1 fields, expected 7"));
}

#[test]
fn a_field_that_is_no_number_is_quoted() {
    let (line, message) = refusal(rows("0,0,0,0,0,0,0\n50,0,0,1.2.3,0,0,0\n"));
    assert_eq!((line, message.as_str()), (3, "y: found \"1.2.3\", expected a number"));
    let (line, message) = refusal(rows("0,1.5,0,0,0,0,0\n"));
    assert_eq!((line, message.as_str()), (2, "id: found \"1.5\", expected a whole number"));
    let (_, message) = refusal(rows("0,0,,0,0,0,0\n"));
    assert_eq!(message, "x: found \"\", expected a number");
}

#[test]
fn nan_and_infinity_are_refused() {
    for (field, column) in [("NaN", "yaw"), ("inf", "yaw"), ("-inf", "yaw"), ("1e999", "yaw")] {
        let (line, message) = refusal(rows(&format!("0,0,0,0,0,0,0\n1,0,0,0,0,{field},0\n")));
        assert_eq!(line, 3);
        assert_eq!(message, format!("{column}: found \"{field}\", expected a finite number"));
    }
}

#[test]
fn time_must_not_go_backwards() {
    let (line, message) = refusal(rows("50,0,0,0,0,0,0\n50,1,0,0,0,0,0\n49,2,0,0,0,0,0\n"));
    assert_eq!(line, 4);
    assert_eq!(message, "time goes backwards: found t_ms 49, expected 50 or later");
    let (line, message) = refusal(rows("-1,0,0,0,0,0,0\n"));
    assert_eq!(line, 2);
    assert_eq!(message, "t_ms: found \"-1\", expected 0 to 9007199254740992");
}

#[test]
fn ids_angles_and_places_out_of_range_are_refused() {
    let range = |text: &str| refusal(rows(text));
    let expected = "id: found \"4294967296\", expected 0 to 4294967295";
    assert_eq!(range("0,4294967296,0,0,0,0,0\n"), (2, expected.to_owned()));
    let expected = "id: found \"-1\", expected 0 to 4294967295";
    assert_eq!(range("0,-1,0,0,0,0,0\n"), (2, expected.to_owned()));
    let expected = "pitch: found \"-3600.5\", expected -3600 to 3600";
    assert_eq!(range("0,0,0,0,0,3600,-3600.5\n"), (2, expected.to_owned()));
    let expected = "z: found \"1000001\", expected -1000000 to 1000000";
    assert_eq!(range("0,0,1000000,0,1000001,0,0\n"), (2, expected.to_owned()));
}

#[test]
fn the_last_of_rows_in_the_same_millisecond_is_kept() {
    let trace = rows("0,5,1,0,0,0,0\n0,6,9,0,0,0,0\n0,5,2,0,0,0,0\n50,5,3,0,0,0,0\n").unwrap();
    let places: Vec<f32> = trace.samples(0).iter().map(|sample| sample.pos[0]).collect();
    assert_eq!(places, [2.0, 3.0]);
    assert_eq!(trace.superseded(), 1);
}

#[test]
fn more_duplicates_than_a_burst_are_refused() {
    let row = "7,3,0,0,0,0,0\n";
    assert!(rows(&row.repeat(MAX_BURST as usize)).is_ok());
    let (line, message) = refusal(rows(&row.repeat(MAX_BURST as usize + 1)));
    assert_eq!(line, u64::from(MAX_BURST) + 2);
    assert_eq!(message, "found 17 rows of t_ms 7, id 3, expected at most 16");
}

#[test]
fn a_silent_recording_is_refused_but_a_player_may_leave() {
    let (line, message) = refusal(rows("0,0,0,0,0,0,0\n10001,0,0,0,0,0,0\n"));
    assert_eq!(line, 3);
    let expected =
        "found no row of any player from t_ms 0 to 10001, expected one at least every 10000 ms";
    assert_eq!(message, expected);

    let mut text = String::from("0,1,0,0,0,0,0\n");
    for t_ms in (0..=20_000).step_by(1000) {
        text.push_str(&format!("{t_ms},2,0,0,0,0,0\n"));
    }
    text.push_str("20000,1,0,0,0,0,0\n");
    let trace = rows(&text).unwrap();
    assert_eq!(trace.gaps()[0], Gap { player: 0, from_ms: 0, to_ms: 20_000 });
}

#[test]
fn truncated_gzip_is_refused_at_the_line_where_it_ends() {
    let text = format!("{HEADER}{}", "0,1,1,1,1,1,1\n".repeat(3));
    let whole = gzip(text.as_bytes());
    let result = Trace::from_reader(&whole[..whole.len() - 4], Path::new("walk.csv.gz"));
    let (line, message) = refusal(result);
    assert_eq!(line, 5);
    assert!(message.starts_with("the gzip stream ends here before its end mark"), "{message}");
}

#[test]
fn damaged_gzip_is_refused() {
    let mut bytes = gzip(format!("{HEADER}0,1,1,1,1,1,1\n").as_bytes());
    let checksum = bytes.len() - 8;
    bytes[checksum] ^= 1;
    let error = Trace::from_reader(&bytes[..], Path::new("walk.csv.gz")).unwrap_err();
    assert!(matches!(error.fault, TraceFault::CorruptGzip { .. }), "{error}");
    assert_eq!(error.line, 3);
}

#[test]
fn a_file_over_the_size_limit_is_refused() {
    let limits = Limits { unpacked_bytes: 100, ..Limits::default() };
    let text = format!("{HEADER}{}", "0,1,1,1,1,1,1\n".repeat(6));
    let error = base::read(text.as_bytes(), Path::new("walk.csv"), limits).unwrap_err();
    assert!(matches!(error.fault, TraceFault::TooLarge { limit: 100 }), "{error}");
    let limits = Limits { unpacked_bytes: text.len() as u64, ..Limits::default() };
    assert!(base::read(text.as_bytes(), Path::new("walk.csv"), limits).is_ok());
}

#[test]
fn a_bomb_without_line_ends_is_refused_early() {
    let (line, message) = refusal(rows(&"9".repeat(300_000)));
    assert_eq!(line, 2);
    assert_eq!(message, "found a line of more than 8192 bytes, expected at most that");
}

#[test]
fn too_many_players_are_refused() {
    let limits = Limits { players: 2, ..Limits::default() };
    let text = format!("{HEADER}0,1,0,0,0,0,0\n0,70000,0,0,0,0,0\n0,3,0,0,0,0,0\n");
    let error = base::read(text.as_bytes(), Path::new("walk.csv"), limits).unwrap_err();
    assert_eq!(error.line, 4);
    assert!(matches!(error.fault, TraceFault::TooManyPlayers { limit: 2 }), "{error}");
    let allowed = (0..=MAX_PLAYERS).map(|id| format!("0,{id},0,0,0,0,0\n"));
    let (line, _) = refusal(rows(&allowed.collect::<String>()));
    assert_eq!(line, MAX_PLAYERS as u64 + 2);
}

#[test]
fn a_file_that_is_not_there_is_named_without_a_line() {
    let error = Trace::read(Path::new("nowhere/walk.csv")).unwrap_err();
    assert_eq!(error.line, 0);
    assert!(error.to_string().starts_with("nowhere/walk.csv: cannot read the file"), "{error}");
}

#[test]
fn resampling_keeps_the_newest_sample_and_never_interpolates() {
    let text = "0,1,0,0,0,0,0\n40,1,1,0,0,0,0\n60,2,5,0,0,0,0\n190,1,2,0,0,0,0\n";
    let trace = rows(text).unwrap();
    let rounds = trace.resample(50.0).unwrap();
    assert_eq!((rounds.rounds(), rounds.players()), (4, 2));
    let place = |round, player| rounds.sample(round, player).map(|sample| sample.pos[0]);
    assert_eq!(
        [place(0, 0), place(1, 0), place(2, 0), place(3, 0)],
        [0.0, 1.0, 1.0, 1.0].map(Some)
    );
    assert_eq!([place(0, 1), place(1, 1), place(2, 1)], [None, None, Some(5.0)]);
    let new = |player| (0..4).map(|round| rounds.is_new(round, player)).collect::<Vec<_>>();
    assert_eq!(new(0), [true, true, false, false]);
    assert_eq!(new(1), [false, false, true, false]);
    assert!(rounds.is_alive(0, 0) && !rounds.is_alive(0, 1));
}

#[test]
fn a_player_without_samples_for_long_is_absent_until_it_returns() {
    let mut text = String::from("0,1,0,0,0,0,0\n");
    for t_ms in (0..=1500).step_by(100) {
        text.push_str(&format!("{t_ms},2,0,0,0,0,0\n"));
    }
    text.push_str("1500,1,0,0,0,0,0\n");
    let rounds = rows(&text).unwrap().resample(100.0).unwrap();
    let present: Vec<usize> = (0..=15).filter(|&round| rounds.is_present(round, 0)).collect();
    assert_eq!(present, [0, 1, 2, 3, 4, 5, 15]);
}

#[test]
fn unusable_rounds_are_refused() {
    let trace = rows("0,1,0,0,0,0,0\n9000,1,0,0,0,0,0\n").unwrap();
    for round_ms in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = trace.resample(round_ms).unwrap_err();
        assert!(matches!(error, ResampleError::BadRound { .. }), "{error}");
    }
    let error = trace.resample(1e-9).unwrap_err();
    assert!(matches!(error, ResampleError::TooManyRounds { .. }), "{error}");
}

/// The columns of a companion that the tests vary.
#[derive(Default)]
struct ExtRow {
    t_ms: u32,
    id: u32,
    health: i32,
    pm_type: u8,
    eflags: i64,
    spawns: u32,
}

impl ExtRow {
    fn line(&self) -> String {
        let ExtRow { t_ms, id, health, pm_type, eflags, spawns } = self;
        format!("{t_ms},{id},0,0,0,1,2,3,4,5,{health},{pm_type},2,7,{eflags},0,{spawns},320\n")
    }
}

#[test]
fn companion_tells_life_team_weapon_and_jumps() {
    let folder = Folder::new("ext");
    let base = "0,4,0,0,0,0,0\n50,4,1,0,0,0,0\n100,4,99,0,0,0,0\n150,4,3,0,0,0,0\n";
    let path = folder.write("walk.csv", format!("{HEADER}{base}"));
    let ext = [
        ExtRow { t_ms: 0, id: 4, health: 100, spawns: 1, ..ExtRow::default() }.line(),
        ExtRow { t_ms: 50, id: 4, health: 80, eflags: 0x104, spawns: 1, ..ExtRow::default() }
            .line(),
        ExtRow { t_ms: 100, id: 4, health: -5, pm_type: 3, eflags: 0x4, spawns: 1 }.line(),
        ExtRow { t_ms: 150, id: 4, health: 125, eflags: 0x4, spawns: 2, ..ExtRow::default() }
            .line(),
    ];
    folder.write("walk_ext.csv.gz", gzip(format!("{EXT_HEADER}{}", ext.concat()).as_bytes()));
    let trace = Trace::read(&path).unwrap();
    assert!(trace.has_states());
    let jumped: Vec<bool> = trace.states(0).iter().map(|state| state.jumped).collect();
    assert_eq!(jumped, [false, true, false, true]);
    let state = trace.state(0, 60).unwrap();
    assert_eq!((state.t_ms, state.health, state.team, state.weapon), (50, 80, 2, 7));
    assert!(state.firing && trace.is_alive(0, 99) && !trace.is_alive(0, 100));
    assert_eq!(trace.bounds().max[0], 3.0, "the dead do not count");
    let rounds = trace.resample(100.0).unwrap();
    assert!(rounds.has_jumped(1, 0), "a jump between two rounds is not lost");
    assert!(rounds.is_present(1, 0) && !rounds.is_alive(1, 0));
}

#[test]
fn companion_of_another_recording_is_refused() {
    let folder = Folder::new("ext-stranger");
    let path = folder.write("walk.csv", format!("{HEADER}0,4,0,0,0,0,0\n"));
    folder.write(
        "walk_ext.csv",
        format!(
            "{EXT_HEADER}{}",
            ExtRow { t_ms: 0, id: 5, health: 1, spawns: 1, ..ExtRow::default() }.line()
        ),
    );
    let (line, message) = refusal(Trace::read(&path));
    assert_eq!(line, 2);
    let expected = "id: found player 5, expected a player of the recording beside this file";
    assert_eq!(message, expected);
    let late = ExtRow { t_ms: 0, id: 4, health: 1, spawns: 1, ..ExtRow::default() }.line()
        + &ExtRow { t_ms: 10_001, id: 4, health: 1, spawns: 1, ..ExtRow::default() }.line();
    folder.write("walk_ext.csv", format!("{EXT_HEADER}{late}"));
    let (line, message) = refusal(Trace::read(&path));
    assert_eq!((line, message.as_str()), (3, "t_ms: found \"10001\", expected 0 to 10000"));
}

#[test]
fn visibility_masks_are_looked_up_by_player_and_time() {
    let folder = Folder::new("vis");
    let base = "0,1,0,0,0,0,0\n0,70,0,0,0,0,0\n2000,1,0,0,0,0,0\n";
    let path = folder.write("walk.csv", format!("{HEADER}{base}"));
    let vis = "0,1,400000000000000000,0\n0,70,2,2\n250,1,400000000000000000,400000000000000000\n";
    folder.write("walk_vis.csv", format!("{VIS_HEADER}{vis}"));
    let trace = Trace::read(&path).unwrap();
    let sees = trace.visibility().unwrap();
    assert!(sees.pvs(0, 0, 1) && !sees.los(0, 0, 1));
    assert!(sees.los(249, 1, 0) && !sees.los(249, 0, 1));
    assert!(sees.los(250, 0, 1) && sees.los(1250, 0, 1));
    assert!(!sees.los(1251, 0, 1) && !sees.is_known(1251, 0), "stale");
}

#[test]
fn broken_visibility_masks_are_refused() {
    let folder = Folder::new("vis-broken");
    let path = folder.write("walk.csv", format!("{HEADER}0,1,0,0,0,0,0\n"));
    let message = |vis: &str| {
        folder.write("walk_vis.csv", format!("{VIS_HEADER}{vis}"));
        refusal(Trace::read(&path))
    };
    let expected = "los_mask_hex: found \"xyz\", expected a hexadecimal bit mask";
    assert_eq!(message("0,1,2,xyz\n"), (2, expected.to_owned()));
    let expected =
        "pvs_mask_hex: found player 0, expected a player of the recording beside this file";
    assert_eq!(message("0,1,3,0\n"), (2, expected.to_owned()));
    let expected = "found 2 rows of t_ms 0, id 1, expected at most 1";
    assert_eq!(message("0,1,2,0\n0,1,2,0\n"), (3, expected.to_owned()));
}

#[test]
fn writer_rejects_what_the_reader_would() {
    let mut writer = TraceWriter::plain(Vec::new());
    writer.row(100, 1, [0.0; 3], 0.0, 0.0).unwrap();
    assert!(writer.row(99, 1, [0.0; 3], 0.0, 0.0).is_err(), "backwards");
    assert!(writer.row(10_101, 1, [0.0; 3], 0.0, 0.0).is_err(), "silence");
    assert!(writer.row(100, 1, [f32::NAN, 0.0, 0.0], 0.0, 0.0).is_err(), "not finite");
    assert!(writer.row(100, 1, [0.0, 1.1e6, 0.0], 0.0, 0.0).is_err(), "too far");
    assert!(writer.row(100, 1, [0.0; 3], 0.0, 3601.0).is_err(), "too many turns");
    for _ in 1..MAX_BURST {
        writer.row(100, 1, [0.0; 3], 0.0, 0.0).unwrap();
    }
    assert!(writer.row(100, 1, [0.0; 3], 0.0, 0.0).is_err(), "burst");
    writer.row(101, 1, [0.0; 3], 0.0, 0.0).unwrap();
    let bytes = writer.finish().unwrap();
    let trace = Trace::from_reader(&bytes[..], Path::new("memory")).unwrap();
    assert_eq!((trace.sample_count(), trace.origin_ms()), (2, 100));
}

#[test]
fn writer_packs_by_the_name_of_the_file() {
    let folder = Folder::new("writer");
    for (name, packed) in [("walk.csv", false), ("walk.csv.gz", true)] {
        let path = folder.0.join(name);
        let mut writer = TraceWriter::create(&path).unwrap();
        writer.row(0, 1, [1.0, 2.0, 3.0], 4.0, 5.0).unwrap();
        writer.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap().starts_with(&[0x1f, 0x8b]), packed);
        assert_eq!(Trace::read(&path).unwrap().sample_count(), 1);
    }
}

#[test]
fn recordings_of_real_games_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
    for (name, players, duration_ms) in [
        ("cube2_two_towers_32bots", 32, 330_001),
        ("openarena_oa_dm3_16bots", 16, 599_950),
        ("openarena_oa_thor_ctf_60bots", 60, 462_850),
    ] {
        let trace = Trace::read(&folder.join(format!("{name}.csv.gz"))).unwrap();
        assert_eq!((trace.players(), trace.duration_ms()), (players, duration_ms), "{name}");
        let rounds = trace.resample(50.0).unwrap();
        let at_least = rounds.rounds() * players * 9 / 10;
        let all = (0..rounds.rounds()).flat_map(|round| (0..players).map(move |p| (round, p)));
        let present = all.filter(|&(round, player)| rounds.is_present(round, player)).count();
        assert!(present >= at_least, "{name}: {present} of at least {at_least}");
    }
}

/// Bytes that pass the header often enough to reach every check.
fn nearly_valid() -> impl Strategy<Value = Vec<u8>> {
    let field = prop_oneof![
        4 => (0..200_u32).prop_map(|value| value.to_string()),
        2 => any::<f64>().prop_map(|value| value.to_string()),
        1 => "[-+.0-9eE]{0,24}",
        1 => ".{0,8}",
    ];
    let row = prop::collection::vec(field, 5..9).prop_map(|fields| fields.join(","));
    prop::collection::vec(row, 0..12)
        .prop_map(|rows| format!("{HEADER}{}", rows.join("\n")).into_bytes())
}

proptest! {
    #[test]
    fn any_bytes_give_a_recording_or_a_clean_refusal(
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..400),
            nearly_valid(),
            nearly_valid().prop_map(|bytes| gzip(&bytes)),
        ],
        cut in 0..400_usize,
    ) {
        for bytes in [&bytes[..], &bytes[..bytes.len().min(cut)]] {
            match Trace::from_reader(bytes, Path::new("fuzz")) {
                Ok(trace) => prop_assert!(trace.sample_count() > 0),
                Err(error) => prop_assert!(error.line <= 1 + bytes.len() as u64, "{error}"),
            }
        }
    }

    #[test]
    fn what_is_written_is_read_back_exactly(
        origin in 0..1_u64 << 40,
        steps in prop::collection::vec(
            (0..100_u64, any::<u32>(), [-1e6_f32..1e6, -1e6_f32..1e6, -1.0_f32..1.0],
             -3600.0_f32..3600.0, -90.0_f32..90.0),
            1..50,
        ),
        packed in any::<bool>(),
    ) {
        let sink = Vec::new();
        let mut writer = if packed { TraceWriter::gzip(sink) } else { TraceWriter::plain(sink) };
        writer.write_header().unwrap();
        let mut t_ms = origin;
        let mut expected = Vec::new();
        for &(step, id, pos, yaw, pitch) in &steps {
            // Distinct times, so that no row replaces another.
            t_ms += step + 1;
            writer.row(t_ms, id, pos, yaw, pitch).unwrap();
            let first = origin + steps[0].0 + 1;
            expected.push((id, Sample { t_ms: (t_ms - first) as u32, pos, yaw, pitch }));
        }
        let bytes = writer.finish().unwrap();
        let trace = Trace::from_reader(&bytes[..], Path::new("memory")).unwrap();
        let read: Vec<(u32, Sample)> =
            trace.arrivals().map(|(player, at)| (trace.player_id(player), *at)).collect();
        prop_assert_eq!(read, expected);
    }
}

#[test]
fn comments_before_the_header_state_how_angles_are_counted() {
    let row = "t_ms,id,x,y,z,yaw,pitch\n0,1,0,0,0,0,0\n";
    let read = |comment: &str| {
        Trace::from_reader(format!("{comment}{row}").as_bytes(), Path::new("x.csv"))
    };
    assert_eq!(read("").unwrap().convention(), None);
    assert_eq!(read("# made by hand\n").unwrap().convention(), None);
    let stated = "# yaw: clockwise from -y; pitch: down\n";
    let trace = read(&format!("# a remark\n{stated}")).unwrap();
    assert_eq!(trace.convention().unwrap().statement() + "\n", stated);
    for wrong in ["# yaw: clockwise from north; pitch: up\n", "#yaw +90\n"] {
        let error = read(wrong).unwrap_err().to_string();
        assert!(error.starts_with("x.csv:1: found the comment"), "{error}");
    }
    let error = read(&format!("{stated}# yaw: clockwise from +y; pitch: up\n")).unwrap_err();
    assert_eq!(error.line, 2, "{error}");
}

#[test]
fn rounds_count_every_row_including_replaced_ones() {
    let text = "t_ms,id,x,y,z,yaw,pitch\n0,1,0,0,0,0,0\n10,1,1,0,0,0,0\n10,1,2,0,0,0,0\n\
                33,2,0,0,0,0,0\n40,1,3,0,0,0,0\n70,1,3,0,0,0,0\n";
    let trace = Trace::from_reader(text.as_bytes(), Path::new("x.csv")).unwrap();
    let rounds = trace.resample(33.0).unwrap();
    assert_eq!(Vec::from_iter((0..rounds.rounds()).map(|round| rounds.rows(round))), [1, 3, 1]);
}
