//! What a client can make the server do is paid for: each player has a budget of work, and what is asked for has a cost.
//!
//! A limit on how many messages a client sends does not bound what they cost: one may be a flag, another a search
//! through the whole map. So costs are charged. However many clients do their worst, they cost the server at most
//! their budgets together.

use foveate_wire::Micros;

/// A budget of work. One unit is about what answering a small question costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkBudget {
    /// Units that become available in a second.
    pub per_second: u32,
    /// Units that are kept at most: what can be asked for at once. Nothing that costs more is ever done.
    pub burst: u32,
}

impl WorkBudget {
    /// Of a player: four costly actions a second, or four hundred small ones.
    pub const PLAYER: WorkBudget = WorkBudget { per_second: 400, burst: 400 };
    /// Of a link, for joining: [`JOIN_COST`] a second, and four at once.
    pub(super) const JOINS: WorkBudget = WorkBudget { per_second: 100, burst: 400 };
    /// Of a player, beside the other one, for looking from another object: ten units a second, and twice at once, so
    /// that a player does not sweep over all objects.
    pub(super) const WATCHES: WorkBudget = WorkBudget { per_second: 10, burst: 20 };
}

/// What joining costs, out of the link's budget.
pub const JOIN_COST: u32 = 100;
/// What another view costs: every pair of the player is looked at anew.
pub const VIEW_COST: u32 = 50;
/// What looking from another object, or from the player's own again, costs.
pub const WATCH_COST: u32 = 10;
/// What a name costs.
pub const NAME_COST: u32 = 1;

/// Work that clients asked for. Counters only ever grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkCounts {
    /// Units that were charged, and done.
    pub charged: u64,
    /// Units that were asked for beyond a budget, and not done.
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
    /// A whole budget.
    pub fn new(budget: WorkBudget, now: Micros) -> Credit {
        Credit { budget, left: u64::from(budget.burst) * 1_000_000, at: now }
    }

    /// Takes a cost out, if that much is left.
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
