//! The public gRPC API: one service per file. Each parses its request, reads or writes through [`Api`], and converts
//! what comes back.
//!
//! # Invariants
//! - Any peer takes any request: writes are forwarded to the leader, reads are confirmed by it.
//! - Every call has a deadline, the caller's or ours.
//! - A blank peer answers only what makes it a member, and says so to everything else.
//!
//! # Deliberately absent
//! Decisions: whether something may be done is the state machine's to say.

mod agent;
mod api;
mod channel;
mod cluster;
mod cluster_clock;
mod event;
mod event_watch;
mod group;
mod health;
mod node;
mod rollout;
mod rollout_watch;
mod serving;
mod snapshot_stream;
mod token;
mod window;

use std::pin::Pin;

use futures::Stream;
use tonic::Status;

pub use agent::Agents;
pub use api::{Api, MAX_ANSWER_BYTES, MAX_REQUEST_BYTES};
pub use channel::Channels;
pub use cluster::Clusters;
pub use cluster_clock::ClusterClock;
pub use event::Events;
pub use group::Groups;
pub use health::report_health;
pub use node::Nodes;
pub use rollout::Rollouts;
pub use serving::serves;
pub use token::Tokens;
pub use window::Windows;

/// What a streaming call answers with.
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;
