//! The contents of a client's world, with server and client in one process.

mod common;

use bevy_app::prelude::*;
use bevy_ecs::prelude::*;
use common::{Badge, Keys, Mood, Order, Walker, all, client, server, until};
use foveate_bevy::foveate::io::EndpointOptions;
use foveate_bevy::foveate::node::session::Refusal;
use foveate_bevy::foveate::sync::interest::{Grade, Line, Policy, Sight, Visibility};
use foveate_bevy::prelude::*;
use foveate_bevy::{NetServer, ServerPlugin, ViewReferences};
use std::net::SocketAddr;
use std::sync::Arc;

fn walker(x: f32) -> (Walker, Mood) {
    (Walker { pos: [x, 0.0], nth: Some(x as u16) }, Mood { joy: x as u8 })
}

/// A server with walkers at these places, and a client whose avatar stands at the origin.
fn pair(view: View, places: &[f32]) -> (App, App) {
    let mut server = server(view, EndpointOptions::server());
    server.add_systems(Update, welcome);
    for x in places {
        server.world_mut().spawn(walker(*x));
    }
    server.update();
    let address = address(&server);
    (server, client(address, "ada"))
}

fn welcome(mut joined: MessageReader<PlayerJoined>, mut commands: Commands) {
    for joined in joined.read() {
        let avatar = (Walker { pos: [0.0; 2], nth: None }, Mood { joy: 0 });
        commands.entity(joined.entity).insert(avatar);
    }
}

fn address(server: &App) -> SocketAddr {
    server.world().resource::<NetServer>().address().unwrap()
}

#[cfg(feature = "transform")]
#[test]
fn transforms_are_mirrored_at_both_ends() {
    use bevy_transform::components::Transform;
    use foveate_bevy::TransformPlugin;
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let (mut server, mut client) = (App::new(), App::new());
    server.add_plugins((ServerPlugin::new(listen, presets::circle(50.0)), TransformPlugin));
    server.add_systems(Update, |mut joined: MessageReader<PlayerJoined>, mut all: Commands| {
        joined.read().for_each(|joined| {
            all.entity(joined.entity).insert(NetTransform::default());
        });
    });
    server.update();
    let (there, trust) = (address(&server), Trust::InsecureDevelopmentOnly);
    client.add_plugins((ClientPlugin::new(there, "ada", trust), TransformPlugin));
    let mut turned = Transform::from_xyz(5.0, 6.0, 7.0);
    turned.rotate_y(1.0);
    server.world_mut().spawn((turned, NetTransform::default()));
    server.world_mut().spawn((Transform::from_xyz(99.0, 0.0, 0.0), NetTransform::default()));
    let close = |seen: &Transform| {
        let rotation = seen.rotation.dot(turned.rotation).abs();
        seen.translation.distance(turned.translation) < 0.05 && rotation > 0.999
    };
    assert!(until(&mut [&mut server, &mut client], |apps| {
        let seen = all::<Transform>(apps[1]);
        seen.len() == 2 && seen.iter().any(close)
    }));
}

/// The numbers of the walkers that a client sees, in order.
fn seen(app: &mut App) -> Vec<u16> {
    let mut seen: Vec<u16> = all::<Walker>(app).iter().filter_map(|walker| walker.nth).collect();
    seen.sort_unstable();
    seen
}

#[test]
fn a_player_sees_the_entities_in_view_and_knows_its_own() {
    let (mut server, mut client) = pair(presets::circle(50.0), &[10.0, 30.0, 90.0]);
    let apps = &mut [&mut server, &mut client];
    assert!(until(apps, |apps| seen(apps[1]) == [10, 30] && all::<Own>(apps[1]).len() == 1));
    let world = client.world_mut();
    let own = world.query_filtered::<&Walker, With<Own>>().iter(world).next().cloned();
    assert_eq!(own, Some(Walker { pos: [0.0; 2], nth: None }));
    let joy = |client: &mut App| all::<Mood>(client).iter().map(|mood| mood.joy).max();
    assert_eq!(joy(&mut client), Some(30), "moods come with their walkers, and only with them");
}

#[test]
fn components_of_one_entity_meet_on_one_entity_and_go_one_by_one() {
    let (mut server, mut client) = pair(presets::circle(50.0), &[]);
    let text = String::from("sheriff");
    let one = server.world_mut().spawn((walker(5.0), Badge { text: text.clone() })).id();
    let both = |app: &mut App| {
        let world = app.world_mut();
        world.query::<(&Walker, &Badge)>().iter(world).filter(|(_, b)| b.text == text).count()
    };
    let apps = &mut [&mut server, &mut client];
    assert!(until(apps, |apps| both(apps[1]) == 1));
    server.world_mut().entity_mut(one).remove::<Badge>();
    let apps = &mut [&mut server, &mut client];
    assert!(until(apps, |apps| all::<Badge>(apps[1]).is_empty()));
    assert_eq!(seen(&mut client), [5], "the rest of the entity stays");
    server.world_mut().entity_mut(one).insert(Badge { text: text.clone() });
    let apps = &mut [&mut server, &mut client];
    assert!(until(apps, |apps| both(apps[1]) == 1), "and it may come back");
    server.world_mut().despawn(one);
    let apps = &mut [&mut server, &mut client];
    assert!(until(apps, |apps| all::<Replica>(apps[1]).len() == 1), "only the avatar is left");
    assert!(all::<Badge>(&mut client).is_empty());
}

