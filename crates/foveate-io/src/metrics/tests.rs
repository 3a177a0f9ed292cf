use super::*;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Only a hang takes this long.
const PATIENCE: Duration = Duration::from_secs(120);

fn start(board: &Board) -> MetricsServer {
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    MetricsServer::start(here, board.clone()).expect("a free port")
}

fn ask(server: &MetricsServer, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address()).expect("listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time above zero");
    // A server that has heard enough may close before everything was said.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn example() -> Registry {
    let mut registry = Registry::default();
    let dropped = registry.counter("foveate_dropped_total", "Dropped, by why.", &[("why", "rate")]);
    let clients = registry.gauge("foveate_clients", "Clients.", &[]);
    let odd = [("why", "a \"quoted\"\\\nline")];
    let other = registry.counter("foveate_dropped_total", "Dropped, by why.", &odd);
    let tick = registry.histogram("foveate_tick_seconds", "A tick.", &[], &[0.01, 0.05]);
    registry.add(dropped, 2);
    registry.raise(other, 5);
    registry.raise(other, 4);
    registry.set(clients, 1.5);
    [0.001, 0.01, 0.02, 7.0, f64::NAN].iter().for_each(|time| registry.observe(tick, *time));
    registry
}

#[test]
fn the_text_is_what_prometheus_reads() {
    let expected = "\
# HELP foveate_dropped_total Dropped, by why.
# TYPE foveate_dropped_total counter
foveate_dropped_total{why=\"rate\"} 2
foveate_dropped_total{why=\"a \\\"quoted\\\"\\\\\\nline\"} 5
# HELP foveate_clients Clients.
# TYPE foveate_clients gauge
foveate_clients 1.5
# HELP foveate_tick_seconds A tick.
# TYPE foveate_tick_seconds histogram
foveate_tick_seconds_bucket{le=\"0.01\"} 2
foveate_tick_seconds_bucket{le=\"0.05\"} 3
foveate_tick_seconds_bucket{le=\"+Inf\"} 4
foveate_tick_seconds_sum 7.031
foveate_tick_seconds_count 4
";
    assert_eq!(example().render(), expected);
}

#[test]
fn names_are_cleaned_and_have_one_type() {
    let mut registry = Registry::default();
    let first = registry.counter("2 odd-names", "Line\nbreak.", &[("a-b", "c")]);
    assert_eq!(registry.counter("2 odd-names", "", &[("a-b", "c")]), first);
    let wrong = registry.gauge("2 odd-names", "", &[]);
    registry.set(wrong, 9.0);
    assert!(registry.render().contains("_2_odd_names{a_b=\"c\"} 0\n"));
    assert_eq!(registry.render().lines().count(), 3);
}

#[test]
fn series_have_a_limit() {
    let mut registry = Registry::default();
    for n in 0..MAX_SERIES + 10 {
        let counter = registry.counter("n", "", &[("n", &n.to_string())]);
        registry.add(counter, 1);
    }
    assert_eq!(registry.render().lines().count(), MAX_SERIES + 2);
}

#[test]
fn metrics_and_health_are_served() {
    let board = Board::default();
    let server = start(&board);
    assert!(ask(&server, b"GET /healthz HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503 "));
    let text = example().render();
    // As of later: however long the next lines take, it is not out of date.
    let at = Instant::now() + PATIENCE;
    board.publish(text.clone(), at);
    assert!(ask(&server, b"GET /healthz HTTP/1.1\r\n\r\n").ends_with("\r\n\r\nok\n"));
    let answer = ask(&server, b"GET /metrics?x=1 HTTP/1.1\r\nHost: here\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").expect("head and body");
    assert_eq!(body, text);
    assert!(head.contains(&format!("Content-Length: {}", text.len())), "{head}");
    assert!(head.contains("version=0.0.4"), "{head}");
    assert!(ask(&server, b"HEAD /metrics HTTP/1.0\r\n\r\n").ends_with("\r\n\r\n"));
    assert!(!board.is_fresh(at + STALE_AFTER), "a game that hangs is not healthy");
}

#[test]
fn malformed_requests_get_a_refusal_and_do_no_harm() {
    let board = Board::default();
    board.publish("up 1\n".into(), Instant::now());
    let server = start(&board);
    let long = [b"GET /".to_vec(), vec![b'a'; 3 * MAX_HEAD]].concat();
    let headers = [b"GET /metrics HTTP/1.1\r\n".to_vec(), b"A: b\r\n".repeat(5_000)].concat();
    for (request, status) in [
        (&b"\r\n\r\n"[..], "400"),
        (b"hello\r\n\r\n", "400"),
        (b"GET /metrics\r\n\r\n", "400"),
        (b"GET  /metrics HTTP/1.1\r\n\r\n", "400"),
        (b"GET /metrics HTTP/2\r\n\r\n", "400"),
        (b"\xff\xfe\x00 \x00 HTTP/1.1\n\n", "405"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
        (b"GET /../etc HTTP/1.1\r\n\r\n", "404"),
        (b"\x16\x03\x01\x02\x00\x01\n\n", "400"),
        (&long, "431"),
        (&headers, "431"),
    ] {
        let answer = ask(&server, request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {answer}");
    }
    assert!(ask(&server, b"GET /metrics HTTP/1.1\r\n\r\n").ends_with("up 1\n"));
}

#[test]
fn silent_connections_take_a_bounded_number_of_places_for_a_bounded_time() {
    let board = Board::default();
    board.publish("up 1\n".into(), Instant::now());
    let server = start(&board);
    let silent: Vec<TcpStream> = (0..MAX_CONNECTIONS + 4)
        .map(|_| TcpStream::connect(server.address()).expect("listens"))
        .collect();
    let refused = ask(&server, b"GET /metrics HTTP/1.1\r\n\r\n");
    assert!(refused.is_empty() || refused.starts_with("HTTP/1.1 503 "), "{refused}");
    let deadline = Instant::now() + PATIENCE;
    while !ask(&server, b"GET /metrics HTTP/1.1\r\n\r\n").ends_with("up 1\n") {
        assert!(Instant::now() < deadline, "places are free again");
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(silent);
}

#[test]
fn a_port_in_use_is_refused_and_a_dropped_server_gives_its_port_back() {
    // Another program may be given the port in between, but not five times.
    let is_given_back = (0..5).any(|_| {
        let server = start(&Board::default());
        let address = server.address();
        let second = MetricsServer::start(address, Board::default()).err().expect("in use");
        assert!(second.to_string().contains(&address.to_string()), "{second}");
        drop(server);
        MetricsServer::start(address, Board::default()).is_ok()
    });
    assert!(is_given_back);
}
