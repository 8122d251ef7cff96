//! The operator's command: rollcall.
