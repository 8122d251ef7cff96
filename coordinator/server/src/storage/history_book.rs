//! The history's files: a sled database, used as `docs/adr/0001` says that sled 0.34 can be.
//!
//! Keys are `r | revision | part`, big endian, so that their order is that of the log; one key `m` holds what is known
//! about the whole, and one key `g` which revisions were left out; both are written in the same batch as what they speak of.
//!
//! # Invariants
//! - Each record names the one before it and the hash of the audit chain there, and the whole names the last: a record
//!   that was lost is noticed by whoever reads across it, one that was exchanged by whoever verifies the chain.
//! - Everything here can be deleted: any error makes the caller put the folder aside and begin again.

use std::fs::{self, File};
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use bincode::{Decode, Encode, Kind};
use rollcall_ident::Revision;
use rollcall_rollout::{ChainHead, ChainedRecord};

use super::files::{create_dir_durable, sync_dir};
use super::history::{HistoryBounds, HistoryPage};
use super::history_gaps::GapsV1;

/// BOUND: sled's cache; its default is 1 GiB.
const CACHE_BYTES: u64 = 16 << 20;

/// BOUND: a value. sled writes a value over 64 KiB, and a page of neighbours over 128 KiB, into a file of its own; with
/// values of 16 KiB neighbours still got there.
const PART_BYTES: usize = 4 << 10;

/// BOUND: keys of a batch. 199,000 deletions in one blocked it for 4 s and took 800 MB.
const BATCH_KEYS: usize = 512;

/// BOUND: bytes of a page, beside its number of records.
const PAGE_BYTES: usize = 1 << 20;

/// BOUND: sled never gives space back; a folder that has grown over this is rebuilt at the next start.
const MAX_DISK_BYTES: u64 = 1 << 30;

/// Trimming waits until it is worth a batch.
const TRIM_STEP: u64 = 256;

const META_KEY: &[u8] = b"m";
const GAPS_KEY: &[u8] = b"g";
const RECORD_PREFIX: u8 = b'r';

/// What is known about the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
struct MetaV1 {
    floor: Revision,
    applied: Revision,
    /// The last record, and the audit chain after it.
    last: ChainHead,
}

