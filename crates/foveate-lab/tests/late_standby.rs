//! A client and the standby of a crashed region server, which it may reach late: three servers and a client, whose messages arrive
//! at once.

use foveate_lab::mesh::faults::FaultSpec;
use foveate_lab::mesh::game::{AVATAR, BAG, Counted, Drift, DriftAvatar, DriftBag};
use foveate_lab::mesh::run::{MeshSpec, ROUND};
use foveate_node::Client;
use foveate_node::game::Game;
use foveate_node::node::{Node, NodeInput, Remote};
use foveate_node::outbox::{Link, Outgoing, RecordingOutbox};
use foveate_node::region::bus::Recipient;
use foveate_node::region::layout::{Layout, Rect, RegionId, ServerId, SplitLine};
use foveate_node::region::ledger::{
    AppendId, LedgerAnswer, LedgerRequest, Subject, read_record, write_record,
};
use foveate_node::region::players::{PlayerPlace, PlayerRecord, player_number, subject};
use foveate_node::region::{RegionCommand, RegionEvent, RegionServer, RegionSettings};
use foveate_node::server::ServerSettings;
use foveate_node::session::{ResumeKey, ServerContact};
use foveate_wire::{KindId, Metres, Micros, Replicate};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

struct World {
    servers: BTreeMap<ServerId, RegionServer<Drift>>,
    ledger: BTreeMap<Subject, Vec<Vec<u8>>>,
    followers: BTreeSet<(ServerId, Subject)>,
    client: Client<Drift>,
    links: BTreeMap<Link, ServerId>,
    commands: VecDeque<(ServerId, RegionCommand)>,
    /// A server that stands still, and what it finds when it goes on.
    still: Option<(ServerId, VecDeque<RegionCommand>)>,
    inputs: u32,
    now: Micros,
    /// Rounds that the client's datagrams take.
    lag: u32,
    /// Those under way, each with its time.
    late: VecDeque<(Micros, Link, Vec<u8>)>,
    /// The ledger takes nothing for regions' logs.
    logs_away: bool,
}

fn server(game: &Arc<Drift>, id: u32) -> RegionServer<Drift> {
    let extent = Rect { min: [-44.0; 2], max: [44.0; 2] };
    let settings = RegionSettings::new(ROUND, Metres(16.0), extent);
    let mut key = u128::from(id) << 64;
    let keys = Box::new(move || {
        key += 1;
        ResumeKey(key.to_le_bytes())
    });
    let contact = ServerContact { addresses: vec![id.to_string()], certificate: Vec::new() };
    RegionServer::new(Arc::clone(game), settings, ServerId(id)).with_players(
        contact,
        keys,
        ServerSettings::default(),
    )
}

impl World {
    /// Three servers, one of which runs the only region, and a client that plays there.
    fn begin() -> World {
        World::begin_with(|_| {})
    }

    /// The same, but for the layout.
    fn begin_with(change: impl FnOnce(&mut Layout)) -> World {
        let spec = MeshSpec::small(FaultSpec::NONE, ROUND, 1);
        let game = Arc::new(Drift::new(spec.drift).unwrap());
        let mut world = World {
            servers: (1..=3).map(|id| (ServerId(id), server(&game, id))).collect(),
            ledger: BTreeMap::new(),
            followers: BTreeSet::new(),
            client: Client::new(Arc::clone(&game), "ada", &[]),
            links: BTreeMap::new(),
            commands: VecDeque::new(),
            still: None,
            inputs: 0,
            now: Micros(1_000_000),
            lag: 0,
            late: VecDeque::new(),
            logs_away: false,
        };
        let mut layout = Layout::new(game.schema().hash(), ROUND, ServerId(1));
        change(&mut layout);
        let found = RegionCommand::Found(Box::new(layout));
        world.commands.push_back((ServerId(1), found));
        world.rounds(60);
        world.connect(Link(1), ServerId(1));
        world.rounds(100);
        assert!(world.client.joined().is_some() && world.client.session_epoch() > 0);
        while world.client.take_dial().is_some() {}
        world
    }

    fn give(&mut self, id: ServerId, input: NodeInput<'_, RegionCommand>) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        let mut out = RecordingOutbox::default();
        server.handle(self.now, input, &mut out);
        let events: Vec<RegionEvent> = std::iter::from_fn(|| server.poll()).collect();
        events.into_iter().for_each(|event| self.on_event(id, event));
        out.0.into_iter().for_each(|(link, outgoing)| self.deliver_to_client(link, &outgoing));
    }

