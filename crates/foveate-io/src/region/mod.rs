//! Region servers on real links, with what they share: a bus and a ledger.
//!
//! A [`RegionHost`] runs one [`RegionServer`](foveate_node::region::RegionServer) in the ordinary driver. What the
//! server asks of ledger and bus goes through two traits: [`Ledger`] appends to a subject if its last entry is number
//! n, and hands over the entries of subjects that are followed; [`Bus`] carries messages, which may be lost. Neither
//! call waits: what comes of it is polled, in every slice of a round.
//!
//! Two implementations: [`LocalBus`] and `LocalLedger` (feature `sqlite`) join servers that are threads of one
//! process; `NatsWorld` (feature `nats`) and [`DirectLinks`] join processes on several machines, which prove to each
//! other with a [`WorldKey`] that they belong together.
//!
//! What it refuses to do: it decides nothing by what it reads; it repairs no ledger; it trusts no message and no record
//! that was not made with the world's key.

mod direct;
mod host;
mod local_bus;
#[cfg(feature = "sqlite")]
mod local_ledger;
mod mesh_bus;
#[cfg(feature = "nats")]
mod nats;
mod records;
mod seal;

pub use direct::{DirectLinks, DirectOptions, MAX_DIRECT_LINKS};
pub use host::{MAX_ANSWERS, RegionHost};
pub use local_bus::{LocalBus, LocalBusLink, MAX_BUS_WAITING};
#[cfg(feature = "sqlite")]
pub use local_ledger::{LedgerFile, LocalLedger, LocalLedgerLink, MAX_LEDGER_REPLIES};
pub use mesh_bus::{MAX_SENDERS, MeshBus};
#[cfg(feature = "nats")]
pub use nats::{NatsBus, NatsError, NatsLedger, NatsOptions, NatsWorld};
pub use records::{MAX_PLACES, RecordBook, RecordTrouble};
pub use seal::{WorldKey, WorldKeyError, WorldName, WorldNameError};

use foveate_node::region::bus::Recipient;
use foveate_node::region::layout::{Layout, LayoutError, Rect, RegionId, ServerId, SplitLine};
use foveate_node::region::ledger::{LedgerAnswer, LedgerRequest, Subject};
use foveate_node::server::Keys;
use foveate_node::session::ResumeKey;
use foveate_wire::Micros;

/// Best-effort messages between the servers of a world. Messages may be lost, doubled and overtaken.
pub trait Bus: Send {
    /// Sends a message, or drops and counts it. Never waits.
    fn publish(&mut self, to: Recipient, bytes: &[u8]);

    /// The next message that arrived for this server.
    fn poll(&mut self) -> Option<Vec<u8>>;

    /// What was counted so far.
    fn counts(&self) -> BusCounts;
}

/// What became of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BusCounts {
    /// Handed to the network.
    pub sent: u64,
    /// Taken in.
    pub received: u64,
    /// Not sent, because too many waited or no way led to the recipient.
    pub unsent: u64,
    /// Arrived and dropped, because too many waited.
    pub overflowed: u64,
    /// Not made with the world's key, of another world or of another version.
    pub forged: u64,
    /// Arrived a second time: by another way, or replayed.
    pub repeated: u64,
    /// Servers to which a direct link is open.
    pub links: u64,
}

impl BusCounts {
    /// Both together.
    pub fn plus(self, other: BusCounts) -> BusCounts {
        BusCounts {
            sent: self.sent + other.sent,
            received: self.received + other.received,
            unsent: self.unsent + other.unsent,
            overflowed: self.overflowed + other.overflowed,
            forged: self.forged + other.forged,
            repeated: self.repeated + other.repeated,
            links: self.links + other.links,
        }
    }
}

/// Append-only subjects with compare-and-set.
pub trait Ledger: Send {
    /// Takes a request. An append may stay unanswered, and may have been applied all the same: the server repeats
    /// it. Never waits.
    fn request(&mut self, request: LedgerRequest);

    /// The next answer or entry. Entries of a subject come in order and without gaps, from the first that is kept on.
    fn poll(&mut self) -> Option<LedgerReply>;

    /// How it is doing.
    fn status(&self) -> LedgerStatus;
}

/// What a ledger has to say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LedgerReply {
    /// The answer to the append with this number.
    Answer(u64, LedgerAnswer),
    /// An entry of a subject that is followed, and its number.
    Entry(Subject, u64, Vec<u8>),
}

