//! Options of the web listener: its pages, origins that may connect, operators that may observe.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use bytes::Bytes;

use super::proxy::AddressRange;
use crate::error::Error;
use crate::metrics::MetricsBoard;

/// Length of an operator's token.
pub const TOKEN_LENGTH: std::ops::RangeInclusive<usize> = 16..=128;

/// How a server serves pages and accepts their links.
///
/// ```
/// use foveate_io::web::{Page, WebOptions};
/// let web = WebOptions::new(|path: &str| match path {
///     "/" => Some(Page::fresh("text/html", "<h1>Hello</h1>")),
///     _ => None,
/// });
/// assert!(web.origins.is_empty());
/// ```
pub struct WebOptions {
    /// Answers GET requests.
    pub pages: Box<dyn Pages>,
    /// Origins of pages that may connect, besides the server's own, such as `https://play.example.org`; `:8081` for the
    /// same host at another port, such as another region server's; `*` for any. A server that listens only on loopback
    /// accepts every page of this machine.
    pub origins: Vec<String>,
    /// Proxies that state their clients' addresses, by PROXY protocol version 2 or `X-Forwarded-For`. Limits then apply
    /// to the clients. Addresses stated by others are ignored.
    pub trusted_proxies: Vec<AddressRange>,
    /// Which operators may connect to `/observe`.
    pub observe: Observe,
    /// Contents of `/metrics`, `/healthz` and `/readyz`; without it those paths do not exist.
    pub metrics: Option<MetricsBoard>,
}

impl WebOptions {
    /// Pages only, without operators and metrics.
    pub fn new(pages: impl Pages) -> WebOptions {
        WebOptions {
            pages: Box::new(pages),
            origins: Vec::new(),
            trusted_proxies: Vec::new(),
            observe: Observe::Off,
            metrics: None,
        }
    }
}

impl fmt::Debug for WebOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WebOptions { origins, observe, .. } = self;
        f.debug_struct("WebOptions").field("origins", origins).field("observe", observe).finish()
    }
}

/// Looks up pages by path. It need not be a folder, so no path can leave it.
pub trait Pages: Send + Sync + 'static {
    /// The page at this path, which begins with a slash and has no query.
    fn page(&self, path: &str) -> Option<Page>;
}

impl<F: Fn(&str) -> Option<Page> + Send + Sync + 'static> Pages for F {
    fn page(&self, path: &str) -> Option<Page> {
        self(path)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// Such as `text/html; charset=utf-8`.
    pub content_type: Cow<'static, str>,
    /// The content, which may be shared.
    pub bytes: Bytes,
    /// Whether it never changes under this path, because the name contains a hash.
    pub forever: bool,
}

impl Page {
    /// A page that browsers request every time.
    pub fn fresh(content_type: impl Into<Cow<'static, str>>, bytes: impl Into<Bytes>) -> Page {
        Page { content_type: content_type.into(), bytes: bytes.into(), forever: false }
    }

    /// A page that browsers may keep for ever.
    pub fn forever(content_type: impl Into<Cow<'static, str>>, bytes: impl Into<Bytes>) -> Page {
        Page { forever: true, ..Page::fresh(content_type, bytes) }
    }
}

/// Which operators may connect to `/observe`. An operator sees everything.
#[derive(Clone, Debug, Default)]
pub enum Observe {
    /// None.
    #[default]
    Off,
    /// Operators on this machine. Behind a proxy, state it in [`WebOptions::trusted_proxies`]: otherwise all
    /// connections come from this machine.
    Loopback,
    /// Operators with the token.
    Token(OperatorToken),
}

/// An operator's token, stored as its SHA-256 and compared in constant time.
#[derive(Clone)]
pub struct OperatorToken([u8; 32]);

impl OperatorToken {
    /// Makes a token of letters, digits and `-._~`, [`TOKEN_LENGTH`] of them, so that it fits a URL.
    pub fn new(secret: &str) -> Result<OperatorToken, Error> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if !TOKEN_LENGTH.contains(&secret.len()) || !secret.bytes().all(fits) {
            let (least, most) = (TOKEN_LENGTH.start(), TOKEN_LENGTH.end());
            let what = format!("expected {least} to {most} letters, digits or -._~");
            return Err(Error::Option { name: "operator token", what });
        }
        Ok(OperatorToken(hash(secret)))
    }

    pub(crate) fn is(&self, offered: &str) -> bool {
        let pairs = self.0.iter().zip(hash(offered));
        pairs.fold(0, |differ, (here, there)| differ | (here ^ there)) == 0
    }
}

