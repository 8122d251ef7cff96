//! Makes the schedule of a failing seed smaller: takes events out for as long as the run still breaks the same rule.

use std::collections::BTreeSet;

/// BOUND: runs that are spent on it.
const RUNS: usize = 60;

/// The numbers of the events that aren't needed. `fails` says whether the run without these still breaks the rule.
///
/// # Errors
/// What `fails` says.
pub fn shrink(
    all: usize,
    mut fails: impl FnMut(&BTreeSet<usize>) -> anyhow::Result<bool>,
) -> anyhow::Result<BTreeSet<usize>> {
    let mut needless = BTreeSet::new();
    let mut runs = 0;
    let mut size = all.div_ceil(2).max(1);
    loop {
        let left: Vec<usize> = (0..all).filter(|number| !needless.contains(number)).collect();
        let mut is_smaller = false;
        for part in left.chunks(size) {
            if runs >= RUNS {
                return Ok(needless);
            }
            let mut without = needless.clone();
            without.extend(part.iter().copied());
            runs += 1;
            if fails(&without)? {
                needless = without;
                is_smaller = true;
            }
        }
        match (size, is_smaller) {
            (1, false) => return Ok(needless),
            (1, true) => {}
            _ => size = size.div_ceil(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_is_left() {
        let needed = BTreeSet::from([3, 17]);
        let needless = shrink(40, |without| Ok(needed.is_disjoint(without))).unwrap();
        let left: Vec<usize> = (0..40).filter(|number| !needless.contains(number)).collect();
        assert_eq!(left, [3, 17]);
    }

    #[test]
    fn it_ends_where_everything_is_needed_and_where_nothing_is() {
        assert!(shrink(9, |_| Ok(false)).unwrap().is_empty());
        assert_eq!(shrink(9, |_| Ok(true)).unwrap().len(), 9);
        assert!(shrink(0, |_| Ok(true)).unwrap().is_empty());
    }
}