/// How a ledger is doing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LedgerStatus {
    /// Appends that were applied.
    pub appended: u64,
    /// Appends that were not, because another entry was there.
    pub conflicts: u64,
    /// Appends that failed for another reason, or were not answered in time.
    pub failed: u64,
    /// Entries that are not this world's: without its key, repeated, or of another version. They count for nothing.
    pub refused: u64,
    /// The last of them, and why.
    pub ignored: Option<String>,
    /// How long the last append took.
    pub latency: Micros,
    /// Why appends fail at present.
    pub trouble: Option<String>,
    /// Why this ledger can never be used by this server.
    pub unusable: Option<String>,
}

/// A layout of one region for each server, of about the same area within `extent`, each with the next server as
/// its standby. Their first servers put the game's first objects into them.
pub fn even_layout(
    schema: u64,
    round: Micros,
    extent: Rect,
    servers: &[ServerId],
) -> Result<Layout, LayoutError> {
    let first = servers.first().copied().unwrap_or_default();
    let mut layout = Layout::new(schema, round, first);
    cut(&mut layout, RegionId(0), extent, servers)?;
    let next = |server: ServerId| {
        let at = servers.iter().position(|it| *it == server)?;
        servers.get((at + 1) % servers.len()).copied().filter(|it| *it != server)
    };
    let regions: Vec<RegionId> = layout.regions().map(|(id, _)| id).collect();
    for region in regions {
        if let Some(info) = layout.get_mut(region) {
            info.standby = next(info.server);
        }
    }
    Ok(layout)
}

/// Divides a region, which the first of the servers runs, among all of them: across its longer side.
fn cut(
    layout: &mut Layout,
    region: RegionId,
    area: Rect,
    servers: &[ServerId],
) -> Result<(), LayoutError> {
    if servers.len() < 2 {
        return Ok(());
    }
    let (low, high) = servers.split_at(servers.len().div_ceil(2));
    let side = |axis: usize| area.max[axis] - area.min[axis];
    let axis = usize::from(side(1) > side(0));
    let at = area.min[axis] + side(axis) * low.len() as f32 / servers.len() as f32;
    let other = layout.split(region, SplitLine { axis: axis as u8, at }, high[0], true)?;
    let (mut below, mut above) = (area, area);
    (below.max[axis], above.min[axis]) = (at, at);
    cut(layout, region, below, low)?;
    cut(layout, other, above, high)
}

/// Session keys and tickets from the system's randomness, for
/// [`RegionServer::with_players`](foveate_node::region::RegionServer::with_players).
pub fn session_keys() -> Keys {
    Box::new(|| ResumeKey(crate::host::secret()))
}

/// A subject as text, for names in databases and brokers.
pub(crate) fn subject_text(subject: Subject) -> String {
    match subject {
        Subject::Layout => "layout".to_owned(),
        Subject::Server(server) => format!("server.{}", server.0),
        Subject::Log(region) => format!("log.{}", region.0),
        Subject::Player(player) => format!("player.{player}"),
    }
}

/// The subject that a text names.
#[cfg(any(test, feature = "sqlite", feature = "nats"))]
pub(crate) fn parse_subject(text: &str) -> Option<Subject> {
    let subject = match text.split_once('.') {
        None if text == "layout" => Subject::Layout,
        Some(("server", number)) => Subject::Server(ServerId(number.parse().ok()?)),
        Some(("log", number)) => Subject::Log(RegionId(number.parse().ok()?)),
        Some(("player", number)) => Subject::Player(number.parse().ok()?),
        _ => return None,
    };
    // One text for a subject: `log.07` would be another one to a broker.
    (subject_text(subject) == text).then_some(subject)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_layout_gives_each_server_the_same_area() {
        let extent = Rect { min: [-50.0; 2], max: [50.0; 2] };
        for count in 1..=9u32 {
            let servers: Vec<ServerId> = (1..=count).map(ServerId).collect();
            let layout = even_layout(7, Micros(50_000), extent, &servers).expect("it has area");
            assert_eq!(layout.regions().count(), count as usize);
            for (region, rect) in layout.leaves() {
                let rect = rect.clamped(&extent);
                let area = (rect.max[0] - rect.min[0]) * (rect.max[1] - rect.min[1]);
                assert!((area * count as f32 - 10_000.0).abs() < 10.0, "{count}: {area}");
                let info = layout.get(region).expect("it is a leaf");
                assert_ne!(info.standby, Some(info.server));
                assert_eq!(info.standby.is_some(), count > 1);
            }
        }
    }

    #[test]
    fn a_subject_has_one_text() {
        for subject in [
            Subject::Layout,
            Subject::Server(ServerId(7)),
            Subject::Log(RegionId(u32::MAX)),
            Subject::Player(3),
        ] {
            assert_eq!(parse_subject(&subject_text(subject)), Some(subject));
        }
        for text in ["", "log", "log.", "log.x", "log.07", "log.-1", "server.1.2", "layout.1"] {
            assert_eq!(parse_subject(text), None, "{text}");
        }
    }
}
