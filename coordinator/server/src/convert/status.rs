//! Outcomes that aren't answers, as gRPC says them: a code, a message for people, and `google.rpc.ErrorInfo` whose
//! reason is a contract.

use std::collections::HashMap;
use std::time::Duration;

use rollcall_rollout::Rejection;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::FieldError;
use crate::raft::{ExportError, MembershipError, NotProposed, ProposeError, ReadError};
use crate::storage::HistoryError;

/// The domain of every reason.
const DOMAIN: &str = "rollcall";

/// An election takes about half a second; most of what says `UNAVAILABLE` is over then.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// A status with its reason.
pub fn problem(code: Code, reason: &str, message: impl Into<String>) -> Status {
    let details = ErrorDetails::with_error_info(reason, DOMAIN, HashMap::new());
    Status::with_error_details(code, message, details)
}

/// Something that is over soon: whoever asked may try again.
pub fn retry_later(reason: &str, message: impl Into<String>) -> Status {
    let mut details = ErrorDetails::with_error_info(reason, DOMAIN, HashMap::new());
    details.set_retry_info(Some(RETRY_AFTER));
    Status::with_error_details(Code::Unavailable, message, details)
}

/// There is no such thing.
pub fn not_found(reason: &str, message: impl Into<String>) -> Status {
    problem(Code::NotFound, reason, message)
}

/// The peer belongs to no cluster.
pub fn not_initialized(address: &str) -> Status {
    let message = format!(
        "the peer at {address} belongs to no cluster yet: `rollcall cluster init` makes one of it, and `rollcall cluster \
         add-peer {address}` takes it into another"
    );
    problem(Code::FailedPrecondition, "not_initialized", message)
}

impl From<FieldError> for Status {
    fn from(error: FieldError) -> Self {
        let mut details = ErrorDetails::with_bad_request_violation(&error.field, &error.problem);
        let field = HashMap::from([("field".to_owned(), error.field.clone())]);
        details.set_error_info("invalid_argument", DOMAIN, field);
        Self::with_error_details(Code::InvalidArgument, error.to_string(), details)
    }
}

/// The state machine refused.
pub fn refused(rejection: &Rejection) -> Status {
    let code = match rejection {
        Rejection::UnknownPeer(_)
        | Rejection::UnknownGroup(_)
        | Rejection::UnknownChannel(_)
        | Rejection::UnknownRollout(_)
        | Rejection::UnknownNode(_)
        | Rejection::NotInChannel { .. }
        | Rejection::NoSuchStep { .. }
        | Rejection::NotAMember { .. }
        | Rejection::NotInQuarantine(_)
        | Rejection::UnknownWindow { .. }
        | Rejection::UnknownFreeze(_)
        | Rejection::UnknownConfig { .. } => Code::NotFound,
        Rejection::AlreadyInitialized(_)
        | Rejection::PeerAddressTaken { .. }
        | Rejection::AlreadySo(_)
        | Rejection::AlreadyGoingThere { .. }
        | Rejection::NameTaken { .. } => Code::AlreadyExists,
        Rejection::InvalidGroup { .. }
        | Rejection::InvalidTime { .. }
        | Rejection::OtherPackage { .. }
        | Rejection::ReplacedByItself(_)
        | Rejection::RequestIdReused(_) => Code::InvalidArgument,
        Rejection::RevisionMoved { .. } => Code::Aborted,
        Rejection::GroupBusy { .. }
        | Rejection::GroupHasMembers { .. }
        | Rejection::ChannelInUse { .. }
        | Rejection::DigestDiffers { .. }
        | Rejection::RolloutEnded { .. }
        | Rejection::NotInThisState { .. }
        | Rejection::CauseHolds { .. }
        | Rejection::NodePresent(_)
        | Rejection::TokenPastCommitPoint { .. }
        | Rejection::NotGrantable(_)
        | Rejection::IdentityInUse { .. }
        | Rejection::NodeRemoved(_)
        | Rejection::StaleSession { .. }
        | Rejection::StaleFence { .. }
        | Rejection::NotInThisPhase { .. }
        | Rejection::NotTheTarget { .. }
        | Rejection::Quarantined { .. }
        | Rejection::InventoryMismatch { .. }
        | Rejection::LabelMissing { .. }
        | Rejection::NothingToUndo { .. }
        | Rejection::RollbackForbidden { .. }
        | Rejection::ApprovalBySamePerson { .. }
        | Rejection::NotManual { .. }
        | Rejection::NoToken(_)
        | Rejection::RevokeNeedsForce { .. }
        | Rejection::NotSettled(_)
        | Rejection::PeerLacksLevel { .. }
        | Rejection::StepNotSkippable { .. } => Code::FailedPrecondition,
    };
    let mut details = ErrorDetails::with_error_info(rejection.name(), DOMAIN, HashMap::new());
    if let Rejection::InvalidGroup { field, problem, .. } | Rejection::InvalidTime { field, problem } = rejection {
        details.add_bad_request_violation(field, problem);
    }
    Status::with_error_details(code, rejection.to_string(), details)
}

