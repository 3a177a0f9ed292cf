//! Orders as state: what a client requests, and what the authority does.

use super::super::Topology;
use super::super::field::UnitCourse;
use super::{About, Play, id_of};
use foveate_wire::Replicate;

/// A unit's course as it is sent.
#[derive(Clone, PartialEq, Debug, Replicate)]
pub struct Order {
    #[replicate(min = -16384, max = 16383)]
    from_x: i32,
    #[replicate(min = -16384, max = 16383)]
    from_y: i32,
    #[replicate(min = -16384, max = 16383)]
    to_x: i32,
    #[replicate(min = -16384, max = 16383)]
    to_y: i32,
    #[replicate(min = 0, max = 16777215)]
    since: i32,
    colliding: bool,
}

impl From<UnitCourse> for Order {
    fn from(course: UnitCourse) -> Order {
        let ([from_x, from_y], [to_x, to_y]) = (course.from, course.target);
        let (since, colliding) = (course.since as i32, course.colliding);
        Order { from_x, from_y, to_x, to_y, since, colliding }
    }
}

impl From<Order> for UnitCourse {
    fn from(order: Order) -> UnitCourse {
        UnitCourse {
            from: [order.from_x, order.from_y],
            target: [order.to_x, order.to_y],
            since: order.since as u32,
            colliding: order.colliding,
        }
    }
}

impl Play<'_> {
    /// The authority carries out orders: its own player's when given, a client's when they arrive.
    pub(super) fn command(&mut self) {
        let Some(orders) = &self.script.orders else { return };
        if self.units.is_none() {
            return;
        }
        let mut acted = Vec::new();
        match self.topology {
            Topology::Peers => {
                let given = orders.given_in(self.frame);
                acted.extend(given.into_iter().map(|(unit, to)| (unit, to, self.frame as u32)));
            }
            Topology::Server => {
                for unit in 0..orders.places.len() {
                    let asked = self.asked(unit).filter(|asked| asked.since > self.acted[unit]);
                    acted.extend(asked.map(|asked| (unit, asked.target, asked.since)));
                }
            }
        }
        for (unit, _, since) in &acted {
            self.acted[*unit] = *since;
            self.ran.order_delays.push(self.frame - *since as usize);
        }
        let orders: Vec<_> = acted.into_iter().map(|(unit, target, _)| (unit, target)).collect();
        if let Some(run) = &mut self.units {
            run.advance(&orders);
        }
    }

    /// A client's newest order for a unit that the server has received: its target and the time when it was given.
    fn asked(&self, unit: usize) -> Option<UnitCourse> {
        let owner = self.script.things[unit].owner?;
        let channel = self.channels.iter().find(|channel| channel.about == About::Orders)?;
        let tie = channel.tie(self.topology.node(owner), 0)?;
        let ask = tie.replicas.get(id_of(Some(owner), unit))?.value::<Order>()?;
        Some(UnitCourse::from(ask))
    }

    /// Clients request a target in the frame in which their player gives the order; the authority publishes the result.
    pub(super) fn write_orders(&mut self, channel: usize, node: usize) {
        let Some((orders, run)) = self.script.orders.as_ref().zip(self.units.as_ref()) else {
            return;
        };
        let frame = self.frame;
        for unit in 0..orders.places.len() {
            let Some(owner) = self.script.things[unit].owner else { continue };
            let id = id_of(Some(owner), unit);
            let Some((now, before)) = run.newest(unit) else { continue };
            if node == 0 {
                if now.course != before.course || frame == 0 {
                    self.channels[channel].write(node, id, &Order::from(now.course));
                }
            } else if node == self.topology.node(owner) {
                let given = orders.given_in(frame).into_iter().filter(|(of, _)| *of == unit);
                for (_, target) in given {
                    let since = frame as u32;
                    let ask = UnitCourse { from: target, target, since, colliding: false };
                    self.channels[channel].write(node, id, &Order::from(ask));
                }
            }
        }
    }
}
