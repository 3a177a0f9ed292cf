//! Bots that a server turns away say so at once, and by whom.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn foveate() -> Command {
    Command::new(env!("CARGO_BIN_EXE_foveate"))
}

#[test]
fn bots_that_are_turned_away_do_not_wait() {
    let folder = std::env::temp_dir().join(format!("foveate-turned-away-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("secret"), [7; 32]).unwrap();
    let config = folder.join("foveate.toml");
    let text = "[server]\nlisten = \"127.0.0.1:0\"\nmax_clients = 16\n[metrics]\nenabled = false\n";
    std::fs::write(&config, format!("{text}[tokens]\nsecret = \"secret\"\n")).unwrap();
    let mut serve = foveate();
    serve.arg("serve").arg("--config").arg(&config);
    let mut server = serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let first = lines.next().expect("the server starts").unwrap();
    let address = first.strip_prefix("listening on ").expect("and says where").to_owned();

    let began = Instant::now();
    let bots = ["bots", "--connect", &address, "--count", "2", "--players", "16"];
    let done = foveate().args(bots).output().unwrap();
    let waited = began.elapsed();
    server.kill().unwrap();
    server.wait().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();

    let said = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success(), "{said}");
    assert!(said.contains(&address) && said.contains("Token"), "{said}");
    assert!(waited < Duration::from_secs(30), "{waited:?}");
}
