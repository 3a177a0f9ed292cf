//! `cargo xtask bench-peers`: the crowd workload on our server beside other ways to build one.
//!
//! Rounds are interleaved: each library is measured once before the next round begins, and a library's row is the
//! median of its rounds. Ours is measured by `foveate load`, the others by `bench/peers`, a separate workspace with its
//! own lock file, which `cargo xtask test` does not build.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::error::TaskError;
use crate::process;

/// Libraries in the order of measuring. Ours is first, since the baseline sends packets of its mean sizes.
const LIBRARIES: [&str; 6] = ["foveate", "handwritten", "replicon", "lightyear", "naia", "raw"];
/// Libraries that are not measured with more clients than this: their server needs several ticks for one tick, and
/// their own clients need more than a processor.
const MOST_CLIENTS: [(&str, usize); 2] = [("replicon", 500), ("lightyear", 500)];
/// Seconds of each measurement.
const SECONDS: &str = "10";
const FIGURES: [&str; 9] = [
    "cpu_ms_per_tick",
    "hz",
    "down_bytes_s",
    "up_bytes_s",
    "down_packets_s",
    "up_packets_s",
    "rss_mb",
    "error_p95",
    "missing",
];
const BENCHMARKS: &str = "docs/BENCHMARKS.md";
/// Marks around the part of the page that is written here.
const MARKS: [&str; 2] = ["<!-- bench-peers: begin -->\n", "<!-- bench-peers: end -->\n"];

struct Options {
    json: Option<PathBuf>,
    clients: Vec<usize>,
    rounds: usize,
    only: Vec<String>,
    write: bool,
}

impl Options {
    fn plays(&self, library: &str, clients: usize) -> bool {
        let is_too_many = |(name, most): &(&str, usize)| *name == library && clients > *most;
        self.only.iter().any(|it| it == library) && !MOST_CLIENTS.iter().any(is_too_many)
    }
}

fn parse(words: &[&str]) -> Option<Options> {
    let mut options = Options {
        json: None,
        clients: vec![100, 500, 1_000],
        rounds: 3,
        only: LIBRARIES.map(String::from).to_vec(),
        write: false,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--write" => options.write = true,
            "--json" => options.json = Some(words.next()?.into()),
            "--rounds" => options.rounds = words.next()?.parse().ok().filter(|count| *count > 0)?,
            "--clients" => {
                let counts = words.next()?.split(',').map(|count| count.parse().ok());
                options.clients = counts.collect::<Option<_>>()?;
            }
            "--only" => {
                options.only = words.next()?.split(',').map(String::from).collect();
                let known = |name: &String| LIBRARIES.contains(&name.as_str());
                options.only.iter().all(known).then_some(())?;
            }
            _ => return None,
        }
    }
    Some(options)
}

