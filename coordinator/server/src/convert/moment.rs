//! Moments.

use prost_types::Timestamp;
use rollcall_ident::WallTime;
use rollcall_proto::v1;
use rollcall_rollout::Stamp;

use super::FieldError;

/// A moment by both clocks.
pub fn moment(stamp: Stamp) -> v1::Moment {
    v1::Moment { cluster_time_ms: stamp.cluster_time.0, wall_time: Some(timestamp(stamp.wall_time)) }
}

/// A moment by the wall clock.
pub fn timestamp(WallTime(ms): WallTime) -> Timestamp {
    Timestamp {
        seconds: i64::try_from(ms / 1000).unwrap_or(i64::MAX),
        // Below 1,000 million by the remainder.
        nanos: i32::try_from(ms % 1000 * 1_000_000).unwrap_or_default(),
    }
}

/// A moment that a request may name; what is finer than a millisecond is cut off.
///
/// # Errors
/// It lies before 1970, or its parts are out of their bounds.
pub fn wall_time(field: &str, at: Option<Timestamp>) -> Result<Option<WallTime>, FieldError> {
    let Some(Timestamp { seconds, nanos }) = at else { return Ok(None) };
    let whole = u64::try_from(seconds).ok().and_then(|seconds| seconds.checked_mul(1000));
    let part = u64::try_from(nanos).ok().filter(|nanos| *nanos < 1_000_000_000).map(|nanos| nanos / 1_000_000);
    match whole.zip(part) {
        Some((whole, part)) => Ok(Some(WallTime(whole.saturating_add(part)))),
        None => Err(FieldError::new(
            field,
            format!("{seconds} s and {nanos} ns is no moment: seconds since 1970, and nanoseconds below 1,000 million"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_comes_back_as_it_went_out() {
        let at = WallTime(1_780_000_000_123);
        assert_eq!(wall_time("until", Some(timestamp(at))), Ok(Some(at)));
        assert_eq!(wall_time("until", None), Ok(None));
    }

    #[test]
    fn what_is_no_moment_is_refused_by_name() {
        for (seconds, nanos) in [(-1, 0), (1, -1), (1, 1_000_000_000), (i64::MAX, 0)] {
            let error = wall_time("until", Some(Timestamp { seconds, nanos })).unwrap_err();
            assert_eq!(error.field, "until", "{seconds} {nanos}");
        }
    }
}
