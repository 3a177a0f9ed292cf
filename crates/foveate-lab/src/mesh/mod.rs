//! A world on many servers, in virtual time: the shipped servers, a simulated bus and ledger, faults at every step,
//! and a checker that knows everything.

pub mod check;
pub mod cost;
pub mod faults;
pub mod game;
pub mod ledger;
pub mod parts;
pub mod run;
pub mod world;

#[cfg(test)]
mod bystander_tests;