fn hash(text: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    hash.copy_from_slice(digest.as_ref());
    hash
}

impl fmt::Debug for OperatorToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OperatorToken(…)")
    }
}

/// Origins of pages that may connect.
///
/// A browser states the page's origin, which a page cannot forge. Programs can, but they have no other site's cookies:
/// those that state no origin are accepted.
#[derive(Clone, Debug)]
pub(crate) struct Origins {
    pub(crate) listed: Vec<String>,
    /// Whether the server listens on loopback only.
    pub(crate) loopback: bool,
}

impl Origins {
    /// Whether pages of this origin may connect. `own` is the page's own host, with the port if it is not the default.
    pub(crate) fn allow(&self, origin: Option<&str>, own: &str) -> bool {
        let Some(origin) = origin else { return true };
        if self.listed.iter().any(|listed| listed == "*" || listed.eq_ignore_ascii_case(origin)) {
            return true;
        }
        let Some((scheme, authority)) = origin.split_once("://") else { return false };
        let usual = match scheme {
            "http" => "80",
            "https" => "443",
            _ => return false,
        };
        let (host, port) = split(authority);
        if self.loopback {
            return is_loopback(host);
        }
        let (own_host, own_port) = split(own);
        let port = port.unwrap_or(usual);
        let is_sibling = self.listed.iter().any(|listed| listed.strip_prefix(':') == Some(port));
        !own_host.is_empty()
            && host.eq_ignore_ascii_case(own_host)
            && (is_sibling || port == own_port.unwrap_or(usual))
    }
}

/// Host and port of an authority; an IPv6 address keeps its brackets.
pub(crate) fn split(authority: &str) -> (&str, Option<&str>) {
    let end = authority.rfind(']').map_or(0, |at| at + 1);
    match authority[end..].split_once(':') {
        Some((rest, port)) => (&authority[..end + rest.len()], Some(port)),
        None => (authority, None),
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_loopback_every_page_of_this_machine_may_connect_and_no_other() {
        let origins = Origins { listed: Vec::new(), loopback: true };
        for (origin, fits) in [
            ("http://localhost:5173", true),
            ("http://127.0.0.1:8080", true),
            ("http://[::1]:8080", true),
            ("http://evil.example", false),
            ("http://localhost.evil.example", false),
            ("null", false),
            ("file://", false),
            ("", false),
        ] {
            // A name that resolves to this machine is still no page of it.
            assert_eq!(origins.allow(Some(origin), "evil.example"), fits, "{origin}");
        }
        assert!(origins.allow(None, "127.0.0.1:8080"));
    }

    #[test]
    fn on_the_network_the_own_page_and_those_listed_may_connect() {
        let listed = vec!["https://play.example.org".to_owned()];
        let origins = Origins { listed, loopback: false };
        for (origin, own, fits) in [
            ("http://game.example:8080", "game.example:8080", true),
            ("http://game.example:8081", "game.example:8080", false),
            ("https://game.example", "game.example", true),
            ("https://game.example", "game.example:443", true),
            ("http://[2001:db8::1]:8080", "[2001:db8::1]:8080", true),
            ("https://PLAY.example.org", "game.example", true),
            ("http://play.example.org", "game.example", false),
            ("http://localhost:8080", "game.example:8080", false),
            ("http://", "", false),
        ] {
            assert_eq!(origins.allow(Some(origin), own), fits, "{origin} at {own}");
        }
        // Region servers on one machine: a page of one connects to all.
        let siblings = Origins { listed: vec![":8081".into()], loopback: false };
        for (origin, fits) in [
            ("http://game.example:8080", true),
            ("http://game.example:8081", true),
            ("http://game.example:8082", false),
            ("http://evil.example:8081", false),
        ] {
            assert_eq!(siblings.allow(Some(origin), "game.example:8080"), fits, "{origin}");
        }
        let any = Origins { listed: vec!["*".into()], loopback: false };
        assert!(any.allow(Some("null"), "x"));
    }

    #[test]
    fn only_the_same_token_is_accepted() {
        let token = OperatorToken::new("0123456789abcdef").expect("16 letters");
        assert!(token.is("0123456789abcdef"));
        for wrong in ["", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeF"] {
            assert!(!token.is(wrong), "{wrong}");
        }
        assert_eq!(format!("{token:?}"), "OperatorToken(…)");
        assert!(OperatorToken::new("short").is_err());
        assert!(OperatorToken::new("0123456789abcdef&x=1").is_err());
    }
}
