//! The coordinator peer: storage, consensus, sessions, services.
