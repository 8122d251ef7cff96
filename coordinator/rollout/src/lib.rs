//! The pure state machine, planner and policies of Rollcall.
