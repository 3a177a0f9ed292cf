//! One region server in the driver, with its bus and its ledger.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use foveate_node::Link;
use foveate_node::game::Game;
use foveate_node::node::NodeInput;
use foveate_node::region::{RegionCommand, RegionEvent, RegionServer};
use foveate_wire::Micros;

use super::{Bus, BusCounts, Ledger, LedgerReply, LedgerStatus};
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::event::LinkEvent;
use crate::host::{
    Accounts, Driver, EndpointOutbox, HostClock, MAX_HAPPENED, NodeHost, Observers, StepTimings,
    remember,
};
use crate::link_endpoint::LinkEndpoint;
use crate::meter::LinkMeter;
use crate::token::Verifier;

/// Messages and entries that are handed over before the node's events are looked at.
pub const MAX_ANSWERS: usize = 4_096;

/// Bus and ledger are looked at this often, between what links bring.
const SLICE: Duration = Duration::from_millis(2);
/// A loop that was away for longer was stopped, or starved.
const STALL: Micros = Micros(250_000);
/// What arrived meanwhile is taken in for so long before the server is woken: a standby that wakes finds the
/// beacons that wait for it before it judges its owner.
const SETTLE: Duration = Duration::from_millis(50);

/// A region server on real links.
pub struct RegionHost<G: Game, E: LinkEndpoint = Endpoint> {
    /// The server: regions, layout, counts.
    pub server: RegionServer<G>,
    /// The players' links.
    pub endpoint: E,
    /// Whether the server is told how long its rounds take, so that regions follow load. True at first.
    pub balances: bool,
    around: Surroundings,
    driver: Driver,
    looked: Micros,
}

/// What is around the server in a step.
struct Surroundings {
    bus: Box<dyn Bus>,
    ledger: Box<dyn Ledger>,
    clock: HostClock,
    happened: VecDeque<RegionEvent>,
    /// Which players may join.
    accounts: Accounts,
    observers: Observers,
    /// The length of a round, if budgets follow the links.
    measured: Option<Micros>,
    /// Messages that expired before they left.
    expired: u64,
    /// What may still be handed over in this look.
    answers: usize,
}

impl<G: Game, E: LinkEndpoint> NodeHost<RegionServer<G>, E> for Surroundings {
    const MEASURES: bool = true;

    fn on_link<'a>(
        &mut self,
        event: &'a LinkEvent,
        _: &mut RegionServer<G>,
        _: &mut EndpointOutbox<'_, E>,
    ) -> Option<NodeInput<'a, RegionCommand>> {
        (!self.observers.take(event)).then(|| event.input())
    }

    fn on_meter(&mut self, link: Link, meter: Option<LinkMeter>) -> Option<RegionCommand> {
        let capacity = self.measured.and_then(|round| meter?.capacity(round));
        Some(RegionCommand::SetCapacity(link, capacity))
    }

    fn on_event(
        &mut self,
        event: RegionEvent,
        _: &mut RegionServer<G>,
        _: &mut EndpointOutbox<'_, E>,
    ) -> Option<RegionCommand> {
        match event {
            RegionEvent::Ledger(request) => self.ledger.request(request),
            // The time of the step would be too early: the process may have been stopped since.
            RegionEvent::Publish(message) if self.clock.now() < message.expires => {
                self.bus.publish(message.to, &message.bytes);
            }
            RegionEvent::Publish(_) => self.expired += 1,
            RegionEvent::Reached(_) => {}
            // Numbers of players and what they keep are in the ledger: only the token is looked at here.
            RegionEvent::Asked { link, name, token } => {
                return Some(match self.accounts.check(&name, &token) {
                    Ok(_) => RegionCommand::Admit(link),
                    Err(why) => RegionCommand::Reject(link, why),
                });
            }
            other => remember(&mut self.happened, other, MAX_HAPPENED),
        }
        None
    }

    fn next_answer(&mut self) -> Option<RegionCommand> {
        if self.answers == 0 {
            return None;
        }
        self.answers -= 1;
        match self.ledger.poll() {
            Some(LedgerReply::Answer(request, answer)) => {
                Some(RegionCommand::Answer(request, answer))
            }
            Some(LedgerReply::Entry(subject, number, bytes)) => {
                Some(RegionCommand::Entry(subject, number, bytes))
            }
            None => self.bus.poll().map(RegionCommand::Deliver),
        }
    }
}

