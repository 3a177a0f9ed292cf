//! Operators' commands: the player to observe, views, budgets, bad networks.

use super::Host;
use foveate_io::{LinkConditions, LinkId};
use foveate_node::Game;
use foveate_node::game::PlayerId;
use foveate_node::link_model::{LinkSpec, Loss};
use foveate_sync::interest::View;
use foveate_wire::{Bytes, Micros};
use serde::Deserialize;
use serde_json::Value;

/// The longest delay and jitter that an operator may set.
const MAX_DELAY_MS: f64 = 5_000.0;

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
enum Order {
    Pick { player: Option<u32> },
    View { player: Option<u32>, view: Option<View> },
    Budget { player: Option<u32>, bytes_s: Option<u32> },
    Network { player: u32, delay_ms: f64, jitter_ms: f64, loss: f32, burst: f32 },
}

/// What could not be done, and why.
type Refused = (String, String);

/// Carries out an operator's message.
pub fn follow<G: Game>(
    bytes: &[u8],
    host: &mut Host<G>,
    picked: &mut Option<PlayerId>,
) -> Result<(), Refused> {
    let value: Value = serde_json::from_slice(bytes).map_err(about("message"))?;
    let named = value.get("type").and_then(Value::as_str).unwrap_or("message").to_string();
    let order: Order = serde_json::from_value(value).map_err(about(&named))?;
    let known = |player: u32| {
        let player = PlayerId(player);
        let known = host.server.observer_of(player).map(|_| player);
        known.ok_or_else(|| (named.clone(), format!("there is no player {}", player.0)))
    };
    match order {
        Order::Pick { player } => *picked = player.map(known).transpose()?,
        Order::View { player, view } => {
            let player = player.map(known).transpose()?;
            host.server.override_view(player, view).map_err(about(&named))?;
        }
        Order::Budget { player, bytes_s } => {
            let player = player.map(known).transpose()?;
            let round = host.server.simulation.publisher.rounds().length.0;
            let each = |bytes: u32| Bytes((u64::from(bytes) * round / 1_000_000).max(1) as u32);
            host.server.set_budget(player, bytes_s.map(each));
        }
        Order::Network { player, delay_ms, jitter_ms, loss, burst } => {
            let player = known(player)?;
            let sound = (0.0..=MAX_DELAY_MS).contains(&delay_ms)
                && (0.0..=MAX_DELAY_MS).contains(&jitter_ms)
                && (0.0..=0.99).contains(&loss)
                && (0.0..=1_000.0).contains(&burst);
            if !sound {
                let text =
                    format!("delay and jitter of 0 to {MAX_DELAY_MS} ms, a loss of 0 to 0.99");
                return Err((named, text));
            }
            let present = host.server.present_players().find(|present| present.player == player);
            let Some(link) = present.and_then(|present| present.link) else {
                return Err((named, "the player has no link".into()));
            };
            let each = conditions(delay_ms, jitter_ms, loss, burst);
            let ways = (each != LinkSpec::PERFECT)
                .then_some(LinkConditions { received: each, sent: each });
            host.endpoint.set_conditions(LinkId::from_bits(link.0), ways);
        }
    }
    Ok(())
}

fn about<E: ToString>(what: &str) -> impl FnOnce(E) -> Refused {
    let what = what.to_string();
    move |error| (what, error.to_string())
}

fn conditions(delay_ms: f64, jitter_ms: f64, loss: f32, burst: f32) -> LinkSpec {
    let micros = |ms: f64| Micros((ms * 1e3) as u64);
    let loss = Loss::share_in_bursts(f64::from(loss), f64::from(burst));
    LinkSpec { loss, ..LinkSpec::jittered(micros(delay_ms), micros(jitter_ms)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_conditions_are_none() {
        assert_eq!(conditions(0.0, 0.0, 0.0, 3.0), LinkSpec::PERFECT);
        assert_eq!(conditions(0.0, 0.0, 0.1, 1.0).loss, Loss::Bernoulli(f64::from(0.1f32)));
    }
}
