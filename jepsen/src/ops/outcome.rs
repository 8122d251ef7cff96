//! What an error of the API says of a write: that it certainly had no effect, or that nobody knows.

use std::error::Error as _;

use tonic::{Code, ConnectError, Status};
use tonic_types::StatusExt as _;

use crate::ops::Kind;

/// Of the reasons that come with `UNAVAILABLE`, those that say that the write never got into any log.
const NEVER_PROPOSED: [&str; 2] = ["no_leader", "not_proposed"];

/// `Fail` only where it is certain. Whatever carries no word of the coordinator's own comes from the way there and back.
pub fn of_write(status: &Status) -> Kind {
    if never_connected(status) {
        return Kind::Fail;
    }
    let Some(info) = status.get_details_error_info().filter(|info| info.domain == "rollcall") else {
        return Kind::Info;
    };
    match status.code() {
        // The log has decided, or the request was no request.
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::ResourceExhausted => Kind::Fail,
        Code::Unavailable if NEVER_PROPOSED.contains(&info.reason.as_str()) => Kind::Fail,
        _ => Kind::Info,
    }
}

/// Whether a refusal is the log's own word: it holds for each earlier try with the same request id, too. Otherwise only the
/// peer that was asked refuses this try: it can't reach a leader, or belongs to no cluster.
pub fn is_the_logs_word(status: &Status) -> bool {
    let reason = status.get_details_error_info().map(|info| info.reason).unwrap_or_default();
    of_write(status) == Kind::Fail && status.code() != Code::Unavailable && reason != "not_initialized"
}

/// For the history: the reason as the contract names it, or else the code, and the message.
pub fn name(status: &Status) -> String {
    let reason = status.get_details_error_info().map(|info| info.reason);
    let message: String = status.message().chars().take(200).collect();
    format!("{}: {message}", reason.unwrap_or_else(|| format!("{:?}", status.code())))
}

/// Not a byte of it was sent.
fn never_connected(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if error.is::<ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use tonic_types::ErrorDetails;

    fn status(code: Code, reason: &str) -> Status {
        Status::with_error_details(code, "", ErrorDetails::with_error_info(reason, "rollcall", HashMap::new()))
    }

    fn said(code: Code, reason: &str) -> Kind {
        of_write(&status(code, reason))
    }

    #[test]
    fn a_blank_peer_knows_nothing_of_an_earlier_try() {
        let blank = status(Code::FailedPrecondition, "not_initialized");
        assert_eq!((of_write(&blank), is_the_logs_word(&blank)), (Kind::Fail, false));
        assert!(!is_the_logs_word(&status(Code::Unavailable, "not_proposed")));
        assert!(is_the_logs_word(&status(Code::Aborted, "revision_moved")));
        assert!(!is_the_logs_word(&Status::cancelled("")), "nobody's word");
    }

    #[test]
    fn only_what_is_certain_is_a_failure() {
        assert_eq!(said(Code::Unavailable, "not_proposed"), Kind::Fail);
        assert_eq!(said(Code::Aborted, "revision_moved"), Kind::Fail);
        assert_eq!(said(Code::Unknown, "unknown"), Kind::Info);
        assert_eq!(said(Code::Unavailable, "unknown"), Kind::Info, "done, and this peer can't show it yet");
        assert_eq!(said(Code::Unavailable, "stopping"), Kind::Info);
    }

    #[test]
    fn what_the_network_says_is_unknown() {
        for status in [Status::unavailable("broken pipe"), Status::deadline_exceeded(""), Status::cancelled("")] {
            assert_eq!(of_write(&status), Kind::Info);
        }
    }

    #[tokio::test]
    async fn a_refused_connection_sends_nothing() {
        let endpoint = tonic::transport::Endpoint::from_static("http://127.0.0.1:1").connect_lazy();
        let mut client = rollcall_proto::v1::channel_service_client::ChannelServiceClient::new(endpoint);
        let request = rollcall_proto::v1::CreateChannelRequest::default();
        assert_eq!(of_write(&client.create(request).await.unwrap_err()), Kind::Fail);
    }
}
