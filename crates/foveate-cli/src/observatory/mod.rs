//! The operator's view of a running server: the true state, what each player has, and the cost.
//!
//! `docs/OBSERVATORY.md` defines the messages. Nothing is computed without operators. The links belong to the host,
//! which passes on their events and sends the answers.

mod figures;
mod orders;

use crate::authenticator::MainAuthenticator;
use figures::ObservatoryFigures;
use foveate_io::LinkId;
use foveate_io::host::{ServerHost, StepTimings};
use foveate_node::Game;
use foveate_node::game::{GameViews, PlayerId};
use foveate_sync::Slot;
use foveate_sync::interest::{Occlusion, View, presets};
use foveate_sync::pipeline::Held;
use foveate_wire::{Micros, steps_to_angle};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rounds between two pictures of the world.
const EVERY: u32 = 2;
/// Players that are used to measure the cost of broadcasting.
const BROADCAST_SAMPLES: usize = 3;

type Host<G> = ServerHost<G, MainAuthenticator>;
/// Present players, as operators were told: number, name, avatar, whether there is a link.
pub type Roster = Vec<(u32, String, String, bool)>;

/// Connected operators, and what they were sent.
pub struct Observatory {
    name: String,
    game: &'static str,
    /// The game's own description of its world.
    document: Option<Arc<Value>>,
    /// Operators, each with the player that it observes.
    operators: BTreeMap<LinkId, Option<PlayerId>>,
    roster: Roster,
    figures: ObservatoryFigures,
}

impl Observatory {
    /// The observatory of a server with this name and game.
    pub fn new(name: &str, game: &'static str, document: Option<Arc<Value>>) -> Observatory {
        let (operators, roster) = (BTreeMap::new(), Vec::new());
        let name = name.into();
        Observatory {
            name,
            game,
            document,
            operators,
            roster,
            figures: ObservatoryFigures::default(),
        }
    }

    /// Adds an operator that connected.
    pub fn connected<G: Game>(&mut self, link: LinkId, host: &mut Host<G>) {
        if self.operators.is_empty() {
            self.figures = ObservatoryFigures::begin(host);
            host.server.compare_with_broadcast(BROADCAST_SAMPLES);
        }
        self.operators.insert(link, None);
        self.roster = roster(host);
        let simulation = &host.server.simulation;
        let round = simulation.publisher.rounds().length;
        let game = simulation.game.as_ref();
        let hello = hello(&self.name, self.game, self.document.as_deref(), game, round);
        tell(host, link, &hello);
        tell(host, link, &players(&self.roster));
    }

    /// Removes an operator that disconnected.
    pub fn closed<G: Game>(&mut self, link: LinkId, host: &mut Host<G>) {
        self.operators.remove(&link);
        if self.operators.is_empty() {
            host.server.compare_with_broadcast(0);
        }
    }

    /// Handles an operator's message.
    pub fn message<G: Game>(&mut self, link: LinkId, bytes: &[u8], host: &mut Host<G>) {
        let Some(picked) = self.operators.get_mut(&link) else { return };
        if let Err((about, text)) = orders::follow(bytes, host, picked) {
            tell(host, link, &json!({ "type": "error", "about": about, "text": text }));
        }
    }

    /// Sends what is due after a round.
    pub fn round<G: Game>(&mut self, host: &mut Host<G>, spent: StepTimings) {
        if self.operators.is_empty() {
            return;
        }
        self.figures.note(spent);
        let tick = host.tick();
        let roster = roster(host);
        if roster != self.roster {
            self.roster = roster;
            self.tell_all(host, &players(&self.roster));
        }
        if tick.0.is_multiple_of(EVERY) {
            self.tell_all(host, &world(host));
            for (link, picked) in &self.operators {
                let seen = picked.and_then(|player| observer(host, player));
                seen.into_iter().for_each(|seen| tell(host, *link, &seen));
            }
        }
        if let Some(figures) = self.figures.due(host) {
            self.tell_all(host, &states(host));
            self.tell_all(host, &figures);
        }
    }

    fn tell_all<G: Game>(&self, host: &mut Host<G>, message: &Value) {
        let text = message.to_string();
        for link in self.operators.keys() {
            // A slow operator misses a picture; the next one is complete again.
            host.endpoint.send_message(*link, text.as_bytes()).unwrap_or(());
        }
    }
}

fn tell<G: Game>(host: &mut Host<G>, link: LinkId, message: &Value) {
    host.endpoint.send_message(link, message.to_string().as_bytes()).unwrap_or(());
}

/// The first message to an operator.
pub fn hello<G: Game>(
    name: &str,
    kind: &str,
    document: Option<&Value>,
    game: &G,
    round: Micros,
) -> Value {
    let presets: Vec<Value> = offered(game)
        .into_iter()
        .map(|(name, view)| json!({ "name": name, "view": view }))
        .collect();
    json!({
        "type": "hello",
        "name": name,
        "game": kind,
        "round_ms": round.as_millis(),
        "schema": game.schema().describe(),
        "document": document,
        "presets": presets,
        "policies": game.policies().iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        "walls": game.visibility().is_some(),
        "kinds": game.schema().kinds().iter().map(|kind| &kind.spec.name).collect::<Vec<_>>(),
    })
}

