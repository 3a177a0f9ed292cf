//! Serves `/metrics` and `/healthz` at their own port, in a thread, with the HTTP of browsers' pages.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::MetricsBoard;
use crate::error::Error;
use crate::meter::EndpointCounters;
use crate::web::{Answer, Front, Method, Page, Request, Turn, WebOptions};

/// Requests of one connection to answer before others have their turn.
const MAX_REQUESTS: usize = 16;
/// The longest time until the thread checks for slow connections.
const LONGEST_WAIT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const STALE: &str = "the game has published no metrics lately";

/// The answer for a path of metrics; `None` for other paths.
pub(crate) fn respond(board: &MetricsBoard, path: &str, now: Instant) -> Option<Answer> {
    match path {
        "/metrics" => {
            let text = bytes::Bytes::copy_from_slice(board.text().as_bytes());
            Some(Answer::page(Page::fresh(OPEN_METRICS, text)))
        }
        "/healthz" if board.is_fresh(now) => Some(Answer::text(200, "ok")),
        "/healthz" => Some(Answer::text(503, STALE)),
        "/readyz" if !board.is_fresh(now) => Some(Answer::text(503, STALE)),
        "/readyz" => Some(match board.trouble() {
            None => Answer::text(200, "ready"),
            Some(trouble) => Answer::text(503, &trouble),
        }),
        _ => None,
    }
}

/// Serves `/metrics` and `/healthz` until it is dropped. The limits are those of pages:
/// [`MAX_VISITS`](crate::web::MAX_VISITS) connections, and a time for each request.
pub struct MetricsServer {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens at an address; port 0 takes any free port.
    pub fn start(listen: SocketAddr, board: MetricsBoard) -> Result<MetricsServer, Error> {
        let failed = |cause| Error::Listen { address: listen, cause };
        let mut front = Front::listen(listen, WebOptions::new(|_: &str| None)).map_err(failed)?;
        let (address, stopping) = (front.address, Arc::new(AtomicBool::new(false)));
        let stop = Arc::clone(&stopping);
        let serve = move || {
            while !stop.load(Ordering::Acquire) {
                wait(&front);
                serve(&mut front, &board, Instant::now());
            }
        };
        let thread = std::thread::Builder::new().name("foveate-metrics".into());
        let thread = thread.spawn(serve).map_err(failed)?;
        Ok(MetricsServer { address, stopping, thread: Some(thread) })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // Wakes the thread, which would notice within a second in any case.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        if let Some(thread) = self.thread.take() {
            // The thread's result does not matter, not even a panic.
            let _ = thread.join();
        }
    }
}

/// Waits until a connection can proceed. After an error the thread checks all of them.
fn wait(front: &Front) {
    let listener = front.is_open().then(|| PollFd::new(&front.listener, PollFlags::IN));
    let visits = front.visits.iter().map(|visit| {
        let flags = if visit.is_blocked() { PollFlags::OUT } else { PollFlags::IN };
        PollFd::new(visit.stream(), flags)
    });
    let mut fds: Vec<PollFd<'_>> = listener.into_iter().chain(visits).collect();
    let _ = poll(&mut fds, Some(&LONGEST_WAIT));
}

fn serve(front: &mut Front, board: &MetricsBoard, now: Instant) {
    front.expire(now);
    while front.accept(now, &mut EndpointCounters::default()) {}
    // From the last to the first, since a connection that ends leaves its index to the last one.
    for place in (0..front.visits.len()).rev() {
        for _ in 0..MAX_REQUESTS {
            let visit = &mut front.visits[place];
            match visit.turn(now) {
                Turn::Waits => break,
                Turn::Refused => {}
                Turn::Over => {
                    front.visits.swap_remove(place);
                    break;
                }
                Turn::Asks(request) => {
                    visit.answer(&answer(board, &request, now), Some(&request), now);
                }
            }
        }
    }
}

