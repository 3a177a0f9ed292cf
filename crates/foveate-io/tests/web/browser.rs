//! A browser's end of WebTransport, byte by byte, so that it can also send what no browser would.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, StreamId,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};

pub struct Browser {
    socket: UdpSocket,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub conn: Connection,
    pub connected: bool,
    pub lost: Option<ConnectionError>,
    pub datagrams: Vec<Vec<u8>>,
}

/// Accepts any certificate: certificates are tested elsewhere.
#[derive(Debug)]
struct TrustAny;

impl ServerCertVerifier for TrustAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

fn config() -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("supported")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(TrustAny))
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("TLS 1.3")))
}

impl Browser {
    pub fn connect(server: SocketAddr) -> Browser {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        socket.set_nonblocking(true).expect("possible");
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None);
        let begun = endpoint.connect(Instant::now(), config(), server, "localhost");
        let (handle, conn) = begun.expect("a valid name");
        let (connected, lost, datagrams) = Default::default();
        Browser { socket, endpoint, handle, conn, connected, lost, datagrams }
    }

    /// Receives and sends pending packets.
    pub fn step(&mut self) {
        let (now, mut room, mut answer) = (Instant::now(), [0; 2_000], Vec::new());
        while let Ok((count, from)) = self.socket.recv_from(&mut room) {
            let bytes = BytesMut::from(&room[..count]);
            let event = self.endpoint.handle(now, from, None, None, bytes, &mut answer);
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                self.conn.handle_event(event);
            }
        }
        if self.conn.poll_timeout().is_some_and(|due| due <= now) {
            self.conn.handle_timeout(now);
        }
        while let Some(event) = self.conn.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.conn.handle_event(event);
            }
        }
        while let Some(event) = self.conn.poll() {
            match event {
                Event::Connected => self.connected = true,
                Event::ConnectionLost { reason } => self.lost = Some(reason),
                _ => {}
            }
        }
        while let Some(bytes) = self.conn.datagrams().recv() {
            self.datagrams.push(bytes.to_vec());
        }
        answer.clear();
        while let Some(packet) = self.conn.poll_transmit(now, 1, &mut answer) {
            let _ = self.socket.send_to(&answer[..packet.size], packet.destination);
            answer.clear();
        }
    }

    /// Opens a stream that begins with these bytes.
    pub fn open(&mut self, dir: Dir, bytes: &[u8]) -> StreamId {
        let stream = self.conn.streams().open(dir).expect("room for a stream");
        self.write(stream, bytes);
        stream
    }

    pub fn write(&mut self, stream: StreamId, bytes: &[u8]) {
        let written = self.conn.send_stream(stream).write(bytes).expect("room in the window");
        assert_eq!(written, bytes.len());
    }

    pub fn datagram(&mut self, bytes: &[u8]) {
        let bytes = bytes::Bytes::copy_from_slice(bytes);
        self.conn.datagrams().send(bytes, true).expect("it fits");
    }

    /// Bytes received on a stream since the last call.
    pub fn read(&mut self, stream: StreamId) -> Vec<u8> {
        let mut heard = Vec::new();
        let mut recv = self.conn.recv_stream(stream);
        let Ok(mut chunks) = recv.read(true) else { return heard };
        while let Ok(Some(chunk)) = chunks.next(100_000) {
            heard.extend_from_slice(&chunk.bytes);
        }
        let _ = chunks.finalize();
        heard
    }
}

/// A frame or a capsule, with a type and a length below 16384.
pub fn part(kind: u16, content: &[u8]) -> Vec<u8> {
    let number = |n: u16| (n | 0x4000).to_be_bytes();
    [&number(kind)[..], &number(content.len() as u16), content].concat()
}

/// A control stream as browsers start it: settings, and a frame without meaning.
pub fn control() -> Vec<u8> {
    [&[0][..], &part(4, &[0x33, 1, 0x08, 1, 0x21, 9]), &part(0x21, b"grease")].concat()
}

/// A request for a session.
pub fn request(method: u8, path: &str, origin: &str) -> Vec<u8> {
    // By the static table: the method (15 is CONNECT), https; then names and values in plain text.
    let mut fields = vec![0, 0, 0xc0 | method, 0xc0 | 23];
    let named = [
        (":protocol", "webtransport"),
        (":authority", "127.0.0.1:4433"),
        (":path", path),
        ("origin", origin),
        ("user-agent", "a test"),
    ];
    for (name, value) in named {
        match name.len() {
            short @ 0..7 => fields.push(0x20 | short as u8),
            long => fields.extend([0x27, long as u8 - 7]),
        }
        fields.extend_from_slice(name.as_bytes());
        fields.push(value.len() as u8);
        fields.extend_from_slice(value.as_bytes());
    }
    part(1, &fields)
}
