//! The part of HTTP/1.1 that a page needs, without IO: request heads in, answer heads out.

use std::fmt::Write;

use bytes::Bytes;

use super::options::Page;

/// Most bytes of a request line with its headers.
pub const MAX_HEAD: usize = 8 * 1024;
/// Most headers of a request.
const MAX_HEADERS: usize = 64;

/// The content security policy: scripts, styles and data of this server, and connections to any, since sessions may
/// move to other servers of a world. Pages of other sites may not show ours in a frame, where they could trick a player
/// into clicking.
const CONTENT_POLICY: &str = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; \
    style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; \
    worker-src 'self' blob:; connect-src * data: blob:; object-src 'none'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'self'";
/// Headers of which there must be only one: with two, a proxy may have used the other.
const SINGLE: [&str; 8] = [
    "content-length",
    "transfer-encoding",
    "host",
    "origin",
    "authorization",
    "upgrade",
    "sec-websocket-key",
    "sec-websocket-version",
];

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) host: Option<String>,
    pub(crate) origin: Option<String>,
    pub(crate) authorization: Option<String>,
    /// All values of `X-Forwarded-For`, in order.
    pub(crate) forwarded: Option<String>,
    /// The key of a WebSocket upgrade.
    pub(crate) socket_key: Option<String>,
    /// Whether more requests may follow on the same connection.
    pub(crate) stays: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Method {
    Get,
    Head,
    Other,
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    /// Further headers.
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
}

impl Answer {
    /// An answer with a line of text.
    pub(crate) fn text(status: u16, text: &str) -> Answer {
        Answer {
            status,
            content_type: "text/plain; charset=utf-8".into(),
            headers: vec![("Cache-Control", "no-store".into())],
            body: format!("{text}\n").into(),
        }
    }

    /// An answer with a page, which browsers keep for ever or never.
    pub(crate) fn page(page: Page) -> Answer {
        let keep = if page.forever { "public, max-age=31536000, immutable" } else { "no-cache" };
        Answer {
            status: 200,
            content_type: page.content_type.into_owned(),
            headers: vec![("Cache-Control", keep.into())],
            body: page.bytes,
        }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Answer {
        self.headers.push((name, value.into()));
        self
    }

    /// The head as bytes. The body follows, unless only the head was requested.
    pub(crate) fn head(&self, stays: bool) -> Bytes {
        let connection = if stays { "keep-alive" } else { "close" };
        let mut head = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n\
             X-Content-Type-Options: nosniff\r\nContent-Security-Policy: {CONTENT_POLICY}\r\n\
             Referrer-Policy: no-referrer\r\nConnection: {connection}\r\n",
            self.status,
            reason(self.status),
            self.content_type,
            self.body.len(),
        );
        for (name, value) in &self.headers {
            // Writing to memory does not fail.
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head.push_str("\r\n");
        head.into()
    }
}

/// The head that switches a connection to WebSocket.
pub(crate) fn switching(key: &str) -> Bytes {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {}\r\n\r\n",
        accept_key(key)
    )
    .into()
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        426 => "Upgrade Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        _ => "Service Unavailable",
    }
}

/// Reads a request head, and returns its length. `None` if it is incomplete. An error is the answer to send; nothing
/// more can be read from this connection then.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Request, usize)>, Answer> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Request::new(&mut headers);
    let used = match head.parse(bytes) {
        Ok(httparse::Status::Complete(used)) if used <= MAX_HEAD => used,
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => {
            return Err(Answer::text(431, "the request is too long"));
        }
        Err(cause) => return Err(Answer::text(400, &format!("not a request: {cause}"))),
    };
    let target = head.path.unwrap_or("/");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if !target.starts_with('/') {
        return Err(Answer::text(400, "expected a path that begins with a slash"));
    }
    let count = |name: &str| {
        head.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name)).count()
    };
    if let Some(name) = SINGLE.into_iter().find(|name| count(name) > 1) {
        return Err(Answer::text(400, &format!("{name} is stated more than once")));
    }
    let find = |name: &str| find(head.headers, name);
    let has = |name: &str, token: &str| find(name).is_some_and(|value| lists(&value, token));
    if count("transfer-encoding") > 0 || find("content-length").is_some_and(|n| n != "0") {
        return Err(Answer::text(400, "a request with a body is not expected here"));
    }
    let upgrades = has("connection", "upgrade")
        && has("upgrade", "websocket")
        && find("sec-websocket-version").as_deref() == Some("13");
    let request = Request {
        method: match head.method {
            Some("GET") => Method::Get,
            Some("HEAD") => Method::Head,
            _ => Method::Other,
        },
        path: path.to_owned(),
        query: query.to_owned(),
        host: find("host"),
        origin: find("origin"),
        authorization: find("authorization"),
        forwarded: join(head.headers, "x-forwarded-for"),
        socket_key: find("sec-websocket-key").filter(|key| upgrades && key.len() == 24),
        stays: head.version == Some(1) && !has("connection", "close"),
    };
    Ok(Some((request, used)))
}

