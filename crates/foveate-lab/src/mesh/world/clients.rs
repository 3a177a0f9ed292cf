//! Players with the shipped client, and their links to servers, in virtual time.
//!
//! A link is a number that both ends use. Datagrams may be lost; messages arrive in order. A server that dies says
//! nothing: its links end some seconds later. A client dials whom it is told to dial; one that has no link dials any
//! server.

use super::super::check::FindingKind;
use super::super::faults::Sabotage;
use super::super::game::{AVATAR, Counted, Drift, DriftAvatar};
use super::{Happening, MeshWorld};
use foveate_node::Client;
use foveate_node::client::ClientPhase;
use foveate_node::game::PlayerId;
use foveate_node::node::{Node, NodeInput, Remote};
use foveate_node::outbox::{Link, Outgoing, RecordingOutbox};
use foveate_node::region::layout::{RegionId, ServerId};
use foveate_node::server::Keys;
use foveate_node::session::{ResumeKey, ServerContact};
use foveate_wire::{Micros, ObjectId, Replicate, Tick};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A client that has no link dials after this.
const DIAL_AFTER: Micros = Micros(700_000);
/// How far a player must see without fail.
const NEAR: f32 = 7.0;
/// How far a replica may be off: a quarter of a second's way and the view's own tolerance.
const OFF: f32 = 8.0;
/// What came within this was heard of late.
pub(super) const RECENT: Micros = Micros(250_000);
/// A link whose server died ends after this.
const LINK_TIMEOUT: Micros = Micros(4_000_000);

/// What happens to clients.
pub enum ClientHappening {
    /// A client's round.
    Wake(usize),
    /// Something arrives at a client.
    ToClient(Link, Outgoing),
    /// Something arrives at a server.
    LinkDelivery(LinkDelivery),
    /// A link that a client asked for is there, or not; unless it has asked for another one since.
    Dialled(usize, ServerId, u32),
    /// A link has ended, for the client.
    Ended(Link),
    /// A player leaves, or comes again.
    Change(usize),
}

/// Something for a server, by a link.
pub struct LinkDelivery {
    link: Link,
    what: LinkInput,
}

enum LinkInput {
    Connected,
    Data(Outgoing),
    Closed,
}

pub(super) struct SimClient {
    pub(super) client: Client<Drift>,
    pub(super) name: String,
    number: u32,
    /// When it last had a link.
    linked: Micros,
    dialling: bool,
    /// Counts what it asked for.
    dial: u32,
    pub(super) away: bool,
    /// When a state came last.
    pub(super) heard: Micros,
    /// Its host crashed: the region, and when.
    pub(super) orphaned: Option<(RegionId, Micros)>,
    /// Looks at which its belongings were not as they should be, in a row.
    pub(super) amiss: u32,
    /// What is not as it should be.
    pub(super) missing: String,
    /// The highest count of its bag.
    pub(super) count: u32,
    /// Looks at which something near was missing or far off, in a row; and the least of them.
    off: u32,
    /// What was wrong last.
    wrong: String,
    /// Looks at which its session was not where its avatar is.
    apart: u32,
}

pub(super) struct SimLink {
    pub(super) client: usize,
    pub(super) server: ServerId,
    /// Messages arrive in order: none before the last one, towards the server and the client.
    ready: [Micros; 2],
}

/// All players.
pub struct SimClients {
    pub(super) clients: Vec<SimClient>,
    pub(super) links: BTreeMap<Link, SimLink>,
    next_link: u64,
    rng: fastrand::Rng,
    /// Replicas near players that were looked at, and how many were right: inside, and at borders.
    pub right: [[u64; 2]; 2],
    pub(super) ghosts: super::ghosts::Ghosts,
    /// How long players could not play after their host crashed, since that was noticed.
    pub silences: Vec<Micros>,
}

/// How clients reach a server.
pub fn contact(server: ServerId) -> ServerContact {
    ServerContact { addresses: vec![format!("server:{}", server.0)], certificate: Vec::new() }
}

fn server_at(contact: &ServerContact) -> Option<ServerId> {
    contact.addresses.first()?.strip_prefix("server:")?.parse().ok().map(ServerId)
}

