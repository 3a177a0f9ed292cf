//! Which faults there are, in which states of a session they are injected, and in what order.

use super::disk::{CrashKind, Mood};
use super::world::{ChaosWorld, SERVER, weather};
use foveate_wire::Micros;

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum InjectedFault {
    /// The server's process is killed, and started again.
    ServerKill,
    /// The server's machine loses power: what was not synced is gone.
    PowerCut,
    /// The same while a transaction is being written.
    TornWrite,
    /// The server is stopped in order, and started again.
    ServerStop,
    /// The server stands still for up to six seconds.
    ServerPause,
    /// The storage refuses transactions for a while.
    StorageFails,
    /// The storage has no room for a while.
    StorageFull,
    /// The storage takes seconds for a while.
    StorageSlow,
    /// The server's clock of the day jumps, by seconds to days, ahead or back, and is put right later.
    ClockJump,
    /// The client's machine has a clock that gains or loses up to two percent.
    ClockDrift,
    /// The client stands still for up to six seconds.
    ClientPause,
    /// The client's process is gone, and starts again.
    ClientCrash,
    /// The client's link is cut, and both ends are told.
    LinkCut,
    /// Nothing passes between the client and the others for up to eight seconds.
    LinkDead,
    /// The client's address changes: it comes back on a new link, and the server has the old one open.
    AddressChange,
    /// A third of all packets is lost for a while.
    LossBurst,
    /// A hostile client shows the client's name with its token, or with a guessed key.
    Impostor,
}

impl InjectedFault {
    /// All of them.
    pub const ALL: [InjectedFault; 17] = [
        InjectedFault::ServerKill,
        InjectedFault::PowerCut,
        InjectedFault::TornWrite,
        InjectedFault::ServerStop,
        InjectedFault::ServerPause,
        InjectedFault::StorageFails,
        InjectedFault::StorageFull,
        InjectedFault::StorageSlow,
        InjectedFault::ClockJump,
        InjectedFault::ClockDrift,
        InjectedFault::ClientPause,
        InjectedFault::ClientCrash,
        InjectedFault::LinkCut,
        InjectedFault::LinkDead,
        InjectedFault::AddressChange,
        InjectedFault::LossBurst,
        InjectedFault::Impostor,
    ];
}

/// How far a client's session is, by what server and client know.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SessionState {
    /// No link, no session.
    Out,
    /// A link; its hello has not arrived.
    Connecting,
    /// The storage is asked about the player.
    Asking,
    /// In.
    Playing,
    /// The link is gone, and the session waits.
    Away,
    /// A new link; its hello has not arrived.
    Resuming,
    /// The player said that they leave; that has not arrived.
    Leaving,
}

impl SessionState {
    /// All of them.
    pub const ALL: [SessionState; 7] = [
        SessionState::Out,
        SessionState::Connecting,
        SessionState::Asking,
        SessionState::Playing,
        SessionState::Away,
        SessionState::Resuming,
        SessionState::Leaving,
    ];
}

/// How often each fault hit each state.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Coverage([[u64; SessionState::ALL.len()]; InjectedFault::ALL.len()]);

impl Coverage {
    /// How often a fault hit a state.
    pub fn of(&self, fault: InjectedFault, state: SessionState) -> u64 {
        self.0[fault as usize][state as usize]
    }

    /// How often the pair that was hit least was.
    pub fn least(&self) -> u64 {
        self.0.iter().flatten().copied().min().unwrap_or(0)
    }

    /// How often any fault hit.
    pub fn total(&self) -> u64 {
        self.0.iter().flatten().sum()
    }

    /// Adds what another run covered.
    pub fn add(&mut self, other: &Coverage) {
        for (own, other) in self.0.iter_mut().flatten().zip(other.0.iter().flatten()) {
            *own += other;
        }
    }

    fn note(&mut self, fault: InjectedFault, state: SessionState) {
        self.0[fault as usize][state as usize] += 1;
    }
}

const SECOND: Micros = Micros(1_000_000);
/// Between two rests, in which everything works and clients are compared.
const REST_EVERY: Micros = Micros(150_000_000);
/// How long everything works before players stop, and then before they are compared.
const RECOVERS: Micros = Micros(16_000_000);
const RESTS: Micros = Micros(5_000_000);
/// How long a state is waited for.
const MAX_WAIT: Micros = Micros(3_000_000);
/// Steps in which it is.
const STEP: Micros = Micros(10_000);

/// What ends when.
#[derive(Default)]
struct Healing {
    storage: Option<Micros>,
    clock: Option<Micros>,
    loss: Option<Micros>,
    server: Option<Micros>,
    paused: Vec<(usize, Micros)>,
    cut_off: Vec<(usize, Micros)>,
}