fn find(headers: &[httparse::Header<'_>], name: &str) -> Option<String> {
    let found = headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
    Some(String::from_utf8_lossy(found.value).trim().to_owned())
}

/// The values of all headers of this name, joined by commas.
fn join(headers: &[httparse::Header<'_>], name: &str) -> Option<String> {
    let found = headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
    let values: Vec<_> = found.map(|header| String::from_utf8_lossy(header.value)).collect();
    (!values.is_empty()).then(|| values.join(","))
}

/// Whether a comma-separated list has this word.
fn lists(value: &str, word: &str) -> bool {
    value.split(',').any(|item| item.trim().eq_ignore_ascii_case(word))
}

/// Proves to a browser that a WebSocket server read its key (RFC 6455, 4.2.2).
fn accept_key(key: &str) -> String {
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let hash = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    base64(hash.as_ref())
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
        let word = word << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let value = word >> (18 - 6 * digit) & 63;
            text.push(if digit <= chunk.len() { DIGITS[value as usize] as char } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Request {
        parse(text.as_bytes()).expect("well-formed").expect("complete").0
    }

    #[test]
    fn a_request_is_read_when_all_of_it_is_there() {
        let text = "GET /a/b?x=1&y HTTP/1.1\r\nHost: here:80\r\nORIGIN: http://here\r\n\r\nrest";
        for end in 0..text.len() - 4 {
            assert_eq!(parse(&text.as_bytes()[..end]), Ok(None), "{end}");
        }
        let (request, used) = parse(text.as_bytes()).expect("fine").expect("whole");
        assert_eq!(&text[used..], "rest");
        assert_eq!((request.method, request.path.as_str()), (Method::Get, "/a/b"));
        assert_eq!((request.query.as_str(), request.stays), ("x=1&y", true));
        assert_eq!(request.origin.as_deref(), Some("http://here"));
        assert_eq!(request.socket_key, None);
    }

    #[test]
    fn an_upgrade_needs_all_its_headers() {
        let head = "GET /play HTTP/1.1\r\nConnection: keep-alive, Upgrade\r\n\
                    Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let with = format!("{head}Sec-WebSocket-Version: 13\r\n\r\n");
        assert_eq!(request(&with).socket_key.as_deref(), Some("dGhlIHNhbXBsZSBub25jZQ=="));
        assert_eq!(request(&format!("{head}\r\n")).socket_key, None);
        let accept = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";
        let answer = switching("dGhlIHNhbXBsZSBub25jZQ==");
        assert!(String::from_utf8_lossy(&answer).contains(accept), "the example of RFC 6455");
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_its_reason() {
        let status = |text: &str| parse(text.as_bytes()).expect_err(text).status;
        assert_eq!(status("\x16\x03\x01 hello"), 400);
        assert_eq!(status("GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"), 400);
        assert_eq!(status("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
        assert_eq!(status(&format!("GET /{} HTTP/1.1\r\n", "a".repeat(MAX_HEAD))), 431);
        assert_eq!(status(&format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(99))), 431);
    }

    #[test]
    fn heads_that_two_readers_could_read_differently_are_rejected() {
        for headers in [
            "Content-Length: 0\r\nContent-Length: 5",
            "Content-Length: 0\r\ncontent-length: 0",
            "Content-Length: 00",
            "Content-Length: +0",
            "Transfer-Encoding: gzip",
            "Host: a\r\nHost: b",
            "Origin: http://a\r\nOrigin: http://b",
            "Authorization: Bearer a\r\nAuthorization: Bearer b",
            "Host : a",
            "Host: a\r\n folded",
        ] {
            let text = format!("GET / HTTP/1.1\r\n{headers}\r\n\r\n");
            assert_eq!(parse(text.as_bytes()).expect_err(&text).status, 400, "{headers}");
        }
        for target in ["*", "http://here/", "here:80"] {
            let text = format!("GET {target} HTTP/1.1\r\n\r\n");
            assert_eq!(parse(text.as_bytes()).expect_err(&text).status, 400, "{target}");
        }
        assert_eq!(request("GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n").path, "/");
    }

    #[test]
    fn no_page_may_be_framed_by_another_site() {
        let head = Answer::text(200, "ok").head(true);
        let head = String::from_utf8_lossy(&head);
        assert!(head.contains("\r\nContent-Security-Policy: default-src 'self';"), "{head}");
        assert!(head.contains("frame-ancestors 'self'\r\n"), "{head}");
        assert!(head.contains("; connect-src * "), "sessions move to other servers: {head}");
    }

    #[test]
    fn random_heads_never_panic() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..20_000 {
            let mut bytes = b"GET / HTTP/1.1\r\nHost: a\r\nOrigin: b\r\n\r\n".to_vec();
            for _ in 0..random.usize(0..8) {
                let at = random.usize(0..bytes.len());
                bytes[at] = random.u8(..);
            }
            bytes.truncate(random.usize(0..=bytes.len()));
            if let Ok(Some((_, used))) = parse(&bytes) {
                assert!(used <= bytes.len());
            }
        }
    }
}