/// Why the files can't be used any more.
#[derive(Debug, thiserror::Error)]
pub(super) enum BookError {
    #[error("sled: {0}")]
    Sled(#[from] sled::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("a value of it is damaged: {0}")]
    Codec(#[from] bincode::CodecError),
    #[error("{0}")]
    Damaged(String),
}

pub(super) struct Book {
    db: sled::Db,
    /// sled's private file: its own `flush` doesn't sync it.
    file: File,
    meta: MetaV1,
    gaps: GapsV1,
    /// BOUND: revisions that are kept.
    retained: u64,
}

impl Book {
    /// Opens the folder. May panic on damage, as sled does.
    pub(super) fn open(dir: &Path, retained: u64) -> Result<Self, BookError> {
        create_dir_durable(dir).map_err(io::Error::from)?;
        remove_half_made_snapshots(dir)?;
        if folder_bytes(dir)? > MAX_DISK_BYTES {
            return Err(BookError::Damaged(format!("it has grown over {MAX_DISK_BYTES} bytes")));
        }
        // No flusher thread: a panic of it couldn't be caught.
        let db = sled::Config::new().path(dir).cache_capacity(CACHE_BYTES).flush_every_ms(None).open()?;
        let file = File::open(dir.join("db"))?;
        let meta = match db.get(META_KEY)? {
            Some(bytes) => bincode::open(Kind::HISTORY, &bytes)?,
            None if db.is_empty() => MetaV1::default(),
            None => return Err(BookError::Damaged("its records are there, but not what describes them".into())),
        };
        let gaps = db.get(GAPS_KEY)?.map(|bytes| bincode::open(Kind::HISTORY, &bytes)).transpose()?.unwrap_or_default();
        Ok(Self { db, file, meta, gaps, retained })
    }

    /// Makes an empty one that begins behind `floor`, where the audit chain stands at `anchor`.
    pub(super) fn create(dir: &Path, retained: u64, floor: Revision, anchor: ChainHead) -> Result<Self, BookError> {
        if dir.exists() {
            fs::remove_dir_all(dir)?;
        }
        let mut book = Self::open(dir, retained)?;
        book.meta = MetaV1 { floor, applied: floor, last: anchor };
        book.db.insert(META_KEY, bincode::seal(Kind::HISTORY, &book.meta))?;
        book.flush()?;
        Ok(book)
    }

    pub(super) fn bounds(&self) -> HistoryBounds {
        HistoryBounds { floor: self.meta.floor, applied: self.meta.applied, head: self.meta.last }
    }

    /// Adds the records behind what is there, and moves `applied`.
    pub(super) fn append(&mut self, records: &[ChainedRecord], applied: Revision) -> Result<(), BookError> {
        let (mut batch, mut keys, mut meta) = (sled::Batch::default(), 0, self.meta);
        for record in records {
            let revision = record.record.revision;
            if revision <= meta.applied {
                continue;
            }
            if record.previous != meta.last {
                return Err(BookError::Damaged(format!("it doesn't lead to what happened at revision {revision}")));
            }
            let sealed = bincode::seal(Kind::HISTORY, record);
            for (part, bytes) in sealed.chunks(PART_BYTES).enumerate() {
                batch.insert(record_key(revision, part).as_slice(), bincode::encode_envelope(Kind::HISTORY, bytes));
                keys += 1;
            }
            if let Some(from) = record.record.recovered_from() {
                self.gaps.note(from, revision);
                batch.insert(GAPS_KEY, bincode::seal(Kind::HISTORY, &self.gaps));
                keys += 1;
            }
            (meta.last, meta.applied) = (record.head(), revision);
            if keys >= BATCH_KEYS / 2 {
                self.commit(std::mem::take(&mut batch), meta)?;
                keys = 0;
            }
        }
        meta.applied = meta.applied.max(applied);
        if meta != self.meta {
            self.commit(batch, meta)?;
        }
        self.trim()
    }

    /// Up to `limit` records from `from` on. The caller has checked that they are kept.
    pub(super) fn read(&self, from: Revision, limit: usize) -> Result<HistoryPage, BookError> {
        let (mut records, mut bytes) = (Vec::<ChainedRecord>::new(), 0);
        let mut previous = None;
        let mut parts = self.db.range(record_range(from)).peekable();
        let complete = loop {
            if records.len() >= limit || bytes >= PAGE_BYTES {
                break false;
            }
            let Some(first) = parts.next() else { break true };
            let (key, value) = first?;
            let revision = revision_of(&key)?;
            let mut sealed = bincode::decode_envelope(Kind::HISTORY, &value)?.body.to_vec();
            while let Some(Ok((key, value))) = parts.peek() {
                if revision_of(key)? != revision {
                    break;
                }
                sealed.extend(bincode::decode_envelope(Kind::HISTORY, value)?.body);
                parts.next();
            }
            bytes += sealed.len();
            let record: ChainedRecord = bincode::open(Kind::HISTORY, &sealed)?;
            // What the record says is judged by whoever verifies the chain; here it must only be in its place.
            let before = record.previous.revision;
            let joined = previous.map_or(before < from, |previous| before == previous);
            if record.record.revision != revision || !joined {
                return Err(BookError::Damaged(format!("records before revision {revision} are missing")));
            }
            previous = Some(revision);
            records.push(record);
        };
        let end = self.meta.last.revision;
        if complete && !previous.map_or(end < from, |previous| previous == end) {
            return Err(BookError::Damaged(format!("its last records, up to {end}, are missing")));
        }
        let reached = if complete { self.meta.applied } else { previous.unwrap_or(from) };
        let MetaV1 { floor, applied, last: head } = self.meta;
        let next = Revision(reached.0.max(from.0.saturating_sub(1)) + 1);
        Ok(HistoryPage { records, next, floor, applied, head })
    }

    /// Everything appended is on disk when this returns.
    pub(super) fn flush(&self) -> Result<(), BookError> {
        self.db.flush()?;
        // sled asks the system to start writing and doesn't wait for the disk.
        Ok(self.file.sync_data()?)
    }

    fn commit(&mut self, mut batch: sled::Batch, meta: MetaV1) -> Result<(), BookError> {
        batch.insert(META_KEY, bincode::seal(Kind::HISTORY, &meta));
        self.db.apply_batch(batch)?;
        self.meta = meta;
        Ok(())
    }

    /// Drops what is older than is kept, a batch at a time.
    fn trim(&mut self) -> Result<(), BookError> {
        let target = self.gaps.before(self.meta.applied, self.retained);
        if target.0 < self.meta.floor.0 + TRIM_STEP {
            return Ok(());
        }
        let (mut batch, mut keys, mut meta) = (sled::Batch::default(), 0, self.meta);
        meta.floor = target;
        for entry in self.db.range(record_key(Revision(0), 0)..record_key(Revision(target.0 + 1), 0)) {
            let (key, _) = entry?;
            if keys == BATCH_KEYS {
                break;
            }
            if keys == BATCH_KEYS - 1 {
                meta.floor = revision_of(&key)?;
            }
            batch.remove(key);
            keys += 1;
        }
        meta.floor = meta.floor.max(self.meta.floor);
        self.commit(batch, meta)
    }
}

fn record_key(revision: Revision, part: usize) -> [u8; 11] {
    let part = u16::try_from(part).expect("a record has far fewer than 65,536 parts: an entry is bounded");
    let mut key = [RECORD_PREFIX; 11];
    key[1..9].copy_from_slice(&revision.0.to_be_bytes());
    key[9..].copy_from_slice(&part.to_be_bytes());
    key
}

fn record_range(from: Revision) -> RangeInclusive<[u8; 11]> {
    record_key(from, 0)..=record_key(Revision(u64::MAX), usize::from(u16::MAX))
}

fn revision_of(key: &[u8]) -> Result<Revision, BookError> {
    match key {
        [RECORD_PREFIX, r0, r1, r2, r3, r4, r5, r6, r7, _, _] => {
            Ok(Revision(u64::from_be_bytes([*r0, *r1, *r2, *r3, *r4, *r5, *r6, *r7])))
        }
        _ => Err(BookError::Damaged(format!("a key of {} bytes that isn't ours", key.len()))),
    }
}

/// Half-made snapshots of sled's page table: if one is there, sled 0.34.7 may never open the folder again.
fn remove_half_made_snapshots(dir: &Path) -> Result<(), BookError> {
    let mut removed = false;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            fs::remove_file(&path)?;
            removed = true;
        }
    }
    if removed {
        sync_dir(dir).map_err(io::Error::from)?;
    }
    Ok(())
}