/// A write without an outcome.
pub fn not_proposed(error: &ProposeError) -> Status {
    let message = error.to_string();
    match error {
        ProposeError::Unknown { .. } => problem(Code::Unknown, "unknown", message),
        ProposeError::NotProposed { reason } => match reason {
            NotProposed::NoLeader => retry_later("no_leader", message),
            NotProposed::TooLarge { .. } => problem(Code::ResourceExhausted, "too_large", message),
            NotProposed::NotLeader { .. }
            | NotProposed::HandingOver
            | NotProposed::QuorumLost
            | NotProposed::LeaderUnreachable { .. }
            | NotProposed::Overloaded { .. }
            | NotProposed::Stopping => retry_later("not_proposed", message),
        },
    }
}

/// A read without an answer.
pub fn not_read(error: &ReadError) -> Status {
    let reason = match error {
        ReadError::NoLeader => "no_leader",
        ReadError::NotConfirmed { .. } => "not_confirmed",
        ReadError::Behind { .. } => "behind",
        ReadError::TimedOut => "timed_out",
        ReadError::Stopping => "stopping",
    };
    retry_later(reason, error.to_string())
}

/// There is no snapshot.
pub fn not_exported(error: &ExportError) -> Status {
    match error {
        ExportError::Busy => retry_later("busy", error.to_string()),
        ExportError::HistoryBehind { .. } => retry_later("behind", error.to_string()),
        ExportError::Io(_) => Status::internal(format!("the snapshot can't be written: {error}")),
    }
}

/// The peers weren't changed.
pub fn not_changed(error: &MembershipError) -> Status {
    let message = error.to_string();
    let (code, reason) = match error {
        MembershipError::AlreadyInitialised { .. } => (Code::FailedPrecondition, "already_initialized"),
        MembershipError::Blank => (Code::FailedPrecondition, "not_initialized"),
        MembershipError::OtherCluster { .. } => (Code::FailedPrecondition, "other_cluster"),
        MembershipError::WasRemoved { .. } => (Code::FailedPrecondition, "peer_was_removed"),
        MembershipError::LostDisk { .. } => (Code::FailedPrecondition, "peer_lost_its_disk"),
        MembershipError::Unreachable { .. } => (Code::FailedPrecondition, "peer_unreachable"),
        MembershipError::TooOld { .. } => (Code::FailedPrecondition, "peer_too_old"),
        MembershipError::BadAddress { .. } => (Code::InvalidArgument, "bad_address"),
        MembershipError::NoSuchPeer { .. } => (Code::NotFound, "unknown_peer"),
        MembershipError::LastVoter { .. } => (Code::FailedPrecondition, "last_voter"),
        MembershipError::WouldLoseQuorum { .. } => (Code::FailedPrecondition, "would_lose_quorum"),
        MembershipError::TwoProcesses { .. } => (Code::FailedPrecondition, "two_processes"),
        MembershipError::CantLead { .. } => (Code::FailedPrecondition, "cant_lead"),
        MembershipError::Refused { .. } => (Code::FailedPrecondition, "refused"),
        MembershipError::NotLeading { .. } => return retry_later("not_leading", message),
        MembershipError::InProgress => return retry_later("in_progress", message),
        MembershipError::Unfinished { .. } => return retry_later("unfinished", message),
    };
    problem(code, reason, message)
}

/// The events that were asked for aren't there.
pub fn compacted(error: &HistoryError) -> Status {
    match error {
        HistoryError::Compacted { floor } => {
            let metadata = HashMap::from([("floor_revision".to_owned(), floor.to_string())]);
            let details = ErrorDetails::with_error_info("compacted", DOMAIN, metadata);
            let message =
                format!("events up to revision {floor} aren't kept any more; begin again at since_revision {floor}");
            Status::with_error_details(Code::OutOfRange, message, details)
        }
        HistoryError::Unavailable { .. } => retry_later("history_unavailable", error.to_string()),
    }
}
