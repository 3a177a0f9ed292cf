//! A client's links in a world on many servers: one to the host of its session, and one ahead to
//! the server that the session moves to.
//!
//! ```text
//! host ─ Next ─▶ dial ─ connected, Enter ─▶ ahead ─ Wait ─▶ inputs to both ─ Hosted, higher epoch ─▶ it is the host
//! host ─ silent for 500 ms ─▶ dial the standby ─ connected, Hello ─▶ ahead ─ Welcome ─▶ it is the host
//! ```
//!
//! A single server sends none of these messages, and nothing here happens.

use super::{Client, ClientPhase};
use crate::game::Game;
use crate::outbox::{Link, Outbox};
use crate::session::{
    ClientMessage, JoinedPlayer, Refusal, ServerContact, ServerMessage, Ticket, VERSIONS,
    read_message, write_message,
};
use foveate_wire::Micros;

/// A host of a world on many servers is silent after this time without a datagram.
pub const SILENT_AFTER: Micros = Micros(500_000);
/// Links to close in the next round. Beyond this, the transport times out the oldest.
const MAX_CLOSING: usize = 8;

/// The link to the server that the session moves to.
struct Ahead {
    contact: ServerContact,
    /// The ticket to enter there; `None`: the client resumes with its key.
    ticket: Option<Ticket>,
    link: Option<Link>,
    /// The server expects the client.
    waits: bool,
    /// Enter must be sent again.
    again: bool,
}

/// What a client knows of its world's servers.
#[derive(Default)]
pub(super) struct Servers {
    /// The highest session epoch received; 0: the world has one server.
    epoch: u64,
    player: Option<JoinedPlayer>,
    standby: Option<ServerContact>,
    ahead: Option<Ahead>,
    /// The server that the client's host has to connect to.
    dial: Option<ServerContact>,
    /// The former host's link.
    former: Option<Link>,
    closing: Vec<Link>,
    /// When a silent host's standby was last tried.
    tried: Option<Micros>,
}

impl Servers {
    fn close(&mut self, link: Option<Link>) {
        if self.closing.len() < MAX_CLOSING {
            self.closing.extend(link);
        }
    }

    /// The link ahead, once inputs have to be sent there too.
    pub fn also(&self) -> Option<Link> {
        self.ahead.as_ref().filter(|it| it.waits).and_then(|it| it.link)
    }
}

impl<G: Game> Client<G> {
    /// The server that the client's host has to connect to; returned once per request. The next
    /// link that is [connected](Client::connected) is taken to be this one.
    pub fn take_dial(&mut self) -> Option<ServerContact> {
        self.servers.dial.take()
    }

    /// Whether the server that was asked for last is still wanted, and no link to it is there.
    pub fn awaits_link(&self) -> bool {
        self.servers.ahead.as_ref().is_some_and(|it| it.link.is_none())
    }

    /// Whether there is a server beside the host, with a link or on the way to one.
    pub fn has_ahead(&self) -> bool {
        self.servers.ahead.is_some()
    }

    /// The session epoch, in worlds where sessions move between servers.
    pub fn session_epoch(&self) -> u64 {
        self.servers.epoch
    }

    /// The link to the server that hosts the session.
    pub fn host_link(&self) -> Option<Link> {
        self.link
    }

    /// Whether `link` is the link ahead; if so, sends its first message there.
    pub(super) fn connected_ahead(&mut self, link: Link, out: &mut impl Outbox) -> bool {
        let Some(ahead) = self.servers.ahead.as_mut().filter(|it| it.link.is_none()) else {
            return false;
        };
        ahead.link = Some(link);
        match ahead.ticket {
            Some(ticket) => self.enter(link, ticket, out),
            None => self.say_hello(link, out),
        }
        true
    }

    /// Whether the session's host is there, so that another link is of no use: it is closed.
    pub(super) fn has_host(&mut self, link: Link) -> bool {
        let has = self.servers.epoch > 0 && self.link.is_some() && !self.unheard;
        if has {
            self.servers.close(Some(link));
        }
        has
    }

    fn enter(&self, link: Link, ticket: Ticket, out: &mut impl Outbox) {
        let enter = ClientMessage::<G::Action>::Enter {
            versions: VERSIONS.to_vec(),
            schema: self.game.schema().hash(),
            name: self.name.clone(),
            ticket,
        };
        out.message(link, &write_message(&enter));
    }

    /// A message arrived on one of the links.
    pub fn message_on(&mut self, link: Link, bytes: &[u8]) {
        if self.link == Some(link) {
            return self.message(bytes);
        }
        if self.servers.ahead.as_ref().is_none_or(|it| it.link != Some(link)) {
            return;
        }
        match read_message::<ServerMessage>(bytes) {
            Some(ServerMessage::Wait) => {
                self.servers.ahead.iter_mut().for_each(|it| it.waits = true);
            }
            Some(ServerMessage::Hosted { epoch }) => self.move_to(link, epoch),
            Some(ServerMessage::Welcome { .. }) => {
                let former = self.link.replace(link);
                self.servers.close(former);
                self.servers.ahead = None;
                self.message(bytes);
            }
            Some(ServerMessage::Refused { .. }) if self.link.is_some() => {
                self.servers.ahead = None;
                self.servers.close(Some(link));
            }
            Some(ServerMessage::Redirect { contact, ticket }) if contact.is_valid() => {
                self.servers.close(Some(link));
                self.servers.ahead = None;
                self.go_ahead(contact, Some(ticket));
            }
            // There is no other server to stay at.
            Some(ServerMessage::Refused { .. }) => self.message(bytes),
            Some(_) => {}
            None => self.counts.malformed += 1,
        }
    }

