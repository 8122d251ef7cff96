//! Moments.

use rollcall_proto::v1;
use rollcall_rollout::Stamp;

/// A moment by both clocks.
pub fn moment(stamp: Stamp) -> v1::Moment {
    let wall_ms = stamp.wall_time.0;
    let wall_time = prost_types::Timestamp {
        seconds: i64::try_from(wall_ms / 1000).unwrap_or(i64::MAX),
        // Below 1,000 million by the remainder.
        nanos: i32::try_from(wall_ms % 1000 * 1_000_000).unwrap_or_default(),
    };
    v1::Moment { cluster_time_ms: stamp.cluster_time.0, wall_time: Some(wall_time) }
}