    fn on_event(&mut self, id: ServerId, event: RegionEvent) {
        match event {
            RegionEvent::Ledger(LedgerRequest::Append { subject: Subject::Log(_), .. })
                if self.logs_away => {}
            RegionEvent::Ledger(LedgerRequest::Append { request, subject, last, bytes }) => {
                let entries = self.ledger.entry(subject).or_default();
                let mut at = entries.len() as u64;
                let answer = match at == last {
                    true => {
                        at += 1;
                        entries.push(bytes.clone());
                        LedgerAnswer::Appended(at)
                    }
                    false => LedgerAnswer::Conflict(at),
                };
                self.commands.push_back((id, RegionCommand::Answer(request, answer)));
                if matches!(answer, LedgerAnswer::Appended(_)) {
                    let all = self.followers.iter().filter(|(_, followed)| *followed == subject);
                    let entry = |to| (to, RegionCommand::Entry(subject, at, bytes.clone()));
                    self.commands.extend(all.map(|(to, _)| entry(*to)));
                }
            }
            RegionEvent::Ledger(LedgerRequest::Follow(subject)) => {
                self.followers.insert((id, subject));
                let entries = self.ledger.get(&subject).into_iter().flatten();
                let entry = |(at, bytes): (u64, &Vec<u8>)| {
                    (id, RegionCommand::Entry(subject, at, bytes.clone()))
                };
                self.commands.extend((1..).zip(entries).map(entry));
            }
            RegionEvent::Ledger(LedgerRequest::Unfollow(subject)) => {
                self.followers.remove(&(id, subject));
            }
            RegionEvent::Publish(message) => {
                let to: Vec<ServerId> = match message.to {
                    Recipient::All => self.servers.keys().copied().filter(|to| *to != id).collect(),
                    Recipient::Server(to) => vec![to],
                };
                let deliver = |to| (to, RegionCommand::Deliver(message.bytes.clone()));
                self.commands.extend(to.into_iter().map(deliver));
            }
            RegionEvent::Asked { link, .. } => {
                self.commands.push_back((id, RegionCommand::Admit(link)));
            }
            _ => {}
        }
    }

    fn deliver_to_client(&mut self, link: Link, outgoing: &Outgoing) {
        if !self.links.contains_key(&link) {
            return;
        }
        let mut out = RecordingOutbox::default();
        let input = match outgoing {
            Outgoing::Datagram(bytes) => NodeInput::Datagram(link, bytes),
            Outgoing::Message(bytes) => NodeInput::Message(link, bytes),
            Outgoing::Close(_) => NodeInput::Closed(link),
        };
        self.client.handle(self.now, input, &mut out);
        self.deliver_to_servers(out);
    }

    fn deliver_to_servers(&mut self, out: RecordingOutbox) {
        for (link, outgoing) in out.0 {
            let Some(id) = self.links.get(&link).copied() else { continue };
            if let Outgoing::Datagram(bytes) = &outgoing
                && self.lag > 0
            {
                let due = self.now + ROUND * self.lag;
                self.late.push_back((due, link, bytes.clone()));
                continue;
            }
            let input = match &outgoing {
                Outgoing::Datagram(bytes) => NodeInput::Datagram(link, bytes),
                Outgoing::Message(bytes) => NodeInput::Message(link, bytes),
                Outgoing::Close(_) => NodeInput::Closed(link),
            };
            self.give(id, input);
        }
    }

    fn connect(&mut self, link: Link, id: ServerId) {
        self.links.insert(link, id);
        self.give(id, NodeInput::Connected(link, Remote::Anonymous));
        let mut out = RecordingOutbox::default();
        self.client.handle(self.now, NodeInput::Connected(link, Remote::Anonymous), &mut out);
        self.deliver_to_servers(out);
    }

    fn rounds(&mut self, count: u32) {
        for _ in 0..count {
            self.now = self.now + ROUND;
            let ids: Vec<ServerId> = self.servers.keys().copied().collect();
            let still = self.still.as_ref().map(|it| it.0);
            let awake = ids.into_iter().filter(|id| Some(*id) != still);
            awake.for_each(|id| self.give(id, NodeInput::Wake));
            while let Some((id, command)) = self.commands.pop_front() {
                match self.still.as_mut().filter(|it| it.0 == id) {
                    Some((_, waiting)) => waiting.push_back(command),
                    None => self.give(id, NodeInput::Command(command)),
                }
            }
            while let Some((_, link, bytes)) = self.late.pop_front_if(|it| it.0 <= self.now) {
                if let Some(id) = self.links.get(&link).copied() {
                    self.give(id, NodeInput::Datagram(link, &bytes));
                }
            }
            let mut out = RecordingOutbox::default();
            self.inputs += 1;
            let input = Counted(self.inputs);
            self.client.tick(self.now, &mut out, |_, _| input);
            while self.client.poll().is_some() {}
            self.deliver_to_servers(out);
        }
    }

