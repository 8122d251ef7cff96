//! What all services share: the way to the state and to the log, with the caller's deadline.

use std::time::Duration;

use rollcall_ident::{NodeId, NodeName, Revision};
use rollcall_proto::v1;
use rollcall_rollout::{Actor, Command, Node, Proposal, Reply, Stamp, State};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status};

use super::ClusterClock;
use crate::convert;
use crate::raft::{Consensus, Origin, Peer, View};

/// BOUND: a request. Larger ones are refused before they are read.
pub const MAX_REQUEST_BYTES: usize = 4 << 20;

/// BOUND: an answer. A rollout comes with all of its steps, some 500 bytes each; the events of one revision come at once,
/// and a rollout over 100,000 nodes queues its steps in one: some 20 MiB.
pub const MAX_ANSWER_BYTES: usize = 64 << 20;

/// BOUND: calls whose caller sets no deadline: an election and a retry fit.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(10);

/// BOUND: what a caller may set.
const MAX_DEADLINE: Duration = Duration::from_secs(60);

/// So much before the caller's deadline we answer that there is no answer, so that it hears why.
const ANSWER_TIME: Duration = Duration::from_millis(50);

/// BOUND: why somebody does something: one or two sentences.
const MAX_REASON_BYTES: usize = 1_024;
/// BOUND: who does it.
const MAX_ACTOR_BYTES: usize = 256;

/// The way to the state and to the log.
#[derive(Clone)]
pub struct Api {
    peer: Peer,
    clock: ClusterClock,
    stopping: CancellationToken,
}

/// Who calls, and by when an answer is wanted.
#[derive(Debug, Clone)]
pub struct Call {
    from: String,
    /// By when.
    pub deadline: Instant,
}

/// A write that took effect.
#[derive(Debug, Clone)]
pub struct Written {
    /// The revision of its entry; of the first one where this was a retry.
    pub revision: Revision,
    /// What it brought about.
    pub reply: Reply,
    /// The state afterwards.
    pub view: View,
}

impl Call {
    /// Reads it off a request.
    pub fn of<T>(request: &Request<T>) -> Self {
        // Without the port, which is another one for each connection: two of them aren't two people.
        let from = request.remote_addr().map_or_else(|| "unknown".to_owned(), |addr| addr.ip().to_string());
        let asked = request.metadata().get("grpc-timeout").and_then(|value| parse_timeout(value.to_str().ok()?));
        let time = asked.map_or(DEFAULT_DEADLINE, |asked| asked.min(MAX_DEADLINE).saturating_sub(ANSWER_TIME));
        Self { from, deadline: Instant::now() + time }
    }
}

/// The header of gRPC: digits and a unit.
fn parse_timeout(value: &str) -> Option<Duration> {
    let at = value.len().checked_sub(1)?;
    let (digits, unit) = value.split_at_checked(at)?;
    let amount: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(amount.checked_mul(3600)?)),
        "M" => Some(Duration::from_secs(amount.checked_mul(60)?)),
        "S" => Some(Duration::from_secs(amount)),
        "m" => Some(Duration::from_millis(amount)),
        "u" => Some(Duration::from_micros(amount)),
        "n" => Some(Duration::from_nanos(amount)),
        _ => None,
    }
}

impl Api {
    /// The API of `peer`, until `stopping`.
    pub fn new(peer: Peer, clock: ClusterClock, stopping: CancellationToken) -> Self {
        Self { peer, clock, stopping }
    }

    /// The peer, which may be blank.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Says when streams must end.
    pub fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// The running peer.
    ///
    /// # Errors
    /// `not_initialized`, where it is blank.
    pub fn consensus(&self) -> Result<Consensus, Status> {
        self.peer.consensus().ok_or_else(|| convert::not_initialized(self.peer.address()))
    }

    /// The state: everything that was acknowledged before the call, or what this peer has, where that is enough.
    ///
    /// # Errors
    /// Says why there is none by the deadline.
    pub async fn read(&self, call: &Call, options: Option<v1::ReadOptions>) -> Result<View, Status> {
        let consensus = self.consensus()?;
        if options.is_some_and(|options| options.stale) {
            return Ok(consensus.state());
        }
        consensus.read(call.deadline).await.map_err(|error| convert::not_read(&error))
    }

    /// Writes, and waits until this peer has applied it.
    ///
    /// # Errors
    /// The refusal; or that it has no outcome, and whether it may still have one.
    pub async fn write(
        &self,
        call: &Call,
        options: Option<v1::WriteOptions>,
        command: Command,
    ) -> Result<Written, Status> {
        let consensus = self.consensus()?;
        let proposal = proposal(call, options.unwrap_or_default(), command)?;
        let applied = consensus.propose_until(proposal, call.deadline).await;
        let applied = applied.map_err(|error| convert::not_proposed(&error))?;
        let reply = applied.outcome.map_err(|rejection| convert::refused(&rejection))?;
        let mut watch = consensus.applied();
        let view = watch.wait_for(applied.revision, call.deadline).await.ok_or_else(|| {
            let message = format!(
                "done, at revision {}; this peer has applied up to {} and can't show it yet",
                applied.revision,
                watch.revision()
            );
            convert::retry_later("unknown", message)
        })?;
        Ok(Written { revision: applied.revision, reply, view })
    }

