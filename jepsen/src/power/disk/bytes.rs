//! The content of one file: as written, and as synced.

use std::ops::Range;

/// What a disk writes as a whole.
const SECTOR: usize = 512;

/// What a file holds, and what it would hold after a power cut.
#[derive(Debug, Clone, Default)]
pub struct Bytes {
    now: Vec<u8>,
    kept: Vec<u8>,
    /// Where both may differ; sorted, without overlaps. It may reach beyond the end of a file that was shortened.
    unsynced: Vec<Range<usize>>,
}

impl Bytes {
    /// Its length now.
    pub fn len(&self) -> usize {
        self.now.len()
    }

    /// Whether there is nothing in it now.
    pub fn is_empty(&self) -> bool {
        self.now.is_empty()
    }

    /// Up to `length` bytes from `offset` on; fewer at the end.
    pub fn read(&self, offset: usize, length: usize) -> &[u8] {
        let end = offset.saturating_add(length).min(self.now.len());
        self.now.get(offset..end).unwrap_or_default()
    }

    /// Writes; a gap before `offset` reads as zeros.
    pub fn write(&mut self, offset: usize, data: &[u8]) {
        let end = offset + data.len();
        if end > self.now.len() {
            self.resize(end);
        }
        self.now[offset..end].copy_from_slice(data);
        self.mark(offset..end);
    }

    /// Shortens, or adds zeros.
    pub fn resize(&mut self, length: usize) {
        let before = self.now.len();
        self.now.resize(length, 0);
        self.mark(before.min(length)..before.max(length));
    }

    /// Makes what is there now survive.
    pub fn keep(&mut self) {
        self.kept.resize(self.now.len(), 0);
        for range in std::mem::take(&mut self.unsynced) {
            let (start, end) = (range.start.min(self.now.len()), range.end.min(self.now.len()));
            self.kept[start..end].copy_from_slice(&self.now[start..end]);
        }
    }

    /// A sync that failed: what waits for it is taken for kept, and isn't. From here on it is in nobody's memory but the
    /// kernel's, which may drop it at any time and then reads what the disk has.
    pub fn give_up(&mut self) {
        for range in std::mem::take(&mut self.unsynced) {
            for at in range.start..range.end.min(self.now.len()) {
                self.now[at] = self.kept.get(at).copied().unwrap_or(0);
            }
        }
    }

    /// Some of what waits for a sync gets to the disk by itself: those sectors of which `is_written` says so. So a write may
    /// be torn by the next power cut. How many bytes got there.
    pub fn write_back(&mut self, mut is_written: impl FnMut() -> bool) -> usize {
        let mut written = 0;
        for range in &self.unsynced {
            let end = range.end.min(self.now.len());
            let mut at = range.start;
            while at < end {
                let next = ((at / SECTOR + 1) * SECTOR).min(end);
                if is_written() {
                    self.kept.resize(self.kept.len().max(next), 0);
                    self.kept[at..next].copy_from_slice(&self.now[at..next]);
                    written += next - at;
                }
                at = next;
            }
        }
        written
    }

    /// Forgets what was not kept; how many bytes that were.
    pub fn forget(&mut self) -> usize {
        let lost = std::mem::take(&mut self.unsynced).iter().map(ExactSizeIterator::len).sum();
        self.now.clone_from(&self.kept);
        lost
    }

    /// Whether there is nothing to lose.
    pub fn is_synced(&self) -> bool {
        self.unsynced.is_empty()
    }

    fn mark(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        // Most writes go on where the one before ended.
        let first = self.unsynced.partition_point(|other| other.end < range.start);
        let behind = self.unsynced.partition_point(|other| other.start <= range.end);
        let touched = &self.unsynced[first..behind];
        let start = touched.first().map_or(range.start, |other| other.start.min(range.start));
        let end = touched.last().map_or(range.end, |other| other.end.max(range.end));
        self.unsynced.splice(first..behind, std::iter::once(start..end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    #[test]
    fn what_was_not_synced_is_lost_and_the_rest_is_not() {
        let mut bytes = Bytes::default();
        bytes.write(0, b"synced");
        bytes.keep();
        bytes.write(0, b"S");
        bytes.write(6, b" not");
        assert_eq!(bytes.read(0, 100), b"Synced not");
        assert_eq!(bytes.forget(), 5);
        assert_eq!(bytes.read(0, 100), b"synced");
        assert!(bytes.is_synced());
    }

    #[test]
    fn what_a_failed_sync_gave_up_no_later_sync_keeps() {
        let mut bytes = Bytes::default();
        bytes.write(0, b"one");
        bytes.keep();
        bytes.write(0, b"two");
        bytes.write(3, b" more");
        bytes.give_up();
        assert_eq!(bytes.read(0, 9), b"one\0\0\0\0\0", "once the kernel has dropped its copy");
        bytes.write(3, b"!");
        bytes.keep();
        bytes.forget();
        assert_eq!(bytes.read(0, 9), b"one!\0\0\0\0");
    }

    #[test]
    fn a_write_that_was_written_back_in_part_is_torn() {
        let mut bytes = Bytes::default();
        bytes.write(0, &[1; 300]);
        bytes.keep();
        bytes.write(100, &[2; 1_300]);
        // The first sector, not the second, and the third.
        let mut sectors = [true, false, true].into_iter();
        assert_eq!(bytes.write_back(|| sectors.next().unwrap()), 412 + 376);
        assert_eq!(bytes.read(0, 2_000).len(), 1_400, "programs see all of it");
        bytes.forget();
        let expected = [vec![1; 100], vec![2; 412], vec![0; 512], vec![2; 376]].concat();
        assert_eq!(bytes.read(0, 2_000), expected);
    }

    #[test]
    fn a_gap_reads_as_zeros_also_where_something_stood_before() {
        let mut bytes = Bytes::default();
        bytes.write(0, b"abcd");
        bytes.keep();
        bytes.resize(1);
        bytes.resize(4);
        bytes.keep();
        bytes.forget();
        assert_eq!(bytes.read(0, 4), b"a\0\0\0");
        bytes.write(6, b"x");
        assert_eq!(bytes.read(4, 9), b"\0\0x");
        assert_eq!(bytes.read(7, 9), b"");
    }

    /// Against a model without ranges: two plain copies.
    #[test]
    fn any_sequence_keeps_what_a_whole_copy_would() {
        let mut random = StdRng::seed_from_u64(7);
        for _ in 0..500 {
            let (mut bytes, mut now, mut kept) = (Bytes::default(), Vec::new(), Vec::new());
            for _ in 0..40 {
                match random.random_range(0..6) {
                    0..=2 => {
                        let (at, data) =
                            (random.random_range(0..50), vec![random.random(); random.random_range(0..20)]);
                        bytes.write(at, &data);
                        now.resize(now.len().max(at + data.len()), 0);
                        now[at..at + data.len()].copy_from_slice(&data);
                    }
                    3 => {
                        let length = random.random_range(0..60);
                        bytes.resize(length);
                        now.resize(length, 0);
                    }
                    4 => {
                        bytes.keep();
                        kept.clone_from(&now);
                    }
                    _ => {
                        bytes.forget();
                        now.clone_from(&kept);
                    }
                }
                assert_eq!(bytes.read(0, 1_000), now);
            }
        }
    }
}
