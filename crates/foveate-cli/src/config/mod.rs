//! `foveate.toml`: the configuration of a server, checked before anything starts.
//!
//! The path of a value: text → `raw` (known keys, right types, with positions) → here (ranges, names, files, and
//! mutually exclusive keys) → [`Config`], in which everything is valid.

mod raw;
pub mod region;
#[cfg(test)]
mod tests;
mod web;

pub use region::RegionConfig;
pub use web::WebConfig;

use foveate_io::{Certificate, DatagramPath, Limits, RateLimit, token};
use foveate_node::link_model::{LinkSpec, Loss};
use foveate_node::server::Resources;
use foveate_sync::MAX_THREADS;
use foveate_sync::interest::{Line, Policy, View, ViewContext, Visibility, presets};
use foveate_wire::{Bytes, KindId, Micros};
use raw::SpannedOption;
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// The defaults, with a comment for every key.
pub const DEFAULT: &str = include_str!("default.toml");

/// Share of a tick that work may take before views become looser.
const TICK_SHARE: f64 = 0.8;
/// The largest configuration that is read.
const MAX_FILE: u64 = 1 << 20;

/// The configuration cannot be used. Nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{file}: {cause}", file = file.display())]
    File {
        /// The file, as given.
        file: PathBuf,
        cause: std::io::Error,
    },
    /// A line is invalid.
    #[error("{file}:{line}: {what}", file = file.display())]
    Line {
        /// The file, as given.
        file: PathBuf,
        /// Its number, starting at 1.
        line: usize,
        /// What was found there, and what was expected.
        what: String,
    },
}

/// Which players may join.
#[derive(Clone, PartialEq, Debug)]
pub enum Tokens {
    /// Any player.
    Open,
    /// Players with a token issued with the secret in this file.
    Secret(PathBuf),
}

/// The level of logging.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Errors.
    Error,
    /// Also suspicious events.
    Warn,
    /// Also normal events.
    Info,
    /// Also details.
    Debug,
    /// Also every step.
    Trace,
}

/// The format of logging.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Text for people.
    Text,
    /// JSON for programs, an object per line.
    Json,
}

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// The address for clients.
    pub listen: SocketAddr,
    /// Ticks per second.
    pub tick_hz: u32,
    /// What the server is called.
    pub name: String,
    /// Threads for rules and views; 0 means one for each core.
    pub threads: usize,
    /// How datagrams of native clients are sent.
    pub datagrams: DatagramPath,
    /// The certificate that clients check.
    pub certificate: Certificate,
    /// Which players may join.
    pub tokens: Tokens,
    /// The file in which players and objects are kept.
    pub storage: Option<PathBuf>,
    /// The seed of the world.
    pub seed: u64,
    /// Bots that the server runs itself.
    pub bots: u32,
    /// Whether enemies behind walls are hidden from clients.
    pub line_of_sight: bool,
    /// The view of players, in place of the game's first one.
    pub view: Option<View>,
    /// The most bytes per second to each client.
    pub budget: Option<Bytes>,
    /// Whether a client with a narrow link is sent less instead of later.
    pub follow_congestion: bool,
    /// Links, rates and sizes; `max_links` is the number of clients.
    pub limits: Limits,
    /// What all clients together may use in a tick.
    pub resources: Resources,
    /// The address of the metrics server.
    pub metrics: Option<SocketAddr>,
    /// What browsers are served.
    pub web: WebConfig,
    /// The world that a region server belongs to.
    #[cfg_attr(
        not(feature = "nats"),
        expect(dead_code, reason = "checked always, used by `foveate region`")
    )]
    pub region: RegionConfig,
    pub level: Level,
    pub format: Format,
    /// Simulated network conditions.
    pub network: Option<LinkSpec>,
}

/// Addresses on the command line, which override the file's. They are checked together with the rest of the
/// configuration.
#[derive(Clone, Copy, Default, Debug)]
pub struct CliOverrides {
    /// In place of `server.listen`.
    pub listen: Option<SocketAddr>,
    /// In place of `web.listen`.
    pub web: Option<SocketAddr>,
}

impl Config {
    /// Reads and checks a file, and that the files which it names exist.
    pub fn load(file: &Path, told: CliOverrides) -> Result<Config, ConfigError> {
        let failed = |cause| ConfigError::File { file: file.into(), cause };
        let size = std::fs::metadata(file).map_err(failed)?.len();
        if size > MAX_FILE {
            let what = format!("{size} bytes; a configuration has at most {MAX_FILE}");
            return Err(failed(std::io::Error::other(what)));
        }
        Config::parse(file, &std::fs::read_to_string(file).map_err(failed)?, told)
    }

