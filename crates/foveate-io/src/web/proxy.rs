//! Trusted proxies before the web listener, and the client addresses that they state.
//!
//! A proxy that the operator trusts states the client's address: by the header of PROXY protocol version 2 before the
//! first request, or by `X-Forwarded-For` in each request. Addresses stated by others are ignored. `Forwarded` (RFC
//! 7239) is ignored from any sender, since proxies pass on what clients write there.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use crate::error::Error;

/// The first bytes of a header of PROXY protocol version 2.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Its fixed part: signature, version and command, family, length.
const HEAD: usize = 16;
/// Most bytes of addresses and extensions.
const MAX_REST: usize = 1_024;

/// An address, or a network such as `10.0.0.0/8`.
///
/// ```
/// use foveate_io::web::AddressRange;
/// let range: AddressRange = "10.0.0.0/8".parse()?;
/// assert!(range.contains("10.1.2.3".parse().unwrap()));
/// assert!(!range.contains("11.1.2.3".parse().unwrap()));
/// # Ok::<(), foveate_io::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressRange {
    address: IpAddr,
    bits: u32,
}

impl AddressRange {
    /// Whether the address is in the range. IPv4 addresses in IPv6 form count as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let same = |one: u128, other: u128, width: u32| {
            (one ^ other).checked_shr(width - self.bits).unwrap_or(0) == 0
        };
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(one), IpAddr::V4(other)) => {
                same(u128::from(one.to_bits()), u128::from(other.to_bits()), 32)
            }
            (IpAddr::V6(one), IpAddr::V6(other)) => same(one.to_bits(), other.to_bits(), 128),
            _ => false,
        }
    }
}

impl FromStr for AddressRange {
    type Err = Error;

