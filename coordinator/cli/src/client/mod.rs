//! How this command reaches the cluster: any peer takes any request, so peers are tried in turn until one answers or
//! the time is over.
//!
//! A call that got no answer is sent again, to the next peer and with the same request id: the cluster answers a
//! request id that it has seen with the first outcome. Refusals are answers and are never tried again.

mod address;
mod request;
mod services;
mod status;
mod write;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use rollcall_proto::v1;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};
use tracing::debug;

pub use address::PeerAddress;
pub use services::{channels, clusters, events, groups, nodes, rollouts, tokens, windows};
pub use write::operator;

use crate::args::ReadArgs;
use crate::config::Config;
use crate::failure::Failure;
use request::ApiRequest;
use status::{COMPACTED, Missing, Verdict, judge};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// BOUND: a peer that takes a call and says nothing costs so much of the time before the next one is asked.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
/// What is left of the time when an attempt ends with it, give or take.
const LAST_MOMENT: Duration = Duration::from_millis(20);
const FIRST_BACKOFF: Duration = Duration::from_millis(50);
const LONGEST_BACKOFF: Duration = Duration::from_secs(1);
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// A stream that ended is opened again after so long.
pub const RECONNECT_AFTER: Duration = Duration::from_millis(250);

/// A client of the cluster.
pub struct Client {
    peers: Vec<Peer>,
    timeout: Duration,
    /// The peer that answered last: asked first.
    preferred: Mutex<usize>,
}

struct Peer {
    address: PeerAddress,
    /// Kept once it is connected; it reconnects by itself.
    channel: Mutex<Option<Channel>>,
}

/// The time that a call has left, and what became of each peer that was asked.
struct Attempts {
    deadline: Instant,
    last: Vec<Option<Missing>>,
    /// Whether a peer may have done what it was asked, and couldn't say so.
    may_be_done: bool,
}

impl Client {
    pub fn new(config: &Config) -> Self {
        Self::with_endpoints(&config.endpoints, config.timeout)
    }

    /// The same, for peers that are known by other means than the options.
    pub fn with_endpoints(endpoints: &[PeerAddress], timeout: Duration) -> Self {
        let peer = |address: &PeerAddress| Peer { address: address.clone(), channel: Mutex::new(None) };
        Self { peers: endpoints.iter().map(peer).collect(), timeout, preferred: Mutex::new(0) }
    }

    /// The peers, in the order in which they were named.
    pub fn addresses(&self) -> impl Iterator<Item = &PeerAddress> {
        self.peers.iter().map(|peer| &peer.address)
    }

    /// Sends a request until a peer answers it. `request` is the same at each try, so a write must carry a request id.
    pub async fn call<Req, Res>(
        &self,
        request: Req,
        send: impl AsyncFn(Channel, Request<Req>) -> Result<Response<Res>, Status>,
    ) -> Result<Res, Failure>
    where
        Req: ApiRequest,
    {
        let mut attempts = self.attempts();
        let mut backoff = FIRST_BACKOFF;
        loop {
            let first = self.preferred();
            for index in (0..self.peers.len()).map(|offset| (first + offset) % self.peers.len()) {
                match self.attempt(index, &attempts, request.clone(), &send).await {
                    Verdict::Answer(answer) => {
                        self.prefer(index);
                        return answer;
                    }
                    Verdict::NoAnswer(missing) => {
                        debug!(peer = %self.peers[index].address, ?missing, "no answer");
                        attempts.note(index, missing);
                    }
                }
                if attempts.remaining().is_zero() {
                    return Err(self.give_up(&attempts, request.request_id()));
                }
            }
            if let Some(refusal) = attempts.all_blank() {
                return Err(refusal);
            }
            tokio::time::sleep(backoff.min(attempts.remaining())).await;
            backoff = (backoff * 2).min(LONGEST_BACKOFF);
        }
    }

    /// Sends a request to the first peer that was named and to no other, for what only that peer can do. Tries again
    /// only while the peer can't be reached, so that nothing is ever sent twice.
    pub async fn call_first<Req, Res>(
        &self,
        request: Req,
        send: impl AsyncFn(Channel, Request<Req>) -> Result<Response<Res>, Status>,
    ) -> Result<Res, Failure>
    where
        Req: ApiRequest,
    {
        let mut attempts = self.attempts();
        loop {
            let missing = match self.attempt(0, &attempts, request.clone(), &send).await {
                Verdict::Answer(answer) => return answer,
                // Nobody else is asked, so it is the answer.
                Verdict::NoAnswer(Missing::Blank(refusal)) => return Err(refusal),
                Verdict::NoAnswer(missing) => missing,
            };
            let is_certainly_unsent = matches!(missing, Missing::Unreachable(_));
            attempts.note(0, missing);
            if !is_certainly_unsent || attempts.remaining().is_zero() {
                return Err(self.give_up(&attempts, None));
            }
            tokio::time::sleep(LONGEST_BACKOFF.min(attempts.remaining())).await;
        }
    }

    /// Makes the next call begin with another peer: the one that answered last has gone.
    pub fn prefer_another(&self) {
        self.prefer((self.preferred() + 1) % self.peers.len());
    }

