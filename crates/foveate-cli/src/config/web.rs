//! `[web]`: what browsers are served.

use super::raw::{self, SpannedOption};
use super::{Checker, ConfigError, said};
use foveate_io::web::{AddressRange, Observe, OperatorToken};
use std::fmt::Display;
use std::net::SocketAddr;

/// What browsers are served, and where.
#[derive(Clone, Debug)]
pub struct WebConfig {
    pub enabled: bool,
    /// The address of the web listener.
    pub listen: SocketAddr,
    /// Origins of other pages that may connect.
    pub origins: Vec<String>,
    /// Proxies that state their clients' addresses.
    pub trusted_proxies: Vec<AddressRange>,
    /// Whether metrics are served there, too.
    pub metrics: bool,
    /// Which operators may observe.
    pub observe: Observe,
}

impl Checker<'_> {
    pub(super) fn web(&self, web: &raw::Web) -> Result<WebConfig, ConfigError> {
        let listen = self.value("web.listen", &web.listen, "127.0.0.1:8080")?;
        let listen = self.told.web.unwrap_or(listen);
        Ok(WebConfig {
            enabled: said(&web.enabled).unwrap_or(false) || self.told.web.is_some(),
            listen,
            origins: self.origins(&web.origins)?,
            trusted_proxies: self.trusted_proxies(&web.trusted_proxies)?,
            metrics: said(&web.metrics).unwrap_or(false),
            observe: self.observe(web, listen)?,
        })
    }

    /// Players can join by WebSocket, so open access on a network must be configured explicitly.
    pub(super) fn must_say_web(&self, web: &WebConfig, what: &str) -> Result<(), ConfigError> {
        if !web.enabled || web.listen.ip().is_loopback() {
            return Ok(());
        }
        let (key, at) = match self.told.web {
            Some(_) => ("--web", None),
            None => ("web.listen", self.text.find("[web]").map(|at| at..at)),
        };
        Err(self.wrong(at, format!("{key} is open to the network; expected {what}")))
    }

    fn origins(&self, value: &SpannedOption<Vec<String>>) -> Result<Vec<String>, ConfigError> {
        let Some(value) = value else { return Ok(Vec::new()) };
        let fits = |origin: &str| {
            let host = origin.strip_prefix("https://").or(origin.strip_prefix("http://"));
            let port = origin.strip_prefix(':').map(str::parse::<u16>);
            origin == "*"
                || port.is_some_and(|port| port.is_ok())
                || host.is_some_and(|host| !host.is_empty() && !host.contains('/'))
        };
        match value.get_ref().iter().find(|origin| !fits(origin)) {
            None => Ok(value.get_ref().clone()),
            Some(wrong) => {
                let what =
                    "expected an origin such as \"https://play.example.org\", \":8081\" or \"*\"";
                let what = format!("web.origins has {wrong:?}; {what}");
                Err(self.wrong(Some(value.span()), what))
            }
        }
    }

    fn trusted_proxies(
        &self,
        value: &SpannedOption<Vec<String>>,
    ) -> Result<Vec<AddressRange>, ConfigError> {
        let Some(value) = value else { return Ok(Vec::new()) };
        let read = |text: &String| {
            text.parse().map_err(|_| {
                let what = "expected an address or a network such as \"10.0.0.0/8\"";
                self.wrong(Some(value.span()), format!("web.trusted_proxies has {text:?}; {what}"))
            })
        };
        value.get_ref().iter().map(read).collect()
    }

    fn observe(&self, web: &raw::Web, listen: SocketAddr) -> Result<Observe, ConfigError> {
        let observed = said(&web.observe).unwrap_or(false);
        match (&web.operator_token, observed) {
            (Some(file), true) => {
                let path = self.file("web.operator_token", file)?;
                let refuse = |what: String| {
                    let what = format!("web.operator_token: {}: {what}", path.display());
                    self.wrong(Some(file.span()), what)
                };
                let text = std::fs::read_to_string(&path).map_err(|e| refuse(e.to_string()))?;
                OperatorToken::new(text.trim())
                    .map(Observe::Token)
                    .map_err(|e| refuse(e.to_string()))
            }
            (None, true) if listen.ip().is_loopback() => Ok(Observe::Loopback),
            (None, true) => {
                let span = web.observe.as_ref().map(|said| said.span());
                let key = self.told.web.map_or("web.listen", |_| "--web");
                let what = "is open to the network; expected web.operator_token beside web.observe";
                Err(self.wrong(span, format!("{key} {what}")))
            }
            (_, false) => Ok(Observe::Off),
        }
    }
}

impl Display for WebConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.enabled {
            return f.write_str("none");
        }
        let observe = match self.observe {
            Observe::Off => "observing is disabled",
            Observe::Loopback => "operators on this machine may observe",
            Observe::Token(_) => "operators with the token may observe",
        };
        write!(f, "{}, {observe}", self.listen)?;
        self.trusted_proxies.iter().try_for_each(|range| write!(f, ", behind proxy {range}"))?;
        self.origins.iter().try_for_each(|origin| write!(f, ", pages of {origin}"))
    }
}
