//! A peer's addresses, as bytes that peers pass on: for each address 4 or 6 for its family, the address, and the port,
//! most significant byte first.

use std::net::{IpAddr, SocketAddr};

use foveate_node::peer::wire::MAX_CONTACT;

/// Writes the addresses, leaving out those that do not fit.
pub fn write(addresses: &[SocketAddr]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for address in addresses {
        let (family, ip) = match address.ip() {
            IpAddr::V4(v4) => (4, v4.octets().to_vec()),
            IpAddr::V6(v6) => (6, v6.octets().to_vec()),
        };
        if bytes.len() + ip.len() + 3 <= MAX_CONTACT {
            bytes.push(family);
            bytes.extend(ip);
            bytes.extend(address.port().to_be_bytes());
        }
    }
    bytes
}

/// Reads addresses; `None` for any bytes that [`write()`] does not make.
pub fn read(mut bytes: &[u8]) -> Option<Vec<SocketAddr>> {
    let mut addresses = Vec::new();
    while let Some((family, rest)) = bytes.split_first() {
        let (ip, rest) = match family {
            4 => rest.split_first_chunk::<4>().map(|(ip, rest)| (IpAddr::from(*ip), rest))?,
            6 => rest.split_first_chunk::<16>().map(|(ip, rest)| (IpAddr::from(*ip), rest))?,
            _ => return None,
        };
        let (port, rest) = rest.split_first_chunk::<2>()?;
        addresses.push(SocketAddr::new(ip, u16::from_be_bytes(*port)));
        bytes = rest;
    }
    Some(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_back() {
        let both = ["192.0.2.1:4000", "[2001:db8::7]:65535"].map(|text| text.parse());
        let both = both.map(|address: Result<SocketAddr, _>| address.expect("an address"));
        assert_eq!(read(&write(&both)), Some(both.to_vec()));
        assert_eq!(read(&write(&[])), Some(Vec::new()));
        let many = vec![both[1]; 20];
        assert_eq!(read(&write(&many)), Some(many[..MAX_CONTACT / 19].to_vec()));
    }

    #[test]
    fn other_bytes_are_rejected() {
        let good = write(&["192.0.2.1:4000".parse().expect("an address")]);
        for cut in 1..good.len() {
            assert_eq!(read(&good[..cut]), None, "{cut}");
        }
        assert_eq!(read(&[5, 0, 0, 0, 0, 0, 0]), None);
    }
}
