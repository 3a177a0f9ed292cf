//! The operator's view of a real server with bots, over a real WebSocket.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tungstenite::client::IntoClientRequest;
use tungstenite::{Message, WebSocket};

/// The longest that anything may take, however slow the machine.
const PATIENCE: Duration = Duration::from_secs(180);

struct Server {
    child: Child,
    page: String,
}

impl Server {
    fn start(arguments: &[&str]) -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_foveate"))
            .args(["serve", "--no-metrics", "--listen", "127.0.0.1:0", "--web", "127.0.0.1:0"])
            .args(["--bots", "16", "--players", "24"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let page = lines.find_map(|line| Some(line.strip_prefix("pages on http://")?.to_owned()));
        let page = page.expect("it says where its pages are").trim_end_matches('/').to_owned();
        // Its later output must be read, too.
        std::thread::spawn(move || lines.for_each(drop));
        Server { child, page }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

struct Operator(WebSocket<TcpStream>);

impl Operator {
    fn connect(page: &str, origin: &str) -> Result<Operator, u16> {
        let mut request = format!("ws://{page}/observe").into_client_request().unwrap();
        request.headers_mut().insert("origin", origin.parse().unwrap());
        let stream = TcpStream::connect(page).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        match tungstenite::client(request, stream) {
            Ok((socket, _)) => Ok(Operator(socket)),
            Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(answer))) => {
                Err(answer.status().as_u16())
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn say(&mut self, message: &Value) {
        self.0.send(Message::text(message.to_string())).unwrap();
    }

    /// The next message of a type that meets a condition.
    fn wait(&mut self, kind: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            let message = self.0.read().unwrap();
            let Ok(value) = serde_json::from_slice::<Value>(&message.into_data()) else { continue };
            if value["type"] == kind && holds(&value) {
                return value;
            }
        }
        panic!("no such `{kind}` within {PATIENCE:?}");
    }
}

fn view(presets: &Value, name: &str) -> Value {
    let all = presets.as_array().unwrap();
    all.iter().find(|preset| preset["name"] == name).unwrap()["view"].clone()
}

#[test]
fn an_operator_sees_the_true_state_and_each_players_and_changes_views() {
    let server = Server::start(&["--observe"]);
    let mut operator = Operator::connect(&server.page, "http://localhost").ok().unwrap();
    let hello = operator.wait("hello", |_| true);
    assert_eq!((&hello["game"], &hello["round_ms"]), (&json!("arena"), &json!(50.0)));
    assert!(hello["schema"].as_str().unwrap().starts_with("avatar:"));
    assert!(!hello["document"]["obstacles"].as_array().unwrap().is_empty());

    let all = |value: &Value| value["players"].as_array().unwrap().len() == 16;
    let players = operator.wait("players", all);
    let first = &players["players"][0];
    operator.say(&json!({ "type": "pick", "player": first["player"] }));
    let told = |value: &Value| value["replicas"].as_array().unwrap().len() > 4;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = operator.wait("observer", told);
        assert_eq!(seen["player"], first["player"]);
        let world = operator.wait("world", |_| true);
        let rows = world["objects"].as_array().unwrap();
        let ids: Vec<&Value> = rows.iter().map(|row| &row[0]).collect();
        assert!(ids.contains(&&first["object"]), "the avatars are among them");
        // A session may have ended between the two messages.
        if seen["replicas"].as_array().unwrap().iter().all(|row| ids.contains(&&row[0])) {
            break;
        }
        assert!(Instant::now() < deadline, "replicas of what there is not");
    }

    let pairs = |figures: &Value| -> u64 {
        let rows = figures["observers"].as_array().unwrap();
        rows.iter().map(|row| row["pairs"].as_u64().unwrap()).sum()
    };
    let look = |operator: &mut Operator, view: Value| {
        operator.say(&json!({ "type": "view", "player": null, "view": view }));
    };
    look(&mut operator, view(&hello["presets"], "broadcast"));
    let ratio = |figures: &Value| figures["broadcast"]["ratio"].as_f64();
    let same = |figures: &Value| ratio(figures).is_some_and(|it| (it - 1.0).abs() < 0.03);
    let all = operator.wait("figures", |figures| same(figures) && pairs(figures) >= 16 * 32);
    assert_eq!(all["broadcast"]["samples"], 3);
    // The map is small: few objects of the normal view are out of sight.
    look(&mut operator, json!({ "policy": "circle", "view": 15.0 }));
    let narrow = |figures: &Value| {
        ratio(figures).is_some_and(|it| it > 2.0) && 2 * pairs(figures) < pairs(&all)
    };
    operator.wait("figures", narrow);
    let figures = operator.wait("figures", |it| it["bounds_kept"].as_f64().unwrap() > 0.9);
    assert_eq!(figures["observers"].as_array().unwrap().len(), 16);
}

#[test]
fn invalid_commands_are_answered_and_change_nothing() {
    let server = Server::start(&["--observe"]);
    let mut operator = Operator::connect(&server.page, "http://127.0.0.1:1").ok().unwrap();
    let hello = operator.wait("hello", |_| true);
    let players =
        operator.wait("players", |value| !value["players"].as_array().unwrap().is_empty());
    let player = players["players"][0]["player"].clone();
    let mut broken = view(&hello["presets"], "normal");
    broken["zones"] = json!([70, 40, null]);
    for (about, order) in [
        ("view", json!({ "type": "view", "player": null, "view": broken })),
        ("view", json!({ "type": "view", "player": 999, "view": null })),
        ("pick", json!({ "type": "pick", "player": 999 })),
        (
            "network",
            json!({ "type": "network", "player": player, "delay_ms": 1e9, "jitter_ms": 0, "loss": 0, "burst": 1 }),
        ),
        ("explode", json!({ "type": "explode" })),
        ("message", json!(["no", "order"])),
    ] {
        operator.say(&order);
        let error = operator.wait("error", |_| true);
        assert_eq!(error["about"], about, "{order}: {error}");
        assert!(!error["text"].as_str().unwrap().is_empty());
    }
    operator.say(&json!({ "type": "pick", "player": player }));
    let seen = operator.wait("observer", |_| true);
    assert_eq!(seen["view"], view(&hello["presets"], "normal"));
    let slow = json!({ "type": "network", "player": player, "delay_ms": 150, "jitter_ms": 0, "loss": 0, "burst": 1 });
    operator.say(&slow);
    let slowed = |value: &Value| {
        let rows = value["observers"].as_array().unwrap();
        rows.iter().any(|row| row["player"] == player && row["rtt_ms"].as_f64() > Some(200.0))
    };
    operator.wait("figures", slowed);
}

#[test]
fn no_operator_observes_unless_allowed() {
    let server = Server::start(&[]);
    assert!(matches!(Operator::connect(&server.page, "http://localhost"), Err(401 | 403 | 404)));
    let server = Server::start(&["--observe"]);
    assert_eq!(Operator::connect(&server.page, "http://evil.example").err(), Some(403));
}
