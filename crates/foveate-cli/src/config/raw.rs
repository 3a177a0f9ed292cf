//! The file as written: every key is optional, and every value has its position.

use foveate_sync::interest::View;
use serde::Deserialize;
use toml::Spanned;

/// A value and its position; `None` if the file does not have it.
pub type SpannedOption<T> = Option<Spanned<T>>;

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
        limits: Limits, metrics: Metrics, web: Web, log: Log, network: Network, region: Region, view: SpannedOption<View>,
    }
    /// `[server]`
    Server {
        listen: SpannedOption<String>, tick_hz: SpannedOption<i64>, max_clients: SpannedOption<i64>,
        max_clients_per_address: SpannedOption<i64>, name: SpannedOption<String>, threads: SpannedOption<i64>,
        datagrams: SpannedOption<String>,
    }
    /// `[tls]`
    Tls { development: SpannedOption<bool>, cert: SpannedOption<String>, key: SpannedOption<String> }
    /// `[tokens]`
    Tokens { open: SpannedOption<bool>, secret: SpannedOption<String> }
    /// `[storage]`
    Storage { path: SpannedOption<String> }
    /// `[world]`
    World { seed: SpannedOption<i64>, bots: SpannedOption<i64>, line_of_sight: SpannedOption<bool> }
    /// `[budget]`
    Budget { unlimited: SpannedOption<bool>, bytes_per_second: SpannedOption<i64>, follow_congestion: SpannedOption<bool> }
    /// `[limits]`
    Limits {
        handshakes_per_second: SpannedOption<i64>, datagrams_per_second: SpannedOption<i64>,
        bytes_per_second: SpannedOption<i64>, message_bytes: SpannedOption<i64>, backlog_bytes: SpannedOption<i64>,
        uplink_bytes_per_second: SpannedOption<i64>, tick_ms: SpannedOption<f64>,
    }
    /// `[metrics]`
    Metrics { enabled: SpannedOption<bool>, listen: SpannedOption<String> }
    /// `[web]`
    Web {
        enabled: SpannedOption<bool>, listen: SpannedOption<String>, origins: SpannedOption<Vec<String>>, metrics: SpannedOption<bool>,
        observe: SpannedOption<bool>, operator_token: SpannedOption<String>, trusted_proxies: SpannedOption<Vec<String>>,
    }
    /// `[log]`
    Log { level: SpannedOption<String>, format: SpannedOption<String> }
    /// `[region]`
    Region {
        nats: SpannedOption<String>, credentials: SpannedOption<String>, world: SpannedOption<String>,
        key_file: SpannedOption<String>, link: SpannedOption<String>, advertise: SpannedOption<String>,
        fixed: SpannedOption<bool>, replicas: SpannedOption<i64>, ledger_bytes: SpannedOption<i64>,
        contact: SpannedOption<Vec<String>>,
    }
    /// `[network]`
    Network { delay_ms: SpannedOption<f64>, jitter_ms: SpannedOption<f64>, loss: SpannedOption<f64>, burst: SpannedOption<f64> }
}
