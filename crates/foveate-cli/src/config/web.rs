//! `[web]`: what browsers are served.

use super::raw::{self, SpannedOption};
use super::{Checker, ConfigError, said};
use foveate_io::web::{Observe, OperatorToken};
use std::fmt::Display;
use std::net::SocketAddr;

/// What browsers are served, and where.
#[derive(Clone, Debug)]
pub struct WebConfig {
    /// Whether at all.
    pub enabled: bool,
    /// Where pages are served.
    pub listen: SocketAddr,
    /// Pages from elsewhere that may connect.
    pub origins: Vec<String>,
    /// Whether metrics are served there.
    pub metrics: bool,
    /// Which operators may observe.
    pub observe: Observe,
}

impl Checker<'_> {
    pub(super) fn web(&self, web: &raw::Web) -> Result<WebConfig, ConfigError> {
        let listen = self.value("web.listen", &web.listen, "127.0.0.1:8080")?;
        let listen = self.told.web.unwrap_or(listen);
        Ok(WebConfig {
            enabled: said(&web.enabled).unwrap_or(false),
            listen,
            origins: self.origins(&web.origins)?,
            metrics: said(&web.metrics).unwrap_or(false),
            observe: self.observe(web, listen)?,
        })
    }

    fn origins(&self, value: &SpannedOption<Vec<String>>) -> Result<Vec<String>, ConfigError> {
        let Some(value) = value else { return Ok(Vec::new()) };
        let fits = |origin: &str| {
            let host = origin.strip_prefix("https://").or(origin.strip_prefix("http://"));
            origin == "*" || host.is_some_and(|host| !host.is_empty() && !host.contains('/'))
        };
        match value.get_ref().iter().find(|origin| !fits(origin)) {
            None => Ok(value.get_ref().clone()),
            Some(wrong) => {
                let what = "expected an origin such as \"https://play.example.org\", or \"*\"";
                let what = format!("web.origins has {wrong:?}; {what}");
                Err(self.wrong(Some(value.span()), what))
            }
        }
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
        self.origins.iter().try_for_each(|origin| write!(f, ", pages of {origin}"))
    }
}
