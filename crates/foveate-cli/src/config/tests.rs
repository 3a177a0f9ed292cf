use super::*;

fn parse(text: &str) -> Result<Config, ConfigError> {
    told(text, CliOverrides::default())
}

fn told(text: &str, told: CliOverrides) -> Result<Config, ConfigError> {
    Config::parse(Path::new("conf/foveate.toml"), text, told)
}

/// Checks that the message has the file, the line and all words.
fn refused(text: &str, line: usize, words: &[&str]) {
    let message = parse(text).expect_err(text).to_string();
    assert!(message.starts_with(&format!("conf/foveate.toml:{line}: ")), "{text:?}: {message}");
    for word in words {
        assert!(message.contains(word), "{text:?}: {message}");
    }
}

#[test]
fn the_default_file_means_the_same_as_an_empty_one() {
    let (stated, empty) = (parse(DEFAULT).unwrap(), parse("").unwrap());
    assert_eq!(format!("{stated:?}"), format!("{empty:?}"));
    assert_eq!(empty.listen.to_string(), "127.0.0.1:4433");
    assert_eq!((empty.tick_hz, empty.limits.max_links), (20, 1_024));
    assert_eq!((empty.tokens, empty.storage, empty.network), (Tokens::Open, None, None));
}

#[test]
fn the_default_file_names_every_key() {
    // What a comment switches on must be a key, too.
    let all: String = DEFAULT
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(key) if key.contains(" = ") && !key.contains('.') => format!("{key}\n"),
            Some(path) if path.starts_with(char::is_lowercase) && path.contains(" = \"") => {
                format!("{path}\n")
            }
            Some(section) if section.starts_with('[') && section.ends_with(']') => {
                format!("{section}\n")
            }
            _ => format!("{line}\n"),
        })
        .collect();
    assert!(toml::from_str::<raw::File>(&all).is_ok(), "{all}");
    for key in ["cert", "key", "secret", "path", "bytes_per_second", "operator_token"] {
        assert!(all.contains(&format!("\n{key} = ")), "{key} is not in the default file");
    }
}

#[test]
fn unknown_keys_and_sections_are_refused_by_name() {
    refused("[server]\ntick_hz = 20\nspeed = 3\n", 3, &["speed", "tick_hz"]);
    refused("\n[sever]\n", 2, &["sever", "server"]);
}

#[test]
fn broken_syntax_and_wrong_types_are_refused_with_their_line() {
    refused("[server]\nlisten = \n", 2, &[]);
    refused("[server]\n\ntick_hz = \"fast\"\n", 3, &["expected i64"]);
    refused("[log]\nlevel = 3\n", 2, &["expected a string"]);
}

#[test]
fn values_out_of_range_are_refused_with_the_range() {
    refused("[server]\ntick_hz = 0\n", 2, &["server.tick_hz is 0", "1 to 120"]);
    refused("[server]\nmax_clients = -1\n", 2, &["-1", "1 to 65536"]);
    refused("[server]\nmax_clients_per_address = 0\n", 2, &["1 to 65536"]);
    refused("[server]\ndatagrams = \"udp\"\n", 2, &["server.datagrams", "direct, quic"]);
    refused("[server]\nname = \"\"\n", 2, &["server.name", "1 to 64"]);
    refused("[world]\nseed = -4\n", 2, &["world.seed"]);
    refused("[world]\nbots = 100000\n", 2, &["0 to 16384"]);
    refused("[network]\nloss = nan\n", 2, &["network.loss is NaN"]);
    refused("[budget]\nbytes_per_second = 3\n", 2, &["1000 to 100000000"]);
    refused("[limits]\nmessage_bytes = 4096\nbacklog_bytes = 100\n", 3, &["4096 to 16777216"]);
    refused("[limits]\nhandshakes_per_second = 0\n", 2, &["1 to 10000"]);
    refused("[network]\nloss = 1.5\n", 2, &["network.loss is 1.5", "0 to 0.9"]);
    refused("[network]\nburst = 0\n", 2, &["1 to 100"]);
    refused("[network]\njitter_ms = -1\n", 2, &["network.jitter_ms"]);
}

