//! One UDP socket, read and written in batches.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;

use crate::error::Error;

/// What is asked of the system for each direction; it may give less.
pub const SOCKET_BUFFER: usize = 4 * 1024 * 1024;

/// Largest packet that is received.
const MAX_UDP: usize = 1_500;

/// Packets that leave with one system call.
pub(crate) const BATCH: usize = 64;

/// Calls of one `receive`, so that a flood cannot keep the loop from its other work.
const MAX_RECEIVES: usize = 64;

pub(crate) struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    /// Room for one batch, each part large enough for what the kernel may join together.
    room: Vec<u8>,
    part: usize,
    /// Bound to all addresses, so that answers must name the one that was asked.
    wildcard: bool,
}

/// One packet as it came.
pub(crate) struct Arrived<'a> {
    pub(crate) from: SocketAddr,
    pub(crate) to: Option<IpAddr>,
    pub(crate) ecn: Option<quinn_proto::EcnCodepoint>,
    pub(crate) bytes: &'a [u8],
}

impl Socket {
    pub(crate) fn bind(address: SocketAddr) -> Result<Socket, Error> {
        Self::open(address).map_err(|cause| Error::Bind { address, cause })
    }

    fn open(address: SocketAddr) -> io::Result<Socket> {
        let socket = UdpSocket::bind(address)?;
        let buffers = SockRef::from(&socket);
        buffers.set_recv_buffer_size(SOCKET_BUFFER)?;
        buffers.set_send_buffer_size(SOCKET_BUFFER)?;
        let state = UdpSocketState::new((&socket).into())?;
        let part = MAX_UDP * state.gro_segments().max(1);
        let wildcard = address.ip().is_unspecified();
        Ok(Socket { socket, state, room: vec![0; part * BATCH_SIZE], part, wildcard })
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Sleeps until packets wait, something stirs in `others`, or the time is over; true unless it
    /// is the latter.
    pub(crate) fn wait<'a>(
        &'a self,
        span: Duration,
        mut others: Vec<PollFd<'a>>,
    ) -> io::Result<bool> {
        let mut alone = [PollFd::new(&self.socket, PollFlags::IN)];
        let asked = match others.is_empty() {
            true => &mut alone[..],
            false => {
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

    /// Hands every packet that waits to `take`, as far as a turn goes.
    pub(crate) fn receive(&mut self, mut take: impl FnMut(Arrived<'_>)) -> io::Result<()> {
        for _ in 0..MAX_RECEIVES {
            let mut metas = [RecvMeta::default(); BATCH_SIZE];
            let count = {
                let mut parts = self.room.chunks_exact_mut(self.part);
                let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
                    std::array::from_fn(|_| IoSliceMut::new(parts.next().unwrap_or_default()));
                match self.state.recv((&self.socket).into(), &mut slices, &mut metas) {
                    Ok(count) => count,
                    Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                    // An answer to an earlier packet ("nobody listens there"), not about us.
                    Err(cause) if cause.kind() == io::ErrorKind::ConnectionReset => continue,
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
            // A batch that is not full was the last.
            if count < BATCH_SIZE {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends the batch and empties it. Returns how many packets the system did not take.
    pub(crate) fn send(&self, batch: &mut Batch) -> u64 {
        let unsent = match self.wildcard {
            false => self.send_together(batch),
            true => self.send_singly(batch),
        };
        batch.clear();
        unsent
    }

    /// One call for many destinations. Cannot name the source address.
    #[cfg(target_os = "linux")]
    fn send_together(&self, batch: &Batch) -> u64 {
        use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
        use std::io::IoSlice;

        let (mut sent, mut unsent) = (0, 0);
        while sent < batch.len() {
            let rest = &batch.targets[sent..batch.len().min(sent + BATCH)];
            let slices: Vec<IoSlice<'_>> =
                rest.iter().map(|target| IoSlice::new(batch.contents(target))).collect();
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
                // Full buffers: QUIC takes the rest for lost, as it would be in a full router.
                Ok(_) | Err(rustix::io::Errno::AGAIN) => {
                    return unsent + (batch.len() - sent) as u64;
                }
                // The first of the rest has no way; the others may have.
                Err(_) => (sent, unsent) = (sent + 1, unsent + 1),
            }
        }
        unsent
    }

    #[cfg(not(target_os = "linux"))]
    fn send_together(&self, batch: &Batch) -> u64 {
        self.send_singly(batch)
    }

    /// One call a packet, which names the source address.
    fn send_singly(&self, batch: &Batch) -> u64 {
        let mut unsent = 0;
        for target in &batch.targets {
            let transmit = quinn_udp::Transmit {
                destination: target.address,
                ecn: None,
                contents: batch.contents(target),
                segment_size: None,
                src_ip: target.source,
            };
            if self.state.try_send((&self.socket).into(), &transmit).is_err() {
                unsent += 1;
            }
        }
        unsent
    }
}

/// Packets that will leave together.
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

    fn contents(&self, target: &Target) -> &[u8] {
        &self.bytes[target.start..target.end]
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.targets.clear();
    }
}
