//! A server that echoes everything, and a page that tests it: links of a real browser.
//!
//! `cargo run -p foveate-io --features web --example browser_echo` prints the page's address; open it. `check.mjs`
//! beside this file does the same in a headless browser and prints the result.

use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use foveate_io::web::{Observe, Page, WebOptions};
use foveate_io::{Certificate, CloseCode, Endpoint, EndpointOptions, LinkEvent};

fn main() -> Result<(), Box<dyn Error>> {
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut server = Endpoint::server(here, Certificate::development(), EndpointOptions::server())?;
    let page = |path: &str| {
        let html = || Page::fresh("text/html; charset=utf-8", include_str!("page.html"));
        (path == "/").then(html)
    };
    let web = WebOptions { observe: Observe::Loopback, ..WebOptions::new(page) };
    println!("http://{}/", server.listen_web(here, web)?);
    let mut events = Vec::new();
    loop {
        server.wait(Instant::now() + Duration::from_secs(1), &mut events)?;
        for event in events.drain(..) {
            match event {
                LinkEvent::Connected { link, purpose, .. } => {
                    println!("connected {} {purpose:?}", link.to_bits());
                }
                LinkEvent::Datagram { link, bytes } => server.send_datagram(link, &bytes)?,
                LinkEvent::Message { link, bytes } if &bytes[..] == b"close me" => {
                    server.close(link, CloseCode(300), "as you wish");
                }
                LinkEvent::Message { link, bytes } => server.send_message(link, &bytes)?,
                LinkEvent::Closed { link, reason } => {
                    println!("closed {} {reason}", link.to_bits());
                }
            }
        }
        server.flush();
        std::io::stdout().flush()?;
    }
}