fn answer(board: &MetricsBoard, request: &Request, now: Instant) -> Answer {
    if request.method == Method::Other {
        return Answer::text(405, "expected GET or HEAD").with("Allow", "GET, HEAD");
    }
    let known = respond(board, &request.path, now);
    known.unwrap_or_else(|| Answer::text(404, "not found; try /metrics, /healthz or /readyz"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::STALE_AFTER;
    use crate::web::MAX_VISITS_PER_ADDRESS;
    use std::io::{Read, Write};

    /// The longest that anything may take, short of a hang.
    const PATIENCE: Duration = Duration::from_secs(120);

    fn start(board: &MetricsBoard) -> MetricsServer {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        MetricsServer::start(here, board.clone()).expect("a free port")
    }

    fn ask(server: &MetricsServer, request: &str) -> String {
        let mut stream = TcpStream::connect(server.address()).expect("listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time above zero");
        // The server may close before all was sent, when it has read enough.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn get(path: &str) -> String {
        format!("GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
    }

    #[test]
    fn metrics_and_health_are_served() {
        let board = MetricsBoard::default();
        let server = start(&board);
        assert!(ask(&server, &get("/healthz")).starts_with("HTTP/1.1 503 "));
        // A time in the future, so that it is not stale however long the next lines take.
        let at = Instant::now() + PATIENCE;
        board.publish("up 1\n# EOF\n".into(), at);
        assert!(ask(&server, &get("/healthz")).ends_with("\r\n\r\nok\n"));
        assert!(ask(&server, &get("/readyz")).ends_with("\r\n\r\nready\n"));
        board.set_trouble(Some("the disk is full"));
        let answer = ask(&server, &get("/readyz"));
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("the disk is full\n"));
        assert!(ask(&server, &get("/healthz")).starts_with("HTTP/1.1 200 "), "it is alive");
        board.publish("up 1\n# EOF\n".into(), at);
        assert!(ask(&server, &get("/readyz")).starts_with("HTTP/1.1 503 "), "until it is over");
        board.set_trouble(None);
        assert!(ask(&server, &get("/readyz")).starts_with("HTTP/1.1 200 "));
        let answer = ask(&server, &get("/metrics?x=1"));
        let (head, body) = answer.split_once("\r\n\r\n").expect("head and body");
        assert_eq!(body, "up 1\n# EOF\n");
        assert!(head.contains("application/openmetrics-text"), "{head}");
        assert!(ask(&server, "HEAD /metrics HTTP/1.0\r\n\r\n").ends_with("\r\n\r\n"));
        assert!(!board.is_fresh(at + STALE_AFTER), "a game that hangs is not healthy");
        for (request, status) in [
            ("hello\r\n\r\n".to_owned(), "400"),
            ("POST /metrics HTTP/1.1\r\nHost: here\r\n\r\n".to_owned(), "405"),
            (get("/../etc"), "404"),
            (format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(9_000)), "431"),
        ] {
            let answer = ask(&server, &request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
        }
    }

    #[test]
    fn silent_connections_take_a_bounded_number_of_places_for_a_bounded_time() {
        let board = MetricsBoard::default();
        board.publish("up 1\n".into(), Instant::now());
        let server = start(&board);
        let silent: Vec<TcpStream> = (0..MAX_VISITS_PER_ADDRESS + 4)
            .map(|_| TcpStream::connect(server.address()).expect("listens"))
            .collect();
        let deadline = Instant::now() + PATIENCE;
        while !ask(&server, &get("/metrics")).ends_with("up 1\n") {
            assert!(Instant::now() < deadline, "places are free again");
            std::thread::sleep(Duration::from_millis(100));
        }
        drop(silent);
    }

    #[test]
    fn a_port_in_use_is_refused_and_a_dropped_server_gives_its_port_back() {
        // Another program may be given the port in between, but not five times.
        let is_given_back = (0..5).any(|_| {
            let server = start(&MetricsBoard::default());
            let address = server.address();
            let second = MetricsServer::start(address, MetricsBoard::default());
            let second = second.err().expect("in use");
            assert!(second.to_string().contains(&address.to_string()), "{second}");
            drop(server);
            MetricsServer::start(address, MetricsBoard::default()).is_ok()
        });
        assert!(is_given_back);
    }
}
