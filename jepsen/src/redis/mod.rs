//! The workload of the main job: a Redis Cluster whose acknowledged writes must stay readable, looked at from outside.

pub mod form;
pub mod ledger;
pub mod link;
pub mod load;
pub mod read_back;
pub mod releases;
pub mod sampler;
pub mod slots;
pub mod topology;
pub mod writer;
