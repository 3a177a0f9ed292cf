//! The loop that runs any [`Node`] on real links.
//!
//! A step is: receive → [`NodeInput`] → outbox → events → answers → wake → flush. Servers, clients and peers differ
//! only in their [`NodeHost`], which answers the node's requests.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use foveate_node::node::{Node, NodeInput};
use foveate_node::session::Refusal;
use foveate_node::{Link, Outbox};
use foveate_wire::Micros;

use super::REFUSED;
use crate::error::Error;
use crate::event::{CloseCode, LinkEvent};
use crate::link_endpoint::LinkEndpoint;
use crate::meter::LinkMeter;
use crate::options::duration;
use crate::slots::LinkId;
use crate::time;

/// A link that a node closes stays open for this long, unless the other side closes it, so that its last message
/// arrives.
const LAST_WORDS: Micros = Micros(500_000);

/// Rounds between two measurements of a link.
const MEASURE_EVERY: u32 = 4;

/// The longest time until the node is asked again when it wants to be woken.
const MAX_SLEEP: Micros = Micros(60_000_000);

/// The host's side of a node.
pub trait NodeHost<N: Node, E: LinkEndpoint> {
    /// Whether [`on_meter`](NodeHost::on_meter) is called, for each link in every fourth round.
    const MEASURES: bool = false;

    /// Converts a link's event to an input; `None` if it is not for the node.
    fn on_link<'a>(
        &mut self,
        event: &'a LinkEvent,
        _node: &mut N,
        _out: &mut EndpointOutbox<'_, E>,
    ) -> Option<NodeInput<'a, N::Command>> {
        Some(event.input())
    }

    /// Called with a link's measurement.
    fn on_meter(&mut self, _link: Link, _meter: Option<LinkMeter>) -> Option<N::Command> {
        None
    }

    /// Called before the node is woken, to give it an input.
    fn before_wake(&mut self, _node: &mut N, _out: &mut EndpointOutbox<'_, E>) {}

    /// Called with an event of the node; the answer is given to it at once.
    fn on_event(
        &mut self,
        event: N::Event,
        node: &mut N,
        out: &mut EndpointOutbox<'_, E>,
    ) -> Option<N::Command>;

    /// The next answer to an earlier request of the node.
    fn next_answer(&mut self) -> Option<N::Command> {
        None
    }
}

/// Durations of a step's parts.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct StepTimings {
    /// Receiving datagrams and messages, without waiting.
    pub receive: Duration,
    /// Inputs, rules, interest, encoding, and handing over to the transport.
    pub tick: Duration,
    /// The transport and its system calls after the tick.
    pub flush: Duration,
    /// How late the tick began.
    pub late: Duration,
}

impl StepTimings {
    /// Processing time of the step, without waiting.
    pub fn busy(&self) -> Micros {
        Micros((self.receive + self.tick + self.flush).as_micros() as u64)
    }
}

/// The loop's state between two steps. Node, endpoint and host belong to the caller, which may use all three between steps.
///
/// ```
/// use foveate_io::host::{AllowAll, Driver, EndpointOutbox, NodeHost};
/// use foveate_io::memory::MemoryNetwork;
/// use foveate_io::LinkEndpoint;
/// use foveate_node::node::{Node, NodeInput};
/// use foveate_node::Outbox;
/// use foveate_wire::Micros;
///
/// /// Sends every datagram back.
/// struct Echo;
///
/// impl Node for Echo {
///     type Command = ();
///     type Event = ();
///     fn handle(&mut self, _: Micros, input: NodeInput<'_, ()>, out: &mut impl Outbox) {
///         if let NodeInput::Datagram(link, bytes) = input {
///             out.datagram(link, bytes);
///         }
///     }
///     fn poll(&mut self) -> Option<()> {
///         None
///     }
///     fn next_wake(&self, now: Micros) -> Micros {
///         now + Micros::from_millis(50)
///     }
/// }
///
/// /// Has nothing to answer.
/// struct Silent;
///
/// impl<E: LinkEndpoint> NodeHost<Echo, E> for Silent {
///     fn on_event(&mut self, _: (), _: &mut Echo, _: &mut EndpointOutbox<'_, E>) -> Option<()> {
///         None
///     }
/// }
///
/// let network = MemoryNetwork::default();
/// let mut server = network.listen("10.0.0.1:1".parse()?);
/// let mut client = network.listen("10.0.0.2:1".parse()?);
/// let link = client.connect("10.0.0.1:1".parse()?)?;
/// client.send_datagram(link, b"hello")?;
/// Driver::new().poll(&mut Echo, &mut server, &mut Silent)?;
/// let mut events = Vec::new();
/// client.wait(std::time::Instant::now(), &mut events)?;
/// assert_eq!(events.len(), 2, "connected, and the answer");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Driver {
    clock: HostClock,
    arrived: Vec<LinkEvent>,
    closing: Closing,
    /// Links that the node has been told of.
    links: BTreeSet<Link>,
    /// When the node wants to be woken.
    wake_at: Option<Micros>,
    wakes: u32,
}

