//! Pages.

use foveate_io::metrics::MetricsBoard;
use foveate_io::web::{
    MAX_HEAD, MAX_HTTP_PER_TURN, MAX_VISITS, MAX_VISITS_PER_ADDRESS, WebOptions,
};
use std::time::Instant;

use crate::harness::{PATIENCE, Server, options, pages};

fn server() -> Server {
    Server::start(WebOptions::new(pages), options())
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
}

#[test]
fn pages_are_answered_by_path() {
    let mut server = server();
    let answer = server.ask(&get("/?from=somewhere"));
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\r\nContent-Type: text/html\r\n"), "{answer}");
    assert!(answer.contains("\r\nCache-Control: no-cache\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n<h1>Hello</h1>"), "{answer}");
    let large = server.ask(&get("/app-1234.js"));
    assert!(large.contains("immutable") && large.ends_with("xxx"));
    assert!(large.len() > 3_000_000, "{} bytes", large.len());
    for path in ["/nothing", "/../Cargo.toml", "/%2e%2e/etc/passwd", "/metrics", "/healthz"] {
        assert!(server.ask(&get(path)).starts_with("HTTP/1.1 404 "), "{path}");
    }
    assert_eq!(server.endpoint.counters().http_requests, 7);
    assert_eq!(server.endpoint.counters().http_refused, 5);
}

#[test]
fn a_head_has_no_body_and_other_methods_are_refused() {
    let mut server = server();
    let head = server.ask("HEAD / HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert!(head.contains("Content-Length: 14\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    let posted = server.ask("POST / HTTP/1.1\r\n\r\n");
    assert!(posted.starts_with("HTTP/1.1 405 ") && posted.contains("Allow: GET, HEAD\r\n"));
    let body = server.ask("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
    assert!(body.starts_with("HTTP/1.1 400 "), "{body}");
}

#[test]
fn many_requests_travel_on_one_connection() {
    let mut server = server();
    let mut client = server.visit();
    client.send("GET / HTTP/1.1\r\n\r\n".repeat(40).as_bytes());
    server.until("forty answers", |_| {
        client.read();
        String::from_utf8_lossy(&client.received).matches("<h1>Hello</h1>").count() == 40
    });
    assert!(!client.ended);
}

#[test]
fn a_page_is_told_how_to_connect() {
    let mut server = server();
    let answer = server.ask(&get("/connect.json"));
    let port = server.endpoint.address().expect("bound").port();
    let hash = server.endpoint.certificate_hash().expect("a server");
    let expected = format!(
        "{{\"webtransport\":{{\"port\":{port},\"host\":\"127.0.0.1\",\"hash\":\"{hash}\"}},\
         \"websocket\":true}}\n"
    );
    assert!(answer.ends_with(&expected), "{answer}");
    let other =
        server.ask(&get("/connect.json").replace("Host", "Origin: http://localhost:5173\r\nHost"));
    assert!(other.contains("Access-Control-Allow-Origin: http://localhost:5173\r\n"), "{other}");
    let evil =
        server.ask(&get("/connect.json").replace("Host", "Origin: http://evil.example\r\nHost"));
    assert!(!evil.contains("Access-Control"), "{evil}");
}

#[test]
fn metrics_are_served_if_given() {
    let board = MetricsBoard::default();
    let mut server = Server::start(
        WebOptions { metrics: Some(board.clone()), ..WebOptions::new(pages) },
        options(),
    );
    assert!(server.ask(&get("/healthz")).starts_with("HTTP/1.1 503 "));
    // A time in the future, so that it is not stale however long the next lines take.
    board.publish("foveate_players 3\n".into(), Instant::now() + PATIENCE);
    assert!(server.ask(&get("/healthz")).ends_with("\r\n\r\nok\n"));
    assert!(server.ask(&get("/metrics")).ends_with("\r\n\r\nfoveate_players 3\n"));
}

#[test]
fn heads_that_are_too_long_or_no_http_are_refused() {
    let mut server = server();
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(MAX_HEAD));
    assert!(server.ask(&long).starts_with("HTTP/1.1 431 "));
    assert!(server.ask("\x16\x03\x01\x02\x00\x01\r\n\r\n").starts_with("HTTP/1.1 400 "));
    assert_eq!(server.endpoint.counters().http_refused, 2);
}

#[test]
fn one_address_has_only_so_many_visits() {
    let mut server = server();
    let mut waiting: Vec<_> = (0..MAX_VISITS_PER_ADDRESS).map(|_| server.visit()).collect();
    server.step();
    let refused = server.ask(&get("/"));
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert_eq!(server.endpoint.counters().http_full, 1);
    // The first clients are served. They send requests at once, since silent ones are closed.
    waiting.iter_mut().for_each(|client| client.send(get("/").as_bytes()));
    for client in &mut waiting {
        server.until("an answer", |_| {
            client.read();
            client.ended
        });
        assert!(client.received.ends_with(b"<h1>Hello</h1>"));
    }
    drop(waiting);
    let deadline = Instant::now() + PATIENCE;
    while !server.ask(&get("/")).starts_with("HTTP/1.1 200 ") {
        // Their places are free once the server has noticed.
        assert!(Instant::now() < deadline, "their places stay taken");
        server.step();
    }
}

#[test]
fn random_bytes_do_no_harm() {
    let mut server = server();
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..200 {
        let mut client = server.visit();
        let bytes: Vec<u8> = (0..random.usize(1..500)).map(|_| random.u8(..)).collect();
        client.send(&bytes);
        server.step();
    }
    assert!(server.ask(&get("/")).starts_with("HTTP/1.1 200 "));
    assert_eq!(server.endpoint.links(), 0);
}

#[test]
fn half_requests_from_a_few_addresses_do_not_lock_out_others() {
    let mut server = server();
    let mut half = Vec::new();
    for last in 2..6 {
        for _ in 0..MAX_VISITS_PER_ADDRESS {
            let mut client = server.visit_from([127, 0, 0, last]);
            client.send(b"GET / HTTP/1.1\r\n");
            half.push(client);
        }
        server.step();
    }
    assert_eq!(half.len(), MAX_VISITS, "all places are taken");
    assert!(server.ask(&get("/")).starts_with("HTTP/1.1 200 "));
    let counters = server.endpoint.counters();
    assert_eq!((counters.http_idle, counters.http_full), (1, 0));
}

#[test]
fn pipelined_requests_take_a_bounded_part_of_each_turn_of_the_loop() {
    let mut server = server();
    let mut greedy: Vec<_> = (0..30).map(|_| server.visit()).collect();
    server.step();
    let request = "GET /app-1234.js HTTP/1.1\r\n\r\n".repeat(20);
    greedy.iter_mut().for_each(|client| client.send(request.as_bytes()));
    let mut polite = server.visit_from([127, 0, 0, 2]);
    polite.send(get("/").as_bytes());
    let (mut turns, mut total) = (0, 0);
    while !polite.ended {
        assert!(turns < 1_000, "the polite visitor waits for the others");
        // One turn of the loop, since the time is in the past.
        server.endpoint.wait(Instant::now(), &mut Vec::new()).expect("the sockets work");
        let mut came = 0;
        for client in greedy.iter_mut().chain([&mut polite]) {
            client.read();
            came += client.received.len();
            client.received.clear();
        }
        // The last piece for each address may exceed it.
        assert!(came <= MAX_HTTP_PER_TURN + 2 * 64 * 1024, "{came} bytes in one turn");
        (turns, total) = (turns + 1, total + came);
    }
    assert!(total > 0);
}