#[test]
fn addresses_and_choices_are_refused_with_what_was_expected() {
    refused("[server]\nlisten = \"localhost\"\n", 2, &["localhost", "127.0.0.1:4433"]);
    refused("[metrics]\nlisten = \"1.2.3.4\"\n", 2, &["metrics.listen", "127.0.0.1:9464"]);
    refused("[log]\nlevel = \"loud\"\n", 2, &["loud", "error, warn, info, debug, trace"]);
    refused("[log]\nformat = \"xml\"\n", 2, &["text, json"]);
}

#[test]
fn mutually_exclusive_keys_are_rejected() {
    refused("[tls]\ncert = \"a.pem\"\n", 2, &["tls.cert and tls.key"]);
    refused("[tls]\ndevelopment = false\n", 2, &["tls.development = true"]);
    refused("[tokens]\nopen = true\nsecret = \"s\"\n", 3, &["either tokens.open"]);
    refused("[budget]\nunlimited = true\nbytes_per_second = 5000\n", 3, &["either budget"]);
}

#[test]
fn files_that_are_not_there_are_refused() {
    refused("[tokens]\nsecret = \"s\"\n", 2, &["tokens.secret", "conf/s", "readable file"]);
    let absent =
        Config::load(Path::new("no-such.toml"), CliOverrides::default()).unwrap_err().to_string();
    assert!(absent.starts_with("no-such.toml: "), "{absent}");
}

#[test]
fn a_server_on_the_network_must_configure_access() {
    let open = "[server]\nlisten = \"0.0.0.0:4433\"\n";
    refused(open, 2, &["open to the network", "tls.development"]);
    refused(&format!("{open}[tls]\ndevelopment = true\n"), 2, &["tokens.open"]);
    let said = format!("{open}[tls]\ndevelopment = true\n[tokens]\nopen = true\n");
    assert!(parse(&said).is_ok());
}

#[test]
fn an_address_of_the_command_line_is_checked_like_the_files() {
    let open = CliOverrides { listen: "0.0.0.0:4433".parse().ok(), web: None };
    let message = told("[server]\ntick_hz = 20\n", open).unwrap_err().to_string();
    assert!(message.contains("--listen is open to the network"), "{message}");
    let said = "[tls]\ndevelopment = true\n[tokens]\nopen = true\n";
    assert_eq!(told(said, open).unwrap().listen.to_string(), "0.0.0.0:4433");
    let pages = CliOverrides { listen: None, web: "0.0.0.0:8080".parse().ok() };
    let message = told("[web]\nobserve = true\n", pages).unwrap_err().to_string();
    assert!(message.contains("--web is open to the network"), "{message}");
    let message = told("", pages).unwrap_err().to_string();
    assert!(message.contains("--web is open to the network") && message.contains("tokens.open"));
    assert!(told("[tokens]\nopen = true\n", pages).unwrap().web.enabled);
}

#[test]
fn pages_on_the_network_must_configure_access() {
    let open = "[server]\ntick_hz = 20\n[web]\nenabled = true\nlisten = \"0.0.0.0:8080\"\n";
    refused(open, 3, &["web.listen is open to the network", "tokens.open"]);
    assert!(parse(&format!("{open}[tokens]\nopen = true\n")).is_ok());
    assert!(parse(&open.replace("true", "false")).is_ok(), "nothing listens there");
}

