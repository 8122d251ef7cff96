//! Fault injection and judgement from outside the system.
//!
//! Nothing here links a crate of the product but its generated API: what is judged is the released binaries, started
//! as real processes with their own data folders. The parts:
//!
//! * [`cluster`]: peers and agents as processes that can be killed and brought back;
//! * [`witness`]: a recorder outside of the system that hooks must reach before they act; with [`history`], what it saw;
//! * [`redis`]: the workload (writes that are acknowledged, and must stay readable) and the sampler of its members;
//! * [`check`]: one judgement per file, each a pure function that a planted fault makes fail;
//! * [`hosts`]: peers and nodes as machines of their own; [`nemesis`] hurts them, [`workload`] uses them, [`ops`] writes down
//!   what clients asked and got, and [`stored`] is a run as it lies in its folder;
//! * [`report`]: the tables at the end; [`page`]: the same as a page with a timeline.
//!
//! Deliberately absent: any trust in what the system says about itself. Its logs and its API serve to time faults and
//! to explain; verdicts come from the witness, the samplers and the clients.

#![forbid(unsafe_code)]

pub mod agent;
pub mod api;
pub mod availability;
pub mod binaries;
pub mod check;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod depot;
pub mod history;
pub mod hosts;
pub mod interrupt;
pub mod nemesis;
pub mod ops;
pub mod page;
pub mod peer;
pub mod ports;
pub mod power;
pub mod process;
pub mod procfs;
pub mod redis;
pub mod report;
pub mod run_dir;
pub mod sample;
pub mod screen;
pub mod stored;
pub mod witness;
pub mod workload;