    fn from_str(text: &str) -> Result<AddressRange, Error> {
        let read = || {
            let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
            let address = address.parse::<IpAddr>().ok()?.to_canonical();
            let width = if address.is_ipv4() { 32 } else { 128 };
            let bits = bits.map_or(Some(width), |bits| bits.parse().ok())?;
            (bits <= width).then_some(AddressRange { address, bits })
        };
        read().ok_or_else(|| Error::Option {
            name: "trusted proxy",
            what: format!("{text:?} is not an address or a network such as 10.0.0.0/8"),
        })
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// The start of a trusted proxy's connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Preamble {
    /// Incomplete.
    Partial,
    /// There is no header of the PROXY protocol: requests follow.
    None,
    /// A header, with the client that it states and its length; `None` if the proxy speaks for itself.
    Header(Option<SocketAddr>, usize),
    /// An invalid header.
    Malformed,
}

/// Reads the header of PROXY protocol version 2, if there is one.
pub(crate) fn read_preamble(bytes: &[u8]) -> Preamble {
    let common = bytes.len().min(SIGNATURE.len());
    if bytes[..common] != SIGNATURE[..common] {
        return Preamble::None;
    }
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else { return Preamble::Partial };
    let length = usize::from(u16::from_be_bytes([head[14], head[15]]));
    if length > MAX_REST {
        return Preamble::Malformed;
    }
    let Some(rest) = rest.get(..length) else { return Preamble::Partial };
    let client = match (head[12], head[13]) {
        // The proxy's own connection, a health check.
        (0x20, _) => Some(None),
        (0x21, 0x11) => client::<4>(rest).map(|(ip, port)| Some((Ipv4Addr::from(ip), port).into())),
        (0x21, 0x21) => {
            client::<16>(rest).map(|(ip, port)| Some((Ipv6Addr::from(ip), port).into()))
        }
        _ => None,
    };
    client.map_or(Preamble::Malformed, |client| Preamble::Header(client, HEAD + length))
}

/// Source address and port in a block of two addresses and two ports.
fn client<const N: usize>(block: &[u8]) -> Option<([u8; N], u16)> {
    let (source, rest) = block.split_first_chunk::<N>()?;
    let (port, _) = rest.get(N..)?.split_first_chunk::<2>()?;
    rest.get(N..N + 4)?;
    Some((*source, u16::from_be_bytes(*port)))
}

/// The client that a trusted proxy's `X-Forwarded-For` states: the last address that is no trusted proxy's, since the
/// ones before were written by that client.
pub(crate) fn forwarded(value: &str, trusted: &[AddressRange]) -> Option<IpAddr> {
    for entry in value.rsplit(',') {
        let entry = entry.trim();
        let bare = entry.parse::<SocketAddr>().map(|address| address.ip());
        let address = bare.or_else(|_| entry.trim_matches(['[', ']']).parse()).ok()?;
        if !trusted.iter().any(|range| range.contains(address)) {
            return Some(address);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(texts: &[&str]) -> Vec<AddressRange> {
        texts.iter().map(|text| text.parse().expect(text)).collect()
    }

    #[test]
    fn ranges_contain_their_addresses_and_no_others() {
        for (range, inside, outside) in [
            ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
            ("10.0.0.0/8", "::ffff:10.9.9.9", "11.0.0.0"),
            ("0.0.0.0/0", "255.1.1.1", "::1"),
            ("2001:db8::/32", "2001:db8:1::1", "2001:db9::1"),
            ("::1", "::1", "127.0.0.1"),
        ] {
            let range: AddressRange = range.parse().expect(range);
            assert!(range.contains(inside.parse().expect(inside)), "{range} {inside}");
            assert!(!range.contains(outside.parse().expect(outside)), "{range} {outside}");
        }
        for wrong in ["", "proxy", "10.0.0.0/33", "10.0.0.0/", "::/129", "10.0.0.0:80"] {
            assert!(wrong.parse::<AddressRange>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_last_address_that_is_no_proxy_is_the_client() {
        let trusted = ranges(&["10.0.0.0/8"]);
        for (value, client) in [
            ("203.0.113.7", Some("203.0.113.7")),
            ("1.2.3.4, 203.0.113.7", Some("203.0.113.7")),
            ("1.2.3.4, 203.0.113.7, 10.0.0.2", Some("203.0.113.7")),
            ("203.0.113.7:4711", Some("203.0.113.7")),
            ("[2001:db8::7]:4711, 10.0.0.2", Some("2001:db8::7")),
            ("2001:db8::7", Some("2001:db8::7")),
            ("10.0.0.2", None),
            ("203.0.113.7, unknown", None),
            ("", None),
        ] {
            let client = client.map(|text| text.parse().expect(text));
            assert_eq!(forwarded(value, &trusted), client, "{value:?}");
        }
    }

    #[test]
    fn a_preamble_is_read_when_it_is_complete() {
        let mut header = SIGNATURE.to_vec();
        header.extend([0x21, 0x11, 0, 15, 203, 0, 113, 7, 10, 0, 0, 1, 0x12, 0x67, 0, 80, 4, 0, 0]);
        for end in 0..header.len() {
            assert_eq!(read_preamble(&header[..end]), Preamble::Partial, "{end}");
        }
        let client = SocketAddr::from(([203, 0, 113, 7], 4_711));
        let size = header.len();
        header.extend(b"GET / HTTP/1.1\r\n");
        assert_eq!(read_preamble(&header), Preamble::Header(Some(client), size));
        header[12] = 0x20;
        assert_eq!(read_preamble(&header), Preamble::Header(None, size));
        for (at, wrong) in [(12, 0x31), (13, 0x12), (14, 0xff), (15, 11)] {
            let mut broken = header.clone();
            (broken[12], broken[at]) = (0x21, wrong);
            broken[at] = wrong;
            assert_eq!(read_preamble(&broken), Preamble::Malformed, "{at}");
        }
        assert_eq!(read_preamble(b"GET / HTTP/1.1\r\n"), Preamble::None);
    }
}