    async fn attempt<Req, Res>(
        &self,
        index: usize,
        attempts: &Attempts,
        request: Req,
        send: &impl AsyncFn(Channel, Request<Req>) -> Result<Response<Res>, Status>,
    ) -> Verdict<Res>
    where
        Req: ApiRequest,
    {
        let peer = &self.peers[index];
        let has_another = self.peers.len() > 1 && !request.is_slow();
        let limit = if has_another { ATTEMPT_TIMEOUT } else { self.timeout };
        let limit = limit.min(attempts.remaining());
        let channel = match peer.connect(limit).await {
            Ok(channel) => channel,
            Err(missing) => return Verdict::NoAnswer(missing),
        };
        let mut request = Request::new(request);
        request.set_timeout(limit);
        match tokio::time::timeout(limit, send(channel, request)).await {
            Ok(Ok(response)) => Verdict::Answer(Ok(response.into_inner())),
            Ok(Err(status)) => judge(status),
            Err(_) => Verdict::NoAnswer(Missing::Silent),
        }
    }

    fn attempts(&self) -> Attempts {
        let last = self.peers.iter().map(|_| None).collect();
        Attempts { deadline: Instant::now() + self.timeout, last, may_be_done: false }
    }

    fn give_up(&self, attempts: &Attempts, request_id: Option<&str>) -> Failure {
        let mut text = format!("no peer answered within {}", crate::output::duration(self.timeout));
        for (peer, missing) in self.peers.iter().zip(&attempts.last) {
            if let Some(missing) = missing {
                text.push_str(&format!("\n  {}: {missing}", peer.address));
            }
        }
        if let Some(id) = request_id.filter(|_| attempts.may_be_done) {
            text.push_str(&format!("\n  it may have been done: the same command with --request-id {id} tells"));
        }
        let has = |is: fn(&Missing) -> bool| attempts.last.iter().flatten().any(is);
        if has(|missing| matches!(missing, Missing::Silent | Missing::OutcomeUnknown(_) | Missing::NotNow(_))) {
            return Failure::TimedOut(text);
        }
        text.push_str(if has(|missing| matches!(missing, Missing::NoLeader(_))) {
            "\n  a majority of the peers must run and see each other: `rollcall cluster status --stale` shows which do"
        } else {
            "\n  do the peers run? name them by --endpoints or ROLLCALL_ENDPOINTS"
        });
        Failure::Unreachable(text)
    }

    fn preferred(&self) -> usize {
        *self.preferred.lock().expect("no holder of this lock panics")
    }

    fn prefer(&self, index: usize) {
        *self.preferred.lock().expect("no holder of this lock panics") = index;
    }
}

impl Attempts {
    /// Remembers why a peer gave no answer. Silence says nothing of a peer where the end of the time cut it short: then
    /// what it said before counts.
    fn note(&mut self, index: usize, missing: Missing) {
        self.may_be_done |= matches!(missing, Missing::Silent | Missing::OutcomeUnknown(_));
        let is_cut_short = matches!(missing, Missing::Silent) && self.remaining() < LAST_MOMENT;
        if self.last[index].is_none() || !is_cut_short {
            self.last[index] = Some(missing);
        }
    }

    /// The refusal of the peers, where all of them were asked and none belongs to a cluster: nobody is left who might.
    fn all_blank(&mut self) -> Option<Failure> {
        let is_blank = |missing: &Option<Missing>| matches!(missing, Some(Missing::Blank(_)));
        if !self.last.iter().all(is_blank) {
            return None;
        }
        self.last.drain(..).flatten().find_map(|missing| match missing {
            Missing::Blank(refusal) => Some(refusal),
            _ => None,
        })
    }

    fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

impl Peer {
    async fn connect(&self, limit: Duration) -> Result<Channel, Missing> {
        if let Some(channel) = self.channel.lock().expect("no holder of this lock panics").clone() {
            return Ok(channel);
        }
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address))
            .map_err(|error| Missing::Unreachable(error.to_string()))?
            .connect_timeout(CONNECT_TIMEOUT.min(limit))
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true);
        let channel = match tokio::time::timeout(limit, endpoint.connect()).await {
            Ok(Ok(channel)) => channel,
            Ok(Err(error)) => return Err(Missing::Unreachable(status::root_cause(&error))),
            Err(_) => return Err(Missing::Unreachable("no connection in the time that was left".to_owned())),
        };
        *self.channel.lock().expect("no holder of this lock panics") = Some(channel.clone());
        Ok(channel)
    }
}

/// Options of a read, as requests carry them.
#[allow(clippy::unnecessary_wraps, reason = "the field is optional on the wire")]
pub fn read_options(args: &ReadArgs) -> Option<v1::ReadOptions> {
    Some(v1::ReadOptions { stale: args.stale })
}

/// Whether a peer refused because it keeps less than was asked for; another one may keep more.
pub fn is_compacted(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused { reason, .. } if reason == COMPACTED)
}

/// What a stream's end means: a refusal is final, and everything else is gone on with at another peer.
pub fn refusal_of_stream(status: Status) -> Result<(), Failure> {
    match judge::<()>(status) {
        Verdict::Answer(answer) => answer,
        Verdict::NoAnswer(Missing::Blank(refusal)) => Err(refusal),
        Verdict::NoAnswer(missing) => {
            debug!(?missing, "a stream broke");
            Ok(())
        }
    }
}
