//! One figure, what it is held against, and whether it is good enough.

use serde::Serialize;

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// `P1.unary.64`
    pub id: String,
    /// For people.
    pub what: String,
    /// In `unit`.
    pub value: f64,
    /// Of `value` and `beside`.
    pub unit: &'static str,
    /// The same of what it is compared with, from the same run.
    pub beside: Option<f64>,
    /// `value` by `beside`.
    pub ratio: Option<f64>,
    /// What was promised; empty: nothing.
    pub goal: String,
    /// Whether it was kept.
    pub met: Option<bool>,
    /// What has to be known to read it.
    pub note: String,
}

impl Row {
    /// Something that is only told, until it gets a goal.
    pub fn new(id: impl Into<String>, what: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            id: id.into(),
            what: what.into(),
            value,
            unit,
            beside: None,
            ratio: None,
            goal: String::new(),
            met: None,
            note: String::new(),
        }
    }

    /// Compared with something of the same run.
    pub fn beside(mut self, other: f64) -> Self {
        self.beside = Some(other);
        self.ratio = (other > 0.0).then(|| self.value / other);
        self
    }

    /// Promised to be at most that.
    pub fn at_most(mut self, goal: f64) -> Self {
        self.goal = format!("≤ {} {}", number(goal), self.unit);
        self.met = Some(self.value <= goal);
        self
    }

    /// Promised to be at least that.
    pub fn at_least(mut self, goal: f64) -> Self {
        self.goal = format!("≥ {} {}", number(goal), self.unit);
        self.met = Some(self.value >= goal);
        self
    }

    /// Promised to be at most so many times what it is compared with. Without a comparison it isn't kept.
    pub fn at_most_times(mut self, goal: f64) -> Self {
        self.goal = format!("≤ {} ×", number(goal));
        self.met = Some(self.ratio.is_some_and(|ratio| ratio <= goal));
        self
    }

    /// Promised to be at least so many times what it is compared with. Without a comparison it isn't kept.
    pub fn at_least_times(mut self, goal: f64) -> Self {
        self.goal = format!("≥ {} ×", number(goal));
        self.met = Some(self.ratio.is_some_and(|ratio| ratio >= goal));
        self
    }

    /// What has to be known to read it.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Whether it kept its promise; what promises nothing does.
    pub fn is_kept(&self) -> bool {
        self.met.unwrap_or(true)
    }
}

/// With as many digits as say something.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => trimmed(&format!("{value:.1}")),
        _ => trimmed(&format!("{value:.2}")),
    }
}

fn trimmed(text: &str) -> String {
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: f64) -> Row {
        Row::new("P0", "something", value, "/s")
    }

    #[test]
    fn a_goal_is_kept_or_missed() {
        assert_eq!(row(2.0).at_most(2.0).met, Some(true));
        assert_eq!(row(2.1).at_most(2.0).met, Some(false));
        assert_eq!(row(1.9).at_least(2.0).met, Some(false));
        assert_eq!(row(30.0).beside(10.0).at_least_times(3.0).met, Some(true));
        assert_eq!(row(29.0).beside(10.0).at_least_times(3.0).met, Some(false));
        assert_eq!(row(6.0).beside(10.0).at_most_times(0.5).met, Some(false));
        assert!(row(6.0).beside(10.0).is_kept(), "nothing was promised");
    }

    #[test]
    fn a_ratio_to_nothing_keeps_no_promise() {
        assert_eq!(row(1.0).beside(0.0).at_least_times(1.0).met, Some(false));
        assert_eq!(row(1.0).at_most_times(1.0).met, Some(false));
    }

    #[test]
    fn numbers_have_as_many_digits_as_say_something() {
        assert_eq!([1234.5, 50.0, 12.34, 0.5, 0.0].map(number), ["1234", "50", "12.3", "0.5", "0"]);
    }
}
