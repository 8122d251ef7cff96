//! The one kind of torn write that `raft-log` takes for damage.
//!
//! ext4 writes the blocks that an append adds before it commits the longer length of the file, but not the last block that
//! was there already and is only filled up. If another file's fsync commits the length first and the power goes, the file is
//! long, its new blocks are there, and in front of them the rest of the old block reads as zeros: from the end of what was
//! synced, which is where a record begins, to the end of that block. Seen once in some 300 power cuts of `logtool`.
//!
//! # Invariants
//! - Only that is cut off: zeros from the beginning of a record to the end of its block, in the newest file. Neither a
//!   record nor a flipped bit looks like this: a record's first eight bytes hold two that aren't zero.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use raft_log::RaftWalTypes;
use raft_log::chunked_wal::ChunkedWal;
use raft_log::codeq::OffsetSize as _;

use super::error::{IoContext as _, StorageError};
use super::wal::Wal;

/// ext4's, and what all others use on machines with pages of this size.
const BLOCK_BYTES: u64 = 4096;

/// With fewer zeros before the end of the block, a record with one flipped bit could look the same.
const LEAST_ZEROS: u64 = 8;

/// Where the log stops to make sense.
pub(super) struct BadRecord {
    /// The file.
    pub path: PathBuf,
    /// The byte behind its last good record.
    offset: u64,
    is_in_newest: bool,
}

/// Finds the first record that can't be read.
pub(super) fn find_bad_record(config: &raft_log::Config) -> Option<BadRecord> {
    let lock = ChunkedWal::<RaftWalTypes<Wal>>::acquire_lock(&config.wal).ok()?;
    let newest = ChunkedWal::<RaftWalTypes<Wal>>::load_chunk_ids(&config.wal, &lock).ok()?.pop()?;
    let (mut found, mut good_until) = (None, 0);
    // What can't be listed or opened is told by the error that made us look.
    let _ = ChunkedWal::<RaftWalTypes<Wal>>::dump_records(&config.wal, &lock, |chunk, number, record| {
        if number == 0 {
            good_until = 0;
        }
        match record {
            Ok((segment, _)) => good_until = segment.end().0,
            Err(_) if found.is_none() => {
                let path = PathBuf::from(config.wal.chunk_path(chunk));
                found = Some(BadRecord { path, offset: good_until, is_in_newest: chunk == newest });
            }
            Err(_) => {}
        }
        Ok(())
    });
    found
}

/// Cuts the file off before the bad record if that is a torn write; tells whether it did.
pub(super) fn cut_off_if_torn(bad: &BadRecord) -> Result<bool, StorageError> {
    if !bad.is_in_newest || !zeros_to_end_of_block(&bad.path, bad.offset)? {
        return Ok(false);
    }
    tracing::warn!(
        file = %bad.path.display(), offset = bad.offset,
        "the end of the Raft log was being written when the power went: it is cut off; nothing acknowledged was in it"
    );
    // CRASH: the length is old or new. Old, the next start comes here again.
    let file = OpenOptions::new().write(true).open(&bad.path).at("open", &bad.path)?;
    file.set_len(bad.offset).and_then(|()| file.sync_all()).at("cut off", &bad.path)?;
    Ok(true)
}

fn zeros_to_end_of_block(path: &Path, offset: u64) -> Result<bool, StorageError> {
    let file = OpenOptions::new().read(true).open(path).at("open", path)?;
    let zeros = BLOCK_BYTES - offset % BLOCK_BYTES;
    if zeros < LEAST_ZEROS || offset + zeros > file.metadata().at("read", path)?.len() {
        return Ok(false);
    }
    let mut rest = [0; BLOCK_BYTES as usize];
    let rest = &mut rest[..zeros as usize];
    file.read_exact_at(rest, offset).at("read", path)?;
    Ok(rest.iter().all(|byte| *byte == 0))
}
