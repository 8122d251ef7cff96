//! Between the wire and the state machine: every type of `rollcall.v1` is made, or taken apart, here and nowhere else.
//!
//! # Invariants
//! - Total: each field of a request is parsed or refused with its name; no field of the state is left out of an answer
//!   by accident, since requests are taken apart field by field.
//! - Typed: behind this module there are no texts that should be names, idents or ids.

mod agent;
mod channel;
mod cluster;
mod doctor;
mod event;
mod explain;
mod field;
mod group;
mod moment;
mod node;
mod page;
mod policy;
mod preview;
mod quarantine;
mod rollout;
mod status;
mod token;
mod window;

pub use agent::{greeting, node_report, orders};
pub use channel::channel;
pub use cluster::{peer, quorum_margin};
pub use doctor::diagnosis;
pub use event::{audit_head, audit_record, events};
pub use explain::explanations;
pub use field::{FieldError, optional, required};
pub use group::{group, group_patch};
pub use moment::{moment, timestamp, wall_time};
pub use node::{member, node};
pub use page::{page, page_size, page_token};
pub use preview::preview;
pub use quarantine::quarantined;
pub use rollout::{rollout, waiting_on};
pub use status::{
    compacted, not_changed, not_exported, not_found, not_initialized, not_proposed, not_read, problem, refused,
    retry_later,
};
pub use token::token;
pub use window::{freeze, group_windows, window};
