//! What comes in: the ledger's answers and entries, and other servers' messages.

use super::border::Feed;
use super::bus::{BusMessage, Envelope, Recipient, RegionEpoch, Subscription};
use super::helpers::{helper_name, is_helper};
use super::layout::{Layout, RegionId, ServerId};
use super::ledger::{
    AppendId, LedgerAnswer, LedgerRequest, Pending, Settled, Subject, read_record,
};
use super::log::read_batch;
use super::owner::Region;
use super::servers::ServerRecord;
use super::{MeshStep, RegionEvent, RegionServer};
use crate::game::{Game, PlayerId};
use foveate_sync::replica::{Change, ReceiveError};
use foveate_wire::{Micros, ObjectId};

/// Messages to itself in one input at most.
const MAX_LOOPBACK: usize = 4_096;

impl<G: Game> RegionServer<G> {
    /// The ledger answered.
    pub(super) fn on_answer(&mut self, request: u64, answer: LedgerAnswer, now: Micros) {
        if let Some((pending, settled)) = self.appends.on_answer(request, answer) {
            self.on_settled(&pending, settled, now);
        }
    }

    fn on_settled(&mut self, pending: &Pending, settled: Settled, now: Micros) {
        match (pending.subject, settled) {
            (Subject::Player(player), settled) => {
                self.on_player_settled(PlayerId(player), settled, now);
            }
            (Subject::Layout, settled) => self.on_layout_settled(settled, now),
            (Subject::Server(server), Settled::Appended(at)) => {
                self.on_server_appended(server, at, pending.since, now);
            }
            // What was read instead says why.
            (Subject::Server(_), Settled::Lost) => {}
            (Subject::Log(id), Settled::Appended(at)) => {
                if self.opening.contains_key(&id) {
                    return self.on_fenced(id, at, now);
                }
                let expires = self.may_act_until(id);
                let Some(mut region) = self.regions.remove(&id) else { return };
                self.with_surroundings(now, |around| region.confirm(at, around));
                self.regions.insert(id, region);
                self.settle(expires);
                self.forget_done(id);
                self.truncate(id);
                if self.may_act_until(id) > now {
                    self.append_log(id, now);
                }
            }
            (Subject::Log(id), Settled::Lost) => {
                // A region that is being opened tries again, after what has been read by then; one that runs is fenced.
                if !self.opening.contains_key(&id) {
                    self.drop_region(id);
                }
            }
        }
    }

    /// Entries that no follower needs are dropped.
    fn truncate(&mut self, id: RegionId) {
        let Some(view) = self.logs.get_mut(&id).filter(|view| view.needed_from > view.truncated)
        else {
            return;
        };
        view.truncated = view.needed_from;
        let request = LedgerRequest::Truncate(Subject::Log(id), view.needed_from);
        self.events.push_back(RegionEvent::Ledger(request));
    }

    /// An entry of a subject that is followed.
    pub(super) fn on_entry(&mut self, subject: Subject, sequence: u64, bytes: &[u8], now: Micros) {
        let by = match subject {
            Subject::Layout => self.read_layout(sequence, bytes, now),
            Subject::Server(server) => self.read_server(server, sequence, bytes, now),
            Subject::Log(id) => self.read_log(id, sequence, bytes, now),
            Subject::Player(player) => self.read_player(PlayerId(player), sequence, bytes, now),
        };
        let Some(by) = by else {
            self.counts.malformed += 1;
            return;
        };
        if let Some((pending, settled)) = self.appends.on_entry(subject, sequence, by) {
            self.on_settled(&pending, settled, now);
        }
    }

    fn read_layout(&mut self, sequence: u64, bytes: &[u8], now: Micros) -> Option<AppendId> {
        let (by, record): (AppendId, Vec<u8>) = read_record(bytes).ok()?;
        let own = self.appends.pending(Subject::Layout).is_some_and(|it| it.id == by);
        match Layout::read(&record) {
            // Its own is dealt with when the append is settled.
            Ok(_) if own => {}
            Ok(layout) => self.on_layout(sequence, layout, now),
            Err(why) => self.events.push_back(RegionEvent::Unusable(why)),
        }
        Some(by)
    }

    fn read_server(
        &mut self,
        server: ServerId,
        sequence: u64,
        bytes: &[u8],
        now: Micros,
    ) -> Option<AppendId> {
        let (by, record): (AppendId, ServerRecord) = read_record(bytes).ok()?;
        if server != self.me {
            self.servers.read(server, sequence, record, (self.heartbeat.counted, now));
        } else if matches!(record, ServerRecord::Dead) {
            self.regions.clear();
            self.standing.clear();
            self.opening.clear();
            self.ended = true;
            self.events.push_back(RegionEvent::Ended);
        }
        Some(by)
    }

