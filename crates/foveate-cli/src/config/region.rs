//! `[region]`: a region server's world.

use super::raw;
use super::{Checker, ConfigError, said};
use foveate_io::ServerAddress;
use foveate_io::region::WorldName;
use foveate_node::session::{MAX_ADDRESS, MAX_ADDRESSES, ServerContact};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The world that a region server belongs to, and how it reaches the others.
#[derive(Clone, PartialEq, Debug)]
pub struct RegionConfig {
    /// The URL of the broker.
    pub nats: String,
    /// The file with the broker's credentials.
    pub credentials: Option<PathBuf>,
    pub world: String,
    /// The file with the world's key.
    pub key_file: Option<PathBuf>,
    /// The address for other servers.
    pub link: Option<SocketAddr>,
    /// The address that they are told, if it is another.
    pub advertise: Option<SocketAddr>,
    /// Addresses that clients are told, if they are not those that the server listens on.
    pub contact: Vec<String>,
    /// Whether regions never change, whatever the load.
    pub fixed: bool,
    /// Copies of the ledger in a cluster of brokers.
    pub replicas: u32,
    /// Most bytes of the ledger; 0 for no limit.
    pub ledger_bytes: u32,
}

impl Checker<'_> {
    pub(super) fn region(&self, raw: &raw::Region) -> Result<RegionConfig, ConfigError> {
        let text = |value: &raw::SpannedOption<String>, default: &str| {
            value.as_ref().map_or(default.to_owned(), |value| value.get_ref().clone())
        };
        if let Some(world) = &raw.world {
            let parsed: Result<WorldName, _> = world.get_ref().parse();
            parsed.map_err(|why| self.wrong(Some(world.span()), format!("region.world: {why}")))?;
        }
        let file = |key: &str, value: &raw::SpannedOption<String>| {
            value.as_ref().map(|value| self.file(key, value)).transpose()
        };
        let address = |key: &str, value: &raw::SpannedOption<String>| {
            let given = value.is_some().then(|| self.value(key, value, "127.0.0.1:4434"));
            given.transpose()
        };
        let replicas = self.number("region.replicas", &raw.replicas, 1, 1..=5)?;
        let most = i64::from(u32::MAX);
        let bytes = self.number("region.ledger_bytes", &raw.ledger_bytes, 0, 0..=most)?;
        Ok(RegionConfig {
            nats: text(&raw.nats, "nats://127.0.0.1:4222"),
            credentials: file("region.credentials", &raw.credentials)?,
            world: text(&raw.world, "main"),
            key_file: file("region.key_file", &raw.key_file)?,
            link: address("region.link", &raw.link)?,
            advertise: address("region.advertise", &raw.advertise)?,
            contact: self.contact(&raw.contact)?,
            fixed: said(&raw.fixed).unwrap_or(false),
            replicas: replicas as u32,
            ledger_bytes: bytes as u32,
        })
    }

    fn contact(&self, value: &raw::SpannedOption<Vec<String>>) -> Result<Vec<String>, ConfigError> {
        let Some(value) = value else { return Ok(Vec::new()) };
        check_contact(value.get_ref()).map_err(|why| self.wrong(Some(value.span()), why))?;
        Ok(value.get_ref().clone())
    }
}

/// Whether clients can be told these addresses.
pub fn check_contact(addresses: &[String]) -> Result<(), String> {
    let contact = ServerContact { addresses: addresses.to_vec(), certificate: Vec::new() };
    let reads = |text: &String| {
        let socket = text.strip_prefix("ws://").or(text.strip_prefix("wss://"));
        socket.is_some_and(|host| !host.is_empty()) || text.parse::<ServerAddress>().is_ok()
    };
    match addresses.iter().find(|text| !reads(text)) {
        Some(text) => Err(format!(
            "region.contact: expected HOST:PORT, ws://HOST:PORT or wss://HOST, found {text:?}"
        )),
        None if !contact.is_valid() => Err(format!(
            "region.contact: expected 1 to {MAX_ADDRESSES} addresses of up to {MAX_ADDRESS} bytes"
        )),
        None => Ok(()),
    }
}
