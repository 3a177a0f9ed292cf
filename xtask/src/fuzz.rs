//! `cargo xtask fuzz`: runs every parser of untrusted bytes under a coverage-guided fuzzer.
//!
//! LLVM's coverage passes and libFuzzer work with the workspace's toolchain: nothing is installed. Sanitizers would
//! need a nightly one, and we have no `unsafe` that they could check.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::TaskError;
use crate::process;
use crate::steps::say_and_check;

/// The targets, and the longest input of each.
const TARGETS: [(&str, u32); 18] = [
    ("packet", 1_300),
    ("schema", 2_000),
    ("session", 2_000),
    ("server", 2_000),
    ("client", 2_000),
    ("peer_message", 2_000),
    ("peer", 2_000),
    ("bus", 2_000),
    ("ledger", 2_000),
    ("http", 9_000),
    ("h3", 9_000),
    ("proxy", 2_000),
    ("websocket", 2_000),
    ("token", 500),
    ("lobby", 2_000),
    ("direct", 2_000),
    ("storage", 1_000),
    ("config", 2_000),
];

/// The flags of `cargo fuzz`, without the sanitizer.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Runs that are enough for a target.
const ENOUGH: u64 = 1_000_000;
/// An input that takes longer is a finding, in seconds.
const TIMEOUT: &str = "-timeout=10";
/// An input that takes more memory is a finding, in MB.
const MEMORY: &str = "-rss_limit_mb=1024";
/// Lines that are shown of a crash.
const MAX_WORDS: usize = 20;
/// Most seeds that a merge adds; short and long inputs alike.
const MAX_FILES: usize = 48;
/// Most bytes of one target's committed seeds: the smallest inputs first.
const MAX_SEEDS: u64 = 10 * 1_024;

const USAGE: &str = "\
usage: cargo xtask fuzz [--minutes N] [--merge] [TARGET...]

  --minutes N   minutes for each target; 1 by default
  --merge       afterwards, write a small set of inputs with the same coverage to fuzz/seeds";

/// The command's options.
struct Options {
    minutes: f64,
    merge: bool,
    targets: Vec<(&'static str, u32)>,
}

impl Options {
    fn parse(words: &[&str]) -> Option<Options> {
        let mut options = Options { minutes: 1.0, merge: false, targets: Vec::new() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--minutes" => options.minutes = words.next()?.parse().ok()?,
                "--merge" => options.merge = true,
                name => options.targets.push(*TARGETS.iter().find(|it| it.0 == name)?),
            }
        }
        if options.targets.is_empty() {
            options.targets = TARGETS.to_vec();
        }
        (options.minutes > 0.0 && options.minutes <= 24.0 * 60.0).then_some(options)
    }
}

/// The result of one target.
#[derive(Clone, PartialEq, Debug, Default)]
struct Tried {
    runs: u64,
    /// Edges that were reached, and those of them that were first reached in the last half of the time.
    edges: u64,
    late: u64,
    inputs: u64,
    seconds: f64,
    crashed: bool,
}

/// Builds the targets, runs one after the other and prints a table. Fails if an input crashed one.
pub fn run(root: &Path, words: &[&str]) -> Result<(), TaskError> {
    let options = Options::parse(words).ok_or(TaskError::Usage(USAGE))?;
    let host = host(root)?;
    let mut build =
        process::cargo(root, &["build", "--release", "--manifest-path", "fuzz/Cargo.toml"]);
    // With an explicit target, build scripts and macros are built without the flags.
    build.args(["--target", &host]).env("RUSTFLAGS", FLAGS);
    for (target, _) in &options.targets {
        build.args(["--bin", target]);
    }
    say_and_check(&mut build)?;
    let folder = root.join("fuzz/target").join(host).join("release");
    let mut all = Vec::new();
    for (target, longest) in &options.targets {
        println!("{target}: {} minutes", options.minutes);
        let tried = try_target(root, &folder, target, *longest, options.minutes)?;
        if options.merge && !tried.crashed {
            merge(root, &folder.join(target), target)?;
        }
        all.push((*target, tried));
    }
    print!("{}", table(&all));
    match all.iter().filter(|(_, tried)| tried.crashed).count() {
        0 => Ok(()),
        crashed => Err(TaskError::Result {
            command: "cargo xtask fuzz".to_owned(),
            what: format!("{crashed} targets crashed; the inputs are in fuzz/artifacts"),
        }),
    }
}