    /// The server that runs a region, as another one knows.
    fn owner(&self, asked: ServerId, region: RegionId) -> Option<ServerId> {
        Some(self.servers.get(&asked)?.layout()?.get(region)?.server)
    }

    /// The player's newest record, and how many there are.
    fn record(&self) -> (PlayerRecord, u64) {
        let entries = &self.ledger[&subject(player_number("ada", 0))];
        let (_, record): (AppendId, _) = read_record(entries.last().unwrap()).unwrap();
        (record, entries.len() as u64)
    }

    /// The ledger says that the player's session goes to a region.
    fn move_to(&mut self, region: RegionId) {
        let (record, last) = self.record();
        let place = PlayerPlace::Hosted { region, kept: Vec::new() };
        let record = PlayerRecord { epoch: record.epoch + 1, place, ..record };
        let subject = subject(player_number("ada", 0));
        let by = AppendId { server: ServerId(9), number: last };
        let bytes = write_record(&(by, record));
        self.ledger.entry(subject).or_default().push(bytes.clone());
        for (to, _) in self.followers.iter().filter(|it| it.1 == subject) {
            let entry = RegionCommand::Entry(subject, last + 1, bytes.clone());
            self.commands.push_back((*to, entry));
        }
    }

    /// The player's object of a kind, where it is owned.
    fn owned<T: Replicate>(&self, kind: KindId) -> Option<T> {
        let regions = self.servers.values().flat_map(|server| server.regions());
        let mut owned = regions.flat_map(|region| region.owned().map(move |(id, _)| (id, region)));
        let (id, region) = owned.find(|(id, _)| id.kind() == kind)?;
        let schema = self.servers.values().next()?.schema();
        Some(T::get(schema.kind(kind)?, &region.state(id)?.lanes))
    }

    /// A player comes, or comes again.
    fn enter(&mut self, name: &str, link: Link, id: ServerId) {
        let game = Arc::new(Drift::new(MeshSpec::small(FaultSpec::NONE, ROUND, 1).drift).unwrap());
        self.client = Client::new(game, name, &[]);
        self.connect(link, id);
    }

    fn leave(&mut self) {
        let mut out = RecordingOutbox::default();
        self.client.leave(&mut out);
        self.deliver_to_servers(out);
        self.rounds(40);
    }

    /// The standby that the client wants to connect to.
    fn dialled(&mut self) -> Option<ServerId> {
        self.client.take_dial()?.addresses[0].parse().ok().map(ServerId)
    }
}

#[test]
fn a_client_that_comes_after_its_session_began_anew_is_told_anew() {
    // Before the standby takes over, and long after.
    for wait in [15, 80] {
        let mut world = World::begin();
        world.servers.remove(&ServerId(1));
        world.rounds(wait);
        let standby = world.dialled().expect("the host is silent");
        world.connect(Link(2), standby);
        world.rounds(100);
        let (counts, heard) = (world.client.counts(), world.client.last_heard());
        assert_eq!(world.client.host_link(), Some(Link(2)), "after {wait} rounds");
        assert_eq!(counts.malformed, 0, "after {wait} rounds: {counts:?}");
        assert!(heard.is_some_and(|heard| world.now - heard <= ROUND + ROUND), "{heard:?}");
        let foreseen = counts.foreseen;
        world.rounds(20);
        assert!(world.client.counts().foreseen >= foreseen + 15, "its inputs count: {counts:?}");
    }
}

#[test]
fn a_standby_that_could_not_be_reached_is_tried_again() {
    let mut world = World::begin();
    world.servers.remove(&ServerId(1));
    world.rounds(15);
    let standby = world.dialled().expect("the host is silent");
    world.client.unreachable();
    world.rounds(15);
    assert_eq!(world.dialled(), Some(standby));
    world.connect(Link(2), standby);
    world.rounds(60);
    assert_eq!(world.client.host_link(), Some(Link(2)));
    assert_eq!(world.client.counts().malformed, 0);
}

