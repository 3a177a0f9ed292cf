//! The floor: a UDP loop with authenticated encryption and nothing else. Each tick one packet of our mean size to
//! each client, and one from it.

use std::error::Error;
use std::io::{IoSlice, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSocketState};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg};

use crate::usage::{BUFFER, Marks, Meter, Traffic};
use crate::{Served, TICK, Task, next_tick};

/// Number of the client and of the packet, before what is sealed.
const HEADER: usize = 12;
const TAG: usize = 16;
const BATCH: usize = 64;
const PARTS: u32 = 10;

struct Line {
    key: LessSafeKey,
    socket: UdpSocket,
    state: UdpSocketState,
    room: Vec<u8>,
    part: usize,
    next: u64,
}

impl Line {
    fn open() -> Result<Line, Box<dyn Error>> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let buffers = socket2::SockRef::from(&socket);
        buffers.set_recv_buffer_size(BUFFER)?;
        buffers.set_send_buffer_size(BUFFER)?;
        let state = UdpSocketState::new((&socket).into())?;
        let part = 1_500 * state.gro_segments().max(1);
        let key = UnboundKey::new(&AES_128_GCM, &[7; 16]).map_err(|_| "no key")?;
        let key = LessSafeKey::new(key);
        Ok(Line { key, socket, state, room: vec![0; part * BATCH_SIZE], part, next: 0 })
    }

    fn nonce(number: u64) -> Nonce {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&number.to_le_bytes());
        Nonce::assume_unique_for_key(nonce)
    }

    /// A packet of this size to or from a client.
    fn seal(&mut self, client: u32, size: usize, out: &mut Vec<u8>) {
        let start = out.len();
        self.next += 1;
        out.extend_from_slice(&client.to_le_bytes());
        out.extend_from_slice(&self.next.to_le_bytes());
        out.resize(start + size.max(HEADER + TAG) - TAG, 1);
        let (header, contents) = out[start..].split_at_mut(HEADER);
        let nonce = Line::nonce(self.next);
        let sealed = self.key.seal_in_place_separate_tag(nonce, Aad::from(&*header), contents);
        if let Ok(tag) = sealed {
            out.extend_from_slice(tag.as_ref());
        }
    }

    /// Opens what waits: by whom and where from.
    fn receive(&mut self, traffic: &mut Traffic, mut take: impl FnMut(u32, SocketAddr)) {
        loop {
            let mut metas = [RecvMeta::default(); BATCH_SIZE];
            let count = {
                let mut parts = self.room.chunks_exact_mut(self.part);
                let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
                    std::array::from_fn(|_| IoSliceMut::new(parts.next().unwrap_or_default()));
                self.state.recv((&self.socket).into(), &mut slices, &mut metas).unwrap_or(0)
            };
            for (meta, part) in metas[..count].iter().zip(self.room.chunks_exact_mut(self.part)) {
                for bytes in part[..meta.len].chunks_mut(meta.stride.max(1)) {
                    traffic.add(bytes.len());
                    let Some((header, sealed)) = bytes.split_at_mut_checked(HEADER) else {
                        continue;
                    };
                    let client = u32::from_le_bytes([0, 1, 2, 3].map(|at| header[at]));
                    let number =
                        u64::from_le_bytes([4, 5, 6, 7, 8, 9, 10, 11].map(|at| header[at]));
                    let nonce = Line::nonce(number);
                    if self.key.open_in_place(nonce, Aad::from(&*header), sealed).is_ok() {
                        take(client, meta.addr);
                    }
                }
            }
            if count < BATCH_SIZE {
                return;
            }
        }
    }

    fn send(&self, bytes: &[u8], size: usize, to: &[SocketAddrAny]) {
        for (part, to) in bytes.chunks(size * BATCH).zip(to.chunks(BATCH)) {
            let slices: Vec<IoSlice<'_>> = part.chunks_exact(size).map(IoSlice::new).collect();
            let mut controls: [SendAncillaryBuffer<'_, '_, '_>; BATCH] =
                std::array::from_fn(|_| SendAncillaryBuffer::default());
            let mut messages: Vec<MMsgHdr<'_>> = to
                .iter()
                .zip(slices.chunks_exact(1))
                .zip(&mut controls)
                .map(|((to, slice), none)| MMsgHdr::new_with_addr(to, slice, none))
                .collect();
            let _ = sendmmsg(&self.socket, &mut messages, SendFlags::empty());
        }
    }
}

/// Serves until the marks end.
pub fn serve(task: &Task, marks: &Marks) -> Result<Served, Box<dyn Error>> {
    let mut line = Line::open()?;
    println!("{}", line.socket.local_addr()?);
    let mut addresses: Vec<Option<SocketAddrAny>> = vec![None; task.clients];
    let (mut sent, mut received) = (Traffic::default(), Traffic::default());
    let (mut due, mut meter, mut out) = (Instant::now(), Meter::default(), Vec::new());
    let size = task.sizes[0].max(HEADER + TAG);
    loop {
        line.receive(&mut received, |client, from| {
            if let Some(address) = addresses.get_mut(client as usize) {
                *address = Some(from.into());
            }
        });
        out.clear();
        let mut to = Vec::with_capacity(task.clients);
        for (client, address) in addresses.iter().enumerate() {
            if let Some(address) = address {
                line.seal(client as u32, size, &mut out);
                to.push(address.clone());
                sent.add(size);
            }
        }
        line.send(&out, size, &to);
        if let Some(served) = meter.tick(marks, sent, received) {
            return Ok(served);
        }
        next_tick(&mut due);
    }
}

/// Plays all clients; how many were answered.
pub fn play(
    task: &Task,
    server: SocketAddr,
    mark: &mut dyn FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<usize, Box<dyn Error>> {
    let mut line = Line::open()?;
    let size = task.sizes[1].max(HEADER + TAG);
    let to: SocketAddrAny = server.into();
    let (mut received, mut heard) = (Traffic::default(), vec![false; task.clients]);
    let (mut out, mut due) = (Vec::new(), Instant::now());
    let settled = Instant::now() + Duration::from_secs(3);
    let (mut began, mut part) = (false, 0);
    loop {
        line.receive(&mut received, |client, _| {
            if let Some(heard) = heard.get_mut(client as usize) {
                *heard = true;
            }
        });
        out.clear();
        let mut count = 0;
        for client in (0..task.clients as u32).filter(|client| client % PARTS == part) {
            line.seal(client, size, &mut out);
            count += 1;
        }
        line.send(&out, size, &vec![to.clone(); count]);
        if !began && Instant::now() >= settled {
            began = true;
            mark()?;
        }
        if Instant::now() >= settled + Duration::from_secs(task.seconds) {
            mark()?;
            return Ok(heard.iter().filter(|heard| **heard).count());
        }
        part = (part + 1) % PARTS;
        due += TICK / PARTS;
        let now = Instant::now();
        due = due.max(now);
        std::thread::sleep(due - now);
    }
}