    /// Cluster time as it is now, for people: how long something lasts.
    pub fn now(&self, consensus: &Consensus, view: &View) -> Stamp {
        self.clock.now(consensus, view)
    }

    /// The same as [`now`](Self::now), for whoever keeps asking.
    pub fn clock(&self) -> &ClusterClock {
        &self.clock
    }

    /// Who asks for a change of the peers, and why.
    ///
    /// # Errors
    /// A text that is too long.
    pub fn origin(call: &Call, options: Option<v1::WriteOptions>) -> Result<Origin, Status> {
        let options = options.unwrap_or_default();
        Ok(Origin { actor: actor(call, options.actor)?, reason: reason(options.reason)? })
    }
}

fn proposal(call: &Call, options: v1::WriteOptions, command: Command) -> Result<Proposal, Status> {
    let v1::WriteOptions { reason: why, request_id, expected_revision, actor: who } = options;
    Ok(Proposal {
        actor: actor(call, who)?,
        reason: reason(why)?,
        request_id: convert::optional("request_id", &request_id)?,
        expected_revision: (expected_revision > 0).then_some(Revision(expected_revision)),
        command,
    })
}

/// Who the caller says they are, or else where they call from.
fn actor(call: &Call, given: String) -> Result<Actor, Status> {
    let actor = if given.is_empty() { call.from.clone() } else { given };
    let actor = Actor(bounded("actor", actor, MAX_ACTOR_BYTES)?);
    if actor.0.chars().any(char::is_control) {
        return Err(convert::FieldError::new("actor", "has control characters; a name is one line").into());
    }
    if actor == Actor::coordinator() {
        let problem = format!("{:?} is what the coordinator calls itself; say who you are", actor.0);
        return Err(convert::FieldError::new("actor", problem).into());
    }
    Ok(actor)
}

fn reason(given: String) -> Result<Option<String>, Status> {
    let reason = bounded("reason", given, MAX_REASON_BYTES)?;
    // Whoever reads it in a terminal must see what was written.
    if reason.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        return Err(convert::FieldError::new("reason", "has control characters other than line breaks and tabs").into());
    }
    Ok(Some(reason).filter(|reason| !reason.is_empty()))
}

fn bounded(field: &str, text: String, limit: usize) -> Result<String, Status> {
    if text.len() <= limit {
        return Ok(text);
    }
    Err(convert::FieldError::new(field, format!("is {} bytes long; at most {limit}", text.len())).into())
}

/// A node by its name or id.
///
/// # Errors
/// There is none.
pub fn find_node<'a>(state: &'a State, subject: &str) -> Result<&'a Node, Status> {
    let by_name = subject.parse::<NodeName>().ok().and_then(|name| state.node_named(&name));
    let by_id = || subject.parse::<NodeId>().ok().and_then(|id| state.nodes().get(&id));
    by_name.or_else(by_id).ok_or_else(|| {
        let message =
            format!("there is no node {subject:?}, neither by name nor by id; `rollcall node list` lists them");
        convert::not_found("unknown_node", message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_actor_is_who_was_given_or_else_the_address_and_never_the_coordinator() {
        let call = Call { from: "10.0.0.9".into(), deadline: Instant::now() };
        assert_eq!(actor(&call, "ann@desk".into()).unwrap(), Actor("ann@desk".into()));
        assert_eq!(actor(&call, String::new()).unwrap(), Actor("10.0.0.9".into()));
        for bad in ["rollcall", "ann\u{1b}[2K", "ann\nbob", &"a".repeat(300)] {
            assert_eq!(actor(&call, bad.to_owned()).unwrap_err().code(), tonic::Code::InvalidArgument, "{bad:?}");
        }
        assert_eq!(reason("two\nlines".into()).unwrap().as_deref(), Some("two\nlines"));
        assert_eq!(reason("\u{1b}[2K".into()).unwrap_err().code(), tonic::Code::InvalidArgument);
    }

    #[test]
    fn deadlines_of_callers_are_read() {
        assert_eq!(parse_timeout("1500m"), Some(Duration::from_millis(1500)));
        assert_eq!(parse_timeout("2S"), Some(Duration::from_secs(2)));
        for bad in ["", "S", "10", "1x", "é"] {
            assert_eq!(parse_timeout(bad), None, "{bad}");
        }
    }
}
