//! What was measured, its goal, and the table of both.

use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};

/// One number, or a spread of them.
#[derive(Debug)]
pub struct Measure {
    pub name: &'static str,
    pub value: String,
    /// What was promised, if anything was, and whether it was kept.
    pub goal: Option<(&'static str, bool)>,
}

impl Measure {
    /// Something that is only told.
    pub fn told(name: &'static str, value: impl Into<String>) -> Self {
        Self { name, value: value.into(), goal: None }
    }

    /// Something that was promised.
    pub fn promised(name: &'static str, value: impl Into<String>, goal: &'static str, is_met: bool) -> Self {
        Self { name, value: value.into(), goal: Some((goal, is_met)) }
    }

    /// Whether it kept its promise; what promises nothing does.
    pub fn is_met(&self) -> bool {
        self.goal.is_none_or(|(_, is_met)| is_met)
    }
}

/// All of them.
pub fn table(measures: &[Measure]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.force_no_tty().set_width(110).set_header(["measured", "value", "goal", ""]);
    for measure in measures {
        let (goal, mark) = match measure.goal {
            Some((goal, is_met)) => (goal, if is_met { "met" } else { "MISSED" }),
            None => ("", ""),
        };
        table.add_row([measure.name, &measure.value, goal, mark]);
    }
    table.to_string()
}

/// The smallest of `times` that at least so many percent are not above. They are sorted, and not none.
pub fn percentile(times: &[Duration], percent: usize) -> Duration {
    let rank = (times.len() * percent).div_ceil(100).max(1);
    times[rank - 1]
}

/// Median, 99th percentile and the worst, of sorted times.
pub fn spread(times: &[Duration]) -> String {
    let [p50, p99, max] = [50, 99, 100].map(|percent| percentile(times, percent).as_millis());
    format!("p50 {p50} ms, p99 {p99} ms, max {max} ms, of {}", times.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_what_was_measured() {
        let times: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!([50, 99, 100].map(|percent| percentile(&times, percent).as_millis()), [100, 198, 200]);
        assert_eq!(percentile(&times[..1], 50), Duration::from_millis(1));
        assert_eq!(percentile(&times[..10], 99), Duration::from_millis(10), "of ten, the worst");
    }
}