/// Measures, prints the table, and writes the requested files.
pub fn run(root: &Path, words: &[&str], usage: &'static str) -> Result<(), TaskError> {
    let options = parse(words).ok_or(TaskError::Usage(usage))?;
    let peers = root.join("bench/peers");
    process::check(&mut process::cargo(root, &["build", "--release", "--package", "foveate-cli"]))?;
    process::check(&mut process::cargo(&peers, &["build", "--release", "--locked"]))?;
    let mut rows = Vec::new();
    for clients in &options.clients {
        rows.extend(measure(root, &options, *clients)?);
    }
    let table = table(&rows);
    println!("\n{table}");
    if let Some(path) = &options.json {
        let text = json!({ "experiment": "peers", "rounds": options.rounds, "rows": rows });
        write(path, &format!("{text:#}\n"))?;
    }
    if options.write {
        let versions = versions(&peers.join("Cargo.lock"))?;
        let path = root.join(BENCHMARKS);
        let read = |source| TaskError::Read { path: path.clone(), source };
        let page = fs::read_to_string(&path).map_err(read)?;
        let section = format!("{versions}\n\n{table}");
        let page = with_section(&page, &section).ok_or_else(|| TaskError::Result {
            command: "bench-peers --write".into(),
            what: format!("{BENCHMARKS} has lost its marks"),
        })?;
        write(&path, &page)?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), TaskError> {
    fs::write(path, text).map_err(|source| TaskError::Read { path: path.to_owned(), source })
}

/// Runs all rounds with a number of clients; returns one row for each library.
fn measure(root: &Path, options: &Options, clients: usize) -> Result<Vec<Value>, TaskError> {
    let mut rounds: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    // Typical sizes, until ours has been measured.
    let mut sizes = [80.0, 50.0];
    for round in 1..=options.rounds {
        for library in LIBRARIES.into_iter().filter(|name| options.plays(name, clients)) {
            let row = match library {
                "foveate" => ours(root, clients)?,
                other => match theirs(root, other, clients, sizes) {
                    Ok(row) => row,
                    // The others are measured all the same.
                    Err(error) => {
                        println!("round {round}: {other} with {clients} clients: {error}");
                        continue;
                    }
                },
            };
            let cpu = row["cpu_ms_per_tick"].as_f64().unwrap_or(f64::NAN);
            println!("round {round}: {library} with {clients} clients: {cpu:.2} ms a tick");
            if library == "foveate" {
                let mean = |way: &str| {
                    let figure = |name: String| row[name.as_str()].as_f64();
                    Some(figure(format!("{way}_bytes_s"))? / figure(format!("{way}_packets_s"))?)
                };
                sizes = [mean("down").unwrap_or(sizes[0]), mean("up").unwrap_or(sizes[1])];
            }
            rounds.entry(library).or_default().push(row);
        }
    }
    let of = |library: &&str| rounds.get(*library).map(|rows| median(library, clients, rows));
    Ok(LIBRARIES.iter().filter_map(of).collect())
}

fn median(library: &str, clients: usize, rows: &[Value]) -> Value {
    let mut row = json!({ "lib": library, "clients": clients });
    for figure in FIGURES {
        let mut values: Vec<f64> = rows.iter().filter_map(|row| row[figure].as_f64()).collect();
        values.sort_by(f64::total_cmp);
        row[figure] = values.get(values.len() / 2).map_or(Value::Null, |value| json!(value));
    }
    row
}

fn output(command: &mut Command) -> Result<Value, TaskError> {
    let shown = process::show(command);
    let output =
        command.output().map_err(|source| TaskError::Start { command: shown.clone(), source })?;
    if !output.status.success() {
        return Err(TaskError::Failed { command: shown, status: output.status });
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| TaskError::Result { command: shown, what: error.to_string() })
}

/// Measures our server with a number of clients.
fn ours(root: &Path, clients: usize) -> Result<Value, TaskError> {
    let mut command = Command::new(target(root).join("release/foveate"));
    let clients = clients.to_string();
    command.args(["load", "--game", "crowd", "--clients", &clients, "--seconds", SECONDS]);
    let load = output(&mut command)?;
    let figure = |name: &str| load[name].as_f64().unwrap_or(f64::NAN);
    Ok(json!({
        "cpu_ms_per_tick": figure("cpu_s") * 1e3 / figure("ticks"),
        "hz": figure("ticks") / figure("seconds"),
        "down_bytes_s": figure("down_bytes_s"),
        "up_bytes_s": figure("up_bytes_s"),
        "down_packets_s": figure("down_packets_s"),
        "up_packets_s": figure("up_packets_s"),
        "rss_mb": figure("rss_kib") / 1024.0,
        "error_p95": figure("err_p95"),
        "missing": figure("missing"),
    }))
}

fn theirs(root: &Path, name: &str, clients: usize, sizes: [f64; 2]) -> Result<Value, TaskError> {
    let program = target(&root.join("bench/peers")).join("release/foveate-bench-peers");
    let [down, up] = sizes.map(|size| (size.round() as usize).to_string());
    let mut command = Command::new(program);
    command.args(["run", name, "--clients", &clients.to_string(), "--seconds", SECONDS]);
    output(command.args(["--down-size", &down, "--up-size", &up]))
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from)
}

