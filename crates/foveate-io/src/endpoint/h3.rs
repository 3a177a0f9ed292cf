//! Browsers' sessions: admission and life cycle.

use std::sync::Arc;
use std::time::Instant;

use super::{Core, Role, server_config};
use crate::error::Error;
use crate::event::{CloseCode, Reason};
use crate::link::{GOODBYE, Link, Stage};
use crate::transport::{self, Streams};
use crate::web::{Fault, H3, Session, Step, split};

impl Core {
    /// Also offers HTTP/3 from now on.
    pub(super) fn speak_h3(&mut self) -> Result<(), Error> {
        let Role::Server { identity, transport, protocols, .. } = &mut self.role else {
            return Ok(());
        };
        *transport = Arc::new(transport::config(&self.options, Streams::BROWSER)?);
        protocols.push(H3);
        self.quic.set_server_config(Some(server_config(identity, transport, protocols)?));
        Ok(())
    }

    /// Starts a session after QUIC's handshake with a browser.
    pub(super) fn begin_session(&mut self, now: Instant, index: u32) {
        let Some(quic) = self.links.at(index).and_then(Link::quic) else { return };
        match Session::new(&mut quic.conn, now) {
            Ok(session) => quic.session = Some(Box::new(session)),
            Err(fault) => return self.close_malformed(now, index, fault),
        }
        self.arm(now, index);
        self.drive_session(now, index);
    }

    /// Handles events of a session's streams.
    pub(super) fn drive_session(&mut self, now: Instant, index: u32) {
        while let Some(link) = self.links.at(index)
            && link.stage != Stage::Closed
            && let Some(quic) = link.quic()
            && let Some(session) = &mut quic.session
        {
            match session.turn(&mut quic.conn) {
                Ok(None) => return,
                Ok(Some(step)) => self.session_step(now, index, step),
                Err(fault) => self.close_malformed(now, index, fault),
            }
        }
    }

    fn session_step(&mut self, now: Instant, index: u32, step: Step) {
        match step {
            Step::Asks { path, authority, origin } => {
                let status = self.judge_session(&path, &authority, origin.as_deref());
                self.answer_session(now, index, status);
            }
            Step::Messages(stream, heard) => {
                if let Some(quic) = self.links.at(index).and_then(Link::quic) {
                    quic.adopt(stream, &heard);
                }
                self.take_messages(now, index);
            }
            Step::Closed(reason) => {
                let Some(link) = self.links.at(index) else { return };
                let id = link.id;
                if let Some(quic) = link.quic() {
                    quic.hang_up(now, CloseCode::DONE, "");
                }
                self.ended(id, reason);
                self.touch(index);
            }
        }
    }

    /// The HTTP status that answers a request for a session.
    fn judge_session(&mut self, path: &str, authority: &str, origin: Option<&str>) -> u16 {
        let Some(front) = &self.front else { return 503 };
        let path = path.split('?').next().unwrap_or_default();
        if self.closing {
            self.counters.refused_full += 1;
            return 503;
        }
        // The page's own origin has this host, and the port of HTTP.
        let own = format!("{}:{}", split(authority).0, front.address.port());
        if !front.origins.allow(origin, &own) {
            self.counters.refused_origin += 1;
            return 403;
        }
        if path == "/play" { 200 } else { 404 }
    }

    fn answer_session(&mut self, now: Instant, index: u32, status: u16) {
        let Some(link) = self.links.at(index) else { return };
        let id = link.id;
        let Some(quic) = link.quic() else { return };
        let address = quic.conn.remote_address();
        let Some(session) = &mut quic.session else { return };
        if status != 200 {
            session.refuse(&mut quic.conn, status);
            session.until = Some(now + GOODBYE);
            self.ended(id, Reason::Refused);
            return self.arm(now, index);
        }
        let fit = quic.conn.datagrams().max_size().ok_or(Fault("no datagrams"));
        if let Err(fault) = fit.and_then(|_| session.accept(&mut quic.conn)) {
            return self.close_malformed(now, index, fault);
        }
        quic.open(now, false);
        self.connected(id, address);
    }

    /// Handles a session that took too long to open, or to end.
    pub(super) fn session_timeout(&mut self, now: Instant, index: u32) {
        let Some(link) = self.links.at(index) else { return };
        let id = link.id;
        let Some(quic) = link.quic() else { return };
        if quic.until().is_none_or(|until| until > now) {
            return;
        }
        quic.session = None;
        quic.hang_up(now, CloseCode::DONE, "no session");
        self.ended(id, Reason::Failed("no session was opened in time".into()));
    }

    fn close_malformed(&mut self, now: Instant, index: u32, Fault(what): Fault) {
        let Some(id) = self.links.at(index).map(|link| link.id) else { return };
        self.counters.closed_malformed += 1;
        self.close(now, id, CloseCode::MALFORMED, what);
    }
}
