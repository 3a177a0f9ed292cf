//! A server's address as people write it: a host and a port.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use rustls::pki_types::ServerName;

/// Most addresses of one host that are tried.
const MAX_HOST_ADDRESSES: usize = 16;

/// A host and a port: `play.example.org:4433`, `127.0.0.1:4433` or `[::1]:4433`.
///
/// The server's certificate must be for this host, unless its hash is pinned.
///
/// ```
/// use foveate_io::ServerAddress;
///
/// let server: ServerAddress = "[::1]:4433".parse()?;
/// assert_eq!((server.host(), server.port()), ("::1", 4433));
/// assert!("play.example.org".parse::<ServerAddress>().is_err(), "the port is missing");
/// # Ok::<(), foveate_io::ServerAddressError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServerAddress {
    host: String,
    port: u16,
}

/// A text is not a [`ServerAddress`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "server address {given:?}: {what}; expected HOST:PORT, such as play.example.org:4433 or [::1]:4433"
)]
pub struct ServerAddressError {
    pub given: String,
    /// What is wrong with it.
    pub what: &'static str,
}

impl ServerAddress {
    /// The host's name or IP address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The UDP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The socket address, if the host is an IP address.
    pub fn literal(&self) -> Option<SocketAddr> {
        self.host.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, self.port))
    }

    /// The host's addresses of both families in the system's order of preference, each once.
    ///
    /// For a name this asks the system's resolver and **blocks** until it answers. An error is a message that says why
    /// there is no address.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, String> {
        if let Some(literal) = self.literal() {
            return Ok(vec![literal]);
        }
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let mut addresses = Vec::new();
        for address in found.map_err(|cause| cause.to_string())? {
            if addresses.len() < MAX_HOST_ADDRESSES && !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        match addresses.is_empty() {
            true => Err("the host has no address".into()),
            false => Ok(addresses),
        }
    }
}

impl FromStr for ServerAddress {
    type Err = ServerAddressError;

    fn from_str(text: &str) -> Result<ServerAddress, ServerAddressError> {
        let refuse = |what| ServerAddressError { given: text.to_owned(), what };
        let (host, port) = text.rsplit_once(':').ok_or_else(|| refuse("no port"))?;
        let port = port.parse().ok().filter(|port| *port > 0);
        let port = port.ok_or_else(|| refuse("the port is not a number from 1 to 65535"))?;
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_v6 = |host: &str| matches!(host.parse(), Ok(IpAddr::V6(_)));
        let host = match inner {
            Some(inner) if is_v6(inner) => inner,
            Some(_) => return Err(refuse("no IPv6 address in the brackets")),
            None if host.contains(':') => return Err(refuse("an IPv6 address needs brackets")),
            None => host,
        };
        match ServerName::try_from(host) {
            Ok(_) => Ok(ServerAddress { host: host.to_owned(), port }),
            Err(_) => Err(refuse("the host is neither a DNS name nor an IP address")),
        }
    }
}

impl From<SocketAddr> for ServerAddress {
    fn from(address: SocketAddr) -> ServerAddress {
        ServerAddress { host: address.ip().to_string(), port: address.port() }
    }
}

impl From<&ServerAddress> for ServerAddress {
    fn from(address: &ServerAddress) -> ServerAddress {
        address.clone()
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_of_both_families_are_read_and_written_alike() {
        for text in ["play.example.org:4433", "[::1]:4433", "127.0.0.1:1", "localhost:65535"] {
            let server: ServerAddress = text.parse().expect(text);
            assert_eq!(server.to_string(), text);
        }
        let server: ServerAddress = "[2001:db8::1]:9".parse().expect("a literal");
        assert_eq!(server.host(), "2001:db8::1");
        assert_eq!(server.resolve(), Ok(vec!["[2001:db8::1]:9".parse().expect("an address")]));
    }

    #[test]
    fn invalid_addresses_are_rejected_with_the_text_and_a_hint() {
        for (text, why) in [
            ("play.example.org", "no port"),
            ("::1:4433", "needs brackets"),
            ("[play.example.org]:4433", "brackets"),
            ("host:0", "1 to 65535"),
            ("host:70000", "1 to 65535"),
            (":4433", "neither"),
            ("a b:4433", "neither"),
        ] {
            let said = text.parse::<ServerAddress>().expect_err(text).to_string();
            assert!(said.contains(why) && said.contains("HOST:PORT"), "{text}: {said}");
        }
    }

    #[test]
    fn a_name_that_cannot_exist_is_not_resolved() {
        // RFC 6761: names below `.invalid` never resolve.
        let server: ServerAddress = "nowhere.invalid:4433".parse().expect("a name");
        assert!(server.resolve().is_err());
    }
}
