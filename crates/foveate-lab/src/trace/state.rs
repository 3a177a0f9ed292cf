//! Reads the companion `_ext`: life, team, weapon and respawns.

use std::io::Read;
use std::ops::RangeInclusive;
use std::path::Path;

use super::base::{Clock, header, player_id};
use super::by_player::{ByPlayer, Grouper, Slots, Timed};
use super::csv::{Columns, Lines, number, whole};
use super::error::{TraceError, TraceFault};
use super::{MAX_BURST, MAX_UNPACKED_BYTES, Trace};

const COLUMNS: [&str; 18] = [
    "t_ms",
    "id",
    "x",
    "y",
    "z",
    "vx",
    "vy",
    "vz",
    "yaw",
    "pitch",
    "health",
    "pm_type",
    "team",
    "weapon",
    "eflags",
    "score",
    "spawn_count",
    "speed",
];

/// Flips at every teleport and respawn: the engine's own mark not to interpolate.
const EFLAG_TELEPORT: i64 = 0x4;
const EFLAG_FIRING: i64 = 0x100;
const PM_ALIVE: i64 = 0;
const ANY: RangeInclusive<f64> = -1e9..=1e9;
const BYTE: RangeInclusive<f64> = 0.0..=255.0;
/// Bit sets, which a C program may print with either sign.
const FLAGS: RangeInclusive<f64> = -2_147_483_648.0..=4_294_967_295.0;

/// The game's own data about a player at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlayerState {
    /// Milliseconds since the first row of the recording.
    pub t_ms: u32,
    /// Health in points; zero or less when dead.
    pub health: i32,
    /// Whether it is in the game and able to move, rather than dead or watching.
    pub alive: bool,
    /// Team number; 0 where there are no teams.
    pub team: u8,
    pub weapon: u8,
    pub firing: bool,
    /// Whether it teleported or respawned since its previous state, so that no speed explains its movement.
    pub jumped: bool,
}

impl Timed for PlayerState {
    fn t_ms(&self) -> u32 {
        self.t_ms
    }
}

/// The states of all players.
#[derive(Debug, Clone)]
pub(super) struct States(ByPlayer<PlayerState>);

impl States {
    pub(super) fn read(source: impl Read, name: &Path, trace: &Trace) -> Result<Self, TraceError> {
        let fail = |line, fault| TraceError::new(name, line, fault);
        let mut lines = Lines::new(source, MAX_UNPACKED_BYTES).map_err(|fault| fail(1, fault))?;
        let columns = header(&mut lines, &COLUMNS).map_err(|fault| fail(1, fault))?;
        let mut reader = Reader::new(trace);
        loop {
            match reader.next_row(&mut lines, &columns) {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault) => return Err(fail(lines.line(), fault)),
            }
        }
        if reader.rows.is_empty() {
            return Err(fail(lines.line(), TraceFault::NoRows));
        }
        let same_order: Vec<u32> = (0..trace.players() as u32).collect();
        Ok(Self(reader.rows.finish(&same_order).0))
    }

    pub(super) fn at(&self, player: usize, t_ms: u32) -> Option<&PlayerState> {
        self.0.at_or_before(player, t_ms)
    }

    pub(super) fn of(&self, player: usize) -> &[PlayerState] {
        self.0.of(player)
    }
}

struct Reader {
    clock: Clock,
    slots: Slots,
    rows: Grouper<PlayerState>,
    /// For each player, the teleport flag and the respawn count of its previous state.
    markers: Vec<Option<(i64, i64)>>,
}

impl Reader {
    fn new(trace: &Trace) -> Self {
        Self {
            clock: Clock::beside(trace),
            slots: Slots::of_known(&trace.ids),
            rows: Grouper::new(),
            markers: vec![None; trace.players()],
        }
    }

    fn next_row<R: Read>(
        &mut self,
        lines: &mut Lines<R>,
        columns: &Columns<18>,
    ) -> Result<bool, TraceFault> {
        let Some(line) = lines.next_line()? else { return Ok(false) };
        self.row(columns.split(line)?)?;
        Ok(true)
    }

    fn row(&mut self, fields: [&[u8]; 18]) -> Result<(), TraceFault> {
        let [t_ms, id, motion @ .., health, pm_type, team, weapon, eflags, score, spawns, speed] =
            fields;
        let motion: [&[u8]; 8] = motion;
        let t_ms = self.clock.read(t_ms)?;
        let id = player_id(id)?;
        let Some(player) = self.slots.get(id) else {
            return Err(TraceFault::UnknownPlayer { column: "id", id });
        };
        // These are not kept, but a row with invalid fields cannot be trusted.
        for (field, column) in motion.into_iter().zip(&COLUMNS[2..]) {
            number(field, column, ANY)?;
        }
        number(score, "score", ANY)?;
        number(speed, "speed", ANY)?;
        let health = whole(health, "health", ANY)? as i32;
        let pm_type = whole(pm_type, "pm_type", BYTE)?;
        let team = whole(team, "team", BYTE)? as u8;
        let weapon = whole(weapon, "weapon", BYTE)? as u8;
        let eflags = whole(eflags, "eflags", FLAGS)?;
        let spawns = whole(spawns, "spawn_count", ANY)?;

        let alive = health > 0 && pm_type == PM_ALIVE;
        let firing = eflags & EFLAG_FIRING != 0;
        let jumped = self.jumped(player, eflags & EFLAG_TELEPORT, spawns);
        // A replaced row of the same millisecond keeps its jump.
        let replaced = self.rows.newest(player).filter(|state| state.t_ms == t_ms);
        let jumped = jumped || replaced.is_some_and(|state| state.jumped);
        let state = PlayerState { t_ms, health, alive, team, weapon, firing, jumped };
        let count = self.rows.push(player, state);
        if count > MAX_BURST {
            let t_ms = self.clock.last();
            return Err(TraceFault::Duplicate { t_ms, id, count, limit: MAX_BURST });
        }
        Ok(())
    }

    fn jumped(&mut self, player: usize, flag: i64, spawns: i64) -> bool {
        let before = self.markers[player].replace((flag, spawns));
        before.is_some_and(|(old_flag, old_spawns)| flag != old_flag || spawns > old_spawns)
    }
}