impl Healing {
    /// Mends what is due.
    fn run(&mut self, world: &mut ChaosWorld, now: Micros) {
        let due = |at: &mut Micros| *at <= now;
        if self.storage.take_if(due).is_some() {
            world.around.disk.set_mood(Mood::Works);
        }
        if self.storage.is_some() || world.server_paused {
            world.around.checker.on_disturbance();
        }
        if self.clock.is_some() {
            world.around.checker.on_wrong_clock();
        }
        if self.clock.take_if(due).is_some() {
            world.around.clock_error = 0;
        }
        if self.loss.take_if(due).is_some() {
            world.network.set_spec(weather(1, 0.01));
        }
        if self.server.take_if(due).is_some() {
            world.network.pause(SERVER, false);
            world.server_paused = false;
        }
        let over = |list: &mut Vec<(usize, Micros)>| -> Vec<usize> {
            list.extract_if(.., |(_, at)| *at <= now).map(|(client, _)| client).collect()
        };
        for client in over(&mut self.paused) {
            world.network.pause(1 + client, false);
        }
        for client in over(&mut self.cut_off) {
            world.network.partition(1 + client, 0);
        }
    }
}

struct Schedule {
    healing: Healing,
    /// The order in which pairs of fault and state are tried; drawn anew when it is through.
    plan: Vec<(InjectedFault, SessionState)>,
}

/// Injects faults until a time, or to the first violation, with a rest now and then and at the end.
pub(super) fn drive(world: &mut ChaosWorld, coverage: &mut Coverage, until: Micros) {
    let mut schedule = Schedule { healing: Healing::default(), plan: Vec::new() };
    let rest = RECOVERS + RESTS;
    let mut next_rest = REST_EVERY;
    run(world, &mut schedule, SECOND * 3);
    while world.now() + rest < until && world.around.checker.violations.is_empty() {
        if world.now() >= next_rest {
            schedule.rest(world);
            next_rest = world.now() + REST_EVERY;
        }
        schedule.strike(world, coverage);
        let pause = Micros(match world.rng.u8(..4) {
            0 => world.rng.u64(..100_000),
            1 | 2 => world.rng.u64(..1_500_000),
            _ => world.rng.u64(..5_000_000),
        });
        run(world, &mut schedule, pause);
    }
    schedule.rest(world);
}

/// Lets time pass, and mends what is due meanwhile.
fn run(world: &mut ChaosWorld, schedule: &mut Schedule, time: Micros) {
    let until = world.now() + time;
    loop {
        schedule.healing.run(world, world.now());
        if world.now() >= until || !world.around.checker.violations.is_empty() {
            return;
        }
        world.run_until((world.now() + STEP * 5).min(until));
    }
}

impl Schedule {
    /// Brings some client into the next pair's state and injects its fault.
    fn strike(&mut self, world: &mut ChaosWorld, coverage: &mut Coverage) {
        if self.plan.is_empty() {
            let states = |fault: &InjectedFault| SessionState::ALL.map(|state| (*fault, state));
            self.plan = InjectedFault::ALL.iter().flat_map(states).collect();
            world.rng.shuffle(&mut self.plan);
        }
        let Some((fault, state)) = self.plan.pop() else { return };
        // What cannot be had now is tried again before the next round of all pairs.
        let Some(client) = self.bring_into(world, state) else {
            return self.plan.insert(0, (fault, state));
        };
        if fault == InjectedFault::TornWrite && !self.wait_for_write(world, client, state) {
            return self.plan.insert(0, (fault, state));
        }
        coverage.note(fault, state);
        self.inject(world, fault, client);
    }

    /// A client that is in a state, made so if need be; none if that cannot be had at the moment.
    fn bring_into(&mut self, world: &mut ChaosWorld, state: SessionState) -> Option<usize> {
        let until = world.now() + MAX_WAIT;
        let first = world.rng.usize(..world.drivers.len());
        let all = || (0..world.drivers.len()).map(|at| (first + at) % world.drivers.len());
        if let Some(client) = all().find(|client| world.state(*client) == Some(state)) {
            return Some(client);
        }
        // From which state it is reached at once.
        let from = match state {
            SessionState::Out | SessionState::Away => SessionState::Playing,
            SessionState::Leaving | SessionState::Resuming => SessionState::Playing,
            SessionState::Connecting | SessionState::Asking => SessionState::Out,
            SessionState::Playing => SessionState::Playing,
        };
        let is_free = |client: usize| {
            world.app(client).is_some() && !self.healing.paused.iter().any(|it| it.0 == client)
        };
        let found = all().find(|client| is_free(*client) && world.state(*client) == Some(from));
        let client = found.unwrap_or(first);
        let mut provoked = false;
        while world.now() < until && world.around.checker.violations.is_empty() {
            match world.state(client) {
                Some(now) if now == state => return Some(client),
                Some(now) if now == from && !provoked => {
                    provoke(world, client, state);
                    provoked = true;
                }
                _ => {
                    self.healing.run(world, world.now());
                    world.run_until(world.now() + STEP);
                }
            }
        }
        None
    }