/// This machine's target triple, from the compiler.
fn host(root: &Path) -> Result<String, TaskError> {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let said = process::capture(rustc.arg("-vV").current_dir(root))?;
    let said = String::from_utf8_lossy(&said).into_owned();
    let host = said.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned);
    let what = "it names no host".to_owned();
    host.ok_or_else(|| TaskError::Result { command: "rustc -vV".to_owned(), what })
}

fn folder_of(root: &Path, what: &str, target: &str) -> Result<PathBuf, TaskError> {
    let path = root.join("fuzz").join(what).join(target);
    std::fs::create_dir_all(&path)
        .map_err(|source| TaskError::Read { path: path.clone(), source })?;
    Ok(path)
}

fn try_target(
    root: &Path,
    programs: &Path,
    target: &str,
    longest: u32,
    minutes: f64,
) -> Result<Tried, TaskError> {
    let corpus = folder_of(root, "corpus", target)?;
    let artifacts = folder_of(root, "artifacts", target)?;
    let seconds = (minutes * 60.0).ceil();
    let mut command = Command::new(programs.join(target));
    command
        .args([TIMEOUT, MEMORY, "-print_final_stats=1", &format!("-max_len={longest}")])
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(corpus)
        .arg(folder_of(root, "seeds", target)?)
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let shown = process::show(&command);
    let failed = |source| TaskError::Start { command: shown.clone(), source };
    let began = Instant::now();
    let mut child = command.spawn().map_err(failed)?;
    let mut tried = Tried::default();
    let (mut early, half) = (0, Duration::from_secs_f64(seconds / 2.0));
    let mut last_words = Vec::new();
    for line in child.stderr.take().into_iter().flat_map(|out| BufReader::new(out).lines()) {
        let Ok(line) = line else { break };
        read_line(&line, &mut tried);
        if began.elapsed() < half {
            early = tried.edges;
        }
        let is_cause = line.contains("panicked at") || line.contains("ERROR: ");
        if (is_cause || !last_words.is_empty()) && last_words.len() < MAX_WORDS {
            last_words.push(line);
        }
    }
    let status = child.wait().map_err(failed)?;
    tried.crashed = !status.success();
    if tried.crashed {
        last_words.iter().for_each(|line| println!("{line}"));
    }
    (tried.late, tried.seconds) = (tried.edges - early, began.elapsed().as_secs_f64());
    Ok(tried)
}

/// Reads a line such as `#8192 NEW cov: 310 ft: 700 corp: 80/4Kb …` or `stat::number_of_executed_units: 9`.
fn read_line(line: &str, tried: &mut Tried) {
    let mut words = line.split_whitespace().peekable();
    if let Some(runs) = words.peek().and_then(|word| word.strip_prefix('#')) {
        tried.runs = runs.parse().unwrap_or(tried.runs);
        while let Some(word) = words.next() {
            let mut number = || words.next().and_then(|it| it.split('/').next()?.parse().ok());
            match word {
                "cov:" => tried.edges = number().unwrap_or(tried.edges),
                "corp:" => tried.inputs = number().unwrap_or(tried.inputs),
                _ => {}
            }
        }
    } else if words.next() == Some("stat::number_of_executed_units:") {
        tried.runs = words.next().and_then(|it| it.parse().ok()).unwrap_or(tried.runs);
    }
}