fn folder_bytes(dir: &Path) -> Result<u64, BookError> {
    let (mut folders, mut bytes) = (vec![PathBuf::from(dir)], 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else {
                bytes += entry.metadata()?.len();
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use rollcall_ident::Digest;
    use rollcall_rollout::{Actor, Event, HistoryRecord, Stamp};

    use super::*;

    fn sealed(value: &impl Encode) -> String {
        bincode::seal(Kind::HISTORY, value).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn record(revision: u64, reason: String) -> HistoryRecord {
        HistoryRecord {
            revision: Revision(revision),
            stamp: Stamp::default(),
            actor: Actor("ann".into()),
            reason: Some(reason),
            events: vec![Event::ChannelCreated { channel: "stable".parse().unwrap() }],
        }
    }

    fn chained(records: impl Iterator<Item = HistoryRecord>) -> Vec<ChainedRecord> {
        let mut head = ChainHead::default();
        let link = |record| {
            let record = ChainedRecord::new(head, record);
            head = record.head();
            record
        };
        records.map(link).collect()
    }

    /// The bytes of format version 1, for ever.
    #[test]
    fn golden_bytes_of_version_1() {
        let before = ChainHead { revision: Revision(298), hash: Digest([0xab; 32]) };
        let record = ChainedRecord::new(before, record(299, "why".into()));
        let meta = MetaV1 { floor: Revision(1), applied: Revision(300), last: record.head() };
        assert_eq!(
            sealed(&meta),
            "c504010027000000830da9a901fb2c01fb2b012680d2787fc857837f64b77a6de539f429f771d8744ce37ce48e2f3dc61ec072"
        );
        assert_eq!(
            sealed(&record),
            "c50401005a000000d431a024fb2a01ababababababababababababababababababababababababababababababababfb2b01000003616e6e0103776879010506737461626c652680d2787fc857837f64b77a6de539f429f771d8744ce37ce48e2f3dc61ec072"
        );
    }

    #[test]
    fn revisions_that_a_recovery_left_out_cost_no_retention() {
        let folder = tempfile::tempdir().unwrap();
        let mut book = Book::create(folder.path(), 1_000, Revision(0), ChainHead::default()).unwrap();
        let recovered = HistoryRecord {
            events: vec![Event::ClusterRecovered {
                cluster_id: rollcall_ident::ClusterId([1; 16]),
                former_cluster_id: None,
                former_revision: Revision(900),
                peer: rollcall_ident::PeerId(1),
            }],
            ..record(1_000_000, String::new())
        };
        let before = (1..=900).map(|n| record(n, String::new()));
        let after = (1..=600).map(|n| record(1_000_000 + n, String::new()));
        let records = chained(before.chain([recovered]).chain(after));
        for (at, part) in records.chunks(100).enumerate() {
            if at == 10 {
                // It knows after a restart too.
                book.flush().unwrap();
                drop(book);
                book = Book::open(folder.path(), 1_000).unwrap();
            }
            book.append(part, part.last().unwrap().record.revision).unwrap();
        }
        let floor = book.bounds().floor;
        assert!((245..=501).contains(&floor.0), "of 900 before and 601 after it keeps the last thousand: {floor}");
        let page = book.read(Revision(floor.0 + 1), 10).unwrap();
        assert_eq!(page.records[0].record.revision, Revision(floor.0 + 1));
    }

    #[test]
    fn a_record_larger_than_a_value_is_split_and_read_whole() {
        let folder = tempfile::tempdir().unwrap();
        let mut book = Book::create(folder.path(), 100, Revision(0), ChainHead::default()).unwrap();
        let records = chained((1..80).map(|n| record(n, "x".repeat(n as usize * 7_919 % 200_000))));
        for record in &records {
            book.append(std::slice::from_ref(record), record.record.revision).unwrap();
        }
        book.flush().unwrap();
        // Whatever a page's size is, all of them come.
        let (mut found, mut next) = (Vec::new(), Revision(1));
        while next < Revision(80) {
            let page = book.read(next, 2).unwrap();
            found.extend(page.records);
            next = page.next;
        }
        assert_eq!(found, records);
        assert!(fs::read_dir(folder.path().join("blobs")).unwrap().next().is_none(), "sled wrote a blob");
    }
}
