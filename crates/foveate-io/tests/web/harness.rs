//! A server that is stepped by the test, and clients that are raw TCP streams.
//!
//! Nothing here depends on the machine's speed: a test states a condition, which must become true within two minutes.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use foveate_io::web::{Page, WebOptions};
use foveate_io::{
    Certificate, Endpoint, EndpointOptions, Limits, LinkEvent, LinkId, Purpose, RateLimit, Reason,
};
use tungstenite::protocol::{Role, WebSocketConfig, WebSocketContext};
use tungstenite::{Message, protocol::CloseFrame};

/// The longest that anything may take, short of a hang.
pub const PATIENCE: Duration = Duration::from_secs(120);

pub struct Server {
    pub endpoint: Endpoint,
    pub web: SocketAddr,
    pub connected: Vec<(LinkId, Purpose)>,
    pub datagrams: Vec<Vec<u8>>,
    pub messages: Vec<Vec<u8>>,
    pub closed: Vec<Reason>,
}

pub fn pages(path: &str) -> Option<Page> {
    match path {
        "/" => Some(Page::fresh("text/html", "<h1>Hello</h1>")),
        "/app-1234.js" => Some(Page::forever("text/javascript", vec![b'x'; 3_000_000])),
        _ => None,
    }
}

pub fn options() -> EndpointOptions {
    let limits = Limits {
        max_links_per_address: 1_000,
        handshakes_per_address: RateLimit::per_second(1_000),
        ..Limits::server()
    };
    EndpointOptions { limits, ..EndpointOptions::server() }
}

impl Server {
    pub fn start(web: WebOptions, options: EndpointOptions) -> Server {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut endpoint =
            Endpoint::server(here, Certificate::development(), options).expect("a free port");
        let web = endpoint.listen_web(here, web).expect("a free port");
        let (connected, datagrams, messages, closed) = Default::default();
        Server { endpoint, web, connected, datagrams, messages, closed }
    }

    pub fn step(&mut self) {
        let mut events = Vec::new();
        let until = Instant::now() + Duration::from_millis(1);
        self.endpoint.wait(until, &mut events).expect("the sockets work");
        for event in events {
            match event {
                LinkEvent::Connected { link, purpose, .. } => self.connected.push((link, purpose)),
                LinkEvent::Datagram { bytes, .. } => self.datagrams.push(bytes.to_vec()),
                LinkEvent::Message { bytes, .. } => self.messages.push(bytes.to_vec()),
                LinkEvent::Closed { reason, .. } => self.closed.push(reason),
            }
        }
    }

    pub fn until(&mut self, what: &str, mut done: impl FnMut(&mut Server) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !done(self) {
            assert!(Instant::now() < deadline, "waited in vain: {what}");
            self.step();
        }
    }

    pub fn link(&self) -> LinkId {
        self.connected.last().expect("connected").0
    }

    pub fn visit(&self) -> Client {
        let stream = TcpStream::connect(self.web).expect("it listens");
        stream.set_nonblocking(true).expect("possible");
        Client { stream, received: Vec::new(), ended: false }
    }

    /// A client with an address of this machine's own network.
    pub fn visit_from(&self, address: [u8; 4]) -> Client {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("possible");
        bind(&socket, &SocketAddr::from((address, 0))).expect("an address of this machine");
        connect(&socket, &self.web).expect("it listens");
        let stream = TcpStream::from(socket);
        stream.set_nonblocking(true).expect("possible");
        Client { stream, received: Vec::new(), ended: false }
    }

    /// The answer to this request, read to the end of the connection.
    pub fn ask(&mut self, request: &str) -> String {
        let mut client = self.visit();
        client.send(request.as_bytes());
        self.until("an answer", |_| {
            client.read();
            client.ended
        });
        String::from_utf8_lossy(&client.received).into_owned()
    }

    /// Upgrades to WebSocket, or returns the answer with the reason.
    pub fn upgrade(&mut self, path: &str, headers: &str) -> Result<Socket, String> {
        self.upgrade_at(self.web, path, headers)
    }

    /// The same through a proxy.
    pub fn upgrade_at(
        &mut self,
        address: SocketAddr,
        path: &str,
        headers: &str,
    ) -> Result<Socket, String> {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_nonblocking(true).expect("possible");
        let mut client = Client { stream, received: Vec::new(), ended: false };
        client.send(
            format!(
                "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                 {headers}\r\n",
                self.web
            )
            .as_bytes(),
        );
        self.until("an answer", |_| {
            client.read();
            client.received.windows(4).any(|end| end == b"\r\n\r\n")
        });
        let end = client.received.windows(4).position(|end| end == b"\r\n\r\n").expect("there") + 4;
        let rest = client.received.split_off(end);
        let head = String::from_utf8_lossy(&client.received).into_owned();
        if !head.starts_with("HTTP/1.1 101 ") {
            return Err(head);
        }
        assert!(head.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{head}");
        let config = WebSocketConfig::default().write_buffer_size(0);
        let codec = WebSocketContext::from_partially_read(rest, Role::Client, Some(config));
        Ok(Socket { stream: client.stream, codec })
    }
}

/// A client that sends raw bytes.
pub struct Client {
    pub stream: TcpStream,
    pub received: Vec<u8>,
    pub ended: bool,
}

impl Client {
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("room in the socket");
    }

    pub fn read(&mut self) {
        let mut piece = [0; 64 * 1024];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => self.ended = true,
                Ok(count) => {
                    self.received.extend_from_slice(&piece[..count]);
                    continue;
                }
                Err(cause) => self.ended |= cause.kind() != ErrorKind::WouldBlock,
            }
            return;
        }
    }
}

/// A client that speaks WebSocket, by an implementation other than the server's loop.
pub struct Socket {
    pub stream: TcpStream,
    codec: WebSocketContext,
}

impl Socket {
    pub fn send(&mut self, message: Message) {
        self.codec.write(&mut self.stream, message).expect("room in the socket");
    }

    pub fn datagram(&mut self, bytes: &[u8]) {
        self.send(Message::binary([&[0], bytes].concat()));
    }

    pub fn message(&mut self, bytes: &[u8]) {
        self.send(Message::binary([&[1], bytes].concat()));
    }

    /// Everything that arrived, until nothing more does.
    pub fn receive(&mut self) -> Vec<Message> {
        std::iter::from_fn(|| self.codec.read(&mut self.stream).ok()).collect()
    }

    /// The close frame, if it arrived.
    pub fn goodbye(&mut self) -> Option<CloseFrame> {
        self.receive().into_iter().find_map(|message| match message {
            Message::Close(frame) => frame,
            _ => None,
        })
    }
}