fn table(rows: &[Value]) -> String {
    let head = "| server | clients | CPU per tick | held rate | down per client | packets down / up | up per client \
                | memory | error p95 | missing |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
    let figure = |row: &Value, name: &str, digits: usize| {
        row[name].as_f64().map_or("–".to_owned(), |value| format!("{value:.digits$}"))
    };
    let line = |row: &Value| {
        format!(
            "| {} | {} | {} ms | {} Hz | {} B/s | {} / {} per s | {} B/s | {} MB | {} | {} |\n",
            row["lib"].as_str().unwrap_or_default(),
            row["clients"],
            figure(row, "cpu_ms_per_tick", 2),
            figure(row, "hz", 1),
            figure(row, "down_bytes_s", 0),
            figure(row, "down_packets_s", 1),
            figure(row, "up_packets_s", 1),
            figure(row, "up_bytes_s", 0),
            figure(row, "rss_mb", 0),
            figure(row, "error_p95", 3),
            figure(row, "missing", 4),
        )
    };
    head.to_owned() + &rows.iter().map(line).collect::<String>()
}

/// The compared libraries, with their versions from the lock file.
fn versions(lock: &Path) -> Result<String, TaskError> {
    let read = |source| TaskError::Read { path: lock.to_owned(), source };
    let text = fs::read_to_string(lock).map_err(read)?;
    let table: toml::Table = text.parse().unwrap_or_default();
    let packages = table.get("package").and_then(toml::Value::as_array);
    let version = |name: &str| {
        let has_name =
            |it: &&toml::Value| it.get("name").and_then(toml::Value::as_str) == Some(name);
        let package = packages?.iter().find(has_name)?;
        package.get("version").and_then(toml::Value::as_str).map(String::from)
    };
    let of = |name: &str| version(name).unwrap_or_default();
    let (renet2, replicon, backend) =
        (of("renet2"), of("bevy_replicon"), of("bevy_replicon_renet"));
    let (lightyear, naia) = (of("lightyear"), of("naia-server"));
    Ok(format!(
        "`foveate`: this version, direct datagrams. `handwritten`: renet2 {renet2}. `replicon`: bevy_replicon \
         {replicon} on bevy_replicon_renet {backend}; its bytes are those that it reports itself, without netcode's \
         headers. `lightyear`: lightyear {lightyear} with netcode over UDP, on the same bevy_replicon. `naia`: naia \
         {naia} without an ECS, not encrypted: it has no encryption over UDP. `raw`: no library."
    ))
}

/// The page with the section between its marks replaced.
fn with_section(page: &str, section: &str) -> Option<String> {
    let begin = page.find(MARKS[0])? + MARKS[0].len();
    let end = begin + page[begin..].find(MARKS[1])?;
    Some(format!("{}{section}{}", &page[..begin], &page[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_unknown_libraries_rejected() {
        let words = ["--clients", "10,20", "--rounds", "5", "--only", "raw", "--json", "x.json"];
        let options = parse(&words).expect("they are right");
        assert!(options.plays("raw", 5_000) && !options.plays("replicon", 10));
        assert_eq!((options.clients, options.rounds, options.write), (vec![10, 20], 5, false));
        assert_eq!((options.only, options.json), (vec!["raw".to_owned()], Some("x.json".into())));
        for wrong in [&["--only", "nothing"][..], &["--rounds", "0"], &["--clients"], &["--fast"]] {
            assert!(parse(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn a_library_is_left_out_where_it_cannot_keep_up() {
        let options = parse(&[]).expect("nothing is a must");
        assert!(options.plays("replicon", 500) && !options.plays("replicon", 1_000));
        assert!(options.plays("foveate", 1_000));
    }

    #[test]
    fn a_row_is_the_median_of_its_rounds() {
        let rows = [3.0, 1.0, 2.0].map(|cpu| json!({ "cpu_ms_per_tick": cpu }));
        let row = median("raw", 7, &rows);
        assert_eq!((&row["cpu_ms_per_tick"], &row["missing"]), (&json!(2.0), &Value::Null));
        assert!(table(&[row]).contains("| raw | 7 | 2.00 ms | – Hz |"));
    }

    #[test]
    fn only_the_text_between_the_marks_is_replaced() {
        let page = format!("a\n{}old\n{}b\n", MARKS[0], MARKS[1]);
        let new = with_section(&page, "new\n").expect("it has marks");
        assert_eq!(new, format!("a\n{}new\n{}b\n", MARKS[0], MARKS[1]));
        assert_eq!(with_section("a", "new"), None);
    }
}
