//! The operator's view of a world on many servers: places of objects, the servers that own them, and handoffs.
//!
//! Servers of one process publish what they run on one board, from which each shows the whole world to its operators.
//! Of servers in other processes it shows their own reports, and objects near its own borders.

use super::MeshGame;
use crate::observatory::{hello, players, tidy};
use foveate_io::LinkId;
use foveate_io::host::StepTimings;
use foveate_io::region::RegionHost;
use foveate_node::region::layout::{Layout, RegionId, ServerId};
use foveate_node::region::owner::{Region, Row};
use foveate_node::region::{LayoutChange, RegionCommand};
use foveate_wire::{Micros, steps_to_angle};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Rounds between two pictures of the world.
const EVERY: u32 = 2;
/// Rounds between two pictures of lanes and regions.
const SELDOM: u32 = 20;
/// The weight of the last round in a server's smoothed load.
const SHARE: f64 = 0.05;
/// Most orders of operators that wait for a server.
const MAX_ORDERS: usize = 16;
/// Most handoffs in a message; further ones are not shown.
const MAX_HANDOFFS: usize = 256;

type PlayerRow = (u32, String, String, bool);

/// The objects and regions of one server.
#[derive(Clone, Default)]
struct ServerPart {
    /// Objects by id: the region that owns each, whether that is this server's, and how it is drawn.
    objects: BTreeMap<u64, (u32, bool, Value)>,
    /// Their lanes, by id.
    lanes: BTreeMap<u64, Value>,
    players: Vec<PlayerRow>,
    regions: BTreeMap<u32, Value>,
    load: f64,
    draining: bool,
}

#[derive(Default)]
struct Board {
    /// Links of operators, at whichever server.
    operators: usize,
    parts: BTreeMap<u32, ServerPart>,
    orders: Vec<(u32, RegionCommand)>,
}

/// The state that servers of one process share for their operators.
#[derive(Default)]
pub struct RegionBoard(Mutex<Board>);

impl RegionBoard {
    fn lock(&self) -> MutexGuard<'_, Board> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A server has ended.
    pub fn forget(&self, server: ServerId) {
        self.lock().parts.remove(&server.0);
    }
}

/// One server's operators.
pub struct RegionObservatory<'a> {
    board: &'a RegionBoard,
    /// The first message to an operator.
    hello: Value,
    operators: BTreeSet<LinkId>,
    players: Vec<PlayerRow>,
    /// The region of each object when it was last shown.
    owners: BTreeMap<u64, u32>,
    handoffs: Vec<Value>,
    load: f64,
    draining: bool,
    rounds: u32,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
enum Order {
    Drain { server: u32 },
    MoveSplit { region: u32, at: f32 },
}