    /// Handles the host's messages about other servers.
    pub(super) fn on_servers(&mut self, message: ServerMessage) {
        match message {
            ServerMessage::Hosted { epoch } if epoch >= self.servers.epoch => {
                self.servers.epoch = epoch;
            }
            ServerMessage::Standby(contact) => {
                self.servers.standby = contact.filter(ServerContact::is_valid);
            }
            ServerMessage::Next { contact, ticket } if contact.is_valid() => {
                self.go_ahead(contact, Some(ticket));
            }
            ServerMessage::Redirect { contact, ticket } if contact.is_valid() => {
                let former = self.link.take();
                self.servers.close(former);
                self.phase = ClientPhase::Joining;
                self.go_ahead(contact, Some(ticket));
            }
            _ => {}
        }
    }

    /// Stores the player for a host that continues the session. Epoch and standby belong to the
    /// session.
    pub(super) fn note_joined(&mut self, joined: JoinedPlayer, resumed: bool) {
        self.servers.player = Some(joined);
        if !resumed {
            (self.servers.epoch, self.servers.standby) = (0, None);
        }
    }

    /// Starts to connect to a server.
    fn go_ahead(&mut self, contact: ServerContact, ticket: Option<Ticket>) {
        match &mut self.servers.ahead {
            Some(known) if known.contact == contact && known.link.is_some() => {
                (known.ticket, known.again) = (ticket, true);
                return;
            }
            Some(known) => {
                let link = known.link;
                self.servers.close(link);
            }
            None => {}
        }
        self.servers.dial = Some(contact.clone());
        let (link, waits, again) = (None, false, false);
        self.servers.ahead = Some(Ahead { contact, ticket, link, waits, again });
    }

    /// Continues the session at the server ahead, which now hosts it.
    fn move_to(&mut self, link: Link, epoch: u64) {
        if epoch < self.servers.epoch {
            return;
        }
        let former = self.link.replace(link);
        (self.servers.epoch, self.servers.former, self.servers.ahead) = (epoch, former, None);
        if let Some(player) = self.servers.player {
            self.phase = ClientPhase::Playing(player);
        }
    }

    /// A datagram arrived on one of the links.
    pub fn datagram_on(&mut self, link: Link, bytes: &[u8], now: Micros) {
        if self.link != Some(link) {
            return;
        }
        if self.servers.epoch > 0 {
            let former = self.servers.former.take();
            self.servers.close(former);
            // The host is alive: its standby is not needed.
            if self.servers.ahead.as_ref().is_some_and(|it| it.ticket.is_none()) {
                let ahead = self.servers.ahead.take().and_then(|it| it.link);
                self.servers.close(ahead);
                self.servers.dial = None;
            }
        }
        self.datagram(bytes, now);
    }

    /// One of the links ended, or could not be made.
    pub fn closed_on(&mut self, link: Link) {
        self.servers.closing.retain(|it| *it != link);
        if self.servers.former == Some(link) {
            self.servers.former = None;
        } else if self.servers.ahead.as_ref().is_some_and(|it| it.link == Some(link)) {
            self.servers.ahead = None;
            if self.link.is_none() {
                self.closed();
            }
        } else if self.link == Some(link) && self.servers.also().is_some() {
            // The server ahead will decide about the session.
            self.link = None;
        } else if self.link == Some(link) {
            self.closed();
        }
    }

    /// All links ended. With a new one the session goes on, if that is soon.
    pub fn closed_all(&mut self) {
        let Servers { ahead, dial, former, closing, .. } = &mut self.servers;
        (*ahead, *dial, *former) = (None, None, None);
        closing.clear();
        self.closed();
    }

    /// The requested server cannot be reached. A standby is tried again while the host is silent: one that takes over
    /// from a server with many players may be too busy to answer the first time.
    pub fn unreachable(&mut self) {
        self.servers.ahead.take_if(|it| it.link.is_none());
    }

    /// The player leaves: forgets the world's other servers and closes their links.
    pub(super) fn forget_servers(&mut self, out: &mut impl Outbox) {
        let Servers { ahead, former, closing, .. } = std::mem::take(&mut self.servers);
        let links = ahead.and_then(|it| it.link).into_iter().chain(former).chain(closing);
        links.for_each(|link| out.close(link, Refusal::Closing));
    }

    /// Once a round: closes links that are not needed, and tries a silent host's standby.
    pub(super) fn mind_links(&mut self, now: Micros, out: &mut impl Outbox) {
        self.servers.closing.drain(..).for_each(|link| out.close(link, Refusal::Closing));
        if self.servers.epoch == 0 {
            return;
        }
        if let Some(ahead) = self.servers.ahead.as_mut().filter(|it| it.again)
            && let (Some(link), Some(ticket)) = (ahead.link, ahead.ticket)
        {
            (ahead.again, ahead.waits) = (false, false);
            self.enter(link, ticket, out);
        }
        let silent = self.link.is_none() || self.heard.is_none_or(|it| now - it >= SILENT_AFTER);
        self.unheard = silent;
        let rests = self.servers.tried.is_some_and(|tried| now - tried < SILENT_AFTER);
        if silent && !rests && self.servers.ahead.is_none() && self.resume.is_some() {
            self.servers.tried = Some(now);
            if let Some(standby) = self.servers.standby.clone() {
                self.go_ahead(standby, None);
            }
        }
    }
}