/// The clock of a driver. Copies show the same time.
#[derive(Clone, Copy, Debug)]
pub struct HostClock {
    clock: fn() -> Duration,
    began: Duration,
}

impl HostClock {
    fn new(clock: fn() -> Duration) -> HostClock {
        HostClock { clock, began: clock() }
    }

    /// The current time. A node is always given the time at which a step began.
    pub fn now(&self) -> Micros {
        Micros(((self.clock)() - self.began).as_micros() as u64)
    }
}

/// Links to close: when, which, and why. At most one entry per link.
#[derive(Default)]
struct Closing(Vec<(Micros, LinkId, Refusal)>);

impl Default for Driver {
    fn default() -> Driver {
        Driver::new()
    }
}

impl Driver {
    /// A driver whose clock starts at zero, and stops while the machine sleeps.
    pub fn new() -> Driver {
        Driver::with_clock(time::monotonic)
    }

    /// A driver whose clock goes on while the machine sleeps, for games that do.
    pub fn through_sleep() -> Driver {
        Driver::with_clock(time::since_boot)
    }

    fn with_clock(clock: fn() -> Duration) -> Driver {
        Driver {
            clock: HostClock::new(clock),
            arrived: Vec::new(),
            closing: Closing::default(),
            links: BTreeSet::new(),
            wake_at: None,
            wakes: 0,
        }
    }

    /// The node's current time.
    pub fn now(&self) -> Micros {
        self.clock.now()
    }

    /// The clock, for a host that reads it within a step.
    pub fn clock(&self) -> HostClock {
        self.clock
    }

    /// Receives until the node wants to be woken, and wakes it.
    pub fn step<N: Node, E: LinkEndpoint>(
        &mut self,
        node: &mut N,
        endpoint: &mut E,
        host: &mut impl NodeHost<N, E>,
    ) -> Result<StepTimings, Error> {
        loop {
            let wake = self.wake_instant(node);
            if let Some(timings) = self.step_until(node, endpoint, host, wake)? {
                return Ok(timings);
            }
        }
    }

    /// The same without waiting; `None` if the node does not want to be woken yet.
    pub fn poll<N: Node, E: LinkEndpoint>(
        &mut self,
        node: &mut N,
        endpoint: &mut E,
        host: &mut impl NodeHost<N, E>,
    ) -> Result<Option<StepTimings>, Error> {
        self.step_until(node, endpoint, host, Instant::now())
    }

    /// Receives until `until`, and wakes the node if it wants to be woken by then.
    pub fn step_until<N: Node, E: LinkEndpoint>(
        &mut self,
        node: &mut N,
        endpoint: &mut E,
        host: &mut impl NodeHost<N, E>,
        until: Instant,
    ) -> Result<Option<StepTimings>, Error> {
        let mut receive = Duration::ZERO;
        loop {
            let end = self.wake_instant(node).min(until);
            receive += self.receive(node, endpoint, host, end)?;
            if self.now() >= self.plan(node) {
                return Ok(Some(self.wake(node, endpoint, host, receive)));
            }
            if Instant::now() >= until {
                endpoint.flush();
                return Ok(None);
            }
        }
    }

    /// Receives and answers until `until`. Returns the processing time, without waiting.
    pub fn receive<N: Node, E: LinkEndpoint>(
        &mut self,
        node: &mut N,
        endpoint: &mut E,
        host: &mut impl NodeHost<N, E>,
        until: Instant,
    ) -> Result<Duration, Error> {
        endpoint.wait(until, &mut self.arrived)?;
        let (woke, now) = (Instant::now(), self.now());
        let out = &mut EndpointOutbox { endpoint, now, closing: &mut self.closing };
        for event in self.arrived.drain(..) {
            let Some(input) = host.on_link(&event, node, out) else { continue };
            match input {
                NodeInput::Connected(link, _) => drop(self.links.insert(link)),
                NodeInput::Closed(link) => drop(self.links.remove(&link)),
                _ => {}
            }
            node.handle(now, input, out);
        }
        answer(node, host, out);
        Ok(woke.elapsed())
    }

    /// Gives the node a command of the program. Requests that it causes are answered in the next step.
    pub fn command<N: Node>(
        &mut self,
        node: &mut N,
        endpoint: &mut impl LinkEndpoint,
        command: N::Command,
    ) {
        let now = self.now();
        let out = &mut EndpointOutbox { endpoint, now, closing: &mut self.closing };
        node.handle(now, NodeInput::Command(command), out);
    }

