//! One peer and the messages that others send it: claims, doubts, calls, digests. The others are only simulated by
//! their messages.

use foveate_lab::peers::{BASE, Keys, Meadow, MeadowSpec};
use foveate_node::game::PlayerId;
use foveate_node::outbox::{Outgoing, RecordingOutbox};
use foveate_node::peer::identity::Sealed;
use foveate_node::peer::wire::{Changes, Digest, PeerMessage, Transfer};
use foveate_node::peer::{Fault, Key, PeerEvent, PeerSettings, Signer};
use foveate_node::session::{VERSIONS, read_message, write_message};
use foveate_node::{Game, Link, Peer};
use foveate_wire::{Epoch, Metres, Micros, ObjectId};
use std::sync::Arc;

const ROUND: Micros = Micros(50_000);
const WORLD: MeadowSpec = MeadowSpec {
    side: 600.0,
    bases: 8,
    view: 300.0,
    interaction: 100.0,
    speeds: [40.0, 10.0],
    rate: 20.0,
    seed: 5,
};

fn base(serial: u32) -> ObjectId {
    ObjectId::new(BASE, 0, serial)
}

/// A peer that founded a world, and two neighbours far from its objects and from each other.
struct Scene {
    peer: Peer<Meadow>,
    now: Micros,
    said: RecordingOutbox,
}

const ANN: Link = Link(1);
const BOB: Link = Link(2);
const BOTH: [Link; 2] = [ANN, BOB];

/// Keys in the order of their players, so that at equal epochs the peer's own claim wins.
fn keys(which: u64) -> Keys {
    let mut all: Vec<Keys> = (1..=8).filter_map(Keys::new).collect();
    all.sort_by_key(|keys| keys.key().player());
    all.swap_remove(which as usize)
}

fn key(which: u64) -> Key {
    keys(which).key()
}

fn digest(of: u64, now: Micros) -> Sealed {
    let digest = Digest {
        key: key(of),
        number: Digest::number_at(now),
        // So far apart that no peer introduces them to each other.
        at: [5_000 + 1_000 * of as i32, 0, 0],
        contact: vec![of as u8],
        owned: vec![],
        boards: vec![],
        gone: false,
    };
    Sealed::new(&digest, &keys(of))
}

fn gained(id: ObjectId, epoch: u32) -> PeerMessage {
    let mut changes = Changes::default();
    changes.gain(id, Epoch(epoch));
    PeerMessage::Changes(changes)
}

fn gave(id: ObjectId, epoch: u32, to: Key) -> PeerMessage {
    let gave = vec![(id.into(), epoch, to.player().0)];
    PeerMessage::Changes(Changes { gave, ..Changes::default() })
}

impl Scene {
    fn new() -> Scene {
        let game = Arc::new(Meadow::new(WORLD).unwrap());
        let settings = PeerSettings::new(ROUND, Metres(WORLD.view), vec![]);
        let mut peer = Peer::new(game, settings, Box::new(keys(0)), "it");
        let now = Micros(1_000_000);
        peer.found(now).unwrap();
        let mut scene = Scene { peer, now, said: RecordingOutbox::default() };
        BOTH.into_iter().for_each(|link| scene.connect(link));
        scene.said.0.clear();
        scene
    }

    fn connect(&mut self, link: Link) {
        self.peer.connected(link, (key(link.0), false), self.now, &mut self.said);
        let schema = self.peer.simulation.game.schema().hash();
        let (versions, digest) = (VERSIONS.to_vec(), digest(link.0, self.now));
        self.hear(link, &PeerMessage::Hello { versions, schema, digest, clock: 0, inside: true });
    }

    /// A neighbour disconnects and is back before that is noticed.
    fn reconnect(&mut self, link: Link) {
        self.connect(link);
        self.said.0.clear();
    }

    fn hear(&mut self, from: Link, message: &PeerMessage) {
        self.peer.message(from, &write_message(message), self.now, &mut self.said);
    }

    /// Runs for some seconds, with both neighbours sending.
    fn wait(&mut self, seconds: u64) {
        self.now = self.now + Micros(seconds * 1_000_000);
        BOTH.into_iter()
            .for_each(|link| self.hear(link, &PeerMessage::Changes(Changes::default())));
    }

    /// Runs `count` rounds, with both neighbours sending.
    fn rounds(&mut self, count: u32) {
        for _ in 0..count {
            self.now = self.now + ROUND;
            self.wait(0);
            self.peer.tick(self.now, &mut self.said);
        }
    }

