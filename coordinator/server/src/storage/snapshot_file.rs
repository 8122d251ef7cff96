//! One snapshot in one file, and how it is read and written.
//!
//! The file is a row of envelopes: a head, the state, the retained history in pages, an end that says how many there
//! were. So neither side ever holds the history as a whole in memory, and a file that misses its tail is seen as such.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bincode::{CodecError, Decode, Encode, HEADER_BYTES, Kind};
use bytes::Bytes;
use rollcall_ident::Revision;
use rollcall_rollout::{ChainHead, ChainedRecord, State, check_level};

use super::disk::{LogIdV1, StoredMembershipV1};
use super::error::{IoContext as _, StorageError};
use super::types::{LogId, SnapshotMeta};
use crate::world::off_the_runtime;

/// What a snapshot covers, in front of it.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub(super) struct HeadV1 {
    /// The last entry that is in the state.
    pub last_log_id: Option<LogIdV1>,
    /// The membership at that entry.
    pub membership: StoredMembershipV1,
}

/// One envelope of the file.
#[derive(Debug, Encode, Decode)]
#[expect(clippy::large_enum_variant, reason = "one at a time is on the stack")]
enum SectionV1 {
    Head(HeadV1),
    State(State),
    History(Vec<ChainedRecord>),
    /// What is retained of the history is trimmed while it is read, so only the end knows after which revision the
    /// pages are complete.
    End {
        pages: u32,
        history_floor: Revision,
        /// The audit chain before the first record behind the floor.
        anchor: ChainHead,
    },
}

/// A snapshot on this peer's disk: to be streamed to others, or to be installed.
///
/// It keeps its file open, so it can be read to its end even if newer snapshots push it out meanwhile.
#[derive(Debug, Clone)]
pub struct SnapshotFile {
    file: Arc<File>,
    path: PathBuf,
    bytes: u64,
    /// Removes a received file that nobody installed.
    _unfinished: Option<Arc<RemoveOnDrop>>,
}

#[derive(Debug)]
struct RemoveOnDrop(PathBuf);

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        // Once installed it has another name; what can't be removed now is removed at the next start.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl SnapshotFile {
    pub(super) fn open(path: &Path) -> Result<Self, StorageError> {
        let file = File::open(path).at("open", path)?;
        let bytes = file.metadata().at("read", path)?.len();
        Ok(Self { file: Arc::new(file), path: path.to_owned(), bytes, _unfinished: None })
    }

    /// A file that is removed unless it gets another name.
    pub(super) fn open_unfinished(path: &Path) -> Result<Self, StorageError> {
        Ok(Self { _unfinished: Some(Arc::new(RemoveOnDrop(path.to_owned()))), ..Self::open(path)? })
    }

    /// The same file, with the size that it has now.
    pub(super) fn reopened(&self) -> Result<Self, StorageError> {
        Ok(Self { _unfinished: self._unfinished.clone(), ..Self::open(&self.path)? })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How large it is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Up to `max` bytes from `offset`, empty at the end. Doesn't block the runtime.
    ///
    /// # Errors
    /// What the system says.
    pub async fn read_chunk(&self, offset: u64, max: usize) -> io::Result<Bytes> {
        let file = self.file.clone();
        let size = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(max).min(max);
        off_the_runtime(move || {
            let mut chunk = vec![0; size];
            file.read_exact_at(&mut chunk, offset)?;
            Ok(Bytes::from(chunk))
        })
        .await
        .map_err(io::Error::other)?
    }

    /// Reads and checks all of it; the history goes to `page`, page by page.
    pub(super) fn load(
        &self,
        mut page: impl FnMut(Vec<ChainedRecord>) -> Result<(), StorageError>,
    ) -> Result<Loaded, StorageError> {
        let mut sections = Sections { from: BufReader::new(At { file: &self.file, offset: 0 }), left: self.bytes };
        let damaged = |what: &str| StorageError::damaged(&self.path, what);
        let mut next = || sections.next(&self.path);
        let SectionV1::Head(head) = next()? else { return Err(damaged("it doesn't begin with a head")) };
        let SectionV1::State(state) = next()? else { return Err(damaged("no state follows its head")) };
        check_level(state.feature_level())?;
        let mut found = 0;
        let (pages, history_floor, anchor) = loop {
            match next()? {
                SectionV1::History(records) => page(records)?,
                SectionV1::End { pages, history_floor, anchor } => break (pages, history_floor, anchor),
                SectionV1::Head(_) | SectionV1::State(_) => return Err(damaged("a second head or state")),
            }
            found += 1;
        };
        if pages != found {
            return Err(damaged("pages of its history are missing"));
        }
        if sections.left != 0 {
            return Err(damaged("something is behind its end"));
        }
        Ok(Loaded { head, state, history_floor, anchor })
    }
}

/// The contents of a snapshot but for its history.
#[derive(Debug)]
pub(super) struct Loaded {
    pub head: HeadV1,
    pub state: State,
    /// The history holds every event after this revision.
    pub history_floor: Revision,
    /// The audit chain before the first of those.
    pub anchor: ChainHead,
}