#[test]
fn the_check_finds_what_would_fail_at_the_start() {
    let folder = std::env::temp_dir().join(format!("foveate-config-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("foveate.toml");
    std::fs::write(folder.join("short"), "secret").unwrap();
    let check = |text: &str| Config::parse(&file, text, CliOverrides::default());
    for (text, words) in [
        ("[tokens]\nsecret = \"short\"\n", ["tokens.secret", "32 to 4096"]),
        ("[storage]\npath = \".\"\n", ["storage.path", "is a folder"]),
        ("[storage]\npath = \"absent/world.db\"\n", ["storage.path", "does not exist"]),
        ("[web]\nlisten = \"127.0.0.1:9464\"\nenabled = true\n", ["web.listen", "two ports"]),
    ] {
        let message = check(text).expect_err(text).to_string();
        assert!(
            message.contains(":2: ") && words.iter().all(|word| message.contains(word)),
            "{message}"
        );
    }
    let fine = "[storage]\npath = \"world.db\"\n[web]\nlisten = \"127.0.0.1:9464\"\n";
    assert!(check(fine).is_ok(), "the pages are off");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn an_operator_on_the_network_needs_a_token() {
    let open = "[web]\nenabled = true\nlisten = \"0.0.0.0:8080\"\nobserve = true\n";
    refused(open, 4, &["web.operator_token"]);
    let absent = format!("{open}operator_token = \"absent\"\n");
    refused(&absent, 5, &["web.operator_token", "conf/absent", "readable file"]);
    let local = parse("[web]\nenabled = true\nobserve = true\n").unwrap().web;
    assert!(matches!(local.observe, foveate_io::web::Observe::Loopback));
    assert!(!parse("").unwrap().web.enabled);
}

#[test]
fn invalid_origins_are_rejected() {
    for wrong in ["play.example.org", "https://", "https://play.example.org/page", ":web"] {
        refused(&format!("[web]\n\norigins = [\"{wrong}\"]\n"), 3, &[wrong, "web.origins"]);
    }
    let text =
        "[web]\nenabled = true\norigins = [\"https://play.example.org\", \":8081\", \"*\"]\n";
    assert_eq!(parse(text).unwrap().web.origins.len(), 3);
}

#[test]
fn proxies_are_addresses_or_networks() {
    for wrong in ["proxy.example.org", "10.0.0.0/40", ""] {
        let text = format!("[web]\n\ntrusted_proxies = [\"{wrong}\"]\n");
        refused(&text, 3, &[wrong, "web.trusted_proxies"]);
    }
    let text = "[web]\nenabled = true\ntrusted_proxies = [\"127.0.0.1\", \"10.0.0.0/8\"]\n";
    let config = parse(text).unwrap();
    assert_eq!(config.web.trusted_proxies.len(), 2);
    assert!(config.to_string().contains("behind proxy 10.0.0.0/8"), "{config}");
}

#[test]
fn every_value_reaches_its_setting() {
    let world = std::env::temp_dir().join("world.db");
    let text = "[storage]\npath = 'WORLD'\n[network]\ndelay_ms = 1.5\nloss = 0.25\n\
                [metrics]\nenabled = false\n[budget]\nbytes_per_second = 5000\nfollow_congestion = false\n[log]\nformat = \"json\"";
    let config = parse(&text.replace("WORLD", &world.display().to_string())).unwrap();
    assert_eq!(config.storage, Some(world));
    let network = config.network.unwrap();
    let expected = LinkSpec { loss: Loss::Bernoulli(0.25), ..LinkSpec::delayed(Micros(1_500)) };
    assert_eq!(network, expected);
    assert_eq!((config.metrics, config.budget), (None, Some(Bytes(5_000))));
    assert!(!config.follow_congestion && parse("").unwrap().follow_congestion);
    assert_eq!(config.format, Format::Json);
    assert!(config.to_string().contains("5000 bytes/s"), "{config}");
}

#[test]
fn a_view_is_checked_with_its_line() {
    let text = "[view]\npolicy = \"circle\"\nview = 80\n";
    assert_eq!(parse(text).unwrap().view.unwrap().view, Some(80.0));
    refused("[view]\npolicy = \"round\"\n", 2, &["round", "circle"]);
    refused("[world]\nseed = 3\n[view]\npolicy = \"circle\"\n", 3, &["[view]", "needs `view`"]);
    // Things that only the game knows are checked at the start.
    let text = "[view]\npolicy = \"custom\"\ncustom = \"thirds\"\nline_of_sight = {}\n";
    assert!(parse(text).unwrap().view.is_some());
}

#[test]
fn resources_are_per_tick() {
    let text = "[server]\ntick_hz = 10\n[limits]\nuplink_bytes_per_second = 50000\ntick_ms = 60\n";
    let resources = parse(text).unwrap().resources;
    assert_eq!(resources.uplink, Some(Bytes(5_000)));
    assert_eq!(resources.tick_time, Some(Micros(60_000)));
    assert_eq!(parse("").unwrap().resources.tick_time, Some(Micros(40_000)), "four fifths");
    refused("[limits]\ntick_ms = 51\n", 2, &["limits.tick_ms", "50"]);
    refused("[limits]\nuplink_bytes_per_second = 10\n", 2, &["uplink_bytes_per_second", "1000"]);
}

#[test]
fn committed_seeds_of_the_fuzzer_are_read_or_refused() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/config");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(Result::unwrap).collect();
    assert!(files.len() > 3, "they are missing");
    for file in files {
        println!("{}", file.path().display());
        let text = std::fs::read(file.path()).unwrap();
        let _ = parse(&String::from_utf8_lossy(&text));
    }
}