impl<'a> RegionObservatory<'a> {
    /// An observatory without operators.
    pub fn new<G: MeshGame>(
        board: &'a RegionBoard,
        name: &str,
        game: &G,
        round: Micros,
    ) -> RegionObservatory<'a> {
        let document = game.document().map(|(_, document)| document);
        RegionObservatory {
            board,
            hello: hello(name, G::NAME, document.as_ref(), game, round),
            operators: BTreeSet::new(),
            players: Vec::new(),
            owners: BTreeMap::new(),
            handoffs: Vec::new(),
            load: 0.0,
            draining: false,
            rounds: 0,
        }
    }

    /// Call after each round: handles operators' links and orders, and sends them the world.
    pub fn round<G: MeshGame>(&mut self, host: &mut RegionHost<G>, spent: StepTimings) {
        use foveate_io::LinkEvent;
        let round = host.server.settings().rounds.length.0.max(1) as f64;
        self.load += (spent.busy().0 as f64 / round - self.load) * SHARE;
        let events: Vec<LinkEvent> = host.observers().collect();
        for event in events {
            match event {
                LinkEvent::Connected { link, .. } => self.connected(link, host),
                LinkEvent::Message { link, bytes } => self.message(link, &bytes, host),
                LinkEvent::Closed { link, .. } => {
                    if self.operators.remove(&link) {
                        self.board.lock().operators -= 1;
                    }
                }
                LinkEvent::Datagram { .. } => {}
            }
        }
        self.follow_orders(host);
        self.rounds = self.rounds.wrapping_add(1);
        if !self.rounds.is_multiple_of(EVERY) || self.board.lock().operators == 0 {
            return;
        }
        let seldom = self.rounds.is_multiple_of(SELDOM);
        let part = self.part(host, seldom);
        let me = host.server.id().0;
        let mut board = self.board.lock();
        let known = board.parts.insert(me, part).unwrap_or_default();
        if let Some(part) = board.parts.get_mut(&me).filter(|_| !seldom) {
            part.lanes = known.lanes;
        }
        if self.operators.is_empty() {
            return;
        }
        let parts = board.parts.clone();
        drop(board);
        self.show(host, &parts, seldom);
    }

    fn connected<G: MeshGame>(&mut self, link: LinkId, host: &mut RegionHost<G>) {
        self.operators.insert(link);
        self.board.lock().operators += 1;
        tell(host, link, &self.hello);
        tell(host, link, &players(&self.players));
    }

    fn message<G: MeshGame>(&mut self, link: LinkId, bytes: &[u8], host: &mut RegionHost<G>) {
        if !self.operators.contains(&link) {
            return;
        }
        if let Err(text) = self.order(bytes, host) {
            tell(host, link, &json!({ "type": "error", "about": "regions", "text": text }));
        }
    }

    fn order<G: MeshGame>(&self, bytes: &[u8], host: &RegionHost<G>) -> Result<(), String> {
        let order = serde_json::from_slice(bytes)
            .map_err(|_| "a world on many servers takes only drain and move-split".to_owned())?;
        let me = host.server.id().0;
        let mut board = self.board.lock();
        let (server, command) = match order {
            Order::Drain { server } if server == me || board.parts.contains_key(&server) => {
                (server, RegionCommand::Drain)
            }
            Order::Drain { server } => {
                let where_to = "stop it there (SIGTERM drains), or open its own observatory";
                return Err(format!("server {server} is another process: {where_to}"));
            }
            Order::MoveSplit { region, at } => {
                let region = RegionId(region);
                let mut layout = host.server.layout().ok_or("the layout is not known yet")?.clone();
                layout.move_split(region, at).map_err(|why| why.to_string())?;
                (me, RegionCommand::Change(LayoutChange::MoveSplit(region, at)))
            }
        };
        if board.orders.len() >= MAX_ORDERS {
            return Err("too many orders wait".to_owned());
        }
        board.orders.push((server, command));
        Ok(())
    }

    fn follow_orders<G: MeshGame>(&mut self, host: &mut RegionHost<G>) {
        let me = host.server.id().0;
        let mine: Vec<RegionCommand> = {
            let mut board = self.board.lock();
            let (mine, others) =
                std::mem::take(&mut board.orders).into_iter().partition(|(to, _)| *to == me);
            board.orders = others;
            let mine: Vec<(u32, RegionCommand)> = mine;
            mine.into_iter().map(|(_, command)| command).collect()
        };
        for command in mine {
            tracing::info!(server = me, ?command, "ordered by an operator");
            self.draining |= command == RegionCommand::Drain;
            host.command(command);
        }
    }

    /// What this server runs.
    fn part<G: MeshGame>(&self, host: &RegionHost<G>, with_lanes: bool) -> ServerPart {
        let node = &host.server;
        let mut part =
            ServerPart { load: self.load, draining: self.draining, ..ServerPart::default() };
        for region in node.regions() {
            add_objects(&mut part, region, with_lanes);
            let present = region.sessions.present_players().map(|it| {
                let avatar = it.avatar.0.to_string();
                (it.player.0, it.name.to_owned(), avatar, it.link.is_some())
            });
            part.players.extend(present);
            let owned = region.owned().count();
            let acting = node.may_act_until(region.id) > host.now();
            let row = json!({
                "epoch": region.epoch,
                "acting": acting,
                "owned": owned,
                "ghosts": region.rows.len() - owned,
                "leaving": region.transfers.len(),
            });
            part.regions.insert(region.id.0, row);
        }
        part
    }

    fn show<G: MeshGame>(
        &mut self,
        host: &mut RegionHost<G>,
        parts: &BTreeMap<u32, ServerPart>,
        seldom: bool,
    ) {
        let mut objects: BTreeMap<u64, (u32, bool, &Value)> = BTreeMap::new();
        for (id, (owner, owned, value)) in parts.values().flat_map(|part| &part.objects) {
            let known = objects.entry(*id).or_insert((*owner, *owned, value));
            if *owned {
                *known = (*owner, true, value);
            }
        }
        for (id, (owner, _, value)) in &objects {
            let was = self.owners.get(id).copied().unwrap_or(*owner);
            if was != *owner && self.handoffs.len() < MAX_HANDOFFS {
                self.handoffs.push(json!([id.to_string(), was, owner, value[2], value[3]]));
            }
        }
        self.owners = objects.iter().map(|(id, (owner, _, _))| (*id, *owner)).collect();
        let tick = host.server.regions().map(|region| region.ticked).max().unwrap_or(0);
        let mut present: Vec<PlayerRow> =
            parts.values().flat_map(|part| part.players.clone()).collect();
        present.sort();
        if present != self.players {
            self.players = present;
            self.tell_all(host, &players(&self.players));
        }
        let drawn: Vec<&Value> = objects.values().map(|it| it.2).collect();
        self.tell_all(host, &json!({ "type": "world", "tick": tick, "objects": drawn }));
        if seldom {
            let lanes: Vec<Value> = parts
                .values()
                .flat_map(|part| &part.lanes)
                .map(|(id, lanes)| json!([id.to_string(), lanes]))
                .collect();
            self.tell_all(host, &json!({ "type": "states", "tick": tick, "objects": lanes }));
        }
        if seldom || !self.handoffs.is_empty() {
            let handoffs = std::mem::take(&mut self.handoffs);
            if let Some(layout) = host.server.layout() {
                let (regions, servers) = (regions(layout, parts), servers(host, parts));
                let regions = json!({
                    "type": "regions",
                    "tick": tick,
                    "regions": regions,
                    "servers": servers,
                    "handoffs": handoffs,
                });
                self.tell_all(host, &regions);
            }
        }
    }

    fn tell_all<G: MeshGame>(&self, host: &mut RegionHost<G>, message: &Value) {
        let text = message.to_string();
        for link in &self.operators {
            // A slow operator misses a picture; the next one is complete again.
            host.endpoint.send_message(*link, text.as_bytes()).unwrap_or(());
        }
    }
}