    fn read_log(
        &mut self,
        id: RegionId,
        sequence: u64,
        bytes: &[u8],
        now: Micros,
    ) -> Option<AppendId> {
        let (by, batch) = read_batch(bytes).ok()?;
        self.clock.hear(u64::from(batch.tick) * self.settings.rounds.length.0, now);
        self.logs.entry(id).or_default().apply(sequence, &batch);
        self.forget_done(id);
        let view = self.logs.get(&id)?;
        if self.regions.get(&id).is_some_and(|region| region.epoch < view.epoch) {
            self.drop_region(id);
        }
        Some(by)
    }

    /// A log went on: what other regions remember of its transfers may be done with.
    fn forget_done(&mut self, id: RegionId) {
        let Some(mut giver) = self.logs.remove(&id) else { return };
        // What it gave to itself, after its receiver was closed.
        let pending = &giver.pending;
        giver.accepted.retain(|(object, from), _| *from != id || pending.contains_key(object));
        self.logs.values_mut().for_each(|view| view.forget_done(id, &giver));
        self.logs.insert(id, giver);
    }

    /// Another server says something.
    pub(super) fn on_message(&mut self, bytes: &[u8], now: Micros) {
        let Ok(envelope) = Envelope::read(bytes) else {
            self.counts.malformed += 1;
            return;
        };
        self.servers.hear(envelope.from, now);
        if envelope.world > 0 {
            self.clock.hear(envelope.world, now);
        }
        self.on_body(envelope.from, envelope.body, now);
    }

    /// What this server said to itself.
    pub(super) fn hear_itself(&mut self, now: Micros) {
        for _ in 0..MAX_LOOPBACK {
            let Some(body) = self.loopback.pop_front() else { return };
            self.on_body(self.me, body, now);
        }
    }

    /// The highest epoch of a region that is known.
    fn known_epoch(&self, id: RegionId) -> u32 {
        let layout = self.layout.as_ref().and_then(|(_, layout)| layout.get(id));
        let log = self.logs.get(&id).map_or(0, |view| view.epoch);
        layout.map_or(0, |info| info.epoch).max(log)
    }

    fn is_outdated(&mut self, by: RegionEpoch) -> bool {
        let outdated = by.epoch < self.known_epoch(by.region);
        self.counts.outdated += u64::from(outdated);
        outdated
    }

    fn on_body(&mut self, from: ServerId, body: BusMessage, now: Micros) {
        match body {
            BusMessage::Hello => {}
            BusMessage::Beacon(by, number) => self.on_beacon(from, by, number, now),
            BusMessage::BeaconAck(by, number) => {
                if let Some(region) = self.regions.get_mut(&by.region)
                    && region.name() == by
                    && region.standby == Some(from)
                {
                    region.lease.on_ack(number);
                }
            }
            BusMessage::Subscribe(by, wish) => self.on_subscribe(from, by, &wish, now),
            BusMessage::States(by, to, stream, packet) => {
                if !self.is_outdated(by) {
                    self.on_states(by, (to, stream), &packet, now);
                }
            }
            BusMessage::Handoff(by, to, objects) => {
                if self.is_outdated(by) || !self.regions.contains_key(&to) {
                    return;
                }
                // Whether they were given away is in the giver's log, which may be a distant region's.
                self.follow(Subject::Log(by.region));
                let Some(region) = self.regions.get_mut(&to) else { return };
                objects.into_iter().for_each(|it| region.arrive(by.region, it));
            }
            BusMessage::Asks(to, asks) => {
                if let Some(region) = self.regions.get_mut(&to) {
                    asks.into_iter().for_each(|ask| region.question(ask));
                }
            }
            BusMessage::Echo(sent) => self.answer_echo(from, sent, now),
            BusMessage::EchoReply(sent) => self.overlay.on_reply(from, Micros(sent), now),
            BusMessage::Gossip(hearsay) => self.on_gossip(hearsay, now),
            BusMessage::Help(by) => {
                if !self.is_outdated(by) {
                    self.on_help(from, by, now);
                }
            }
            BusMessage::Players(contact, players) => self.on_players(from, contact, players, now),
            BusMessage::Expect(ticket, it) => self.on_expect(from, ticket, it, now),
            BusMessage::Expected(ticket) => self.on_expected(from, ticket, now),
            BusMessage::Ready(ticket) => self.on_ready(from, ticket, now),
            BusMessage::Session(by, to, bytes) => {
                if !self.is_outdated(by) {
                    self.on_session(from, to, &bytes, now);
                }
            }
            BusMessage::SessionTaken(player, epoch) => {
                self.on_session_taken(PlayerId(player), epoch);
            }
            BusMessage::Inputs(to, inputs) => {
                if let Some(region) = self.regions.get_mut(&to) {
                    region.on_inputs(inputs);
                }
            }
            BusMessage::Sessions(by, first, notes) => {
                if !self.is_outdated(by) {
                    self.on_notes(by, first, notes);
                }
            }
            BusMessage::Answers(answers) => {
                for (object, nonce, _) in answers {
                    if let Some(region) = self.regions.get_mut(&nonce.region)
                        && region.epoch == nonce.epoch
                    {
                        region.asks.on_answer(ObjectId(object), nonce.number);
                    }
                }
            }
        }
    }