impl SimClients {
    /// So many, none of them in.
    pub fn new(players: u32, seed: u64) -> SimClients {
        let _ = players;
        SimClients {
            clients: Vec::new(),
            links: BTreeMap::new(),
            next_link: u64::from(players) << 32,
            rng: fastrand::Rng::with_seed(seed ^ 0xc11e),
            right: [[0; 2]; 2],
            ghosts: Default::default(),
            silences: Vec::new(),
        }
    }

    /// How many there are to be.
    pub fn wanted(&self) -> usize {
        (self.next_link >> 32) as usize
    }

    /// A server's chance.
    pub fn keys(&mut self, server: ServerId, sabotage: Option<Sabotage>) -> Keys {
        let mut rng = fastrand::Rng::with_seed(self.rng.u64(..) ^ u64::from(server.0));
        if sabotage == Some(Sabotage::SameKeys) {
            return Box::new(|| ResumeKey([7; 16]));
        }
        Box::new(move || ResumeKey(rng.u128(..).to_le_bytes()))
    }
}

impl MeshWorld {
    /// Players come within a few seconds.
    pub(super) fn start_clients(&mut self) {
        for at in 0..self.clients.wanted() {
            let name = format!("player {at}");
            let client = Client::new(Arc::clone(&self.game), &name, &[]);
            self.clients.clients.push(SimClient {
                client,
                name,
                number: 0,
                linked: Micros::ZERO,
                dialling: false,
                dial: 0,
                away: false,
                heard: Micros::ZERO,
                orphaned: None,
                amiss: 0,
                missing: String::new(),
                count: 0,
                off: 0,
                wrong: String::new(),
                apart: 0,
            });
            let first = Micros(2_000_000 + self.clients.rng.u64(..2_000_000));
            self.agenda.plan(first, Happening::Client(ClientHappening::Wake(at)));
            if at % 2 == 1 {
                let change = Micros(20_000_000 + self.clients.rng.u64(..20_000_000));
                self.agenda.plan(change, Happening::Client(ClientHappening::Change(at)));
            }
        }
    }

    pub(super) fn on_client(&mut self, happening: ClientHappening) {
        match happening {
            ClientHappening::Wake(at) => self.wake_client(at),
            ClientHappening::ToClient(link, outgoing) => self.deliver_to_client(link, outgoing),
            ClientHappening::LinkDelivery(it) => self.deliver_to_server(it),
            ClientHappening::Dialled(at, server, dial) => self.dialled(at, server, dial),
            ClientHappening::Ended(link) => self.end_link(link),
            ClientHappening::Change(at) => self.change_client(at),
        }
    }

    fn plan_client(&mut self, after: Micros, happening: ClientHappening) {
        self.agenda.plan(self.now + after, Happening::Client(happening));
    }

    fn wake_client(&mut self, at: usize) {
        let now = self.now;
        let it = &mut self.clients.clients[at];
        let mut out = RecordingOutbox::default();
        let number = &mut it.number;
        it.client.tick(now, &mut out, |_, _| {
            *number += 1;
            Counted(*number)
        });
        self.plan_client(super::super::run::ROUND, ClientHappening::Wake(at));
        self.ship_client(at, out);
        self.mind_client(at);
        self.note_play(at);
    }

    /// Dials where the client wants to go, or anywhere if it has no link for long.
    fn mind_client(&mut self, at: usize) {
        let it = &mut self.clients.clients[at];
        while it.client.poll().is_some() {}
        if let Some(server) = it.client.take_dial().as_ref().and_then(server_at) {
            it.dialling = true;
            it.dial += 1;
            let dial = it.dial;
            let wait = self.delay() + self.delay();
            return self.plan_client(wait, ClientHappening::Dialled(at, server, dial));
        }
        let it = &mut self.clients.clients[at];
        let refused = matches!(it.client.phase(), ClientPhase::Refused(..));
        let linked = self.clients.links.values().any(|link| link.client == at);
        if linked && !refused {
            it.linked = self.now;
        }
        if !linked && !it.dialling && !it.away && self.now - it.linked >= DIAL_AFTER {
            it.dialling = true;
            let dial = it.dial;
            let up: Vec<ServerId> = self.processes.keys().copied().collect();
            if let Some(server) = self.clients.rng.choice(up) {
                let wait = self.delay() + self.delay();
                self.plan_client(wait, ClientHappening::Dialled(at, server, dial));
            }
        }
    }

