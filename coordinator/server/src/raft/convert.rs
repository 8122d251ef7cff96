//! Between openraft's messages and what is on the wire.

use openraft::raft::{
    AppendEntriesRequest, StreamAppendError, StreamAppendResult, TransferLeaderError, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};

use super::wire::{AppendV1, AppendedV1, TransferLeaderReplyV1, TransferLeaderV1, VoteReplyV1, VoteRequestV1};
use crate::storage::types::{LogId, TypeConfig, Vote};
use crate::storage::{EntryV1, LogIdV1, VoteV1};

fn id_out(id: Option<&LogId>) -> Option<LogIdV1> {
    id.map(LogIdV1::from)
}

fn id_in(id: Option<LogIdV1>) -> Option<LogId> {
    id.map(LogId::from)
}

impl From<VoteRequest<TypeConfig>> for VoteRequestV1 {
    fn from(request: VoteRequest<TypeConfig>) -> Self {
        Self {
            vote: VoteV1::from(&request.vote),
            last_log_id: id_out(request.last_log_id.as_ref()),
            leadership_transfer: request.leadership_transfer,
        }
    }
}

impl From<VoteRequestV1> for VoteRequest<TypeConfig> {
    fn from(request: VoteRequestV1) -> Self {
        let mut converted = Self::new(request.vote.into(), id_in(request.last_log_id));
        converted.leadership_transfer = request.leadership_transfer;
        converted
    }
}

impl From<VoteResponse<TypeConfig>> for VoteReplyV1 {
    fn from(reply: VoteResponse<TypeConfig>) -> Self {
        Self {
            vote: VoteV1::from(&reply.vote),
            granted: reply.vote_granted,
            last_log_id: id_out(reply.last_log_id.as_ref()),
        }
    }
}

impl From<VoteReplyV1> for VoteResponse<TypeConfig> {
    fn from(reply: VoteReplyV1) -> Self {
        Self { vote: reply.vote.into(), vote_granted: reply.granted, last_log_id: id_in(reply.last_log_id) }
    }
}

impl From<AppendEntriesRequest<TypeConfig>> for AppendV1 {
    fn from(request: AppendEntriesRequest<TypeConfig>) -> Self {
        Self {
            vote: VoteV1::from(&request.vote),
            prev_log_id: id_out(request.prev_log_id.as_ref()),
            entries: request.entries.into_iter().map(EntryV1::from).collect(),
            leader_commit: id_out(request.leader_commit.as_ref()),
        }
    }
}

impl TryFrom<AppendV1> for AppendEntriesRequest<TypeConfig> {
    type Error = String;

    fn try_from(request: AppendV1) -> Result<Self, String> {
        check_order(&request)?;
        Ok(Self {
            vote: request.vote.into(),
            prev_log_id: id_in(request.prev_log_id),
            entries: request.entries.into_iter().map(EntryV1::into_entry).collect::<Result<_, _>>()?,
            leader_commit: id_in(request.leader_commit),
        })
    }
}

/// openraft asserts it in debug builds only. Entries behind a hole would be refused by the log, which stops the peer; like
/// this its leader hears of it, and sends what there is: a snapshot.
fn check_order(request: &AppendV1) -> Result<(), String> {
    let first = request.prev_log_id.map_or(0, |prev| prev.index + 1);
    match request.entries.iter().zip(first..).find(|(entry, next)| entry.log_id.index != *next) {
        Some((entry, next)) => {
            Err(format!("entry {} isn't the next one, {next}: what was between is missing", entry.log_id.index))
        }
        None => Ok(()),
    }
}

impl From<StreamAppendResult<TypeConfig>> for AppendedV1 {
    fn from(result: StreamAppendResult<TypeConfig>) -> Self {
        match result {
            Ok(upto) => Self::Upto(id_out(upto.as_ref())),
            Err(StreamAppendError::Conflict(at)) => Self::Conflict(LogIdV1::from(&at)),
            Err(StreamAppendError::HigherVote(vote)) => Self::HigherVote(VoteV1::from(&vote)),
        }
    }
}

impl From<AppendedV1> for StreamAppendResult<TypeConfig> {
    fn from(appended: AppendedV1) -> Self {
        match appended {
            AppendedV1::Upto(upto) => Ok(id_in(upto)),
            AppendedV1::Conflict(at) => Err(StreamAppendError::Conflict(at.into())),
            AppendedV1::HigherVote(vote) => Err(StreamAppendError::HigherVote(vote.into())),
        }
    }
}

impl From<&TransferLeaderRequest<TypeConfig>> for TransferLeaderV1 {
    fn from(request: &TransferLeaderRequest<TypeConfig>) -> Self {
        Self {
            from_leader: VoteV1::from(request.from_leader()),
            to: *request.to_node_id(),
            last_log_id: id_out(request.last_log_id()),
        }
    }
}

impl From<TransferLeaderV1> for TransferLeaderRequest<TypeConfig> {
    fn from(request: TransferLeaderV1) -> Self {
        Self::new(request.from_leader.into(), request.to, id_in(request.last_log_id))
    }
}