    fn on_beacon(&mut self, from: ServerId, by: RegionEpoch, number: u64, now: Micros) {
        let Some(standby) = self.standing.get_mut(&by.region) else { return };
        if standby.watch.on_beacon(by.epoch, now) {
            self.reach(MeshStep::BeaconReceived);
            let ack = BusMessage::BeaconAck(by, number);
            self.publish(Recipient::Server(from), ack, Micros::UNBOUNDED);
        }
    }

    fn on_subscribe(&mut self, from: ServerId, by: RegionEpoch, wish: &Subscription, now: Micros) {
        if self.is_outdated(by) {
            return;
        }
        let Some(region) = self.regions.get_mut(&wish.to) else { return };
        // Only its standby asks a region for its own objects, and only helpers for all that it knows.
        let may = match is_helper(by.region) {
            true => self.helpers.includes(wish.to, from) && by.region == helper_name(from),
            false => by.region != wish.to || region.standby == Some(from),
        };
        if may {
            region.on_subscribe((by.region, from), wish, now);
        }
    }

    fn on_states(
        &mut self,
        by: RegionEpoch,
        (to, stream): (RegionId, u64),
        packet: &[u8],
        now: Micros,
    ) {
        if is_helper(to) {
            let helping = self.helpers.helping.get_mut(&by.region);
            if let Some(it) = helping.filter(|it| it.feed.stream == stream) {
                drop(receive(&mut it.feed, by, packet));
            }
            return;
        }
        let region = self.regions.get_mut(&to).filter(|_| to != by.region);
        let feed = match &region {
            Some(region) => region.feeds.get(&by.region),
            None => self.standing.get(&to).filter(|_| to == by.region).map(|it| &it.feed),
        };
        let Some(feed) = feed.filter(|feed| feed.stream == stream) else { return };
        // Another server publishes: the stream begins anew.
        let anew = feed.epoch.is_some_and(|epoch| epoch != by.epoch);
        let (streams, schema, tick) = (&mut self.streams, self.game.schema(), self.ticked);
        let mut fresh = || Feed::new(schema, streams.name(), tick, now);
        match region {
            Some(region) if anew => {
                region.feeds.insert(by.region, fresh());
                region.doubt(by.region, now);
            }
            Some(region) => {
                let Some(mut feed) = region.feeds.remove(&by.region) else { return };
                for change in receive(&mut feed, by, packet) {
                    region.on_change(change, by.region, &feed);
                }
                region.feeds.insert(by.region, feed);
            }
            None => {
                let fresh = anew.then(fresh);
                let Some(standby) = self.standing.get_mut(&to) else { return };
                match fresh {
                    Some(fresh) => standby.feed = fresh,
                    None => drop(receive(&mut standby.feed, by, packet)),
                }
            }
        }
    }
}

impl<G: Game> Region<G> {
    /// Makes a row of what a neighbour told.
    fn on_change(&mut self, change: Change, from: RegionId, feed: &Feed) {
        match change {
            Change::Appeared(id) | Change::Updated(id) => {
                if let Some(replica) = feed.replicas.get(id) {
                    self.hear(id, from, (replica.tick().0, replica.lanes()));
                }
            }
            Change::Frozen(id) | Change::Gone(id) => self.hear_gone(id, from),
        }
    }
}

/// Takes a packet of a stream in.
fn receive(feed: &mut Feed, by: RegionEpoch, packet: &[u8]) -> Vec<Change> {
    feed.epoch = Some(by.epoch);
    let mut changes = Vec::new();
    match feed.replicas.receive(packet, |change| changes.push(change)) {
        Ok(_) | Err(ReceiveError::Duplicate(_) | ReceiveError::TooOld(_)) => feed.owes = true,
        Err(ReceiveError::Packet(_)) => {}
    }
    changes
}