#[test]
fn a_part_that_is_taken_away_takes_the_whole_object() {
    let (mut server, mut client) = pair(presets::circle(50.0), &[]);
    let one = server.world_mut().spawn(walker(5.0)).id();
    assert!(until(&mut [&mut server, &mut client], |apps| seen(apps[1]) == [5]));
    server.world_mut().entity_mut(one).remove::<Mood>();
    assert!(until(&mut [&mut server, &mut client], |apps| seen(apps[1]).is_empty()));
    server.world_mut().entity_mut(one).insert(Mood { joy: 9 });
    assert!(until(&mut [&mut server, &mut client], |apps| seen(apps[1]) == [5]));
}

#[test]
fn pivots_can_be_moved_and_zoomed_while_the_game_runs() {
    let (mut server, mut client) = pair(presets::circle(50.0), &[10.0, 200.0, 300.0]);
    assert!(until(&mut [&mut server, &mut client], |apps| seen(apps[1]) == [10]));
    let find = |app: &mut App, nth: Option<u16>| {
        let world = app.world_mut();
        let mut walkers = world.query::<(Entity, &Walker)>();
        let found = walkers.iter(world).find(|(_, walker)| walker.nth == nth);
        found.map(|(entity, _)| entity).unwrap()
    };
    let (player, far) = (find(&mut server, None), find(&mut server, Some(200)));
    server.world_mut().entity_mut(player).insert(NetEyes::from([far]));
    assert!(until(&mut [&mut server, &mut client], |apps| {
        all::<Frozen>(apps[1]).len() == 2 && seen(apps[1]) == [10, 200]
    }));
    assert!(until(&mut [&mut server, &mut client], |apps| seen(apps[1]) == [200]));
    assert!(all::<Frozen>(&mut client).is_empty());
    let own = find(&mut client, Some(200));
    assert!(client.world().get::<Own>(own).is_some());
    let eyes = NetEyes::from([far]).with_view(&presets::circle(150.0)).unwrap();
    server.world_mut().entity_mut(player).insert(eyes);
    assert!(until(&mut [&mut server, &mut client], |apps| seen(apps[1]) == [200, 300]));
    server.world_mut().entity_mut(player).insert(NetEyes::from([]));
    assert!(until(&mut [&mut server, &mut client], |apps| seen(apps[1]).is_empty()));
}

#[test]
fn messages_reach_the_server_with_their_player() {
    let (mut server, mut client) = pair(presets::circle(50.0), &[]);
    assert!(until(&mut [&mut server, &mut client], |apps| !all::<Own>(apps[1]).is_empty()));
    let orders = [Order::Go([1.0, 2.0]), Order::Halt];
    for order in &orders {
        client.world_mut().write_message(ToServer(order.clone()));
    }
    let player = client.world().resource::<NetClient>().player().unwrap();
    let mut heard = Vec::new();
    let arrived = until(&mut [&mut server, &mut client], |apps| {
        let mut messages = apps[0].world_mut().resource_mut::<Messages<FromPlayer<Order>>>();
        heard.extend(messages.drain());
        heard.len() == orders.len()
    });
    assert!(arrived);
    for (order, heard) in orders.iter().zip(&heard) {
        assert_eq!((&heard.message, heard.player), (order, player));
    }
}

#[test]
fn inputs_move_an_avatar_at_the_server_and_back_at_the_client() {
    let (mut server, mut client) = pair(presets::circle(50.0), &[]);
    server.add_systems(
        Update,
        |mut inputs: MessageReader<InputFrom<Keys>>,
         mut players: Query<(&NetPlayer, &mut Walker)>| {
            for given in inputs.read() {
                for (_, mut walker) in players.iter_mut().filter(|(it, _)| it.id == given.player) {
                    walker.pos[0] += f32::from(given.input.east) / 8.0;
                }
            }
        },
    );
    client.insert_resource(NetInput(Keys { east: 1 }));
    let own = |app: &mut App| {
        let world = app.world_mut();
        world.query_filtered::<&Walker, With<Own>>().iter(world).next().map_or(0.0, |w| w.pos[0])
    };
    assert!(until(&mut [&mut server, &mut client], |apps| own(apps[1]) > 1.0));
    client.insert_resource(NetInput(Keys { east: 0 }));
    let mut still = 0;
    assert!(until(&mut [&mut server, &mut client], |apps| {
        let truth = all::<Walker>(apps[0])[0].pos[0];
        still = if (own(apps[1]) - truth).abs() < 0.02 { still + 1 } else { 0 };
        still > 50
    }));
}