    /// The same for a text; `file` is for messages and relative paths.
    pub fn parse(file: &Path, text: &str, told: CliOverrides) -> Result<Config, ConfigError> {
        let checker = Checker { file, text, told };
        let raw: raw::File = toml::from_str(text)
            .map_err(|error| checker.wrong(error.span(), error.message().to_owned()))?;
        checker.config(&raw)
    }
}

struct Checker<'a> {
    file: &'a Path,
    text: &'a str,
    told: CliOverrides,
}

impl Checker<'_> {
    fn config(&self, raw: &raw::File) -> Result<Config, ConfigError> {
        let listen = self.value("server.listen", &raw.server.listen, "127.0.0.1:4433")?;
        let listen = self.told.listen.unwrap_or(listen);
        let metrics = self.value("metrics.listen", &raw.metrics.listen, "127.0.0.1:9464")?;
        let metrics = said(&raw.metrics.enabled).unwrap_or(true).then_some(metrics);
        let web = self.web(&raw.web)?;
        self.check_ports(&web, metrics, raw)?;
        let world = &raw.world;
        let tick_hz = self.number("server.tick_hz", &raw.server.tick_hz, 20, 1..=120)? as u32;
        Ok(Config {
            listen,
            tick_hz,
            name: self.name(&raw.server.name)?,
            threads: self.number(
                "server.threads",
                &raw.server.threads,
                0,
                0..=MAX_THREADS as i64,
            )? as usize,
            datagrams: self.datagrams(&raw.server.datagrams)?,
            certificate: self.certificate(&raw.tls, listen)?,
            tokens: self.tokens(&raw.tokens, listen, &web)?,
            storage: self.storage(&raw.storage)?,
            seed: self.number("world.seed", &world.seed, 1, 0..=i64::MAX)? as u64,
            bots: self.number("world.bots", &world.bots, 0, 0..=16_384)? as u32,
            line_of_sight: said(&world.line_of_sight).unwrap_or(true),
            view: self.view(&raw.view)?,
            budget: self.budget(&raw.budget)?,
            follow_congestion: said(&raw.budget.follow_congestion).unwrap_or(true),
            limits: self.limits(&raw.limits, &raw.server)?,
            resources: self.resources(&raw.limits, tick_hz)?,
            metrics,
            web,
            region: self.region(&raw.region)?,
            level: self.level(&raw.log)?,
            format: self.format(&raw.log)?,
            network: self.network(&raw.network)?,
        })
    }

    fn wrong(&self, span: Option<Range<usize>>, what: String) -> ConfigError {
        let before = span.map_or(0, |span| span.start.min(self.text.len()));
        let line = 1 + self.text.as_bytes()[..before].iter().filter(|byte| **byte == b'\n').count();
        ConfigError::Line { file: self.file.into(), line, what }
    }

    /// A path relative to the configuration's folder, rather than the working directory.
    fn path(&self, path: &str) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("")).join(path)
    }

    fn number<T: PartialOrd + Copy + Display>(
        &self,
        key: &str,
        value: &SpannedOption<T>,
        default: T,
        range: RangeInclusive<T>,
    ) -> Result<T, ConfigError> {
        let Some(value) = value else { return Ok(default) };
        if range.contains(value.get_ref()) {
            return Ok(*value.get_ref());
        }
        let (found, least, most) = (value.get_ref(), range.start(), range.end());
        let what = format!("{key} is {found}; expected {least} to {most}");
        Err(self.wrong(Some(value.span()), what))
    }

    fn value(
        &self,
        key: &str,
        value: &SpannedOption<String>,
        default: &str,
    ) -> Result<SocketAddr, ConfigError> {
        let text = value.as_ref().map_or(default, |value| value.get_ref());
        SocketAddr::from_str(text).map_err(|_| {
            let span = value.as_ref().map(|value| value.span());
            let what = format!("{key} is {text:?}; expected address and port, like {default:?}");
            self.wrong(span, what)
        })
    }

    fn choice<T: Copy>(
        &self,
        key: &str,
        value: &SpannedOption<String>,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = value else { return Ok(None) };
        if let Some((_, choice)) = choices.iter().find(|(name, _)| name == value.get_ref()) {
            return Ok(Some(*choice));
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let found = value.get_ref();
        let what = format!("{key} is {found:?}; expected one of {}", names.join(", "));
        Err(self.wrong(Some(value.span()), what))
    }

    fn name(&self, value: &SpannedOption<String>) -> Result<String, ConfigError> {
        let Some(value) = value else { return Ok("foveate".into()) };
        let name = value.get_ref();
        let fits = (1..=token::MAX_NAME).contains(&name.len()) && !name.contains(char::is_control);
        if fits {
            return Ok(name.clone());
        }
        let most = token::MAX_NAME;
        let what = format!("server.name is {name:?}; expected 1 to {most} bytes of plain text");
        Err(self.wrong(Some(value.span()), what))
    }

    fn datagrams(&self, value: &SpannedOption<String>) -> Result<DatagramPath, ConfigError> {
        let choices = [("direct", DatagramPath::Direct), ("quic", DatagramPath::Quic)];
        let said = self.choice("server.datagrams", value, &choices)?;
        Ok(said.unwrap_or(DatagramPath::Direct))
    }

    /// A path of a file that must exist.
    fn file(&self, key: &str, value: &toml::Spanned<String>) -> Result<PathBuf, ConfigError> {
        let path = self.path(value.get_ref());
        match std::fs::File::open(&path) {
            Ok(_) => Ok(path),
            Err(cause) => {
                let what = format!("{key}: {}: {cause}; expected a readable file", path.display());
                Err(self.wrong(Some(value.span()), what))
            }
        }
    }

    /// On a network, open access must be configured explicitly.
    fn must_say(&self, listen: SocketAddr, what: &str) -> Result<(), ConfigError> {
        if listen.ip().is_loopback() {
            return Ok(());
        }
        let (key, at) = match self.told.listen {
            Some(_) => ("--listen", None),
            None => ("server.listen", self.text.find("listen").map(|at| at..at)),
        };
        Err(self.wrong(at, format!("{key} is open to the network; expected {what}")))
    }

    /// Pages and metrics are two TCP listeners, which need two ports, unless the system chooses one.
    fn check_ports(
        &self,
        web: &WebConfig,
        metrics: Option<SocketAddr>,
        raw: &raw::File,
    ) -> Result<(), ConfigError> {
        let Some(metrics) = metrics.filter(|_| web.enabled) else { return Ok(()) };
        let (one, two) = (web.listen.ip(), metrics.ip());
        let meet = one == two || one.is_unspecified() || two.is_unspecified();
        if web.listen.port() != metrics.port() || metrics.port() == 0 || !meet {
            return Ok(());
        }
        let (web_at, metrics_at) = (&raw.web.listen, &raw.metrics.listen);
        let span = web_at.as_ref().or(metrics_at.as_ref()).map(|said| said.span());
        let what = format!(
            "web.listen is {} and metrics.listen is {metrics}; expected two ports, or \
             metrics.enabled = false",
            web.listen
        );
        Err(self.wrong(span, what))
    }

    /// A database may exist or not; if it exists it must be a file, and its folder must exist.
    fn storage(&self, raw: &raw::Storage) -> Result<Option<PathBuf>, ConfigError> {
        let Some(said) = &raw.path else { return Ok(None) };
        let path = self.path(said.get_ref());
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let what = if path.is_dir() {
            "is a folder; expected a file".to_owned()
        } else if !folder.is_dir() {
            format!("the folder {} does not exist; create it first", folder.display())
        } else {
            return Ok(Some(path));
        };
        Err(self.wrong(Some(said.span()), format!("storage.path: {}: {what}", path.display())))
    }

    fn certificate(&self, tls: &raw::Tls, listen: SocketAddr) -> Result<Certificate, ConfigError> {
        let choice = "either tls.development = true, or tls.cert and tls.key";
        match (&tls.cert, &tls.key, &tls.development) {
            (Some(cert), Some(key), None) => {
                let (chain, key) = (self.file("tls.cert", cert)?, self.file("tls.key", key)?);
                Ok(Certificate::Files { chain, key })
            }
            (None, None, None) => {
                self.must_say(listen, choice).map(|()| Certificate::development())
            }
            (None, None, Some(yes)) if *yes.get_ref() => Ok(Certificate::development()),
            (cert, key, development) => {
                let span = cert.as_ref().or(key.as_ref()).map(|said| said.span());
                let span = span.or(development.as_ref().map(|said| said.span()));
                Err(self.wrong(span, format!("expected {choice}")))
            }
        }
    }

    fn tokens(
        &self,
        tokens: &raw::Tokens,
        listen: SocketAddr,
        web: &WebConfig,
    ) -> Result<Tokens, ConfigError> {
        let choice = "either tokens.open = true, or tokens.secret";
        match (&tokens.secret, &tokens.open) {
            (Some(secret), None) => {
                let path = self.file("tokens.secret", secret)?;
                token::Secret::read(&path).map_err(|error| {
                    let what = format!("tokens.secret: {}: {error}", path.display());
                    self.wrong(Some(secret.span()), what)
                })?;
                Ok(Tokens::Secret(path))
            }
            (None, None) => {
                self.must_say(listen, choice)?;
                self.must_say_web(web, choice).map(|()| Tokens::Open)
            }
            (None, Some(yes)) if *yes.get_ref() => Ok(Tokens::Open),
            (secret, open) => {
                let span = secret.as_ref().map(|said| said.span());
                let span = span.or(open.as_ref().map(|said| said.span()));
                Err(self.wrong(span, format!("expected {choice}")))
            }
        }
    }

    fn budget(&self, budget: &raw::Budget) -> Result<Option<Bytes>, ConfigError> {
        let key = "budget.bytes_per_second";
        match (&budget.bytes_per_second, &budget.unlimited) {
            (None, None) => Ok(None),
            (None, Some(yes)) if *yes.get_ref() => Ok(None),
            (Some(_), None) => {
                let most = 1_000..=100_000_000;
                let bytes = self.number(key, &budget.bytes_per_second, 0, most)?;
                Ok(Some(Bytes(bytes as u32)))
            }
            (bytes, unlimited) => {
                let span = bytes.as_ref().map(|said| said.span());
                let span = span.or(unlimited.as_ref().map(|said| said.span()));
                let what = format!("expected either budget.unlimited = true, or {key}");
                Err(self.wrong(span, what))
            }
        }
    }

    fn limits(&self, raw: &raw::Limits, server: &raw::Server) -> Result<Limits, ConfigError> {
        let number = |key: &str, value: &SpannedOption<i64>, default: u32, range| {
            self.number(key, value, i64::from(default), range).map(|value| value as u32)
        };
        let limits = Limits::server();
        let key = "server.max_clients";
        let max_links = number(key, &server.max_clients, 1_024, 1..=65_536)?;
        let key = "server.max_clients_per_address";
        let per_address = number(key, &server.max_clients_per_address, 32, 1..=65_536)?;
        let key = "limits.handshakes_per_second";
        let rate = limits.handshakes_per_address;
        let handshakes = number(key, &raw.handshakes_per_second, rate.per_second, 1..=10_000)?;
        let key = "limits.datagrams_per_second";
        let datagrams = number(key, &raw.datagrams_per_second, 256, 10..=100_000)?;
        let key = "limits.bytes_per_second";
        let bytes = number(key, &raw.bytes_per_second, 262_144, 1_000..=100_000_000)?;
        let key = "limits.message_bytes";
        let message = number(key, &raw.message_bytes, limits.max_message.0, 1_024..=1_048_576)?;
        let key = "limits.backlog_bytes";
        let range = i64::from(message)..=16_777_216;
        let backlog = number(key, &raw.backlog_bytes, limits.max_backlog.0.max(message), range)?;
        Ok(Limits {
            max_links,
            max_links_per_address: per_address,
            handshakes_per_address: RateLimit {
                per_second: handshakes,
                burst: rate.burst.max(handshakes),
            },
            datagrams: RateLimit::per_second(datagrams),
            bytes: RateLimit::per_second(bytes),
            max_message: Bytes(message),
            max_backlog: Bytes(backlog),
            ..limits
        })
    }

    fn resources(&self, raw: &raw::Limits, tick_hz: u32) -> Result<Resources, ConfigError> {
        let round_ms = 1_000.0 / f64::from(tick_hz);
        let key = "limits.tick_ms";
        let millis = self.number(key, &raw.tick_ms, TICK_SHARE * round_ms, 0.1..=round_ms)?;
        let key = "limits.uplink_bytes_per_second";
        let all = 1_000..=100_000_000_000;
        let uplink = match &raw.uplink_bytes_per_second {
            None => None,
            given => Some(self.number(key, given, 0, all)? / i64::from(tick_hz)),
        };
        Ok(Resources {
            uplink: uplink.map(|bytes| Bytes(u32::try_from(bytes.max(1)).unwrap_or(u32::MAX))),
            tick_time: Some(Micros((millis * 1e3) as u64)),
        })
    }

    /// Checks what can be checked without the game; walls, kinds and custom policies are checked at the start.
    fn view(&self, view: &SpannedOption<View>) -> Result<Option<View>, ConfigError> {
        let Some(view) = view else { return Ok(None) };
        match view.get_ref().build_in(&AnyGame) {
            Ok(_) => Ok(Some(view.get_ref().clone())),
            Err(error) => Err(self.wrong(Some(view.span()), format!("[view]: {error}"))),
        }
    }

    fn level(&self, log: &raw::Log) -> Result<Level, ConfigError> {
        use Level::{Debug, Error, Info, Trace, Warn};
        let levels =
            [("error", Error), ("warn", Warn), ("info", Info), ("debug", Debug), ("trace", Trace)];
        Ok(self.choice("log.level", &log.level, &levels)?.unwrap_or(Info))
    }

    fn format(&self, log: &raw::Log) -> Result<Format, ConfigError> {
        let formats = [("text", Format::Text), ("json", Format::Json)];
        Ok(self.choice("log.format", &log.format, &formats)?.unwrap_or(Format::Text))
    }

    fn network(&self, raw: &raw::Network) -> Result<Option<LinkSpec>, ConfigError> {
        let millis = |key, value| {
            let millis = self.number(key, value, 0.0, 0.0..=10_000.0)?;
            Ok(Micros((millis * 1_000.0) as u64))
        };
        let loss = self.number("network.loss", &raw.loss, 0.0, 0.0..=0.9)?;
        let burst = self.number("network.burst", &raw.burst, 1.0, 1.0..=100.0)?;
        let delay = millis("network.delay_ms", &raw.delay_ms)?;
        let jitter = millis("network.jitter_ms", &raw.jitter_ms)?;
        let loss = Loss::share_in_bursts(loss, burst);
        let conditions = LinkSpec { loss, ..LinkSpec::jittered(delay, jitter) };
        Ok((conditions != LinkSpec::PERFECT).then_some(conditions))
    }
}