impl Drop for RegionObservatory<'_> {
    fn drop(&mut self) {
        self.board.lock().operators -= self.operators.len();
    }
}

fn tell<G: MeshGame>(host: &mut RegionHost<G>, link: LinkId, message: &Value) {
    host.endpoint.send_message(link, message.to_string().as_bytes()).unwrap_or(());
}

/// What has a place in a region: what it owns, and what its neighbours told of.
fn add_objects<G: MeshGame>(part: &mut ServerPart, region: &Region<G>, with_lanes: bool) {
    let store = &region.simulation.publisher.store;
    for (id, row) in &region.rows {
        let Some(slot) = store.find(*id) else { continue };
        let (kind, lanes) = (store.kind(slot), store.lanes(slot));
        if with_lanes {
            part.lanes.insert(id.0, json!(lanes));
        }
        if kind.place.is_none() {
            continue;
        }
        let (owner, owned) = match row {
            Row::Owned(_) => (region.id.0, true),
            Row::Relayed { from, .. } => (from.0, false),
        };
        let (at, yaw) = (store.position(slot), kind.yaw);
        let yaw = yaw.map_or(0.0, |(lane, steps)| steps_to_angle(lanes[lane], steps));
        let drawn = json!([id.0.to_string(), id.kind().0, tidy(at[0]), tidy(at[1]), tidy(yaw)]);
        if owned || !part.objects.contains_key(&id.0) {
            part.objects.insert(id.0, (owner, owned, drawn));
        }
    }
}

/// All regions of the layout; of those on servers elsewhere only what the layout says.
fn regions(layout: &Layout, parts: &BTreeMap<u32, ServerPart>) -> Vec<Value> {
    let finite = |value: f32| value.is_finite().then(|| tidy(value));
    let rows = layout.leaves().filter_map(|(id, rect)| {
        let info = layout.get(id)?;
        let figures = parts.get(&info.server.0).and_then(|part| part.regions.get(&id.0));
        let figure = |key: &str| figures.map(|it| it[key].clone()).unwrap_or(Value::Null);
        let cut = layout.cut_of(id).map(|(axis, at)| json!({ "axis": axis, "at": tidy(at) }));
        Some(json!({
            "region": id.0,
            "epoch": info.epoch,
            "server": info.server.0,
            "standby": info.standby.map(|it| it.0),
            "rect": [finite(rect.min[0]), finite(rect.min[1]), finite(rect.max[0]), finite(rect.max[1])],
            "cut": cut,
            "acting": figure("acting"),
            "owned": figure("owned"),
            "ghosts": figure("ghosts"),
            "leaving": figure("leaving"),
        }))
    });
    rows.collect()
}

/// The servers that run or stand by for regions.
fn servers<G: MeshGame>(host: &RegionHost<G>, parts: &BTreeMap<u32, ServerPart>) -> Vec<Value> {
    let hints: BTreeMap<u32, (Option<f32>, u32, bool)> = host
        .server
        .server_hints(host.now())
        .map(|(id, status, _)| {
            let players = status.regions.iter().map(|it| it.players).sum();
            (id.0, (status.load(), players, status.leaving))
        })
        .collect();
    let all: BTreeSet<u32> = parts.keys().chain(hints.keys()).copied().collect();
    let row = |server: u32| {
        let hint = hints.get(&server).copied().unwrap_or_default();
        let (load, players, draining) = match parts.get(&server) {
            Some(part) => (Some(part.load), part.players.len(), part.draining || hint.2),
            None => (hint.0.map(f64::from), hint.1 as usize, hint.2),
        };
        let rtt = host.server.rtt(ServerId(server)).map(|rtt| tidy(rtt / 1e3));
        json!({
            "server": server,
            "load": load,
            "rtt_ms": rtt,
            "players": players,
            "draining": draining,
        })
    };
    all.into_iter().map(row).collect()
}
