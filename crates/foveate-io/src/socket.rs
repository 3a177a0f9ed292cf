//! UDP sockets that are read and written in batches: one, or at a client one of each address family.

use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;

use crate::error::Error;
use crate::event::Unreachable;

/// Buffer size requested from the system for each direction; it may give less.
pub const SOCKET_BUFFER: usize = 4 * 1024 * 1024;

/// Largest packet that can be received.
const MAX_UDP: usize = 1_500;

/// Packets sent with one system call.
pub(crate) const BATCH: usize = 64;

/// System calls in one `receive`, so that a flood cannot keep the loop from its other work.
const MAX_RECEIVES: usize = 64;

/// Network errors that are read in one turn.
const MAX_ERRORS: usize = 64;

/// The sockets of an endpoint.
pub(crate) struct Sockets {
    first: Socket,
    /// The socket of the other address family, opened when a client first needs it.
    second: Option<Socket>,
    /// Addresses that the network reports as unreachable.
    unreachable: BTreeMap<SocketAddr, Unreachable>,
}

impl Sockets {
    /// A server's socket. It ignores network errors, since any sender's address may be in them.
    pub(crate) fn listen(address: SocketAddr) -> Result<Sockets, Error> {
        Ok(Sockets::of(Socket::bind(address, false)?))
    }

    /// A client's socket.
    pub(crate) fn from_anywhere(address: SocketAddr) -> Result<Sockets, Error> {
        Ok(Sockets::of(Socket::bind(address, true)?))
    }

    fn of(first: Socket) -> Sockets {
        Sockets { first, second: None, unreachable: BTreeMap::new() }
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.first.address()
    }

    /// Ensures that a client has a socket for addresses of this family.
    pub(crate) fn open_for(&mut self, to: SocketAddr) -> Result<(), Error> {
        let bound = self.first.address()?;
        if bound.is_ipv4() == to.is_ipv4() || self.second.is_some() {
            return Ok(());
        }
        let ip: IpAddr = match (to, bound.ip().is_loopback()) {
            (SocketAddr::V4(_), true) => Ipv4Addr::LOCALHOST.into(),
            (SocketAddr::V4(_), false) => Ipv4Addr::UNSPECIFIED.into(),
            (SocketAddr::V6(_), true) => Ipv6Addr::LOCALHOST.into(),
            (SocketAddr::V6(_), false) => Ipv6Addr::UNSPECIFIED.into(),
        };
        self.second = Some(Socket::bind((ip, 0).into(), true)?);
        Ok(())
    }

    /// Sleeps until packets have arrived, a descriptor in `others` is ready, or the time is over; false in the last
    /// case.
    pub(crate) fn wait<'a>(
        &'a self,
        span: Duration,
        mut others: Vec<PollFd<'a>>,
    ) -> io::Result<bool> {
        let mut alone = [PollFd::new(&self.first.socket, PollFlags::IN)];
        let asked = match (&self.second, others.is_empty()) {
            (None, true) => &mut alone[..],
            (second, _) => {
                let second = second.iter();
                others.extend(second.map(|second| PollFd::new(&second.socket, PollFlags::IN)));
                others.extend(alone);
                &mut others[..]
            }
        };
        let span = Timespec::try_from(span).unwrap_or(Timespec { tv_sec: 3_600, tv_nsec: 0 });
        match poll(asked, Some(&span)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(cause) => Err(cause.into()),
        }
    }

    /// Passes packets that have arrived to `take`, as many as fit a turn.
    pub(crate) fn receive(&mut self, mut take: impl FnMut(Arrived<'_>)) -> io::Result<()> {
        let Sockets { first, second, unreachable } = self;
        for socket in [Some(first), second.as_mut()].into_iter().flatten() {
            socket.read_errors(unreachable);
            socket.receive(&mut take)?;
        }
        Ok(())
    }

    /// Sends the batch and empties it. Returns how many packets the system did not accept.
    pub(crate) fn send(&mut self, batch: &mut Batch) -> u64 {
        let Sockets { first, second, unreachable } = self;
        let unsent = match second {
            None => first.send(&batch.bytes, &batch.targets, unreachable),
            Some(second) => {
                let v4_first = first.address().is_ok_and(|bound| bound.is_ipv4());
                batch.targets.sort_by_key(|target| target.address.is_ipv4() != v4_first);
                let own = |target: &Target| target.address.is_ipv4() == v4_first;
                let (ours, others) = batch.targets.split_at(batch.targets.partition_point(own));
                first.send(&batch.bytes, ours, unreachable)
                    + second.send(&batch.bytes, others, unreachable)
            }
        };
        batch.clear();
        unsent
    }

    /// Takes an address that packets cannot reach; each is returned once.
    pub(crate) fn take_unreachable(&mut self) -> Option<(SocketAddr, Unreachable)> {
        self.unreachable.pop_first()
    }
}

struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    /// Buffers for one batch, each large enough for what the kernel may coalesce.
    room: Vec<u8>,
    part: usize,
    /// Bound to the unspecified address, so that a server's answers must state the source address.
    wildcard: bool,
    /// A client's socket, for which network errors are read.
    hears_errors: bool,
}

/// A received packet.
pub(crate) struct Arrived<'a> {
    pub(crate) from: SocketAddr,
    pub(crate) to: Option<IpAddr>,
    pub(crate) ecn: Option<quinn_proto::EcnCodepoint>,
    pub(crate) bytes: &'a [u8],
}

impl Socket {
    fn bind(address: SocketAddr, client: bool) -> Result<Socket, Error> {
        Self::open(address, client).map_err(|cause| Error::Bind { address, cause })
    }

    fn open(address: SocketAddr, client: bool) -> io::Result<Socket> {
        let socket = UdpSocket::bind(address)?;
        let buffers = SockRef::from(&socket);
        buffers.set_recv_buffer_size(SOCKET_BUFFER)?;
        buffers.set_send_buffer_size(SOCKET_BUFFER)?;
        let state = UdpSocketState::new((&socket).into())?;
        let part = MAX_UDP * state.gro_segments().max(1);
        if client {
            state.enable_transport_errors((&socket).into())?;
        }
        let wildcard = address.ip().is_unspecified() && !client;
        let room = vec![0; part * BATCH_SIZE];
        Ok(Socket { socket, state, room, part, wildcard, hears_errors: client })
    }

    fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Reads network errors about sent packets, with the address that each was for. The errno that the system returns
    /// belongs to the next error to be read; errors of other kinds, such as packets that are too large for a path, are
    /// left to QUIC.
    #[cfg(target_os = "linux")]
    fn read_errors(&self, unreachable: &mut BTreeMap<SocketAddr, Unreachable>) {
        use rustix::net::{RecvAncillaryBuffer, RecvFlags, recvmsg};

        if !self.hears_errors {
            return;
        }
        for _ in 0..MAX_ERRORS {
            let error = SockRef::from(&self.socket).take_error().ok().flatten();
            let (mut byte, mut none) = ([0; 1], RecvAncillaryBuffer::default());
            let flags = RecvFlags::ERRQUEUE | RecvFlags::DONTWAIT;
            let mut room = [IoSliceMut::new(&mut byte)];
            let Ok(read) = recvmsg(&self.socket, &mut room, &mut none, flags) else { return };
            let to = read.address.and_then(|to| SocketAddr::try_from(to).ok());
            let why = error.as_ref().and_then(Unreachable::from_error);
            unreachable.extend(to.zip(why));
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn read_errors(&self, _: &mut BTreeMap<SocketAddr, Unreachable>) {}

    /// Passes packets that have arrived to `take`, as many as fit a turn.
    fn receive(&mut self, take: &mut impl FnMut(Arrived<'_>)) -> io::Result<()> {
        for _ in 0..MAX_RECEIVES {
            let mut metas = [RecvMeta::default(); BATCH_SIZE];
            let count = {
                let mut parts = self.room.chunks_exact_mut(self.part);
                let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
                    std::array::from_fn(|_| IoSliceMut::new(parts.next().unwrap_or_default()));
                match self.state.recv((&self.socket).into(), &mut slices, &mut metas) {
                    Ok(count) => count,
                    Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                    // An answer to an earlier packet, not about this socket.
                    Err(cause) if cause.kind() == io::ErrorKind::ConnectionReset => continue,
                    Err(cause) if Unreachable::from_error(&cause).is_some() => continue,
                    Err(cause) => return Err(cause),
                }
            };
            for (meta, part) in metas[..count].iter().zip(self.room.chunks_exact(self.part)) {
                for bytes in part[..meta.len].chunks(meta.stride.max(1)) {
                    let ecn =
                        meta.ecn.and_then(|ecn| quinn_proto::EcnCodepoint::from_bits(ecn as u8));
                    take(Arrived { from: meta.addr, to: meta.dst_ip, ecn, bytes });
                }
            }
            // A batch that is not full is the last one.
            if count < BATCH_SIZE {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends all packets. Returns how many the system did not accept.
    fn send(
        &self,
        bytes: &[u8],
        targets: &[Target],
        unreachable: &mut BTreeMap<SocketAddr, Unreachable>,
    ) -> u64 {
        // A pending error would be taken for this batch's.
        self.read_errors(unreachable);
        match self.wildcard {
            false => self.send_together(bytes, targets, unreachable),
            true => self.send_singly(bytes, targets, unreachable),
        }
    }

    /// One system call for many destinations. It cannot set the source address.
    #[cfg(target_os = "linux")]
    fn send_together(
        &self,
        bytes: &[u8],
        targets: &[Target],
        unreachable: &mut BTreeMap<SocketAddr, Unreachable>,
    ) -> u64 {
        use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
        use std::io::IoSlice;

        let (mut sent, mut unsent) = (0, 0);
        while sent < targets.len() {
            let rest = &targets[sent..targets.len().min(sent + BATCH)];
            let slices: Vec<IoSlice<'_>> =
                rest.iter().map(|target| IoSlice::new(target.contents(bytes))).collect();
            let mut controls: [SendAncillaryBuffer<'_, '_, '_>; BATCH] =
                std::array::from_fn(|_| SendAncillaryBuffer::default());
            let mut messages: Vec<MMsgHdr<'_>> = rest
                .iter()
                .zip(slices.chunks_exact(1))
                .zip(&mut controls)
                .map(|((target, slice), none)| MMsgHdr::new_with_addr(&target.to, slice, none))
                .collect();
            match sendmmsg(&self.socket, &mut messages, SendFlags::empty()) {
                Ok(count) if count > 0 => sent += count,
                Err(rustix::io::Errno::INTR) => {}
                // The buffers are full: QUIC considers the rest lost, as in a full router.
                Ok(_) | Err(rustix::io::Errno::AGAIN) => {
                    return unsent + (targets.len() - sent) as u64;
                }
                // The first of the remaining packets has no route; the others may have.
                Err(cause) => {
                    self.note(cause.into(), rest[0].address, unreachable);
                    (sent, unsent) = (sent + 1, unsent + 1);
                }
            }
        }
        unsent
    }

    #[cfg(not(target_os = "linux"))]
    fn send_together(
        &self,
        bytes: &[u8],
        targets: &[Target],
        unreachable: &mut BTreeMap<SocketAddr, Unreachable>,
    ) -> u64 {
        self.send_singly(bytes, targets, unreachable)
    }

    /// One system call for each packet, which sets the source address.
    fn send_singly(
        &self,
        bytes: &[u8],
        targets: &[Target],
        unreachable: &mut BTreeMap<SocketAddr, Unreachable>,
    ) -> u64 {
        let mut unsent = 0;
        for target in targets {
            let transmit = quinn_udp::Transmit {
                destination: target.address,
                ecn: None,
                contents: target.contents(bytes),
                segment_size: None,
                src_ip: target.source,
            };
            if let Err(cause) = self.state.try_send((&self.socket).into(), &transmit) {
                self.note(cause, target.address, unreachable);
                unsent += 1;
            }
        }
        unsent
    }

    /// Records that the system did not accept a packet. "Connection refused" is always about an earlier packet, never
    /// this one.
    fn note(
        &self,
        cause: io::Error,
        to: SocketAddr,
        unreachable: &mut BTreeMap<SocketAddr, Unreachable>,
    ) {
        let why = Unreachable::from_error(&cause).filter(|why| *why == Unreachable::Host);
        if self.hears_errors
            && let Some(why) = why
        {
            unreachable.insert(to, why);
        }
    }
}

/// Packets to send together.
#[derive(Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    targets: Vec<Target>,
}

struct Target {
    address: SocketAddr,
    #[cfg(target_os = "linux")]
    to: rustix::net::SocketAddrAny,
    source: Option<IpAddr>,
    start: usize,
    end: usize,
}

impl Target {
    fn contents<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start..self.end]
    }
}

impl Batch {
    pub(crate) fn push(&mut self, address: SocketAddr, source: Option<IpAddr>, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.targets.push(Target {
            address,
            #[cfg(target_os = "linux")]
            to: address.into(),
            source,
            start,
            end: self.bytes.len(),
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.targets.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() >= BATCH
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.targets.clear();
    }
}
