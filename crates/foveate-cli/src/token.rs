//! `foveate token`: issues a connect token, as a login service would.

use clap::Args;
use foveate_io::token::{MAX_LIFE, Secret, TokenClaim, random_id};
use foveate_io::unix_now;
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

/// Contents of the token
#[derive(Args)]
pub struct TokenArgs {
    /// The file that the server's configuration names as tokens.secret
    #[arg(long, value_name = "FILE")]
    secret: PathBuf,
    /// The player's name
    #[arg(long)]
    name: String,
    /// How long it is valid, in seconds, or a number with s, m or h
    #[arg(long, default_value = "60s", value_parser = span)]
    ttl: Duration,
    /// The only server that accepts it
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
}

fn span(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) => (number, &text[number.len()..]),
        None => (text, "s"),
    };
    let unit = match unit {
        "h" => 3_600,
        "m" => 60,
        _ => 1,
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    let most = MAX_LIFE.as_secs();
    let fits = seconds.filter(|seconds| (1..=most).contains(seconds));
    fits.map(Duration::from_secs).ok_or(format!("expected 1s to {most}s, such as 60s, 5m or 2h"))
}

/// Issues and prints a token.
pub fn run(token: &TokenArgs) -> Result<(), Box<dyn Error>> {
    let (secret, server) = (Secret::read(&token.secret)?, token.server.clone());
    println!("{}", issue(&secret, &token.name, server, token.ttl)?);
    Ok(())
}

/// A token for this name, valid from now on.
pub fn issue(
    secret: &Secret,
    name: &str,
    server: Option<String>,
    ttl: Duration,
) -> Result<String, Box<dyn Error>> {
    let expires = unix_now().plus(ttl);
    Ok(secret.issue(&TokenClaim { name: name.into(), server, expires, id: random_id()? })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_units_and_a_limit() {
        for (text, seconds) in [("60", 60), ("60s", 60), ("5m", 300), ("24h", 86_400)] {
            assert_eq!(span(text), Ok(Duration::from_secs(seconds)));
        }
        for text in ["", "s", "0", "-1s", "5d", "25h", "1.5h", "99999999999999999999h"] {
            assert!(span(text).is_err(), "{text}");
        }
    }
}
