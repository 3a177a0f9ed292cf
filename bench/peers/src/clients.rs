//! All clients of a run, in one process: the same for every library that has clients of its own.

use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::truth::{Log, WITNESSES};
use crate::{TICK, Task};

/// Clients take their turns in so many parts of a tick.
const PARTS: u32 = 10;
/// Clients that may connect at once.
const AT_ONCE: usize = 50;
const PATIENCE: Duration = Duration::from_secs(180);

/// One player at the far end.
pub trait Client: Sized {
    fn join(number: usize, task: &Task, server: SocketAddr) -> Result<Self, Box<dyn Error>>;

    fn is_connected(&self) -> bool;

    /// One tick: receive, note what is shown, answer with an input.
    fn step(&mut self, number: usize, log: Option<&mut Log>) -> std::io::Result<()>;
}

/// Plays all clients; how many connected.
pub fn play<C: Client>(
    task: &Task,
    server: SocketAddr,
    mark: &mut dyn FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<usize, Box<dyn Error>> {
    let mut players: Vec<C> = Vec::new();
    let mut log = Log::create(&task.folder, "shown")?;
    let begun = Instant::now();
    let (mut part, mut due) = (0, Instant::now());
    let (mut measured, mut began): (Option<Instant>, bool) = (None, false);
    loop {
        let connected = players.iter().filter(|player| player.is_connected()).count();
        match measured {
            None if connected == task.clients => {
                // A few seconds for everything to settle.
                measured = Some(Instant::now() + Duration::from_secs(3));
            }
            None if begun.elapsed() > PATIENCE => {
                return Err(format!("{connected} connected").into());
            }
            None if players.len() < task.clients && players.len() < connected + AT_ONCE => {
                players.push(C::join(players.len(), task, server)?);
            }
            _ => {}
        }
        if part == 0
            && let Some(at) = measured
        {
            let now = Instant::now();
            if now >= at + Duration::from_secs(task.seconds) {
                mark()?;
                log.flush()?;
                return Ok(connected);
            }
            if now >= at && !began {
                began = true;
                mark()?;
            }
        }
        for (number, player) in players.iter_mut().enumerate() {
            if number as u32 % PARTS == part {
                let log = (began && number.is_multiple_of(WITNESSES)).then_some(&mut log);
                player.step(number, log)?;
            }
        }
        part = (part + 1) % PARTS;
        due += TICK / PARTS;
        let now = Instant::now();
        due = due.max(now);
        std::thread::sleep(due - now);
    }
}
