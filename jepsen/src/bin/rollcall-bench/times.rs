//! Durations that were measured, and what is said of them.

use std::time::Duration;

/// Sorted durations.
#[derive(Debug, Clone, Default)]
pub struct Times(Vec<Duration>);

impl Times {
    /// Sorts them.
    pub fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The smallest that at least so many percent are not above; of none, zero.
    pub fn percentile(&self, percent: f64) -> Duration {
        let count = self.0.len();
        let above = (count as f64 * (100.0 - percent) / 100.0).floor() as usize;
        self.0.get(count.saturating_sub(above + 1)).copied().unwrap_or_default()
    }

    /// The same in milliseconds.
    pub fn percentile_ms(&self, percent: f64) -> f64 {
        ms(self.percentile(percent))
    }

    /// The shares of all that are not above each: a distribution to draw. At most 200 points.
    pub fn distribution(&self) -> Vec<(f64, f64)> {
        let count = self.0.len();
        let step = count.div_ceil(200).max(1);
        let point = |rank: usize| (ms(self.0[rank]), (rank + 1) as f64 / count as f64 * 100.0);
        (0..count).step_by(step).chain(count.checked_sub(1)).map(point).collect()
    }
}

/// In milliseconds.
pub fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

/// The middle one of them; of an even number, the lower. Of none, zero.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_what_was_measured() {
        let times = Times::new((1..=200).rev().map(Duration::from_millis).collect());
        assert_eq!([50.0, 99.0, 100.0].map(|percent| times.percentile(percent).as_millis()), [100, 198, 200]);
        let ten = Times::new((1..=10).map(Duration::from_millis).collect());
        assert_eq!(ten.percentile(99.0), Duration::from_millis(10), "of ten, the worst");
        assert_eq!(Times::default().percentile(50.0), Duration::ZERO);
    }

    #[test]
    fn a_distribution_ends_with_all_of_them() {
        let times = Times::new((1..=1_000).map(Duration::from_millis).collect());
        let drawn = times.distribution();
        assert!(drawn.len() <= 201);
        assert_eq!(drawn.last(), Some(&(1_000.0, 100.0)));
    }

    #[test]
    fn the_median_is_one_of_them() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0]), 1.0);
        assert_eq!(median(Vec::new()), 0.0);
    }
}