#[test]
fn a_server_that_lost_a_region_before_it_ran_it_sends_players_on() {
    let mut world = World::begin();
    let region = RegionId(0);
    world.servers.remove(&ServerId(1));
    world.rounds(15);
    let standby = world.dialled().expect("the host is silent");
    let other = ServerId(5 - standby.0);
    while world.owner(other, region) != Some(standby) {
        world.rounds(1);
    }
    // It has won the region, and not fenced its log.
    assert_eq!(world.servers[&standby].regions().count(), 0);
    world.still = Some((standby, VecDeque::new()));
    world.rounds(60);
    assert_eq!(world.owner(other, region), Some(other));
    let (_, waiting) = world.still.take().unwrap();
    world.commands.extend(waiting.into_iter().map(|command| (standby, command)));
    world.rounds(20);
    world.connect(Link(2), standby);
    for round in 0..120 {
        world.rounds(1);
        if let Some(server) = world.dialled() {
            world.connect(Link(3 + round), server);
        }
    }
    let host = world.client.host_link().and_then(|link| world.links.get(&link));
    assert_eq!((world.client.joined().is_some(), host), (true, Some(&other)));
}

#[test]
fn a_session_that_comes_back_after_a_takeover_is_waited_for() {
    let mut world = World::begin_with(|layout| {
        let line = SplitLine { axis: 0, at: 1e6 };
        layout.split(RegionId(0), line, ServerId(3), true).unwrap();
    });
    let (here, there) = (RegionId(0), RegionId(1));
    assert_eq!(world.record().0.host(), Some(here));
    world.servers.remove(&ServerId(1));
    // It goes elsewhere, which the standby's notes do not say, and comes back.
    world.move_to(there);
    world.rounds(80);
    let before = world.record().1;
    world.move_to(here);
    world.rounds(10);
    assert_eq!(world.record().1, before + 1, "it is on its way");
    world.rounds(30);
    assert_eq!(world.record().1, before + 2, "it did not come, and begins anew");
}

#[test]
fn inputs_that_were_on_their_way_while_the_client_was_told_anew_are_not_taken_for_later_ones() {
    let mut world = World::begin();
    world.lag = 3;
    world.rounds(10);
    world.servers.remove(&ServerId(1));
    world.rounds(15);
    let standby = world.dialled().expect("the host is silent");
    world.connect(Link(2), standby);
    world.rounds(100);
    assert_eq!(world.client.host_link(), Some(Link(2)));
    let (avatar, newest) = (world.owned::<DriftAvatar>(AVATAR).unwrap(), world.inputs);
    assert!(avatar.last + 15 >= newest, "{avatar:?} of {newest}: its inputs count");
    assert_eq!(avatar.again, 0, "{avatar:?}");
}

/// A player has come, its host has crashed before the log had that, and the player waits at the standby.
fn crashed_before_it_was_logged(mut world: World, name: &str) -> World {
    world.logs_away = true;
    world.enter(name, Link(2), ServerId(1));
    world.rounds(40);
    assert!(world.client.session_epoch() > 0 && world.owned::<DriftBag>(BAG).is_some());
    world.servers.remove(&ServerId(1));
    world.logs_away = false;
    while world.client.take_dial().is_some() {}
    world.rounds(15);
    let standby = world.dialled().expect("the host is silent");
    world.connect(Link(3), standby);
    world.rounds(40);
    assert_eq!(world.client.host_link(), Some(Link(3)));
    world
}

#[test]
fn a_player_whose_host_crashed_before_it_was_logged_has_its_avatar_and_belongings_again() {
    for newcomer in [true, false] {
        let mut world = World::begin();
        world.rounds(400);
        let count = world.owned::<DriftBag>(BAG).unwrap().count;
        assert!(count > 0);
        world.leave();
        let name = if newcomer { "bob" } else { "ada" };
        let mut world = crashed_before_it_was_logged(world, name);
        world.rounds(100);
        let (avatar, bag) = (world.owned::<DriftAvatar>(AVATAR), world.owned::<DriftBag>(BAG));
        assert!(avatar.is_some(), "newcomer {newcomer}: an avatar");
        assert!(
            bag.is_some_and(|bag| newcomer || bag.count >= count),
            "newcomer {newcomer}: {count}"
        );
    }
}

#[test]
fn a_player_that_leaves_before_its_belongings_were_logged_finds_them_later() {
    let mut world = World::begin();
    world.rounds(400);
    let count = world.owned::<DriftBag>(BAG).unwrap().count;
    world.leave();
    let mut world = crashed_before_it_was_logged(world, "ada");
    world.leave();
    world.rounds(200);
    let server = *world.servers.keys().next().unwrap();
    world.enter("ada", Link(4), server);
    world.rounds(100);
    let bag = world.owned::<DriftBag>(BAG);
    assert!(bag.as_ref().is_some_and(|bag| bag.count >= count), "{bag:?}, it counted {count}");
}