    fn dialled(&mut self, at: usize, server: ServerId, dial: u32) {
        if self.clients.clients[at].dial != dial {
            return;
        }
        self.clients.clients[at].dialling = false;
        if self.clients.clients[at].away {
            return;
        }
        if !self.processes.contains_key(&server) {
            self.clients.clients[at].client.unreachable();
            return;
        }
        self.clients.next_link += 1;
        let link = Link(self.clients.next_link);
        let ready = [self.now; 2];
        self.clients.links.insert(link, SimLink { client: at, server, ready });
        self.deliver_to_server(LinkDelivery { link, what: LinkInput::Connected });
        let mut out = RecordingOutbox::default();
        let input = NodeInput::Connected(link, Remote::Anonymous);
        self.clients.clients[at].client.handle(self.now, input, &mut out);
        self.ship_client(at, out);
    }

    /// What a client says.
    fn ship_client(&mut self, at: usize, out: RecordingOutbox) {
        for (link, outgoing) in out.0 {
            let delay = self.delay();
            let is_datagram = matches!(outgoing, Outgoing::Datagram(_));
            if is_datagram && self.loses() {
                continue;
            }
            let Some(known) = self.clients.links.get_mut(&link).filter(|it| it.client == at) else {
                continue;
            };
            let mut when = self.now + delay;
            if !is_datagram {
                when = when.max(known.ready[0]);
                known.ready[0] = when;
            }
            let closes = matches!(outgoing, Outgoing::Close(_));
            let what = if closes { LinkInput::Closed } else { LinkInput::Data(outgoing) };
            let it = ClientHappening::LinkDelivery(LinkDelivery { link, what });
            self.agenda.plan(when, Happening::Client(it));
            if closes {
                self.plan_client(Micros(1), ClientHappening::Ended(link));
            }
        }
    }

    /// What a server says.
    pub(super) fn ship(&mut self, id: ServerId, out: RecordingOutbox) {
        for (link, outgoing) in out.0 {
            let delay = self.delay();
            let is_datagram = matches!(outgoing, Outgoing::Datagram(_));
            if let Outgoing::Datagram(bytes) | Outgoing::Message(bytes) = &outgoing {
                self.counts.client_bytes += bytes.len() as u64;
            }
            if is_datagram && self.loses() {
                continue;
            }
            let Some(known) = self.clients.links.get_mut(&link).filter(|it| it.server == id) else {
                continue;
            };
            let mut when = self.now + delay;
            if !is_datagram {
                when = when.max(known.ready[1]);
                known.ready[1] = when;
            }
            let it = match outgoing {
                Outgoing::Close(_) => ClientHappening::Ended(link),
                outgoing => ClientHappening::ToClient(link, outgoing),
            };
            self.agenda.plan(when, Happening::Client(it));
        }
    }

    /// The client at a link, unless the link has ended for it.
    fn client_of(&self, link: Link) -> Option<usize> {
        self.clients.links.get(&link).map(|it| it.client).filter(|at| *at != usize::MAX)
    }

    fn deliver_to_client(&mut self, link: Link, outgoing: Outgoing) {
        let Some(at) = self.client_of(link) else { return };
        let mut out = RecordingOutbox::default();
        let client = &mut self.clients.clients[at].client;
        match &outgoing {
            Outgoing::Datagram(bytes) => {
                if client.host_link() == Some(link) {
                    self.clients.clients[at].heard = self.now;
                }
                let client = &mut self.clients.clients[at].client;
                client.handle(self.now, NodeInput::Datagram(link, bytes), &mut out);
            }
            Outgoing::Message(bytes) => {
                client.handle(self.now, NodeInput::Message(link, bytes), &mut out);
            }
            Outgoing::Close(_) => {}
        }
        self.ship_client(at, out);
        self.mind_client(at);
    }

