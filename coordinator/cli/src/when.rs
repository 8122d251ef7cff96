//! Moments that an operator names: `2026-12-01T02:00:00Z`, or `2h` for two hours from now.
//!
//! A duration is reckoned from this machine's clock, once per command, so that all tries of a call name the same moment.
//! Whether the moment is still to come the leader judges again, by its own clock.

use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use rollcall_ident::Millis;

const EXPECTED: &str = "expected a moment to come, like 2026-12-01T02:00:00Z or 2026-12-01T02:00:00+01:00, \
                        or a duration from now, like 90m or 2h";

/// A moment to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct When(Timestamp);

impl When {
    /// As requests carry it.
    pub fn into_wire(self) -> prost_types::Timestamp {
        prost_types::Timestamp { seconds: self.0.as_second(), nanos: self.0.subsec_nanosecond() }
    }

    /// `2026-12-01 02:00 UTC`.
    pub fn in_words(self) -> String {
        format!("{} UTC", self.0.strftime("%F %H:%M"))
    }
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text, Timestamp::now()).map(Self)
    }
}

/// What `text` means at `now`.
fn parse(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    if let Ok(Millis(ms)) = text.parse() {
        if ms == 0 {
            return Err(format!("{text:?} is now; {EXPECTED}"));
        }
        return now.checked_add(Duration::from_millis(ms)).map_err(|_| format!("{text:?} is too far away; {EXPECTED}"));
    }
    let at: Timestamp = text.parse().map_err(|_| {
        if text.contains(':') && text.parse::<jiff::civil::DateTime>().is_ok() {
            format!("{text:?} doesn't say in which offset: append Z for UTC, or one like +01:00")
        } else {
            format!("{text:?} is no moment; {EXPECTED}")
        }
    })?;
    if at <= now { Err(format!("{text:?} is over: it is {now:.0} now; {EXPECTED}")) } else { Ok(at) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_noon(text: &str) -> Result<String, String> {
        parse(text, "2026-11-30T12:00:00Z".parse().unwrap()).map(|at| at.to_string())
    }

    #[test]
    fn moments_are_rfc_3339_or_durations_from_now() {
        for (text, expected) in [
            ("2026-12-01T02:00:00Z", "2026-12-01T02:00:00Z"),
            ("2026-12-01T02:00:00+01:00", "2026-12-01T01:00:00Z"),
            ("2026-11-30T09:30:00-05:00", "2026-11-30T14:30:00Z"),
            ("2h", "2026-11-30T14:00:00Z"),
            ("90m", "2026-11-30T13:30:00Z"),
            ("1d12h", "2026-12-02T00:00:00Z"),
        ] {
            assert_eq!(at_noon(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_over_is_refused_with_both_moments() {
        for text in ["2026-11-30T12:00:00Z", "2026-11-30T12:30:00+01:00", "1999-12-31T23:59:59Z"] {
            let error = at_noon(text).unwrap_err();
            assert!(error.contains(text) && error.contains("it is 2026-11-30T12:00:00Z now"), "{error}");
        }
        assert!(at_noon("0s").unwrap_err().starts_with("\"0s\" is now"));
    }

    #[test]
    fn errors_say_what_is_accepted() {
        for text in ["", "tomorrow", "2", "-2h", "2h ago", "2026-13-01T02:00:00Z", "2026-12-01T25:00:00Z"] {
            let error = at_noon(text).unwrap_err();
            assert!(error.contains("2026-12-01T02:00:00Z") && error.contains("like 90m"), "{text}: {error}");
        }
        let error = at_noon("2026-12-01T02:00:00").unwrap_err();
        assert!(error.contains("append Z"), "{error}");
        assert!(at_noon("999999999999d").is_err());
    }
}