#[test]
fn players_who_leave_take_their_entity_with_them() {
    let (mut server, mut client) = pair(presets::circle(50.0), &[]);
    assert!(until(&mut [&mut server, &mut client], |apps| !all::<Own>(apps[1]).is_empty()));
    let player = client.world().resource::<NetClient>().player().unwrap();
    let limit = foveate_bevy::foveate::wire::Micros::from_millis(50);
    client.world_mut().resource_mut::<NetClient>().leave(limit).unwrap();
    let mut left = Vec::new();
    assert!(until(&mut [&mut server], |apps| {
        left.extend(apps[0].world_mut().resource_mut::<Messages<PlayerLeft>>().drain());
        !left.is_empty()
    }));
    assert_eq!(left, [PlayerLeft { player }]);
    assert!(all::<NetPlayer>(&mut server).is_empty() && all::<Walker>(&mut server).is_empty());
}

#[test]
fn other_components_are_refused_with_an_explanation() {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut server = App::new();
    server.add_plugins(ServerPlugin::new(listen, presets::broadcast()));
    server.replicate::<Walker>().replicate::<Badge>();
    server.update();
    let mut client = client(address(&server), "ada");
    let (mut refused, mut noticed) = (Vec::new(), Vec::new());
    assert!(until(&mut [&mut server, &mut client], |apps| {
        noticed.extend(apps[0].world_mut().resource_mut::<Messages<PlayerRefused>>().drain());
        refused.extend(apps[1].world_mut().resource_mut::<Messages<ClientRefused>>().drain());
        !refused.is_empty() && !noticed.is_empty()
    }));
    assert_eq!(noticed, [PlayerRefused { why: Refusal::Schema }]);
    assert_eq!(refused[0].why, Refusal::Schema);
    assert!(refused[0].text.contains("walker"), "{}", refused[0].text);
}

#[test]
fn other_messages_are_refused_with_an_explanation() {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut server = App::new();
    server.add_plugins(ServerPlugin::new(listen, presets::broadcast()));
    server.replicate_together::<(Walker, Mood)>().replicate::<Badge>();
    server.update();
    let mut client = client(address(&server), "ada");
    let mut refused = Vec::new();
    assert!(until(&mut [&mut server, &mut client], |apps| {
        refused.extend(apps[1].world_mut().resource_mut::<Messages<ClientRefused>>().drain());
        !refused.is_empty()
    }));
    assert!(refused[0].text.contains("Order"), "{}", refused[0].text);
}

/// Grades walkers with even numbers, and nothing else.
struct Even;

impl Policy for Even {
    fn grade(&self, sight: &Sight) -> Option<Grade> {
        (sight.to[0] as u32).is_multiple_of(2).then_some(Grade::EXACT)
    }
}

/// Nothing is seen past a wall at 25.
struct Wall;

impl Visibility for Wall {
    fn visible(&self, line: &Line) -> bool {
        line.to[0] < 25.0
    }
}

/// Checks that a player of team 1 with this view sees exactly these walkers; those at odd places
/// are in that team.
fn sees_with(view: &str, expected: &[u16]) {
    let mut app = App::new();
    let references =
        ViewReferences { policies: vec![("even", Arc::new(Even))], walls: Some(Arc::new(Wall)) };
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let plugin = ServerPlugin::new(listen, View::from_toml(view).unwrap());
    app.add_plugins((ServerPlugin { references, ..plugin }, common::shared));
    app.add_systems(Update, |mut joined: MessageReader<PlayerJoined>, mut all: Commands| {
        for joined in joined.read() {
            let avatar = (Walker { pos: [0.0; 2], nth: None }, Mood { joy: 0 });
            all.entity(joined.entity).insert((avatar, Team(1)));
        }
    });
    for x in [10.0, 11.0, 30.0, 31.0] {
        app.world_mut().spawn((walker(x), Team((x as u8) % 2)));
    }
    app.update();
    let mut ada = client(address(&app), "ada");
    assert!(
        until(&mut [&mut app, &mut ada], |apps| seen(apps[1]) == expected),
        "{:?}",
        seen(&mut ada)
    );
    // And no others appear later.
    (0..60).for_each(|_| assert!(until(&mut [&mut app, &mut ada], |_| true)));
    assert_eq!(seen(&mut ada), expected);
}

#[test]
fn views_refer_to_walls_teams_and_custom_policies() {
    sees_with("policy = \"custom\"\ncustom = \"even\"", &[10, 30]);
    let walls = "policy = \"circle\"\nview = 50\nline_of_sight = {}\n";
    sees_with(walls, &[10, 11]);
    let team = "[[sets]]\nof = \"team\"\nview = { policy = \"circle\", view = 50 }\n";
    // Walls do not hide team mates.
    sees_with(&format!("{walls}{team}"), &[10, 11, 31]);
}