    fn events(&mut self) -> Vec<PeerEvent<u8>> {
        std::iter::from_fn(|| self.peer.poll()).collect()
    }

    /// How often the peer has asked for a link with `whom` since the last call.
    fn calls(&mut self, whom: Key) -> usize {
        let is_call =
            |event: &PeerEvent<u8>| matches!(event, PeerEvent::Connect(key, _) if *key == whom);
        self.events().iter().filter(|event| is_call(event)).count()
    }

    /// Messages sent to a neighbour since the last call.
    fn said_to(&mut self, whom: Link) -> Vec<PeerMessage> {
        let said = std::mem::take(&mut self.said.0);
        let to = said.into_iter().filter(|(link, _)| *link == whom);
        let read = |outgoing| match outgoing {
            Outgoing::Message(bytes) => read_message(&bytes),
            _ => None,
        };
        to.filter_map(|(_, outgoing)| read(outgoing)).collect()
    }
}

/// Ann has objects, gives them to Bob, and claims them again; Bob claims them too.
fn given_and_claimed_again(bob_took_them: bool) -> Vec<PeerEvent<u8>> {
    let mut scene = Scene::new();
    let objects = || (100..106).map(base);
    objects().for_each(|id| scene.hear(ANN, &gained(id, 1)));
    scene.wait(11);
    let linked = vec![key(BOB.0).player().0];
    scene.hear(ANN, &PeerMessage::Changes(Changes { linked, ..Changes::default() }));
    for id in objects() {
        scene.hear(ANN, &gave(id, 2, key(BOB.0)));
        if bob_took_them {
            scene.hear(BOB, &gained(id, 2));
        }
        scene.hear(ANN, &gained(id, 3));
        scene.hear(BOB, &gained(id, 4));
    }
    let owners = objects().filter_map(|id| scene.peer.claim_on(id)).map(|claim| claim.owner);
    assert!(owners.eq(objects().map(|_| key(BOB.0).player())));
    scene.events()
}

#[test]
fn taking_back_an_object_that_was_not_accepted_is_no_usurping() {
    let verdict = PeerEvent::Verdict(key(ANN.0).player(), Fault::Usurped);
    assert!(!given_and_claimed_again(false).contains(&verdict), "it may have come back");
    assert!(given_and_claimed_again(true).contains(&verdict), "it was Bob's");
}

#[test]
fn news_of_an_unreachable_peer_leads_to_another_call() {
    let (mut scene, carl) = (Scene::new(), key(3));
    let claimed = PeerMessage::Claimed(base(0).into(), 5, carl.player().0);
    let told = PeerMessage::Members(vec![digest(3, scene.now)]);
    [&told, &claimed].into_iter().for_each(|message| scene.hear(ANN, message));
    assert_eq!(scene.calls(carl), 1, "a peer that claims our object is called");
    scene.peer.unreachable(carl, scene.now);
    scene.wait(1);
    [&told, &claimed].into_iter().for_each(|message| scene.hear(ANN, message));
    assert_eq!(scene.calls(carl), 0, "not again at once");
    scene.hear(ANN, &PeerMessage::Members(vec![digest(3, scene.now)]));
    scene.hear(ANN, &claimed);
    assert_eq!(scene.calls(carl), 1, "it has spoken since");
    scene.hear(ANN, &PeerMessage::Members(vec![digest(3, scene.now + ROUND)]));
    scene.hear(ANN, &claimed);
    assert_eq!(scene.calls(carl), 0, "that call is not over");
}

#[test]
fn a_lower_claim_is_answered_to_its_maker_alone() {
    let says_so = |said: &[PeerMessage]| said.iter().any(|message| *message == gained(base(0), 0));
    for (whom, told) in [(ANN, true), (BOB, false)] {
        let mut scene = Scene::new();
        scene.rounds(40);
        scene.said.0.clear();
        scene.hear(ANN, &gained(base(0), 0));
        scene.rounds(25);
        assert_eq!(says_so(&scene.said_to(whom)), told, "{whom:?}");
    }
    let mut scene = Scene::new();
    scene.wait(2);
    scene.said.0.clear();
    scene.hear(BOB, &PeerMessage::Claimed(base(0).into(), 0, key(ANN.0).player().0));
    assert!(says_so(&scene.said_to(BOB)), "a question is answered");
}

