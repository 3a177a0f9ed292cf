//! Which servers clients trust.

use std::time::{Duration, SystemTime};

use foveate_io::{CertificateHash, EndpointOptions, Error, Reason, Trust};

use crate::harness::{Party, pair, roomy, until};

fn failure(server: &mut Party, client: &mut Party) -> String {
    let link = client.connect(server);
    until(server, client, "a verdict", |_, client| {
        client.reason(link).is_some() || !client.connected.is_empty()
    });
    match client.reason(link) {
        Some(Reason::Untrusted(why)) => why.clone(),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn another_certificate_than_the_pinned_one_is_refused() {
    let mut server = Party::server(roomy());
    let pin = Trust::Pinned(vec![CertificateHash([1; 32])]);
    let mut client = Party::trusting(&pin, EndpointOptions::client());
    let why = failure(&mut server, &mut client);
    assert!(why.contains("not pinned") && why.contains(&server.hash().to_string()), "{why}");
    assert!(server.connected.is_empty());
}

#[test]
fn a_development_certificate_is_not_trusted_by_the_system() {
    let mut server = Party::server(roomy());
    match foveate_io::Endpoint::client(
        crate::harness::anywhere(),
        &Trust::System,
        EndpointOptions::client(),
    ) {
        Ok(_) => {
            let mut client = Party::trusting(&Trust::System, EndpointOptions::client());
            assert!(failure(&mut server, &mut client).contains("certificate"));
        }
        // The system has no root certificates.
        Err(refused) => assert!(matches!(refused, Error::NoRoots(_))),
    }
}

#[test]
fn insecure_trust_accepts_any_server() {
    let mut server = Party::server(roomy());
    let mut client = Party::trusting(&Trust::InsecureDevelopmentOnly, EndpointOptions::client());
    client.connect(&server);
    until(&mut server, &mut client, "a connection", |_, client| client.connected.len() == 1);
}

#[test]
fn a_renewed_certificate_is_shown_to_new_links_only() {
    let (mut server, mut client, ours, theirs) = pair(roomy(), EndpointOptions::client());
    let old = server.hash();
    let now = SystemTime::now();
    assert!(!server.endpoint.renew(now).expect("made"), "it is fresh");
    assert!(server.endpoint.renew(now + Duration::from_secs(11 * 86_400)).expect("made"));
    assert_ne!(server.hash(), old);
    assert_eq!(server.endpoint.counters().renewals, 1);

    client.endpoint.send_datagram(theirs, b"old link").expect("connected");
    until(&mut server, &mut client, "the old link", |server, _| !server.datagrams.is_empty());
    assert_eq!(server.datagrams, [(ours, b"old link".to_vec())]);

    let mut stale = Party::trusting(&Trust::Pinned(vec![old]), EndpointOptions::client());
    assert!(failure(&mut server, &mut stale).contains("not pinned"));
    let mut fresh = Party::client(&server, EndpointOptions::client());
    fresh.connect(&server);
    until(&mut server, &mut fresh, "the new pin", |_, fresh| fresh.connected.len() == 1);
}
