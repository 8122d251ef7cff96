//! Tests of the coordinator, each file about one part of it. They are one program: what all of them are made of is compiled
//! and linked once.
#![allow(clippy::unwrap_used, reason = "a test that can't go on says where")]

mod app_support;
mod process;
mod raft_support;
mod storage_support;

mod app_audit;
mod app_doctor;
mod app_events;
mod app_process;
mod app_quorum;
mod app_recover;
mod app_requests;
mod app_rollout;
mod app_rollout_verbs;
mod app_standard;
mod app_survival;
mod app_verbs;
mod audit_process;
mod raft_cluster;
mod raft_peers;
mod session_end;
mod storage_audit;
mod storage_crash;
mod storage_damage;
mod storage_log;
mod storage_state;
mod storage_suite;
