//! Fault injection and judgement from outside the system.
