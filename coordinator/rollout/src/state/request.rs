//! Which requests were answered with what, so that a retry gets the first answer.

use bincode::enc::Encoder;
use bincode::error::EncodeError;
use bincode::{Decode, Encode};
use rollcall_ident::{RequestId, Revision};

use crate::planted::{Planted, is_planted};
use crate::{Command, Map, Rejection, Reply};

/// BOUND: a client retries for minutes, not for days; at 100 requests a second that carry an id this remembers for the
/// last hundred seconds, and an operator's for months.
const MAX_REQUESTS: usize = 10_000;

/// The outcomes of requests that carried an id, the oldest forgotten first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Decode)]
pub(crate) struct Requests {
    by_id: Map<RequestId, Answered>,
    by_revision: Map<Revision, RequestId>,
}

impl Encode for Requests {
    fn encode<E: Encoder>(&self, to: &mut E) -> Result<(), EncodeError> {
        if is_planted(Planted::RequestsForgotten) {
            return (Map::<RequestId, Answered>::default(), Map::<Revision, RequestId>::default()).encode(to);
        }
        let Self { by_id, by_revision } = self;
        (by_id, by_revision).encode(to)
    }
}

/// What was asked and how it was answered.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Answered {
    /// When.
    pub revision: Revision,
    /// What was asked.
    pub command: Command,
    /// The answer.
    pub outcome: Result<Reply, Rejection>,
}

impl Requests {
    /// How a request was answered.
    pub fn get(&self, id: &RequestId) -> Option<&Answered> {
        self.by_id.get(id)
    }

    /// Remembers the answer.
    pub fn remember(&mut self, id: RequestId, answered: Answered) {
        self.by_revision.insert(answered.revision, id.clone());
        self.by_id.insert(id, answered);
        while self.by_id.len() > MAX_REQUESTS {
            let Some(oldest) = self.by_revision.keys().next().copied() else { return };
            if let Some(id) = self.by_revision.remove(&oldest) {
                self.by_id.remove(&id);
            }
        }
    }

    /// Whether both views say the same.
    pub fn is_consistent(&self) -> bool {
        self.by_id.len() == self.by_revision.len()
            && self.by_revision.iter().all(|(at, id)| self.by_id.get(id).is_some_and(|known| known.revision == *at))
    }
}
