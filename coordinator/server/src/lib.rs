//! The coordinator peer: storage, consensus, sessions, services.
pub mod storage;
