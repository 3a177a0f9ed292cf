//! What goes wrong with processes, their links and the ledger.

use super::super::faults::{Armed, FaultKind};
use super::{Happening, MeshWorld};
use foveate_node::region::layout::ServerId;
use foveate_node::region::{LayoutChange, MeshStep, RegionCommand};
use foveate_wire::Micros;

/// Faults that wait for their steps at a time.
const MAX_ARMED: usize = 8;
/// One that has waited for so long gives way to others.
const ARMED_FOR: Micros = Micros(15_000_000);

impl MeshWorld {
    /// A process reaches a step for which a fault is armed.
    pub(super) fn strike(&mut self, id: ServerId, step: MeshStep) {
        self.counts.takeovers += u64::from(step == MeshStep::Fenced);
        *self.counts.reached.entry(step).or_default() += 1;
        if step == MeshStep::TakeoverAsked
            && let Some(process) = self.processes.get(&id)
        {
            self.checker.detected(&process.node, self.now);
        }
        let Some(at) = self.armed.iter().position(|it| it.step == step) else { return };
        let armed = &mut self.armed[at];
        if armed.after > 0 {
            armed.after -= 1;
            return;
        }
        let kind = armed.kind;
        let down = self.processes.values().filter(|it| it.paused || it.cut_off).count();
        let full = down + self.restarting >= self.spec.max_down
            || self.now.saturating_sub(self.struck) < self.spec.apart;
        let waits = match kind {
            FaultKind::Crash | FaultKind::Pause(_) | FaultKind::Partition(_) => full,
            FaultKind::Outage(_) => self.outage,
            FaultKind::Delay(_) => false,
        };
        if waits {
            return;
        }
        self.armed.remove(at);
        *self.counts.faults.entry((step, kind.name())).or_default() += 1;
        self.struck = self.now;
        match kind {
            FaultKind::Crash => self.crash(id),
            FaultKind::Pause(time) => self.pause(id, time),
            FaultKind::Partition(time) => self.cut_off(id, time),
            FaultKind::Outage(time) => self.take_ledger_away(time),
            FaultKind::Delay(time) => {
                if let Some(process) = self.processes.get_mut(&id) {
                    process.slow_until = self.now + time;
                }
            }
        }
    }

    pub(super) fn crash(&mut self, id: ServerId) {
        let Some(process) = self.processes.remove(&id) else { return };
        self.note_crash(&process.node);
        self.checker.crashed(&process.node, self.now);
        self.counts.note(&process.node);
        self.ledger.forget(id);
        self.lose_links(id);
        self.restarting += 1;
        let at = self.now + Micros(500_000 + self.rng.u64(..4_000_000));
        self.agenda.plan(at, Happening::Restart);
    }

    fn pause(&mut self, id: ServerId, time: Micros) {
        if let Some(process) = self.processes.get_mut(&id) {
            process.paused = true;
            self.agenda.plan(self.now + time, Happening::Resume { server: id });
        }
    }

    pub(super) fn resume(&mut self, id: ServerId) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        process.paused = false;
        let inbox = std::mem::take(&mut process.inbox);
        self.carry_out(id);
        inbox.into_iter().for_each(|command| self.hand(id, command));
        let held = self.processes.get_mut(&id).map(|it| std::mem::take(&mut it.held_links));
        held.into_iter().flatten().for_each(|it| self.deliver_to_server(it));
        if self.processes.get(&id).is_some_and(|it| !it.paused) {
            let life = self.processes.get(&id).map_or(0, |it| it.wake);
            self.wake(id, life);
        }
    }

    fn cut_off(&mut self, id: ServerId, time: Micros) {
        if let Some(process) = self.processes.get_mut(&id) {
            process.cut_off = true;
            self.agenda.plan(self.now + time, Happening::Reconnect { server: id });
        }
    }

    pub(super) fn reconnect(&mut self, id: ServerId) {
        if let Some(process) = self.processes.get_mut(&id) {
            process.cut_off = false;
        }
    }

    fn take_ledger_away(&mut self, time: Micros) {
        self.outage = true;
        self.agenda.plan(self.now + time, Happening::OutageEnds);
    }

    /// What a slow server's messages take in addition.
    pub(super) fn lag(&mut self, id: ServerId) -> Micros {
        let slow = self.processes.get(&id).is_some_and(|it| it.slow_until > self.now);
        if slow && !self.calm { Micros(self.rng.u64(100_000..1_000_000)) } else { Micros::ZERO }
    }

    pub(super) fn heal(&mut self) {
        self.processes.values_mut().for_each(|it| it.cut_off = false);
    }

    /// Every now and then something else goes wrong.
    pub(super) fn trouble(&mut self) {
        let next = self.now + Micros(200_000 + self.rng.u64(..self.spec.trouble_every.0.max(1)));
        self.agenda.plan(next, Happening::Trouble);
        if self.calm || self.spec.trouble_every == Micros::ZERO {
            return;
        }
        let now = self.now;
        self.armed.retain(|it| now - it.since < ARMED_FOR);
        if self.armed.len() < MAX_ARMED {
            let favoured = self.favoured;
            let players = self.clients.wanted() > 0;
            self.armed.push(Armed::draw(&mut self.rng, &self.spec, &favoured, players, now));
        }
        if !self.outage && self.rng.f64() < self.spec.outages {
            let long = Micros(self.rng.u64(500_000..7_500_000));
            self.take_ledger_away(long);
        }
        let cut_off = self.processes.values().any(|it| it.cut_off);
        if !cut_off && self.rng.f64() < self.spec.partitions {
            let victim = self.rng.usize(..self.processes.len().max(1));
            let long = Micros(self.rng.u64(100_000..4_000_000));
            if let Some(id) = self.processes.keys().nth(victim).copied() {
                self.cut_off(id, long);
            }
        }
    }

    /// The layout changes now and then: cuts move, regions are split, merged and replaced, servers leave.
    pub(super) fn change_layout(&mut self) {
        let next = self.now + Micros(1_000_000 + self.rng.u64(..self.spec.layout_every.0.max(1)));
        self.agenda.plan(next, Happening::Layout);
        let up: Vec<ServerId> =
            self.processes.iter().filter(|(_, it)| !it.paused).map(|(id, _)| *id).collect();
        if up.is_empty() || self.spec.layout_every == Micros::ZERO {
            return;
        }
        let by = up[self.rng.usize(..up.len())];
        let half = self.game.spec().half;
        let layout = self.processes.get(&by).and_then(|it| it.node.layout());
        let leaves: Vec<_> = layout.iter().flat_map(|layout| layout.leaves()).collect();
        if leaves.len() < 2 {
            return;
        }
        let (region, _) = leaves[self.rng.usize(..leaves.len())];
        let to = (self.rng.f32() * 1.2 - 0.6) * half;
        let server = up[self.rng.usize(..up.len())];
        let change = match self.rng.u8(..20) {
            0..10 => LayoutChange::MoveSplit(region, to),
            10..13 if leaves.len() < 2 * up.len() => {
                LayoutChange::Split(region, self.rng.u8(..2), to, server)
            }
            13..16 => LayoutChange::Merge(region),
            16..19 => LayoutChange::Replace(region, server),
            _ if !self.calm && up.len() > 2 => return self.hand(by, RegionCommand::Drain),
            _ => return,
        };
        self.hand(by, RegionCommand::Change(change));
    }
}
