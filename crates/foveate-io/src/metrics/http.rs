//! As much HTTP as a scraper needs: one request, one answer, close.

use super::Board;
use crate::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of a request's line and headers at most.
pub const MAX_HEAD: usize = 8 * 1024;
/// Connections at once; further ones are told to come back.
pub const MAX_CONNECTIONS: usize = 8;
/// A request must be complete, and its answer be taken, within this time each.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a refused request that are read before the connection is closed: closing on unread
/// bytes would make the system throw the answer away.
const MAX_DRAINED: usize = 64 * 1024;
/// After a failed `accept` (too many open files) the next is tried so much later.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves `/metrics` and `/healthz` from a thread of its own until it is dropped.
pub struct MetricsServer {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens; port 0 takes any.
    pub fn start(listen: SocketAddr, board: Board) -> Result<MetricsServer, Error> {
        let failed = |cause| Error::Listen { address: listen, cause };
        let listener = TcpListener::bind(listen).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopping);
        let thread = std::thread::Builder::new()
            .name("foveate-metrics".into())
            .spawn(move || accept(&listener, &board, &stop))
            .map_err(failed)?;
        Ok(MetricsServer { address, stopping, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // Wakes the thread. If even that fails, it is left to the end of the process.
        let woken = TcpStream::connect_timeout(&self.address, Duration::from_secs(1)).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            // It has nothing to say, not even by a panic.
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, board: &Board, stopping: &AtomicBool) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let accepted = listener.accept();
        if stopping.load(Ordering::Acquire) {
            return;
        }
        let Ok((mut stream, _)) = accepted else {
            std::thread::sleep(ACCEPT_PAUSE);
            continue;
        };
        // Only this thread adds, so that the limit cannot be passed between look and addition.
        if open.load(Ordering::Acquire) >= MAX_CONNECTIONS {
            let _ = stream.set_nonblocking(true);
            // Whoever does not take it at once has no claim to more.
            let _ = stream.write_all(&answer(503, "too many connections\n", true));
            continue;
        }
        open.fetch_add(1, Ordering::AcqRel);
        let (board, guard) = (board.clone(), Open(Arc::clone(&open)));
        let serve = move || {
            serve(&mut stream, &board);
            drop(guard);
        };
        // Without a thread the connection is closed, and its place is free again.
        let _ = std::thread::Builder::new().name("foveate-metrics".into()).spawn(serve);
    }
}

/// A connection's place; free again however its thread ends.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn serve(stream: &mut TcpStream, board: &Board) {
    let deadline = Instant::now() + PATIENCE;
    let bytes = match read_head(stream, deadline) {
        Ok(Some(head)) => respond(&head, board, Instant::now()),
        Ok(None) => answer(431, "the request is too long\n", true),
        // Gone or too slow: there is nobody to answer.
        Err(_) => return,
    };
    // An answer that is not taken is the asker's loss.
    let _ = stream.set_write_timeout(Some(PATIENCE));
    if stream.write_all(&bytes).is_ok() && stream.shutdown(std::net::Shutdown::Write).is_ok() {
        drain(stream, deadline);
    }
}

/// Line and headers; `None` if they are too long.
fn read_head(stream: &mut TcpStream, deadline: Instant) -> std::io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !ends(&head) {
        if head.len() >= MAX_HEAD {
            return Ok(None);
        }
        let most = piece.len().min(MAX_HEAD - head.len());
        match read(stream, &mut piece[..most], deadline)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => head.extend_from_slice(&piece[..count]),
        }
    }
    Ok(Some(head))
}

fn ends(head: &[u8]) -> bool {
    head.windows(4).any(|end| end == b"\r\n\r\n") || head.windows(2).any(|end| end == b"\n\n")
}

/// Reads with what is left of the time: a byte now and then keeps nobody here.
fn read(stream: &mut TcpStream, into: &mut [u8], deadline: Instant) -> std::io::Result<usize> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    stream.set_read_timeout(Some(left))?;
    stream.read(into)
}

fn drain(stream: &mut TcpStream, deadline: Instant) {
    let mut piece = [0; 1024];
    let mut drained = 0;
    while drained < MAX_DRAINED {
        match read(stream, &mut piece, deadline) {
            Ok(0) | Err(_) => return,
            Ok(count) => drained += count,
        }
    }
}

fn respond(head: &[u8], board: &Board, now: Instant) -> Vec<u8> {
    let line = head.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let [method, target, version] = words.as_slice() else {
        return answer(400, "expected a request such as GET /metrics\n", true);
    };
    if !version.starts_with(b"HTTP/1.") {
        return answer(400, "expected HTTP/1.0 or HTTP/1.1\n", true);
    }
    let body = match *method {
        b"GET" => true,
        b"HEAD" => false,
        _ => return answer(405, "expected GET or HEAD\n", true),
    };
    match target.split(|byte| *byte == b'?').next() {
        Some(b"/metrics") => answer(200, &board.text(), body),
        Some(b"/healthz") if board.is_fresh(now) => answer(200, "ok\n", body),
        Some(b"/healthz") => answer(503, "the game has not reported lately\n", body),
        _ => answer(404, "there are /metrics and /healthz\n", body),
    }
}

fn answer(status: u16, text: &str, body: bool) -> Vec<u8> {
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        _ => "Service Unavailable",
    };
    let allow = if status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\n{allow}Connection: close\r\n\r\n",
        text.len()
    );
    let text = if body { text } else { "" };
    [head.as_bytes(), text.as_bytes()].concat()
}
