//! The tasks of the background thread, which only wait for QUIC.
//!
//! Each link has a task that reads datagrams, one that reads messages and one that writes them. All decisions are made
//! by [`State`](super::state::State).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foveate_wire::Bytes;
use iroh::endpoint::{
    ConnectOptions, Connection, ConnectionError, Incoming, IncomingAddr, RecvStream, SendStream,
};
use iroh::{EndpointAddr, TransportAddr};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::timeout;

use super::event::handshake_failure;
use super::state::{Opened, Shared};
use crate::admission::Verdict;
use crate::event::Reason;
use crate::messages::Inbox;
use crate::slots::LinkId;

/// Name and version of the protocol between peers (ALPN).
pub(super) const PROTOCOL: &[u8] = b"foveate-peer/1";

/// A handshake takes at most this long.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Bytes that are read from a stream at a time.
const CHUNK: usize = 16 * 1024;

/// Accepts connections until told to stop, then closes them within the time that is given.
pub(super) async fn accept(
    shared: Arc<Shared>,
    quic: iroh::Endpoint,
    stop: oneshot::Receiver<Duration>,
) {
    let listening = tokio::spawn({
        let quic = quic.clone();
        async move {
            while let Some(incoming) = quic.accept().await {
                admit(&shared, incoming);
            }
        }
    });
    // A dropped sender means that there is no time to wait.
    let limit = stop.await.unwrap_or(Duration::ZERO);
    listening.abort();
    // When the time is over, the sockets close without a message.
    timeout(limit, quic.close()).await.unwrap_or(());
}

fn admit(shared: &Arc<Shared>, incoming: Incoming) {
    let address = match incoming.remote_addr() {
        IncomingAddr::Ip(address) => Some(address),
        _ => None,
    };
    let proved = incoming.remote_addr_validated();
    let (verdict, link) = shared.lock().judge(Instant::now(), address, proved);
    match (verdict, link) {
        (Verdict::Accept, Some(link)) => {
            tokio::spawn(greet(Arc::clone(shared), link, incoming));
        }
        // This fails only for remotes that have proved their address, which are not asked to retry.
        (Verdict::Retry, _) => incoming.retry().unwrap_or(()),
        _ => incoming.refuse(),
    }
}

async fn greet(shared: Arc<Shared>, link: LinkId, incoming: Incoming) {
    match timeout(HANDSHAKE, incoming.into_future()).await {
        Ok(Ok(conn)) => serve(shared, link, conn).await,
        Ok(Err(error)) => {
            shared.tell(|state| state.ended(Instant::now(), link, handshake_failure(error)))
        }
        Err(_) => shared.tell(|state| state.ended(Instant::now(), link, Reason::Idle)),
    }
}

/// Connects to a peer, and serves the link.
pub(super) async fn dial(
    shared: Arc<Shared>,
    quic: iroh::Endpoint,
    link: LinkId,
    to: EndpointAddr,
    options: ConnectOptions,
) {
    let dialled = async {
        let begun = quic.connect_with_opts(to, PROTOCOL, options).await;
        let connecting = begun.map_err(|error| Reason::Failed(error.to_string()))?;
        connecting.await.map_err(handshake_failure)
    };
    match timeout(HANDSHAKE, dialled).await {
        Ok(Ok(conn)) => serve(shared, link, conn).await,
        Ok(Err(reason)) => shared.tell(|state| state.ended(Instant::now(), link, reason)),
        Err(_) => shared.tell(|state| state.ended(Instant::now(), link, Reason::Idle)),
    }
}

/// Serves a link until it ends.
async fn serve(shared: Arc<Shared>, link: LinkId, conn: Connection) {
    let address = direct(&conn);
    let Some(opened) = shared.tell(|state| state.open(link, conn.clone(), address)) else { return };
    let talking = tokio::spawn(talk(Arc::clone(&shared), link, conn.clone(), opened));
    let end = listen(&shared, link, &conn).await;
    // Messages that arrived before the end are reported before it.
    talking.await.unwrap_or(());
    shared.tell(|state| state.ended(Instant::now(), link, end.into()));
}

fn direct(conn: &Connection) -> Option<SocketAddr> {
    let paths = conn.paths();
    let mut selected = paths.iter().filter(|path| path.is_selected());
    match selected.next()?.remote_addr() {
        TransportAddr::Ip(address) => Some(*address),
        _ => None,
    }
}

/// Reads datagrams until the connection ends.
async fn listen(shared: &Shared, link: LinkId, conn: &Connection) -> ConnectionError {
    loop {
        match conn.read_datagram().await {
            Ok(bytes) => {
                if !shared.tell(|state| state.datagram(Instant::now(), link, bytes)) {
                    return conn.closed().await;
                }
            }
            Err(error) => return error,
        }
    }
}

/// Opens or accepts the stream of messages, and reads and writes it until it ends.
async fn talk(shared: Arc<Shared>, link: LinkId, conn: Connection, opened: Opened) {
    let both = if opened.dialled { conn.open_bi().await } else { conn.accept_bi().await };
    let Ok((mut send, recv)) = both else { return };
    // A stream does not exist at the other end until something is sent on it.
    if opened.dialled && send.write_all(&0_u32.to_le_bytes()).await.is_err() {
        return;
    }
    tokio::spawn(write(Arc::clone(&shared), link, send, opened.outbox));
    read(&shared, link, recv, opened.room).await;
}

/// Writes messages until there are no more, and waits until they have arrived.
async fn write(
    shared: Arc<Shared>,
    link: LinkId,
    mut send: SendStream,
    mut outbox: mpsc::UnboundedReceiver<bytes::Bytes>,
) {
    while let Some(message) = outbox.recv().await {
        let (size, head) = (message.len(), (message.len() as u32).to_le_bytes());
        let mut parts = [bytes::Bytes::copy_from_slice(&head), message];
        if send.write_all_chunks(&mut parts).await.is_err() {
            break;
        }
        shared.lock().written(link, size);
    }
    if send.finish().is_ok() {
        // How the stream ended does not matter any more.
        let _ = send.stopped().await;
    }
    shared.tell(|state| state.finished(link));
}

async fn read(shared: &Shared, link: LinkId, mut recv: RecvStream, room: Arc<Notify>) {
    let mut inbox = Inbox::default();
    let limit = shared.lock().options.limits.max_message;
    while let Ok(Some(chunk)) = recv.read_chunk(CHUNK).await {
        inbox.feed(&chunk);
        if !hand_on(shared, link, &mut inbox, limit) {
            return;
        }
        // While this side does not read, QUIC stops the sender.
        while !shared.lock().has_room(link) {
            room.notified().await;
        }
    }
}

/// Passes on whole messages; false if one is too large.
fn hand_on(shared: &Shared, link: LinkId, inbox: &mut Inbox, limit: Bytes) -> bool {
    loop {
        match inbox.next(limit) {
            Ok(Some(message)) => {
                shared.tell(|state| state.message(Instant::now(), link, message));
            }
            Ok(None) => return true,
            Err(_) => {
                shared.tell(|state| state.oversized(link));
                return false;
            }
        }
    }
}
