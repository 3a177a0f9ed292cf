use super::*;
use crate::region::records::of_another_version;

/// A ledger without a connection, and what its thread would hand over.
fn ledger(key: &WorldKey, world: &WorldName) -> (NatsLedger, Arc<Shared>) {
    let (requests, _) = channel(8);
    let shared = Arc::<Shared>::default();
    let connection = Connection { requests, shared: Arc::clone(&shared), thread: None };
    let world =
        NatsWorld { world: world.clone(), key: key.clone(), connection: Arc::new(connection) };
    (world.join(ServerId(1)).1, shared)
}

#[test]
fn records_of_another_version_end_a_newcomer_and_no_server_that_is_there() {
    let world: WorldName = "meadow".parse().unwrap();
    let key = WorldKey::new(&world, &[1; 32]).unwrap();
    let (newcomer, found) = ledger(&key, &world);
    let other = of_another_version(&newcomer.book, Subject::Layout, 1);
    lock(&found.entries).push_back((Subject::Layout, 1, other));
    let mut newcomer = newcomer;
    assert_eq!(newcomer.poll(), None);
    let why = newcomer.status().unusable.unwrap();
    assert!(why.contains("this server reads") && why.contains("run the same version"), "{why}");

    let (mut there, found) = ledger(&key, &world);
    let layout = there.book.seal(Subject::Layout, 1, b"layout");
    let sign_of_life = Subject::Server(ServerId(2));
    for (place, subject) in [(2, sign_of_life), (3, Subject::Layout)] {
        let other = of_another_version(&there.book, subject, place);
        lock(&found.entries).push_back((subject, place, other));
    }
    lock(&found.entries).push_front((Subject::Layout, 1, layout));
    there.request(LedgerRequest::Follow(Subject::Layout));
    let read = LedgerReply::Entry(Subject::Layout, 1, b"layout".to_vec());
    assert_eq!((there.poll(), there.poll()), (Some(read), None));
    let status = there.status();
    assert_eq!((status.refused, status.unusable), (2, None));
    let why = status.ignored.unwrap();
    assert!(why.contains("record 3 of layout") && why.contains("same version"), "{why}");
}
