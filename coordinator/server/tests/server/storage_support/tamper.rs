//! Somebody who wants the past to have been another one, and knows how a peer writes it down: every checksum is right.

#![allow(dead_code, reason = "each test uses its part")]

use std::path::Path;

use bincode::Kind;
use rollcall_rollout::ChainedRecord;

/// Changes why something was done, in the history of a peer that is stopped. The record must fit one value.
pub fn change_reason(data_dir: &Path, revision: u64, reason: &str) {
    change(data_dir, revision, |record| record.record.reason = Some(reason.to_owned()));
}

fn change(data_dir: &Path, revision: u64, by: impl FnOnce(&mut ChainedRecord)) {
    let db = open(&data_dir.join("history"));
    let mut key = [b'r'; 11];
    key[1..9].copy_from_slice(&revision.to_be_bytes());
    key[9..].copy_from_slice(&[0, 0]);
    let value = db.get(key).unwrap().expect("the record is there");
    let mut record: ChainedRecord = bincode::open(Kind::HISTORY, body(&value)).expect("the record fits one value");
    by(&mut record);
    let sealed = bincode::seal(Kind::HISTORY, &record);
    db.insert(key, bincode::encode_envelope(Kind::HISTORY, &sealed)).unwrap();
    db.flush().unwrap();
}

/// sled's own threads may hold the lock for a moment after its last handle was dropped.
fn open(history: &Path) -> sled::Db {
    let begun = std::time::Instant::now();
    loop {
        match sled::Config::new().path(history).flush_every_ms(None).open() {
            Err(sled::Error::Io(error)) if error.to_string().contains("acquire lock") => {
                assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{error}");
                std::thread::yield_now();
            }
            opened => return opened.unwrap(),
        }
    }
}

fn body(value: &[u8]) -> &[u8] {
    bincode::decode_envelope(Kind::HISTORY, value).expect("an envelope").body
}

/// The same in a snapshot, copied to `to`: the state and the history's pages are envelopes in a row.
pub fn change_reason_in_snapshot(from: &Path, to: &Path, revision: u64, reason: &str) {
    let bytes = std::fs::read(from).unwrap();
    let (mut rest, mut out, mut is_changed) = (bytes.as_slice(), Vec::new(), false);
    while !rest.is_empty() {
        let envelope = bincode::decode_envelope(Kind::SNAPSHOT, rest).unwrap();
        // The third kind of section is a page of the history.
        match envelope.body {
            [HISTORY_SECTION, page @ ..] => {
                let page = bincode::encode_envelope(Kind::SNAPSHOT, page);
                let mut records: Vec<ChainedRecord> = bincode::open(Kind::SNAPSHOT, &page).unwrap();
                let wanted = records.iter_mut().find(|record| record.record.revision.0 == revision);
                is_changed |= wanted.map(|record| record.record.reason = Some(reason.to_owned())).is_some();
                out.extend(bincode::seal(Kind::SNAPSHOT, &(HISTORY_SECTION, records)));
            }
            body => out.extend(bincode::encode_envelope(Kind::SNAPSHOT, body)),
        }
        rest = &rest[envelope.consumed..];
    }
    assert!(is_changed, "the snapshot carries no revision {revision}");
    std::fs::write(to, out).unwrap();
}

const HISTORY_SECTION: u8 = 2;

/// Whether the peer has let go of its history.
pub fn is_closed(data_dir: &Path) -> bool {
    sled::Config::new().path(data_dir.join("history")).flush_every_ms(None).open().is_ok()
}