    /// Calls the node directly, for what its commands do not offer.
    pub fn with_outbox<E: LinkEndpoint, R>(
        &mut self,
        endpoint: &mut E,
        call: impl FnOnce(&mut EndpointOutbox<'_, E>) -> R,
    ) -> R {
        let now = self.now();
        call(&mut EndpointOutbox { endpoint, now, closing: &mut self.closing })
    }

    /// Ends a round that began at `begin`: answers, closes and sends. Returns the durations of tick and flush.
    pub fn finish<N: Node, E: LinkEndpoint>(
        &mut self,
        node: &mut N,
        endpoint: &mut E,
        host: &mut impl NodeHost<N, E>,
        begin: Instant,
    ) -> StepTimings {
        let now = self.now();
        answer(node, host, &mut EndpointOutbox { endpoint, now, closing: &mut self.closing });
        let told = Instant::now();
        self.closing.close_due(endpoint, now);
        endpoint.flush();
        StepTimings { tick: told - begin, flush: told.elapsed(), ..StepTimings::default() }
    }

    /// Delivers the last messages, and closes all links within `limit`.
    pub fn shutdown(
        &mut self,
        endpoint: &mut impl LinkEndpoint,
        limit: Micros,
    ) -> Result<usize, Error> {
        endpoint.shutdown(limit, &mut self.arrived)
    }

    fn wake<N: Node, E: LinkEndpoint>(
        &mut self,
        node: &mut N,
        endpoint: &mut E,
        host: &mut impl NodeHost<N, E>,
        receive: Duration,
    ) -> StepTimings {
        let (begin, now) = (Instant::now(), self.now());
        let late = duration(now - self.wake_at.take().unwrap_or(now));
        self.wakes = self.wakes.wrapping_add(1);
        let out = &mut EndpointOutbox { endpoint, now, closing: &mut self.closing };
        measure(&self.links, self.wakes, node, host, out);
        host.before_wake(node, out);
        node.handle(now, NodeInput::Wake, out);
        StepTimings { receive, late, ..self.finish(node, endpoint, host, begin) }
    }

    /// When the node wants to be woken. The first answer is kept until it was woken: a node whose rounds follow a clock
    /// would otherwise return the next round as soon as this one is due.
    fn plan(&mut self, node: &impl Node) -> Micros {
        let asked = node.next_wake(self.now());
        let at = self.wake_at.map_or(asked, |planned| planned.min(asked));
        self.wake_at = Some(at);
        at
    }

    fn wake_instant(&mut self, node: &impl Node) -> Instant {
        let (at, now) = (self.plan(node), self.now());
        Instant::now() + duration((at - now).min(MAX_SLEEP))
    }
}

/// Tells the node the capacity of its links, a quarter of them in each round.
fn measure<N: Node, E: LinkEndpoint, H: NodeHost<N, E>>(
    links: &BTreeSet<Link>,
    round: u32,
    node: &mut N,
    host: &mut H,
    out: &mut EndpointOutbox<'_, E>,
) {
    if !H::MEASURES {
        return;
    }
    let has_turn = |link: &&Link| round.wrapping_add(link.0 as u32).is_multiple_of(MEASURE_EVERY);
    for link in links.iter().filter(has_turn) {
        let meter = out.endpoint.meter(LinkId::from_bits(link.0));
        if let Some(command) = host.on_meter(*link, meter) {
            node.handle(out.now, NodeInput::Command(command), out);
        }
    }
}

fn answer<N: Node, E: LinkEndpoint>(
    node: &mut N,
    host: &mut impl NodeHost<N, E>,
    out: &mut EndpointOutbox<'_, E>,
) {
    while let Some(command) = host.next_answer() {
        node.handle(out.now, NodeInput::Command(command), out);
    }
    while let Some(event) = node.poll() {
        if let Some(command) = host.on_event(event, node, out) {
            node.handle(out.now, NodeInput::Command(command), out);
        }
    }
}

impl Closing {
    fn close_due(&mut self, endpoint: &mut impl LinkEndpoint, now: Micros) {
        self.0.retain(|(at, link, why)| {
            if *at <= now {
                let nth = Refusal::ALL.iter().position(|known| known == why).unwrap_or(0);
                endpoint.close(*link, CloseCode(REFUSED + nth as u32), &format!("{why:?}"));
            }
            *at > now
        });
    }
}

/// A node's outbox, which sends directly to the endpoint. A datagram that cannot be sent, because its link has ended or
/// its buffers are full, is lost; a message that does not fit ends the link.
pub struct EndpointOutbox<'a, E> {
    pub endpoint: &'a mut E,
    /// The node's current time.
    pub now: Micros,
    closing: &'a mut Closing,
}

impl<E: LinkEndpoint> Outbox for EndpointOutbox<'_, E> {
    fn datagram(&mut self, to: Link, bytes: &[u8]) {
        // A lost datagram does not matter: states are sent again.
        self.endpoint.send_datagram(LinkId::from_bits(to.0), bytes).unwrap_or(());
    }

    fn message(&mut self, to: Link, bytes: &[u8]) {
        let link = LinkId::from_bits(to.0);
        if self.endpoint.send_message(link, bytes).is_err() {
            let said = "too many messages wait to be read";
            self.endpoint.close(link, CloseCode::MESSAGE_TOO_LARGE, said);
        }
    }

    fn close(&mut self, link: Link, why: Refusal) {
        let link = LinkId::from_bits(link.0);
        if self.closing.0.iter().all(|(_, known, _)| *known != link) {
            self.closing.0.push((self.now + LAST_WORDS, link, why));
        }
    }
}
