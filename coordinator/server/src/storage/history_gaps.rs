//! Which revisions there never were: a recovered cluster goes on far above the last one that it knows of, and what is kept
//! is reckoned in revisions.

use bincode::{Decode, Encode};
use rollcall_ident::Revision;

/// The gaps that recoveries left, the oldest first. BOUND: each is a recovery by hand.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub(super) struct GapsV1(Vec<(Revision, Revision)>);

impl GapsV1 {
    /// There is nothing between the two.
    pub fn note(&mut self, last_before: Revision, first_behind: Revision) {
        if self.0.last().is_none_or(|(_, behind)| *behind < first_behind) {
            self.0.push((last_before, first_behind));
        }
    }

    /// The revision that is `count` before `at`, of those that there were.
    pub fn before(&self, at: Revision, count: u64) -> Revision {
        let (mut at, mut left) = (at, count);
        for (last_before, first_behind) in self.0.iter().rev() {
            if *first_behind > at {
                continue;
            }
            let behind = at.0 - first_behind.0 + 1;
            if behind > left {
                break;
            }
            left -= behind;
            at = *last_before;
        }
        Revision(at.0.saturating_sub(left))
    }
}

#[cfg(test)]
mod tests {
    use bincode::Kind;

    use super::*;

    #[test]
    fn gaps_are_stepped_over() {
        let mut gaps = GapsV1::default();
        assert_eq!(gaps.before(Revision(50), 20), Revision(30));
        assert_eq!(gaps.before(Revision(50), 70), Revision(0));
        gaps.note(Revision(50), Revision(1_000));
        assert_eq!(gaps.before(Revision(1_004), 3), Revision(1_001));
        // 1004 to 1000 are five, and behind them comes 50.
        assert_eq!(gaps.before(Revision(1_004), 5), Revision(50));
        assert_eq!(gaps.before(Revision(1_004), 25), Revision(30));
        gaps.note(Revision(1_009), Revision(2_000));
        gaps.note(Revision(1_009), Revision(2_000));
        assert_eq!(gaps.before(Revision(2_000), 11), Revision(50));
        assert_eq!(gaps.before(Revision(2_000), 1_000), Revision(0));
    }

    /// The bytes of format version 1, for ever.
    #[test]
    fn golden_bytes_of_version_1() {
        let mut gaps = GapsV1::default();
        gaps.note(Revision(50), Revision(1_000));
        let sealed = bincode::seal(Kind::HISTORY, &gaps);
        assert_eq!(&sealed[12..], [1, 50, 251, 232, 3]);
    }
}
