//! What a gRPC status means for whoever called: an answer, or a reason to ask another peer.

use std::error::Error;
use std::fmt;

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::failure::Failure;

/// The reason of a refusal to show what a peer doesn't keep any more.
pub const COMPACTED: &str = "compacted";

/// What became of one call to one peer.
pub enum Verdict<T> {
    /// The cluster's answer, be it yes or no.
    Answer(Result<T, Failure>),
    /// Another peer, or the same one later, may answer.
    NoAnswer(Missing),
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Missing {
    /// Nothing was sent.
    Unreachable(String),
    /// The peer certainly didn't put it into the log.
    NoLeader(String),
    /// The peer belongs to no cluster: what it was started for hasn't happened yet. Another one may belong to one.
    Blank(Failure),
    /// The peer can't do it yet, and will soon.
    NotNow(String),
    /// The connection broke, or the peer can't tell what became of it.
    OutcomeUnknown(String),
    /// The peer took the call and said nothing in time.
    Silent,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) | Self::NoLeader(why) | Self::NotNow(why) => f.write_str(why),
            Self::Blank(refusal) => refusal.fmt(f),
            Self::OutcomeUnknown(why) => write!(f, "outcome unknown: {why}"),
            Self::Silent => f.write_str("took the call and gave no answer in time"),
        }
    }
}

/// Sorts a failed call's status.
pub fn judge<T>(status: Status) -> Verdict<T> {
    // Both sides watch the deadline.
    if matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled) {
        return Verdict::NoAnswer(Missing::Silent);
    }
    // A status that this side made of a broken connection has a source; one that a peer sent has none.
    if status.source().is_some() {
        return Verdict::NoAnswer(Missing::OutcomeUnknown(root_cause(&status)));
    }
    let reason = status.get_details_error_info().map(|info| info.reason).unwrap_or_default();
    match (status.code(), snake_case(&reason).as_str()) {
        (_, "unknown") => Verdict::NoAnswer(Missing::OutcomeUnknown(message_of(&status))),
        (_, "not_proposed" | "no_leader" | "not_confirmed") | (Code::Unavailable, "") => {
            Verdict::NoAnswer(Missing::NoLeader(message_of(&status)))
        }
        (Code::Unavailable, _) => Verdict::NoAnswer(Missing::NotNow(message_of(&status))),
        (code, "not_initialized") => Verdict::NoAnswer(Missing::Blank(refusal(code, reason, message_of(&status)))),
        (_, COMPACTED) => Verdict::Answer(Err(compacted(&status, reason))),
        (code, _) => Verdict::Answer(Err(refusal(code, reason, message_of(&status)))),
    }
}

/// What was asked for isn't kept any more.
fn compacted(status: &Status, reason: String) -> Failure {
    let floor = status.get_details_error_info().and_then(|mut info| info.metadata.remove("floor_revision"));
    let hint = floor.map(|floor| {
        format!("--since {floor} begins with the oldest that this peer keeps; another peer may keep more")
    });
    Failure::Refused { reason, message: message_of(status), hint }
}

fn refusal(code: Code, reason: String, message: String) -> Failure {
    let reason = if reason.is_empty() { snake_case(&format!("{code:?}")) } else { reason };
    if matches!(code, Code::Internal | Code::DataLoss | Code::Unknown) {
        return Failure::Failed(format!(
            "{reason}: {message}; the peer's log (stderr of rollcall-coordinator) says more"
        ));
    }
    let hint = hint_for(code).map(str::to_owned);
    Failure::Refused { reason, message, hint }
}

/// What an operator does next. Refusals of the log say it themselves.
fn hint_for(code: Code) -> Option<&'static str> {
    match code {
        Code::Unimplemented => {
            Some("this peer is older than this command: `rollcall cluster status` shows its version")
        }
        Code::Aborted => Some("it has changed since you looked: look again, then retry with the new revision"),
        _ => None,
    }
}

fn message_of(status: &Status) -> String {
    if status.message().is_empty() { status.code().description().to_owned() } else { status.message().to_owned() }
}

/// The innermost error's text: what the operating system said.
pub fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// `StaleFence`, `STALE_FENCE` and `stale_fence` are one reason.
fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    let mut was_lower = false;
    for c in name.chars() {
        if c.is_ascii_uppercase() && was_lower {
            snake.push('_');
        }
        was_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tonic_types::ErrorDetails;

    use super::*;

    fn status(code: Code, reason: &str) -> Status {
        Status::with_error_details(code, "why", ErrorDetails::with_error_info(reason, "rollcall", HashMap::new()))
    }

    #[test]
    fn refusals_are_answers() {
        let Verdict::Answer(Err(failure)) = judge::<()>(status(Code::FailedPrecondition, "BudgetExhausted")) else {
            panic!("expected an answer");
        };
        assert_eq!(failure.to_string(), "refused: BudgetExhausted: why");
        assert_eq!(failure.code(), 1);
    }

    #[test]
    fn unavailable_is_tried_elsewhere() {
        assert!(matches!(judge::<()>(Status::unavailable("x")), Verdict::NoAnswer(Missing::NoLeader(_))));
        assert!(matches!(
            judge::<()>(status(Code::Unavailable, "NotProposed")),
            Verdict::NoAnswer(Missing::NoLeader(_))
        ));
        assert!(matches!(judge::<()>(status(Code::Unknown, "unknown")), Verdict::NoAnswer(Missing::OutcomeUnknown(_))));
    }

    #[test]
    fn reasons_are_one_however_they_are_written() {
        for name in ["StaleFence", "STALE_FENCE", "stale_fence"] {
            assert_eq!(snake_case(name), "stale_fence");
        }
    }
}