#[test]
fn digests_sent_on_request_are_gossiped_again_only_after_a_while() {
    let strangers = || 3..8;
    let passed_on = |said: &[PeerMessage]| {
        let digests = said.iter().filter_map(|message| match message {
            PeerMessage::Members(digests) => Some(digests),
            _ => None,
        });
        let authors = digests.flatten().filter_map(|it| it.peek::<Digest>()).map(|it| it.key);
        authors.filter(|author| strangers().any(|it| key(it) == *author)).count()
    };
    for asks in [false, true] {
        let mut scene = Scene::new();
        scene.rounds(2);
        let digests = strangers().map(|it| digest(it, scene.now)).collect();
        scene.hear(ANN, &PeerMessage::Members(digests));
        scene.said.0.clear();
        if asks {
            let players = strangers().map(|it| key(it).player().0).collect();
            scene.hear(BOB, &PeerMessage::Who(players));
            assert_eq!(passed_on(&scene.said_to(BOB)), 5, "answered at once");
        }
        scene.rounds(16);
        assert_eq!(passed_on(&scene.said_to(BOB)) > 0, !asks);
        scene.rounds(16);
        assert!(passed_on(&scene.said_to(BOB)) > 0, "after a second in any case");
    }
}

#[test]
fn only_its_creator_is_the_first_owner_of_an_object_and_none_is_from_the_future() {
    let mut scene = Scene::new();
    let (ann, bob) = (key(ANN.0).player(), key(BOB.0).player());
    let by = |creator: PlayerId, number| ObjectId::minted_for_world(BASE, creator.0, number);
    let forged = |scene: &Scene| scene.peer.counts().refused[Fault::Forged as usize];
    for (id, epoch) in [(by(ann, 10), 0), (by(bob, 12), 3)] {
        scene.hear(ANN, &gained(id, epoch));
        assert_eq!(scene.peer.claim_on(id).map(|claim| claim.owner), Some(ann), "hers, or given");
    }
    assert_eq!(forged(&scene), 0);
    // A second has passed: no clock allows more than a few hundred objects by one creator.
    for (id, epoch) in [(by(bob, 11), 0), (by(ann, 5_000), 0), (by(bob, 5_000), 4)] {
        scene.hear(ANN, &gained(id, epoch));
        assert_eq!(scene.peer.claim_on(id), None, "{id:?}");
    }
    assert_eq!(forged(&scene), 3);
    let lanes = scene.peer.simulation.publisher.store.schema().kind(BASE).unwrap().lane_count();
    let (object, lanes) = (by(bob, 13).into(), vec![0; lanes]);
    scene.hear(ANN, &PeerMessage::Give(Transfer { object, epoch: 1, lanes, done: vec![] }));
    assert_eq!(
        forged(&scene),
        4,
        "Bob was the first owner, so that Ann's gift is the second change"
    );
    assert!(scene.events().contains(&PeerEvent::Verdict(ann, Fault::Forged)));
}

/// Objects that Bob owns; Ann has a link with him. There are more of them than the claims that a peer is forgiven.
fn bobs_objects() -> impl Iterator<Item = ObjectId> {
    (100..106).map(base)
}

/// Ann and Bob have long been neighbours of this peer and of each other.
fn with_bobs_objects() -> Scene {
    let mut scene = Scene::new();
    bobs_objects().for_each(|id| scene.hear(BOB, &gained(id, 1)));
    scene.wait(11);
    let linked = vec![key(BOB.0).player().0];
    scene.hear(ANN, &PeerMessage::Changes(Changes { linked, ..Changes::default() }));
    scene.events();
    scene
}

fn usurped(scene: &mut Scene, by: Link) -> bool {
    scene.events().contains(&PeerEvent::Verdict(key(by.0).player(), Fault::Usurped))
}

#[test]
fn simultaneous_takeovers_are_no_usurping_and_a_later_claim_is() {
    for (seconds, convicted) in [(0, false), (5, true)] {
        let mut scene = with_bobs_objects();
        // Carl had the objects before and is gone: Bob announces his takeover.
        let carls = || (200..206).map(base);
        carls().for_each(|id| scene.hear(ANN, &gained(id, 1)));
        carls().for_each(|id| scene.hear(ANN, &gave(id, 1, key(3))));
        carls().for_each(|id| scene.hear(BOB, &gained(id, 2)));
        scene.wait(seconds);
        carls().for_each(|id| scene.hear(ANN, &gained(id, 3)));
        // Bob's epoch rises for any reason.
        carls().for_each(|id| scene.hear(BOB, &gained(id, 4)));
        assert_eq!(usurped(&mut scene, ANN), convicted, "{seconds} s after Bob took over");
    }
}