    pub(super) fn deliver_to_server(&mut self, it: LinkDelivery) {
        let Some(server) = self.clients.links.get(&it.link).map(|it| it.server) else { return };
        let Some(process) = self.processes.get_mut(&server) else { return };
        if process.paused {
            return process.held_links.push(it);
        }
        let clock = process.clock(self.now);
        let mut out = RecordingOutbox::default();
        let input = match &it.what {
            LinkInput::Connected => NodeInput::Connected(it.link, Remote::Anonymous),
            LinkInput::Data(Outgoing::Datagram(bytes)) => NodeInput::Datagram(it.link, bytes),
            LinkInput::Data(Outgoing::Message(bytes)) => NodeInput::Message(it.link, bytes),
            LinkInput::Closed | LinkInput::Data(Outgoing::Close(_)) => NodeInput::Closed(it.link),
        };
        process.node.handle(clock, input, &mut out);
        self.ship(server, out);
        self.carry_out(server);
        if matches!(it.what, LinkInput::Closed) {
            self.clients.links.remove(&it.link);
        }
    }

    /// A link has ended, for both ends.
    fn end_link(&mut self, link: Link) {
        let Some(at) = self.client_of(link) else { return };
        let closed = LinkDelivery { link, what: LinkInput::Closed };
        self.agenda.plan(
            self.now + Micros(30_000),
            Happening::Client(ClientHappening::LinkDelivery(closed)),
        );
        let mut out = RecordingOutbox::default();
        self.clients.clients[at].client.handle(self.now, NodeInput::Closed(link), &mut out);
        if let Some(known) = self.clients.links.get_mut(&link) {
            known.client = usize::MAX;
        }
        self.mind_client(at);
    }

    /// A server died: its links end later.
    pub(super) fn lose_links(&mut self, server: ServerId) {
        let links: Vec<Link> = self
            .clients
            .links
            .iter()
            .filter(|(_, it)| it.server == server && it.client != usize::MAX)
            .map(|(link, _)| *link)
            .collect();
        for link in links {
            self.plan_client(LINK_TIMEOUT, ClientHappening::Ended(link));
        }
    }

    /// A player leaves for a while or vanishes, or comes again.
    fn change_client(&mut self, at: usize) {
        let wait = Micros(1_000_000 + self.clients.rng.u64(..12_000_000));
        self.plan_client(wait, ClientHappening::Change(at));
        let (says_so, calm) = (self.clients.rng.u8(..3) > 0, self.calm);
        let it = &mut self.clients.clients[at];
        let mut out = RecordingOutbox::default();
        it.away = !it.away && it.client.joined().is_some() && !calm;
        if it.away {
            if says_so {
                it.client.leave(&mut out);
            }
            it.orphaned = None;
            it.client = Client::new(Arc::clone(&self.game), &it.name, &[]);
        }
        let links = self.clients.links.iter().filter(|(_, link)| link.client == at);
        let links: Vec<Link> = links.map(|(link, _)| *link).collect();
        let away = self.clients.clients[at].away;
        self.ship_client(at, out);
        for link in links.into_iter().filter(|_| away) {
            self.plan_client(Micros(200_000), ClientHappening::Ended(link));
        }
    }

    /// Whether a player plays: the session's host hosts it, may act, and was heard of late.
    pub(super) fn plays(&self, at: usize) -> bool {
        let it = &self.clients.clients[at];
        let Some((joined, link)) = it.client.joined().zip(it.client.host_link()) else {
            return false;
        };
        let server = self.clients.links.get(&link).map(|link| link.server);
        let Some(process) = server.and_then(|server| self.processes.get(&server)) else {
            return false;
        };
        let clock = process.clock(self.now);
        let mut hosted = process.node.hosted_players();
        let hosts = hosted.any(|(region, player, _)| {
            player == joined.player && process.node.may_act_until(region) > clock
        });
        hosts && !process.paused && self.now - it.heard <= RECENT
    }

