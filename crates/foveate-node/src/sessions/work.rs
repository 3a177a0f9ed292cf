//! Budgets for the work that clients request from a server.
//!
//! A limit on the number of a client's messages does not bound their cost: one may be a flag,
//! another a search through the whole map. So each request has a cost, and each player a budget.
//! However many clients request the most expensive work, it costs the server at most the sum of
//! their budgets.

use foveate_wire::Micros;

/// A budget of work. One unit is about the cost of answering a small question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkBudget {
    /// Units that become available per second.
    pub per_second: u32,
    /// The most units that are saved up. Nothing that costs more is ever done.
    pub burst: u32,
}

impl WorkBudget {
    /// For a player: four expensive actions a second, or four hundred small ones.
    pub const PLAYER: WorkBudget = WorkBudget { per_second: 400, burst: 400 };
    /// For joining on a link: [`JOIN_COST`] a second, and four at once.
    pub(super) const JOINS: WorkBudget = WorkBudget { per_second: 100, burst: 400 };
    /// For a player, in addition to the other budget, to look from other objects: slow enough that
    /// a player cannot scan all objects.
    pub(super) const WATCHES: WorkBudget = WorkBudget { per_second: 10, burst: 20 };
}

/// The cost of joining, charged to the link.
pub const JOIN_COST: u32 = 100;
/// The cost of changing the view: every pair of the player is checked again.
pub const VIEW_COST: u32 = 50;
/// The cost of looking from another object, or from the player's own again.
pub const WATCH_COST: u32 = 10;
/// The cost of asking for a name.
pub const NAME_COST: u32 = 1;

/// Work that clients requested. Counters only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkCounts {
    /// Units charged for work that was done.
    pub charged: u64,
    /// Units requested beyond a budget, for work that was not done.
    pub refused: u64,
}

/// What is left of a budget, in millionths of a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Credit {
    budget: WorkBudget,
    left: u64,
    at: Micros,
}

impl Credit {
    /// A full budget.
    pub fn new(budget: WorkBudget, now: Micros) -> Credit {
        Credit { budget, left: u64::from(budget.burst) * 1_000_000, at: now }
    }

    /// Subtracts a cost; false, without effect, if less than that is left.
    pub fn charge(&mut self, cost: u32, now: Micros) -> bool {
        let most = u64::from(self.budget.burst) * 1_000_000;
        let gained = (now - self.at).0.saturating_mul(u64::from(self.budget.per_second));
        self.left = self.left.saturating_add(gained).min(most);
        self.at = self.at.max(now);
        let cost = u64::from(cost) * 1_000_000;
        let fits = cost <= self.left;
        if fits {
            self.left -= cost;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_gives_its_burst_at_once_and_its_rate_for_ever() {
        let budget = WorkBudget { per_second: 100, burst: 300 };
        let mut credit = Credit::new(budget, Micros::ZERO);
        let mut done = 0;
        for tick in 0..1_000u64 {
            for _ in 0..31 {
                done += u32::from(credit.charge(10, Micros(tick * 50_000)));
            }
        }
        assert_eq!(done, 30 + 499, "30 at once, and 10 a second for 49.95 s");
        assert!(!credit.charge(301, Micros(u64::MAX)), "more than there ever is");
    }
}
