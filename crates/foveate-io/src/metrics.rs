//! Metrics by HTTP: a board on which a game publishes them, and a thread that serves it.
//!
//! About once a second the game's thread publishes a rendered text on a [`MetricsBoard`]. Requests are answered from
//! the board alone, so that no request, however many or malformed, touches the game: either by the pages of an
//! [`Endpoint`](crate::Endpoint) (`WebOptions::metrics`), or by a [`MetricsServer`] with its own port (feature `web`).
//! The program renders the text.

#[cfg(feature = "web")]
mod server;

#[cfg(feature = "web")]
pub use server::MetricsServer;
#[cfg(feature = "web")]
pub(crate) use server::respond;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A game that has published nothing for this long is reported as unhealthy.
pub const STALE_AFTER: Duration = Duration::from_secs(5);

/// The last published text, and its time.
struct Published {
    text: Arc<str>,
    at: Instant,
    /// Why no players should be sent to this server, if so.
    trouble: Option<Arc<str>>,
}

/// A board on which the game's thread publishes metrics. Clones share it.
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
    /// Replaces the text, which is in the OpenMetrics format.
    pub fn publish(&self, text: String, now: Instant) {
        let trouble = self.trouble();
        *self.lock() = Some(Published { text: text.into(), at: now, trouble });
    }

    /// Sets why no players should be sent here, such as a full disk; `None` clears it. The server is then alive, but
    /// not ready. Before the first [`MetricsBoard::publish`] this does nothing.
    pub fn set_trouble(&self, trouble: Option<&str>) {
        if let Some(published) = self.lock().as_mut() {
            published.trouble = trouble.map(Arc::from);
        }
    }

    /// The reason set by [`MetricsBoard::set_trouble`].
    pub fn trouble(&self) -> Option<Arc<str>> {
        self.lock().as_ref().and_then(|published| published.trouble.clone())
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
        // It is replaced as a whole, so that a panic elsewhere cannot have left it inconsistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
