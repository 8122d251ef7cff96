//! The coordinator peer: storage, consensus, sessions, services.
pub mod raft;
pub mod storage;