    /// Waits for a transaction while the client stays as it is.
    fn wait_for_write(&self, world: &mut ChaosWorld, client: usize, state: SessionState) -> bool {
        let until = world.now() + MAX_WAIT;
        loop {
            let registry = world.around.registry.as_ref();
            if registry.is_some_and(|registry| registry.storage.is_writing()) {
                return true;
            }
            let over = world.now() >= until || !world.around.checker.violations.is_empty();
            if over || world.state(client) != Some(state) {
                return false;
            }
            world.run_until(world.now() + STEP);
        }
    }

    fn inject(&mut self, world: &mut ChaosWorld, fault: InjectedFault, client: usize) {
        let now = world.now();
        let mut soon = |longest: u64| now + Micros(world.rng.u64(100_000..longest));
        match fault {
            InjectedFault::ServerKill => crash(world, CrashKind::Kill),
            InjectedFault::PowerCut => crash(world, CrashKind::PowerCut),
            InjectedFault::TornWrite => crash(world, CrashKind::Torn),
            InjectedFault::ServerStop => {
                world.stop_server();
                world.server_restart = Some(now + Micros(world.rng.u64(100_000..2_000_000)));
            }
            InjectedFault::ServerPause => {
                self.healing.server = Some(soon(6_000_000));
                world.network.pause(SERVER, true);
                world.server_paused = true;
            }
            InjectedFault::StorageFails
            | InjectedFault::StorageFull
            | InjectedFault::StorageSlow => {
                self.healing.storage = Some(soon(5_000_000));
                world.around.disk.set_mood(match fault {
                    InjectedFault::StorageFails => Mood::Fails,
                    InjectedFault::StorageFull => Mood::Full,
                    _ => Mood::Slow,
                });
                world.around.checker.on_disturbance();
            }
            InjectedFault::ClockJump => {
                self.healing.clock = Some(soon(8_000_000));
                let by = [30, 3_600, 100_000][world.rng.usize(..3)];
                world.around.clock_error = if world.rng.bool() { by } else { -by };
            }
            InjectedFault::ClockDrift | InjectedFault::ClientCrash => {
                if fault == InjectedFault::ClockDrift {
                    world.drivers[client].drift = world.rng.i32(-20_000..20_000);
                }
                world.network.crash(1 + client);
                world.drivers[client].restart = Some(now + Micros(world.rng.u64(..2_000_000)));
            }
            InjectedFault::ClientPause => {
                self.healing.paused.push((client, soon(6_000_000)));
                world.network.pause(1 + client, true);
            }
            InjectedFault::LinkCut => world.cut(client),
            InjectedFault::LinkDead => {
                self.healing.cut_off.push((client, soon(8_000_000)));
                world.network.partition(1 + client, 1);
            }
            InjectedFault::AddressChange => {
                world.abandon(client);
                world.connect(client);
            }
            InjectedFault::LossBurst => {
                self.healing.loss = Some(soon(3_000_000));
                world.network.set_spec(weather(1, 0.33));
            }
            InjectedFault::Impostor => world.impersonate(client),
        }
    }

    /// Everything is mended at once; when clients have come back they stop, and are compared.
    fn rest(&mut self, world: &mut ChaosWorld) {
        let now = world.now();
        let healing = &mut self.healing;
        healing.storage = healing.storage.map(|_| now);
        healing.clock = healing.clock.map(|_| now);
        healing.loss = healing.loss.map(|_| now);
        healing.server = healing.server.map(|_| now);
        healing.paused.iter_mut().chain(&mut healing.cut_off).for_each(|it| it.1 = now);
        for driver in &mut world.drivers {
            (driver.wants_in, driver.next_leave) = (true, now + RECOVERS + RESTS + SECOND * 10);
        }
        world.is_calm = true;
        run(world, self, RECOVERS);
        world.at_rest = true;
        run(world, self, RESTS);
        if world.around.checker.violations.is_empty() {
            world.check_rest();
        }
        (world.is_calm, world.at_rest) = (false, false);
    }
}

fn crash(world: &mut ChaosWorld, kind: CrashKind) {
    world.crash_server(kind);
    let now = world.now();
    world.server_restart = Some(now + Micros(world.rng.u64(100_000..2_000_000)));
}

/// Does what takes a client into a state.
fn provoke(world: &mut ChaosWorld, client: usize, state: SessionState) {
    let now = world.now();
    match state {
        SessionState::Connecting | SessionState::Asking => {
            world.drivers[client].wants_in = true;
            world.connect(client);
        }
        SessionState::Away => {
            world.cut(client);
            world.drivers[client].next_join = now + SECOND;
        }
        SessionState::Resuming => {
            world.cut(client);
            world.connect(client);
        }
        SessionState::Out | SessionState::Leaving => {
            world.leave(client);
            world.drivers[client].next_join = now + SECOND * 3;
        }
        SessionState::Playing => {}
    }
}