/// A game that has everything a view refers to.
struct AnyGame;

impl ViewContext for AnyGame {
    fn visibility(&self) -> Option<Arc<dyn Visibility>> {
        Some(Arc::new(AnyGame))
    }

    fn kind(&self, _: &str) -> Option<KindId> {
        Some(KindId(0))
    }

    fn policy(&self, _: &str) -> Option<Arc<dyn Policy>> {
        presets::broadcast().build().ok()
    }
}

impl Visibility for AnyGame {
    fn visible(&self, _: &Line) -> bool {
        true
    }
}

fn said<T: Copy>(value: &SpannedOption<T>) -> Option<T> {
    value.as_ref().map(|value| *value.get_ref())
}

/// What the server would do, for `foveate config check`.
impl Display for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let or_none = |there: Option<String>| there.unwrap_or_else(|| "none".into());
        let path = |path: &PathBuf| path.display().to_string();
        let limits = &self.limits;
        let (links, each) = (limits.max_links, limits.max_links_per_address);
        writeln!(f, "{}: {} at {} Hz", self.name, self.listen, self.tick_hz)?;
        match self.threads {
            0 => writeln!(f, "threads: one for each core")?,
            count => writeln!(f, "threads: {count}")?,
        }
        writeln!(f, "clients: at most {links}, {each} from one address")?;
        match &self.certificate {
            Certificate::Development { .. } => writeln!(f, "certificate: for development")?,
            Certificate::Files { chain, .. } => writeln!(f, "certificate: {}", path(chain))?,
        }
        match &self.tokens {
            Tokens::Open => writeln!(f, "tokens: none, any player may join")?,
            Tokens::Secret(secret) => writeln!(f, "tokens: by {}", path(secret))?,
        }
        writeln!(f, "storage: {}", or_none(self.storage.as_ref().map(path)))?;
        writeln!(f, "world: seed {}, {} bots", self.seed, self.bots)?;
        let sight = if self.line_of_sight { "" } else { ", enemies behind walls are shown" };
        let view = self.view.as_ref().map(|view| format!("{:?}", view.policy).to_lowercase());
        writeln!(f, "view: {}{sight}", view.unwrap_or_else(|| "the game's".into()))?;
        let budget = self.budget.map(|Bytes(bytes)| format!("{bytes} bytes/s a client"));
        let follows = if self.follow_congestion { ", no more than the link carries" } else { "" };
        writeln!(f, "budget: {}{follows}", or_none(budget))?;
        let uplink = self.resources.uplink.map(|bytes| format!("{} bytes a tick", bytes.0));
        let time = self.resources.tick_time.map(|time| format!("{} ms a tick", time.as_millis()));
        writeln!(f, "uplink: {}; work: {}", or_none(uplink), or_none(time))?;
        writeln!(f, "metrics: {}", or_none(self.metrics.map(|at| at.to_string())))?;
        writeln!(f, "web: {}", self.web)?;
        writeln!(f, "log: {:?}, {:?}", self.level, self.format)?;
        let network = self.network.map(|network| format!("{network:?}"));
        write!(f, "conditioner: {}", or_none(network))
    }
}