#[test]
fn taking_over_from_a_peer_that_restarted_is_no_usurping() {
    for (begins_anew, convicted) in [(true, false), (false, true)] {
        let mut scene = with_bobs_objects();
        bobs_objects().for_each(|id| scene.hear(ANN, &gained(id, 2)));
        if begins_anew {
            // Bob was gone for less than the silence that ends a neighbour, and is back by another link.
            scene.reconnect(BOB);
        }
        bobs_objects().for_each(|id| scene.hear(BOB, &gained(id, 3)));
        assert_eq!(usurped(&mut scene, ANN), convicted, "begins anew: {begins_anew}");
    }
}

#[test]
fn a_single_claim_is_asked_about_and_accepted_when_the_owner_restarted() {
    let mut scene = with_bobs_objects();
    let id = base(100);
    scene.hear(ANN, &gained(id, 2));
    scene.reconnect(BOB);
    scene.rounds(60);
    let asked = PeerMessage::Claimed(id.into(), 2, key(ANN.0).player().0);
    assert!(scene.said_to(BOB).contains(&asked), "Bob is asked who the owner is");
    scene.hear(BOB, &gave(id, 2, key(ANN.0)));
    assert_eq!(scene.peer.claim_on(id).map(|claim| claim.owner), Some(key(ANN.0).player()));
}

#[test]
fn claims_from_before_a_restart_are_no_usurping() {
    for (restarted, convicted) in [(true, false), (false, true)] {
        let mut scene = with_bobs_objects();
        bobs_objects().for_each(|id| scene.hear(ANN, &gained(id, 2)));
        if restarted {
            scene.reconnect(ANN);
        }
        scene.wait(11);
        let linked = vec![key(BOB.0).player().0];
        scene.hear(ANN, &PeerMessage::Changes(Changes { linked, ..Changes::default() }));
        // Asked about the claims, Bob asserts his own.
        bobs_objects().for_each(|id| scene.hear(BOB, &gained(id, 3)));
        assert_eq!(usurped(&mut scene, ANN), convicted, "restarted: {restarted}");
    }
}

/// Ann, who took Bob's objects over while they were apart, gives them to Carl. He does not take them.
#[test]
fn a_peer_that_is_only_named_as_the_receiver_is_no_usurper() {
    const CARL: Link = Link(3);
    for (claims, convicted) in [(false, false), (true, true)] {
        let mut scene = Scene::new();
        scene.connect(CARL);
        bobs_objects().for_each(|id| scene.hear(BOB, &gained(id, 1)));
        scene.wait(11);
        let linked = vec![key(BOB.0).player().0];
        scene.hear(CARL, &PeerMessage::Changes(Changes { linked, ..Changes::default() }));
        for id in bobs_objects() {
            if claims {
                scene.hear(CARL, &gained(id, 3));
            } else {
                scene.hear(ANN, &gained(id, 2));
                scene.hear(ANN, &gave(id, 3, key(CARL.0)));
            }
            scene.hear(BOB, &gained(id, 4));
        }
        let verdict = PeerEvent::Verdict(key(CARL.0).player(), Fault::Usurped);
        assert_eq!(scene.events().contains(&verdict), convicted, "he claims them: {claims}");
    }
}

#[test]
fn an_object_removed_by_a_doubted_claimant_goes_once_the_owner_confirms_the_claim() {
    let mut removed = Changes::default();
    removed.remove(base(100));
    for (answer, there) in [(gave(base(100), 2, key(ANN.0)), false), (gained(base(100), 1), true)] {
        let mut scene = with_bobs_objects();
        scene.hear(ANN, &gained(base(100), 2));
        scene.hear(ANN, &PeerMessage::Changes(removed.clone()));
        assert!(scene.peer.claim_on(base(100)).is_some(), "it was not hers to remove");
        scene.hear(BOB, &answer);
        assert_eq!(scene.peer.claim_on(base(100)).is_some(), there, "{answer:?}");
        scene.hear(BOB, &gained(base(100), 5));
        assert_eq!(scene.peer.claim_on(base(100)).is_some(), there, "nor does it come back");
    }
}

#[test]
fn a_peer_does_not_have_an_object_that_it_did_not_accept() {
    let mut scene = with_bobs_objects();
    scene.hear(BOB, &gave(base(100), 2, keys(0).key()));
    let owner = scene.peer.claim_on(base(100)).map(|claim| claim.owner);
    assert_eq!(owner, Some(key(BOB.0).player()));
}