    /// Compares what clients see near them with what is there.
    pub fn compare_clients(&mut self) {
        let mut truth: BTreeMap<ObjectId, [f32; 2]> = BTreeMap::new();
        let mut hosts: BTreeMap<PlayerId, BTreeSet<ServerId>> = BTreeMap::new();
        let schema = foveate_node::game::Game::schema(&*self.game);
        for process in self.processes.values() {
            let clock = process.clock(self.now);
            for region in process.node.regions() {
                if process.node.may_act_until(region.id) <= clock {
                    continue;
                }
                for (id, _) in region.owned() {
                    let place = schema.kind(id.kind()).and_then(|kind| kind.place);
                    if let Some((state, place)) = region.state(id).zip(place) {
                        let at = place.coordinates(&state.lanes);
                        truth.insert(id, [0, 1].map(|axis| at[axis] as f32 * place.precision));
                    }
                }
            }
            for (_, player, _) in process.node.hosted_players() {
                hosts.entry(player).or_default().insert(process.node.id());
            }
        }
        let layout = self.processes.values().find_map(|it| it.node.layout());
        let border = |at: [f32; 2]| {
            let leaves = layout.iter().flat_map(|layout| layout.leaves());
            leaves.filter(|(_, rect)| rect.distance(at) < NEAR).count() > 1
        };
        let mut right = [[0; 2]; 2];
        for it in &mut self.clients.clients {
            let Some(joined) = it.client.joined().filter(|_| !it.away) else { continue };
            let Some(me) = truth.get(&joined.avatar).copied() else {
                it.off += 1;
                it.wrong = "its avatar is nowhere".to_owned();
                continue;
            };
            let tick = it.client.tick_now(self.now);
            let near = truth.iter().filter(|(_, at)| (at[0] - me[0]).hypot(at[1] - me[1]) < NEAR);
            let (mut all, mut good) = (0, 0);
            for (id, at) in near {
                let seen =
                    it.client.replicas.get(*id).and_then(|view| view.predicted(Tick(tick.0)));
                let off = seen.map(|seen| (seen[0] - at[0]).hypot(seen[1] - at[1]));
                all += 1;
                let right = off.is_some_and(|off| off < OFF);
                good += u64::from(right);
                if !right {
                    it.wrong = format!(
                        "{id:?} at {at:?} is {seen:?}, {:?}",
                        it.client.replicas.get(*id).map(|view| (view.tick(), view.life()))
                    );
                }
            }
            let side = usize::from(border(me));
            right[side][0] += all;
            right[side][1] += good;
            it.off = if good == all { 0 } else { it.off + 1 };
            let link = it.client.host_link().and_then(|link| self.clients.links.get(&link));
            let host = hosts.get(&joined.player);
            let there = link.is_some_and(|link| host.is_some_and(|it| it.contains(&link.server)));
            it.apart = if there { 0 } else { it.apart + 1 };
        }
        for (sum, new) in self.clients.right.iter_mut().flatten().zip(right.iter().flatten()) {
            *sum += new;
        }
    }

    /// In the end: every client is in, sees what is near, and each input was used once.
    pub fn judge_clients(&mut self) {
        let mut found = Vec::new();
        for (at, it) in self.clients.clients.iter().enumerate().filter(|(_, it)| !it.away) {
            let (name, place) = (&it.name, self.whereabouts(at));
            if it.client.joined().is_none() {
                found.push((FindingKind::Stuck, format!("{name} is not in; {place}")));
            } else if it.apart >= 15 {
                let text = format!("{name}'s host does not have its session; {place}");
                found.push((FindingKind::Stuck, text));
            } else if it.off >= 15 {
                found.push((FindingKind::Diverged, format!("{name}: {}; {place}", it.wrong)));
            }
        }
        for it in self.clients.clients.iter().filter(|it| it.amiss >= 15) {
            found.push((FindingKind::PlayerLost, format!("{}: {}", it.name, it.missing)));
        }
        let schema = foveate_node::game::Game::schema(&*self.game);
        if let Some(kind) = schema.kind(AVATAR) {
            for region in self.processes.values().flat_map(|it| it.node.regions()) {
                for (id, _) in region.owned().filter(|(id, _)| id.kind() == AVATAR) {
                    let Some(state) = region.state(id) else { continue };
                    let avatar = DriftAvatar::get(kind, &state.lanes);
                    self.counts.inputs_missed += u64::from(avatar.missed);
                    if avatar.again > 0 {
                        let text = format!("{id:?} used {} inputs again", avatar.again);
                        found.push((FindingKind::InputTwice, text));
                    }
                }
            }
        }
        found.into_iter().for_each(|(kind, text)| self.checker.find(kind, self.now, text));
    }
}
