//! Durations for people: the two largest units, since nobody cares for the seconds of a day.

use std::time::Duration;

const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];

/// `250ms`, `4s`, `1m32s`, `2h5m`, `3d`.
pub fn duration(duration: Duration) -> String {
    let secs = duration.as_secs();
    if secs == 0 {
        return if duration.is_zero() { "0s".to_owned() } else { format!("{}ms", duration.as_millis()) };
    }
    let largest = UNITS.iter().position(|(_, size)| secs >= *size).unwrap_or(UNITS.len() - 1);
    let mut rest = secs;
    let mut text = String::new();
    for (unit, size) in UNITS.iter().skip(largest).take(2) {
        if rest >= *size {
            text.push_str(&format!("{}{unit}", rest / size));
            rest %= size;
        }
    }
    text
}

/// The same for milliseconds of cluster time.
pub fn millis(ms: u64) -> String {
    duration(Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        for (ms, text) in [
            (0, "0s"),
            (250, "250ms"),
            (4_200, "4s"),
            (92_000, "1m32s"),
            (120_000, "2m"),
            (7_505_000, "2h5m"),
            (3_600_000, "1h"),
            (262_800_000, "3d1h"),
        ] {
            assert_eq!(millis(ms), text);
        }
    }
}