impl<G: Game, E: LinkEndpoint> RegionHost<G, E> {
    /// A server with its links, bus and ledger. Its clock runs on while the machine sleeps: a lease must.
    pub fn new(
        server: RegionServer<G>,
        endpoint: E,
        bus: Box<dyn Bus>,
        ledger: Box<dyn Ledger>,
    ) -> RegionHost<G, E> {
        let driver = Driver::through_sleep();
        let around = Surroundings {
            bus,
            ledger,
            accounts: Accounts::in_memory(),
            observers: Observers::default(),
            measured: Some(server.settings().rounds.length),
            clock: driver.clock(),
            happened: VecDeque::new(),
            expired: 0,
            answers: 0,
        };
        RegionHost { server, endpoint, balances: true, around, looked: driver.now(), driver }
    }

    /// Only players with a connect token may join. A token that was used is known to this server, not to others.
    pub fn with_tokens(mut self, verifier: Verifier) -> RegionHost<G, E> {
        self.around.accounts = Accounts::in_memory().with_tokens(verifier);
        self
    }

    /// What operators' pages did since the last call: connected, asked, closed. Answer with
    /// [`LinkEndpoint::send_message`]. Beyond [`MAX_OBSERVER_EVENTS`](crate::host::MAX_OBSERVER_EVENTS) the oldest are
    /// forgotten.
    pub fn observers(&mut self) -> std::collections::vec_deque::Drain<'_, LinkEvent> {
        self.around.observers.events.drain(..)
    }

    /// The time that the server goes by.
    pub fn now(&self) -> Micros {
        self.driver.now()
    }

    /// Hands over a command. What it makes the server ask is carried out with the next step.
    pub fn command(&mut self, command: RegionCommand) {
        self.driver.command(&mut self.server, &mut self.endpoint, command);
    }

    /// What happened since the last call. Beyond [`MAX_HAPPENED`] the oldest are forgotten.
    pub fn drain_events(&mut self) -> std::collections::vec_deque::Drain<'_, RegionEvent> {
        self.around.happened.drain(..)
    }

    /// What became of messages.
    pub fn bus_counts(&self) -> BusCounts {
        self.around.bus.counts()
    }

    /// Messages that were not sent because the right to send them had ended.
    pub fn expired(&self) -> u64 {
        self.around.expired
    }

    /// How the ledger is doing.
    pub fn ledger_status(&self) -> LedgerStatus {
        self.around.ledger.status()
    }

    /// The length of a round, as the processor saw it: what balances load goes by it.
    fn end_round(&mut self, timings: &StepTimings) {
        if self.balances {
            self.command(RegionCommand::EndRound(timings.busy()));
        }
    }

    /// Waits for the beginning of the next round, taking in what arrives, and plays it.
    pub fn step(&mut self) -> Result<StepTimings, Error> {
        loop {
            let until = Instant::now() + SLICE;
            if let Some(timings) = self.step_until(until)? {
                self.end_round(&timings);
                return Ok(timings);
            }
        }
    }

    /// The same without waiting; none if no round is due.
    pub fn poll_step(&mut self) -> Result<Option<StepTimings>, Error> {
        let played = self.step_until(Instant::now())?;
        if let Some(timings) = &played {
            self.end_round(timings);
        }
        Ok(played)
    }

    fn step_until(&mut self, until: Instant) -> Result<Option<StepTimings>, Error> {
        let RegionHost { server, endpoint, around, driver, looked, .. } = self;
        if driver.now() - *looked > STALL {
            let settled = Instant::now() + SETTLE;
            while Instant::now() < settled {
                around.answers = MAX_ANSWERS;
                driver.receive(server, endpoint, around, Instant::now() + SLICE)?;
            }
        }
        around.answers = MAX_ANSWERS;
        let played = driver.step_until(server, endpoint, around, until)?;
        *looked = driver.now();
        Ok(played)
    }

    /// Closes all links within `limit`.
    pub fn close(mut self, limit: Micros) -> Result<(), Error> {
        self.driver.shutdown(&mut self.endpoint, limit).map(|_| ())
    }
}