/// Views that an operator can choose at once.
fn offered<G: Game>(game: &G) -> Vec<(&'static str, View)> {
    let Some(normal) = game.view(0) else { return Vec::new() };
    let reach = normal.build_in(&GameViews(game)).map_or(100.0, |policy| policy.reach().0);
    let reach = if reach.is_finite() { reach } else { 100.0 };
    let near = normal.zones.first().copied().unwrap_or(reach / 3.0);
    let middle = normal.zones.get(1).copied().unwrap_or(reach * 2.0 / 3.0);
    let mut vfc = presets::vfc(near, middle);
    vfc.zones[2] = reach;
    let walls = game.visibility().map(|_| {
        let line_of_sight = Some(Occlusion { looser: None, always: near / 8.0 });
        ("line of sight", View { line_of_sight, ..normal.clone() })
    });
    let mut all = vec![("normal", normal)];
    all.extend(game.view(1).map(|zoom| ("zoom", zoom)));
    all.extend(walls);
    all.extend(game.policies().into_iter().map(|(name, _)| (name, View::custom(name))));
    all.extend([
        ("vfc", vfc),
        ("a3", presets::a3(reach, 0)),
        ("circle", presets::circle(reach)),
        ("broadcast", presets::broadcast()),
    ]);
    all
}

fn roster<G: Game>(host: &Host<G>) -> Roster {
    let present = host.server.present_players();
    let row = |present: foveate_node::server::Present<'_>| {
        let (name, avatar) = (present.name.into(), present.avatar.0.to_string());
        (present.player.0, name, avatar, present.link.is_some())
    };
    present.map(row).collect()
}

/// The list of present players.
pub fn players(roster: &[(u32, String, String, bool)]) -> Value {
    let row = |(player, name, object, connected): &(u32, String, String, bool)| json!({ "player": player, "name": name, "object": object, "connected": connected });
    json!({ "type": "players", "players": roster.iter().map(row).collect::<Vec<_>>() })
}

/// The true state: all objects with a place.
fn world<G: Game>(host: &Host<G>) -> Value {
    let store = &host.server.simulation.publisher.store;
    let objects: Vec<Value> = store
        .iter()
        .filter(|(_, slot)| store.kind(*slot).place.is_some())
        .map(|(id, slot)| {
            let at = store.position(slot);
            json!([id.0.to_string(), id.kind().0, tidy(at[0]), tidy(at[1]), tidy(yaw(host, slot))])
        })
        .collect();
    json!({ "type": "world", "tick": host.tick().0, "objects": objects })
}

fn states<G: Game>(host: &Host<G>) -> Value {
    let store = &host.server.simulation.publisher.store;
    let row =
        |(id, slot): (foveate_wire::ObjectId, Slot)| json!([id.0.to_string(), store.lanes(slot)]);
    let objects: Vec<Value> = store.iter().map(row).collect();
    json!({ "type": "states", "tick": host.tick().0, "objects": objects })
}

/// What one player has been sent.
fn observer<G: Game>(host: &Host<G>, player: PlayerId) -> Option<Value> {
    let (server, publisher) = (&host.server, &host.server.simulation.publisher);
    let present = server.present_players().find(|present| present.player == player)?;
    let view = server.view_of(player)?;
    let round = publisher.rounds().length;
    let state = |held: Held| match held {
        Held::Live => 0,
        Held::Resting => 1,
        Held::Unconfirmed => 2,
    };
    let placed = publisher.known(present.observer).filter(|known| known.distance.0.is_finite());
    let replicas: Vec<Value> = placed
        .filter(|known| publisher.store.kind(known.slot).place.is_some())
        .map(|known| {
            json!([
                known.id.0.to_string(),
                tidy(known.at[0]),
                tidy(known.at[1]),
                tidy(known.yaw.0),
                tidy(known.error.0),
                tidy(known.degrees()),
                Micros(u64::from(known.age) * round.0).as_millis(),
                known.class,
                state(known.held),
            ])
        })
        .collect();
    let pivots: Vec<Value> = publisher
        .pivots(present.observer)
        .iter()
        .map(|pivot| {
            let yaw = pivot.facing[1].atan2(pivot.facing[0]);
            json!([tidy(pivot.at[0]), tidy(pivot.at[1]), tidy(yaw)])
        })
        .collect();
    let each_second = |bytes: foveate_wire::Bytes| f64::from(bytes.0) * 1e6 / round.0 as f64;
    Some(json!({
        "type": "observer",
        "player": player.0,
        "tick": host.tick().0,
        "policy": view.policy,
        "view": view,
        "pivots": pivots,
        "budget": present.budget.map(each_second),
        "replicas": replicas,
    }))
}

fn yaw<G: Game>(host: &Host<G>, slot: Slot) -> f32 {
    let store = &host.server.simulation.publisher.store;
    let (kind, lanes) = (store.kind(slot), store.lanes(slot));
    kind.yaw.map_or(0.0, |(lane, steps)| steps_to_angle(lanes[lane], steps))
}

/// Rounds to three decimals: more cannot be seen, and would cost bytes.
pub fn tidy(value: f32) -> f64 {
    (f64::from(value) * 1e3).round() / 1e3
}
