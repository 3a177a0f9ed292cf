//! Links within one process: no sockets, no certificates, no loss. For tests of hosts, and for games whose server runs
//! in the player's process.
//!
//! ```
//! use foveate_io::memory::MemoryNetwork;
//! use foveate_io::{LinkEndpoint, LinkEvent};
//! use std::time::Instant;
//!
//! let network = MemoryNetwork::default();
//! let mut server = network.listen("10.0.0.1:4433".parse()?);
//! let mut client = network.listen("10.0.0.2:1".parse()?);
//! let link = client.connect("10.0.0.1:4433".parse()?)?;
//! client.send_message(link, b"hello")?;
//! let mut events = Vec::new();
//! server.wait(Instant::now(), &mut events)?;
//! assert!(matches!(&events[1], LinkEvent::Message { bytes, .. } if bytes == "hello"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use foveate_wire::{Bytes, Micros};

use crate::error::Error;
use crate::event::{CloseCode, LinkEvent, Reason, Unreachable};
use crate::link_endpoint::{DialAddress, LinkEndpoint};
use crate::slots::LinkId;

/// Most links that a network ever has.
pub const MAX_MEMORY_LINKS: usize = 65_536;
/// Events that may wait at one endpoint; beyond that, datagrams are dropped and messages refused.
pub const MAX_MEMORY_EVENTS: usize = 65_536;

/// A network in memory. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryNetwork(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    inboxes: BTreeMap<SocketAddr, VecDeque<LinkEvent>>,
    /// The two ends of each link by its index; `None` for closed links.
    wires: Vec<Option<[SocketAddr; 2]>>,
}

/// An address of a [`MemoryNetwork`]. Its links close when it is dropped.
pub struct MemoryEndpoint {
    network: MemoryNetwork,
    address: SocketAddr,
}

impl MemoryNetwork {
    /// Makes an endpoint at this address, replacing an earlier one.
    pub fn listen(&self, address: SocketAddr) -> MemoryEndpoint {
        self.lock().inboxes.insert(address, VecDeque::new());
        MemoryEndpoint { network: self.clone(), address }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The other end of a link that is open at `here`.
    fn other(&self, link: LinkId, here: SocketAddr) -> Option<SocketAddr> {
        let [one, two] = (*self.wires.get(link.index())?)?;
        (one == here).then_some(two).or((two == here).then_some(one))
    }

    fn report(&mut self, to: SocketAddr, event: LinkEvent) {
        if let Some(inbox) = self.inboxes.get_mut(&to) {
            inbox.push_back(event);
        }
    }

    /// Whether the inbox at an address has room.
    fn has_room(&self, at: SocketAddr) -> bool {
        self.inboxes.get(&at).is_some_and(|inbox| inbox.len() < MAX_MEMORY_EVENTS)
    }

    fn close(&mut self, link: LinkId, here: SocketAddr, code: CloseCode, reason: &str) {
        let Some(there) = self.other(link, here) else { return };
        self.wires[link.index()] = None;
        let reason = reason.to_owned();
        self.report(there, LinkEvent::closed_by_peer(link, code, &reason));
        self.report(here, LinkEvent::Closed { link, reason: Reason::Here { code, reason } });
    }
}

impl MemoryEndpoint {
    /// Connects to the endpoint at an address; if there is none, [`LinkEvent::Closed`] follows.
    pub fn connect(&mut self, address: SocketAddr) -> Result<LinkId, Error> {
        let (mut state, here) = (self.network.lock(), self.address);
        if state.wires.len() >= MAX_MEMORY_LINKS {
            return Err(Error::Full { limit: MAX_MEMORY_LINKS as u32 });
        }
        let link = LinkId { index: state.wires.len() as u32, generation: 1 };
        if address == here || !state.has_room(address) {
            state.wires.push(None);
            let reason = Reason::Unreachable(Unreachable::Port);
            state.report(here, LinkEvent::Closed { link, reason });
            return Ok(link);
        }
        state.wires.push(Some([here, address]));
        for (at, from) in [(here, address), (address, here)] {
            state.report(at, LinkEvent::anonymous(link, Some(from)));
        }
        self.network.0.1.notify_all();
        Ok(link)
    }

    fn send(&mut self, link: LinkId, event: LinkEvent) -> Result<(), Error> {
        let mut state = self.network.lock();
        let there = state.other(link, self.address).ok_or(Error::Closed)?;
        if !state.has_room(there) {
            let limit = Bytes(MAX_MEMORY_EVENTS as u32);
            return Err(Error::BacklogFull { waiting: limit, limit });
        }
        state.report(there, event);
        self.network.0.1.notify_all();
        Ok(())
    }
}

impl LinkEndpoint for MemoryEndpoint {
    fn wait(&mut self, until: Instant, events: &mut Vec<LinkEvent>) -> Result<(), Error> {
        let (mut state, arrived) = (self.network.lock(), &self.network.0.1);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let inbox = state.inboxes.get_mut(&self.address);
            match inbox.filter(|inbox| !inbox.is_empty()) {
                Some(inbox) => events.extend(inbox.drain(..)),
                None if left.is_zero() => {}
                None => {
                    let waited = arrived.wait_timeout(state, left);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                    continue;
                }
            }
            return Ok(());
        }
    }

    fn send_datagram(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), Error> {
        self.send(link, LinkEvent::datagram(link, bytes))
    }

    fn send_message(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.send(link, LinkEvent::message(link, bytes))
    }

    fn close(&mut self, link: LinkId, code: CloseCode, reason: &str) {
        self.network.lock().close(link, self.address, code, reason);
        self.network.0.1.notify_all();
    }

    /// Everything was delivered when it was sent, so the links close at once.
    fn shutdown(&mut self, _: Micros, events: &mut Vec<LinkEvent>) -> Result<usize, Error> {
        let mut state = self.network.lock();
        for index in 0..state.wires.len() as u32 {
            let link = LinkId { index, generation: 1 };
            state.close(link, self.address, CloseCode::SHUTDOWN, "shutting down");
        }
        events.extend(state.inboxes.remove(&self.address).into_iter().flatten());
        self.network.0.1.notify_all();
        Ok(0)
    }
}

impl DialAddress for MemoryEndpoint {
    fn connect(&mut self, address: SocketAddr, _: &str) -> Result<LinkId, Error> {
        MemoryEndpoint::connect(self, address)
    }
}

impl Drop for MemoryEndpoint {
    fn drop(&mut self) {
        // This cannot fail, and events have no receiver any more.
        self.shutdown(Micros::ZERO, &mut Vec::new()).unwrap_or(0);
    }
}