impl From<TransferLeaderResponse<TypeConfig>> for TransferLeaderReplyV1 {
    fn from(response: TransferLeaderResponse<TypeConfig>) -> Self {
        match response {
            Ok(()) => Self::Accepted,
            Err(TransferLeaderError::VoteChanged { expected, actual }) => {
                Self::VoteChanged { expected: VoteV1::from(&expected), actual: VoteV1::from(&actual) }
            }
            Err(TransferLeaderError::LogNotFlushed { expected, actual }) => {
                Self::LogNotFlushed { expected: id_out(expected.as_ref()), actual: id_out(actual.as_ref()) }
            }
        }
    }
}

impl From<TransferLeaderReplyV1> for TransferLeaderResponse<TypeConfig> {
    fn from(reply: TransferLeaderReplyV1) -> Self {
        match reply {
            TransferLeaderReplyV1::Accepted => Ok(()),
            TransferLeaderReplyV1::VoteChanged { expected, actual } => {
                Err(TransferLeaderError::VoteChanged { expected: Vote::from(expected), actual: Vote::from(actual) })
            }
            TransferLeaderReplyV1::LogNotFlushed { expected, actual } => {
                Err(TransferLeaderError::LogNotFlushed { expected: id_in(expected), actual: id_in(actual) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use openraft::vote::RaftLeaderId as _;

    use super::*;
    use crate::storage::types::{Entry, LeaderId, log_id};

    fn vote() -> Vote {
        Vote { leader_id: LeaderId::new(7, 3), committed: true }
    }

    /// A lost flag makes voters refuse a planned change of leader that they have not heard of yet.
    #[test]
    fn a_vote_request_keeps_all_it_says() {
        for leadership_transfer in [false, true] {
            let mut request = VoteRequest::<TypeConfig>::new(vote(), Some(log_id(6, 40)));
            request.leadership_transfer = leadership_transfer;
            assert_eq!(VoteRequest::from(VoteRequestV1::from(request.clone())), request);
        }
    }

    #[test]
    fn replies_keep_all_they_say() {
        let voted = VoteResponse::<TypeConfig> { vote: vote(), vote_granted: true, last_log_id: Some(log_id(6, 40)) };
        assert_eq!(VoteResponse::from(VoteReplyV1::from(voted.clone())), voted);
        let results: [StreamAppendResult<TypeConfig>; 4] = [
            Ok(None),
            Ok(Some(log_id(6, 40))),
            Err(StreamAppendError::Conflict(log_id(6, 40))),
            Err(StreamAppendError::HigherVote(vote())),
        ];
        for result in results {
            assert_eq!(StreamAppendResult::<TypeConfig>::from(AppendedV1::from(result.clone())), result);
        }
        let transfers: [TransferLeaderResponse<TypeConfig>; 3] = [
            Ok(()),
            Err(TransferLeaderError::VoteChanged { expected: vote(), actual: vote() }),
            Err(TransferLeaderError::LogNotFlushed { expected: Some(log_id(6, 40)), actual: None }),
        ];
        for transfer in transfers {
            assert_eq!(TransferLeaderResponse::from(TransferLeaderReplyV1::from(transfer.clone())), transfer);
        }
    }

    #[test]
    fn a_transfer_and_an_append_keep_all_they_say() {
        let transfer = TransferLeaderRequest::<TypeConfig>::new(vote(), 9, Some(log_id(6, 40)));
        assert_eq!(TransferLeaderRequest::from(TransferLeaderV1::from(&transfer)), transfer);
        let append = AppendEntriesRequest::<TypeConfig> {
            vote: vote(),
            prev_log_id: Some(log_id(6, 40)),
            entries: vec![Entry { log_id: log_id(7, 41), payload: openraft::EntryPayload::Blank }],
            leader_commit: Some(log_id(6, 39)),
        };
        let back = AppendEntriesRequest::try_from(AppendV1::from(append.clone())).unwrap();
        assert_eq!(format!("{back:?}"), format!("{append:?}"));
    }

    #[test]
    fn entries_behind_a_hole_are_not_taken() {
        let entries = |indexes: &[u64]| {
            let blank = |index: &u64| Entry { log_id: log_id(7, *index), payload: openraft::EntryPayload::Blank };
            indexes.iter().map(blank).collect()
        };
        let append = |prev: Option<u64>, indexes: &[u64]| {
            let prev_log_id = prev.map(|index| log_id(6, index));
            let request = AppendEntriesRequest::<TypeConfig> {
                vote: vote(),
                prev_log_id,
                entries: entries(indexes),
                leader_commit: None,
            };
            AppendEntriesRequest::try_from(AppendV1::from(request)).map(|request| request.entries.len())
        };
        assert_eq!(append(None, &[0, 1]), Ok(2));
        assert_eq!(append(Some(40), &[41, 42]), Ok(2));
        assert_eq!(append(Some(40), &[]), Ok(0));
        assert!(append(Some(40), &[43]).is_err_and(|what| what.contains("entry 43 isn't the next one, 41")));
        assert!(append(Some(40), &[41, 43]).is_err());
        assert!(append(None, &[1]).is_err());
    }
}
