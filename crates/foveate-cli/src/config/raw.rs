//! The file as it is written: every key optional, every value with its place.

use foveate_sync::interest::View;
use serde::Deserialize;
use toml::Spanned;

/// A value and where it stands; `None` if the file does not say.
pub type Said<T> = Option<Spanned<T>>;

macro_rules! sections {
    ($($(#[$doc:meta])* $name:ident { $($key:ident: $ty:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Deserialize, Default)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $(pub $key: $ty,)*
        }
    )*};
}

sections! {
    /// The whole file.
    File {
        server: Server, tls: Tls, tokens: Tokens, storage: Storage, world: World, budget: Budget,
        limits: Limits, metrics: Metrics, web: Web, log: Log, network: Network, view: Said<View>,
    }
    /// `[server]`
    Server {
        listen: Said<String>, tick_hz: Said<i64>, max_clients: Said<i64>,
        max_clients_per_address: Said<i64>, name: Said<String>,
    }
    /// `[tls]`
    Tls { development: Said<bool>, cert: Said<String>, key: Said<String> }
    /// `[tokens]`
    Tokens { open: Said<bool>, secret: Said<String> }
    /// `[storage]`
    Storage { path: Said<String> }
    /// `[world]`
    World { seed: Said<i64>, bots: Said<i64>, line_of_sight: Said<bool> }
    /// `[budget]`
    Budget { unlimited: Said<bool>, bytes_per_second: Said<i64>, follow_congestion: Said<bool> }
    /// `[limits]`
    Limits {
        handshakes_per_second: Said<i64>, datagrams_per_second: Said<i64>,
        bytes_per_second: Said<i64>, message_bytes: Said<i64>, backlog_bytes: Said<i64>,
        uplink_bytes_per_second: Said<i64>, tick_ms: Said<f64>,
    }
    /// `[metrics]`
    Metrics { enabled: Said<bool>, listen: Said<String> }
    /// `[web]`
    Web {
        enabled: Said<bool>, listen: Said<String>, origins: Said<Vec<String>>, metrics: Said<bool>,
        observe: Said<bool>, operator_token: Said<String>,
    }
    /// `[log]`
    Log { level: Said<String>, format: Said<String> }
    /// `[network]`
    Network { delay_ms: Said<f64>, jitter_ms: Said<f64>, loss: Said<f64>, burst: Said<f64> }
}
