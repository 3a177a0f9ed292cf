//! The arena: the game that shows what Foveate does, on every topology.
//!
//! **What it is for.** A world for up to a thousand avatars: a seeded map with solid obstacles
//! ([`ArenaMap`]), the graph of ways through it ([`Graph`]), the movement of an avatar in integers
//! ([`step`]), the rules of play as a [`Game`](foveate_node::Game) ([`Arena`]), and bots: some only
//! walk ([`RoamingBots`]), some play ([`Fighter`]). [`Practice`] runs rules and bots in one
//! process.
//!
//! **What it refuses to do.** It has no network, no clock and no global randomness: a seed and a
//! number of ticks determine everything, on every machine. It does not decide which players receive
//! what; it only tells whether there is a wall in between ([`ArenaMap::line_of_sight`]). Avatars do
//! not collide with each other.
//!
//! **The path of a datum.** A seed becomes outlines on a grid of 1/256 unit ([`map`]). From these
//! are built, once: the grid for sight, the [`graph`] for planning, and the integer walls of
//! [`collision`]. Then, each tick: a bot (or a player) looks at the world and gives its
//! [`Controls`](game::Controls) → in its avatar's step [`movement::step`] turns body and input into
//! the next [`Body`], along the walls, and shots are traced → other objects are sent actions and
//! carry them out ([`game`]) → the new states of the objects are published.
//!
//! ```text
//! seed → generate → map ─┬─ line_of_sight, is_free ──────→ shots
//!                        ├─ voronoi → graph ──→ brain ─→ Controls ─┐
//!                        └─ collision ────────→ game: movement::step → Avatar → World
//!                                                      ↑_________________________│
//! ```
//!
//! **Architecture invariants.** No float enters [`movement::step`], and no intermediate value there
//! reaches 2^53, so that a client in TypeScript can reproduce it bit by bit. Floats elsewhere use
//! only operations that IEEE 754 defines to the last bit. A free body stays free: no step ends
//! inside an obstacle.

pub mod bots;
pub mod brain;
pub mod collision;
pub mod document;
pub mod error;
pub mod fixed;
pub mod fuzz;
pub mod game;
mod generate;
pub mod geometry;
pub mod graph;
mod grid;
pub mod map;
pub mod movement;
pub mod practice;
pub mod trig;
mod voronoi;
mod walls;

pub use bots::RoamingBots;
pub use brain::{Fighter, Skill};
pub use collision::CollisionMap;
pub use document::ArenaDocument;
pub use error::ArenaError;
pub use fixed::{Place, Velocity};
pub use game::{Arena, Setup};
pub use geometry::{Point, Vector};
pub use graph::{Graph, GraphNode, NodeIx, NodeKind, PathScratch};
pub use map::{ArenaMap, Obstacle};
pub use movement::{ArenaInput, Body, TickRate, step};
pub use practice::Practice;
pub use trig::Yaw;
pub use walls::Walls;
