//! Metrics by HTTP: what a game publishes, and a thread that serves it.
//!
//! About once a second the game's thread publishes a rendered text on a [`MetricsBoard`]. Whatever answers
//! requests reads nothing else, so that no request, however many or malformed, touches the game: pages of an
//! [`Endpoint`](crate::Endpoint) (`WebOptions::metrics`), or a [`MetricsServer`] with its own port (feature
//! `web`). How the text is made is the program's choice.

#[cfg(feature = "web")]
mod server;

#[cfg(feature = "web")]
pub use server::MetricsServer;
#[cfg(feature = "web")]
pub(crate) use server::respond;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A game that published nothing for so long is reported as unhealthy.
pub const STALE_AFTER: Duration = Duration::from_secs(5);

/// What was published last, and when.
struct Published {
    text: Arc<str>,
    at: Instant,
}

/// Where the game's thread leaves its metrics. Clones are the same board.
///
/// ```
/// use foveate_io::metrics::MetricsBoard;
/// use std::time::Instant;
///
/// let board = MetricsBoard::default();
/// board.publish("foveate_players 3\n# EOF\n".into(), Instant::now());
/// assert!(board.text().starts_with("foveate_players"));
/// ```
#[derive(Clone, Default)]
pub struct MetricsBoard(Arc<Mutex<Option<Published>>>);

impl MetricsBoard {
    /// Replaces the text, in the format of OpenMetrics.
    pub fn publish(&self, text: String, now: Instant) {
        *self.lock() = Some(Published { text: text.into(), at: now });
    }

    /// The newest text; empty before the first.
    pub fn text(&self) -> Arc<str> {
        self.lock().as_ref().map_or_else(|| "".into(), |published| Arc::clone(&published.text))
    }

    /// Whether something was published within [`STALE_AFTER`].
    pub fn is_fresh(&self, now: Instant) -> bool {
        let published = self.lock();
        published.as_ref().is_some_and(|it| now.saturating_duration_since(it.at) < STALE_AFTER)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Published>> {
        // It is exchanged whole, so that a panic elsewhere cannot have left half of one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