/// Adds to a target's committed seeds: a few inputs that together reach everything that was reached.
fn merge(root: &Path, program: &Path, target: &str) -> Result<(), TaskError> {
    let (corpus, seeds) = (folder_of(root, "corpus", target)?, folder_of(root, "seeds", target)?);
    let merged = folder_of(root, "corpus", &format!("{target}.merged"))?;
    let mut command = Command::new(program);
    command.args(["-merge=1", TIMEOUT, MEMORY]).args([&merged, &corpus, &seeds]);
    process::check(command.current_dir(root).stderr(Stdio::null()))?;
    let failed = |path: &Path, source| TaskError::Read { path: path.to_owned(), source };
    let mut files = Vec::new();
    for file in std::fs::read_dir(&merged).map_err(|source| failed(&merged, source))?.flatten() {
        let size = file.metadata().map_or(u64::MAX, |data| data.len());
        files.push((size, file.path()));
    }
    files.sort();
    let mut room = MAX_SEEDS;
    let step = files.len().div_ceil(MAX_FILES).max(1);
    for (size, path) in files.into_iter().step_by(step) {
        let Some(left) = room.checked_sub(size) else { break };
        room = left;
        let name = path.file_name().unwrap_or_default();
        // Names are hashes of the content; the start is enough to distinguish files.
        let short: String = name.to_string_lossy().chars().take(12).collect();
        let to = seeds.join(short);
        std::fs::copy(&path, &to).map_err(|source| failed(&to, source))?;
    }
    std::fs::remove_dir_all(&merged).map_err(|source| failed(&merged, source))
}

fn table(all: &[(&str, Tried)]) -> String {
    let mut text = String::from(
        "| target | runs | seconds | edges | new in the last half | inputs | crashes | |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n",
    );
    for (target, tried) in all {
        let Tried { runs, edges, late, inputs, seconds, crashed } = tried;
        let short = if *runs < ENOUGH { "fewer than a million runs" } else { "" };
        let crashes = u8::from(*crashed);
        text.push_str(&format!(
            "| `{target}` | {runs} | {seconds:.0} | {edges} | {late} | {inputs} | {crashes} | {short} |\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_fuzzer_are_understood() {
        let mut tried = Tried::default();
        read_line("#2\tINITED cov: 12 ft: 13 corp: 1/1b exec/s: 0 rss: 30Mb", &mut tried);
        read_line("#8192\tNEW    cov: 310 ft: 700 corp: 80/4096b lim: 80 exec/s: 9", &mut tried);
        assert_eq!((tried.runs, tried.edges, tried.inputs), (8_192, 310, 80));
        read_line("stat::number_of_executed_units: 1000001", &mut tried);
        read_line("INFO: seed corpus: files: 9", &mut tried);
        assert_eq!((tried.runs, tried.edges), (1_000_001, 310));
        assert!(!table(&[("packet", tried)]).contains("fewer"));
        assert!(table(&[("packet", Tried::default())]).contains("fewer"));
    }

    #[test]
    fn options_are_read_or_rejected() {
        let all = Options::parse(&[]).unwrap();
        assert_eq!((all.targets.len(), all.merge), (TARGETS.len(), false));
        let some = Options::parse(&["--minutes", "0.5", "token", "--merge"]).unwrap();
        assert_eq!((some.targets, some.merge, some.minutes), (vec![("token", 500)], true, 0.5));
        for wrong in [&["--minutes"][..], &["--minutes", "0"], &["--minutes", "x"], &["tokens"]] {
            assert!(Options::parse(wrong).is_none(), "{wrong:?}");
        }
    }

    /// Every target is a program of the fuzz workspace, and every program a target.
    #[test]
    fn all_targets_are_tried() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let files = std::fs::read_dir(root.join("fuzz/fuzz_targets")).unwrap();
        let mut found: Vec<String> = files
            .map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        let mut known: Vec<&str> = TARGETS.iter().map(|it| it.0).collect();
        found.sort();
        known.sort_unstable();
        assert_eq!(found, known);
        let manifest = std::fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
        let named = known.iter().filter(|name| manifest.contains(&format!("name = \"{name}\"")));
        assert_eq!(named.count(), known.len());
    }
}
