use super::*;
use crate::region::even_layout;
use foveate_node::region::layout::{Rect, RegionId};
use std::path::PathBuf;

const LOG: Subject = Subject::Log(RegionId(3));
/// Only a hang takes this long.
const PATIENCE: Duration = Duration::from_secs(30);

fn scratch(name: &str) -> PathBuf {
    let name = format!("foveate-ledger-{name}-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    folder
}

fn append(link: &mut LocalLedgerLink, request: u64, last: u64, bytes: &[u8]) {
    link.request(LedgerRequest::Append { request, subject: LOG, last, bytes: bytes.to_vec() });
}

fn next(link: &mut LocalLedgerLink) -> LedgerReply {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(reply) = link.poll() {
            return reply;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("the ledger says nothing")
}

#[test]
fn an_append_counts_only_behind_the_entry_that_it_names() {
    let ledger = LedgerFile::in_memory().unwrap().start().unwrap();
    let [mut one, mut two] = [1, 2].map(|id| ledger.join(ServerId(id)));
    append(&mut one, 7, 0, b"first");
    assert_eq!(next(&mut one), LedgerReply::Answer(7, LedgerAnswer::Appended(1)));
    append(&mut two, 1, 0, b"too late");
    assert_eq!(next(&mut two), LedgerReply::Answer(1, LedgerAnswer::Conflict(1)));
    append(&mut two, 2, 1, b"second");
    assert_eq!(next(&mut two), LedgerReply::Answer(2, LedgerAnswer::Appended(2)));
    one.request(LedgerRequest::Follow(LOG));
    assert_eq!(next(&mut one), LedgerReply::Entry(LOG, 1, b"first".to_vec()));
    assert_eq!(next(&mut one), LedgerReply::Entry(LOG, 2, b"second".to_vec()));
    append(&mut two, 3, 2, b"third");
    assert_eq!(next(&mut one), LedgerReply::Entry(LOG, 3, b"third".to_vec()), "it goes on");
    assert_eq!((one.status().appended, one.status().conflicts), (3, 1));
}

#[test]
fn truncation_keeps_the_last_entry_and_numbers_go_on_after_a_restart() {
    let folder = scratch("truncated");
    let file = folder.join("world.ledger");
    for start in [0, 5] {
        let ledger = LedgerFile::open(&file).unwrap().start().unwrap();
        let mut link = ledger.join(ServerId(1));
        for number in start..start + 5 {
            append(&mut link, 1, number, b"entry");
            let appended = LedgerAnswer::Appended(number + 1);
            assert_eq!(next(&mut link), LedgerReply::Answer(1, appended));
        }
        link.request(LedgerRequest::Truncate(LOG, 1_000));
        link.request(LedgerRequest::Follow(LOG));
        assert_eq!(next(&mut link), LedgerReply::Entry(LOG, start + 5, b"entry".to_vec()));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_slow_follower_misses_nothing_and_costs_no_memory() {
    let ledger = LedgerFile::in_memory().unwrap().start().unwrap();
    let [mut writer, mut slow] = [1, 2].map(|id| ledger.join(ServerId(id)));
    slow.request(LedgerRequest::Follow(LOG));
    let count = MAX_LEDGER_REPLIES as u64 + 500;
    for last in 0..count {
        append(&mut writer, last, last, &last.to_le_bytes());
        assert!(matches!(next(&mut writer), LedgerReply::Answer(..)));
    }
    assert!(slow.replies.lock().len() <= MAX_LEDGER_REPLIES);
    for number in 1..=count {
        let bytes = (number - 1).to_le_bytes().to_vec();
        assert_eq!(next(&mut slow), LedgerReply::Entry(LOG, number, bytes));
    }
}

#[test]
fn a_file_that_is_in_use_torn_or_something_else_is_named_and_left_alone() {
    let folder = scratch("torn");
    let file = folder.join("world.ledger");
    {
        let ledger = LedgerFile::open(&file).unwrap().start().unwrap();
        let second = LedgerFile::open(&file).err().expect("one process at a time").to_string();
        assert!(second.contains("in use by another server"), "{second}");
        let mut link = ledger.join(ServerId(1));
        for last in 0..200 {
            append(&mut link, last, last, &[7; 500]);
            assert!(matches!(next(&mut link), LedgerReply::Answer(..)));
        }
    }
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let torn = LedgerFile::open(&file).err().expect("half of it is gone").to_string();
    assert!(torn.contains("restore a backup"), "{torn}");
    assert_eq!(std::fs::read(&file).unwrap(), whole[..whole.len() / 2]);
    std::fs::write(&file, b"not a database at all").unwrap();
    let other = LedgerFile::open(&file).err().expect("it is a text").to_string();
    assert!(other.contains("no SQLite database"), "{other}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn after_a_restart_regions_have_new_servers_in_a_higher_epoch() {
    let folder = scratch("assigned");
    let file = folder.join("world.ledger");
    let extent = Rect { min: [0.0; 2], max: [100.0; 2] };
    let first = [1, 2, 3].map(ServerId);
    let layout = even_layout(9, Micros(50_000), extent, &first).unwrap();
    {
        let file = LedgerFile::open(&file).unwrap();
        assert_eq!(file.new_servers(3), first);
        assert_eq!(file.layout().unwrap(), None);
        let ledger = file.start().unwrap();
        let mut link = ledger.join(ServerId(1));
        let by = AppendId { server: ServerId(1), number: 1 };
        let records = [
            (Subject::Layout, write_record(&(by, layout.write()))),
            (Subject::Server(ServerId(3)), b"alive".to_vec()),
        ];
        for (subject, bytes) in records {
            link.request(LedgerRequest::Append { request: 1, subject, last: 0, bytes });
            assert!(matches!(next(&mut link), LedgerReply::Answer(..)));
        }
    }
    let mut again = LedgerFile::open(&file).unwrap();
    let servers = again.new_servers(2);
    assert_eq!(servers, [4, 5].map(ServerId), "no number is used again");
    assert!(again.assign(&servers).unwrap());
    let now = again.layout().unwrap().unwrap();
    for (region, info) in now.regions() {
        assert!(servers.contains(&info.server) && info.standby.is_some_and(|it| it != info.server));
        assert_eq!((info.epoch, now.rect(region)), (2, layout.rect(region)));
    }
    drop(again);
    std::fs::remove_dir_all(folder).unwrap();
}
