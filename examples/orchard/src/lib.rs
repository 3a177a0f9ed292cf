//! The orchard: trees bear apples; players pick them up, carry and throw them, and score at
//! baskets.
//!
//! Unlike the arena, it has objects that are created and removed while the game runs. The rules are
//! the same on a server and among peers. **No rule writes two objects**:
//!
//! - An apple stores its holder; what a player carries is a query. A player *asks* the apple.
//! - A basket counts the apples that lie in it, and remembers which. Once every peer has had the
//!   time to receive that, it asks each apple to vanish. Until then the apple stays, so that a
//!   crash of either owner neither loses a point nor counts one twice.
//!   either owner loses no point and counts none twice.
//!
//! So the apples made are those lying, held, flying, in baskets, and removed; each removed one was
//! eaten or scored.

mod bot;
mod kinds;
mod rules;

pub use bot::Gatherer;
pub use kinds::{APPLE, APPLE_TREE, Apple, AppleState, AppleTree, BASKET, Basket, PICKER, Picker};
pub use rules::{Orchard, OrchardAction, OrchardEvent, OrchardInput, OrchardSpec, ROUND, VIEW};