impl Loaded {
    pub(super) fn meta(&self, path: &Path) -> Result<SnapshotMeta, StorageError> {
        let last_membership =
            self.head.membership.clone().try_into().map_err(|what: String| StorageError::damaged(path, what))?;
        Ok(SnapshotMeta { last_log_id: self.head.last_log_id.map(LogId::from), last_membership })
    }
}

/// Reads a shared file without moving its position.
struct At<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

struct Sections<R> {
    from: R,
    left: u64,
}

impl<R: Read> Sections<R> {
    fn next(&mut self, path: &Path) -> Result<SectionV1, StorageError> {
        let mut envelope = vec![0; HEADER_BYTES];
        if self.left < HEADER_BYTES as u64 {
            return Err(StorageError::damaged(path, "it ends before its end section"));
        }
        self.from.read_exact(&mut envelope).at("read", path)?;
        // An envelope without its body says how long it should be, once its other fields were found to be good.
        let need = match bincode::decode_envelope(Kind::SNAPSHOT, &envelope) {
            Ok(_) => HEADER_BYTES,
            Err(CodecError::Truncated { need, .. }) => need,
            Err(error) => return Err(StorageError::codec(path, error)),
        };
        // BOUND: a damaged length asks for no more memory than the file has bytes.
        if need as u64 > self.left {
            return Err(StorageError::damaged(path, "a section is longer than what is left of the file"));
        }
        envelope.resize(need, 0);
        self.from.read_exact(&mut envelope[HEADER_BYTES..]).at("read", path)?;
        self.left -= need as u64;
        bincode::open(Kind::SNAPSHOT, &envelope).map_err(|error| StorageError::codec(path, error))
    }
}

/// BOUND: what is written of a snapshot and not synced. The log is on the same disk, and a sync of it waits for whatever the
/// file system has to write before: all of the snapshot, if that were synced at its end alone.
const SYNC_EVERY: usize = 1 << 20;

/// Writes a snapshot's file, and syncs it as it grows.
#[derive(Debug)]
pub(super) struct SyncedFile {
    file: File,
    unsynced: usize,
}

impl SyncedFile {
    pub(super) fn create(path: &Path) -> Result<Self, StorageError> {
        Ok(Self { file: File::create(path).at("create", path)?, unsynced: 0 })
    }

    pub(super) fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

impl Write for SyncedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(&bytes[..bytes.len().min(SYNC_EVERY)])?;
        self.unsynced += written;
        if self.unsynced >= SYNC_EVERY {
            self.file.sync_data()?;
            self.unsynced = 0;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes a snapshot under a temporary name.
pub(super) struct SnapshotWriter {
    to: BufWriter<SyncedFile>,
    path: PathBuf,
    pages: u32,
}

impl SnapshotWriter {
    pub(super) fn create(path: &Path, head: HeadV1, state: State) -> Result<Self, StorageError> {
        let to = BufWriter::new(SyncedFile::create(path)?);
        let mut writer = Self { to, path: path.to_owned(), pages: 0 };
        writer.section(&SectionV1::Head(head))?;
        writer.section(&SectionV1::State(state))?;
        Ok(writer)
    }

    pub(super) fn page(&mut self, records: Vec<ChainedRecord>) -> Result<(), StorageError> {
        self.pages += 1;
        self.section(&SectionV1::History(records))
    }

    /// Ends the file, whose history is complete after `history_floor` and continues the audit chain from `anchor`, and
    /// syncs it.
    pub(super) fn finish(mut self, history_floor: Revision, anchor: ChainHead) -> Result<(), StorageError> {
        self.section(&SectionV1::End { pages: self.pages, history_floor, anchor })?;
        let Self { to, path, .. } = self;
        let file = to.into_inner().map_err(io::IntoInnerError::into_error).at("write", &path)?;
        file.sync_all().at("sync", &path)
    }

    fn section(&mut self, section: &SectionV1) -> Result<(), StorageError> {
        self.to.write_all(&bincode::seal(Kind::SNAPSHOT, section)).at("write", &self.path)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use rollcall_ident::Digest;

    use super::super::disk::MembershipV1;
    use super::super::types::PeerNode;
    use super::*;

    fn sealed(section: &SectionV1) -> String {
        bincode::seal(Kind::SNAPSHOT, section).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The bytes of format version 1, for ever. The state's own are pinned in its crate.
    #[test]
    fn golden_bytes_of_version_1() {
        let nodes = BTreeMap::from([(1, PeerNode { grpc_addr: "a:1".into() })]);
        let membership = StoredMembershipV1 {
            log_id: Some(LogIdV1 { term: 1, index: 0 }),
            membership: MembershipV1 { configs: vec![BTreeSet::from([1])], nodes },
        };
        let head = HeadV1 { last_log_id: Some(LogIdV1 { term: 3, index: 300 }), membership };
        assert_eq!(sealed(&SectionV1::Head(head)), "c5030100120000007b3b8026000103fb2c01010100010101010103613a31");
        assert_eq!(sealed(&SectionV1::History(Vec::new())), "c5030100020000007cebd06c0200");
        let anchor = ChainHead { revision: Revision(6), hash: Digest([0xab; 32]) };
        let end = SectionV1::End { pages: 2, history_floor: Revision(7), anchor };
        assert_eq!(
            sealed(&end),
            "c503010024000000926f37db03020706abababababababababababababababababababababababababababababababab"
        );
    }
}
