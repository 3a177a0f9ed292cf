use super::*;

fn traffic() -> Table {
    let mut table = Table::new([("policy", Align::Left), ("θ′ ms", Align::Right)]);
    table.row(["broadcast", "50"]).row(["vfc"]);
    table
}

#[test]
fn table_aligns_by_character_and_leaves_no_trailing_space() {
    let expected = "policy     θ′ ms\n─────────  ─────\nbroadcast     50\nvfc\n";
    assert_eq!(traffic().to_string(), expected);
    let mut printed = Vec::new();
    traffic().print(&mut printed).unwrap();
    assert_eq!(printed, expected.as_bytes());
}

#[test]
fn table_without_rows_or_columns_still_prints() {
    assert_eq!(Table::new([("a", Align::Left)]).to_string(), "a\n─\n");
    assert_eq!(Table::new(Vec::<(String, Align)>::new()).to_string(), "\n\n");
}

#[test]
#[should_panic(expected = "3 cells for 2 columns")]
fn table_refuses_cells_without_a_column() {
    traffic().row(["a", "b", "c"]);
}

fn outcome() -> ExperimentResult {
    let mut outcome = ExperimentResult::new("say \"hi\"", u64::MAX);
    outcome.push(serde_json::json!({"b": 1.5, "a": "x"})).unwrap();
    outcome.push(serde_json::json!({"b": null})).unwrap();
    outcome.judge(Verdict::at_most("b", 1.5, 2.0, ""));
    outcome
}

#[test]
fn results_are_json_with_one_row_per_line() {
    let text = outcome().to_json();
    let expected = "{\"experiment\":\"say \\\"hi\\\"\",\"seed\":18446744073709551615,\"verdicts\":[\n\
                    {\"aim\":\"≤ 2\",\"holds\":true,\"name\":\"b\",\"required\":true,\"value\":1.5}\n],\"rows\":[\n\
                    {\"a\":\"x\",\"b\":1.5},\n{\"b\":null}\n]}\n";
    assert_eq!(text, expected);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["seed"], u64::MAX);
    assert_eq!(value["rows"].as_array().unwrap().len(), 2);
    let empty: Value = serde_json::from_str(&ExperimentResult::new("none", 0).to_json()).unwrap();
    assert_eq!(empty["rows"], serde_json::json!([]));
}

#[test]
fn a_row_that_json_cannot_represent_is_rejected_and_not_kept() {
    let mut outcome = ExperimentResult::new("keys", 1);
    let pairs = std::collections::BTreeMap::from([((1, 2), 3)]);
    let error = outcome.push(pairs).unwrap_err();
    assert!(error.to_string().starts_with("a row of keys cannot be written as JSON"), "{error}");
    assert!(outcome.rows.is_empty());
}

#[test]
fn writing_replaces_the_file_and_leaves_nothing_else() {
    let folder = std::env::temp_dir().join(format!("foveate-lab-output-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("out.json");
    fs::write(&path, "old").unwrap();
    outcome().write_json(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), outcome().to_json());
    let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["out.json"]);
    let error = outcome().write_json(&folder.join("no/such/out.json")).unwrap_err();
    assert!(error.to_string().contains("out.json: "), "{error}");
    // A folder at the file's path: writing fails, and the temporary file is removed.
    fs::create_dir(folder.join("taken")).unwrap();
    assert!(outcome().write_json(&folder.join("taken")).is_err());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn progress_counts_without_a_terminal() {
    let progress = Progress::on(ProgressDrawTarget::hidden(), "rounds".to_owned(), 10);
    progress.tick(3);
    progress.tick(4);
    assert_eq!(progress.done(), 7);
    progress.finish();
}
