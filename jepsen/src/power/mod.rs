//! Machines that lose power: each with namespaces of its own, and a disk that forgets what was not synced.
//!
//! * [`disk`]: what a disk holds now, and what of it would still be there after a power cut; pure;
//! * [`mount`]: the same as a FUSE file system, with a power switch;
//! * [`machine`]: namespaces, a boot id and such a disk around one program; [`first`] is its first process, [`network`]
//!   its cable;
//! * [`ailment`]: what a disk refuses while it is ill;
//! * [`keeper`]: keeps a machine's program running, as an init system does;
//! * [`apart`]: namespaces around all of it.

pub mod ailment;
pub mod apart;
pub mod disk;
mod files;
pub mod first;
pub mod keeper;
pub mod machine;
pub mod mount;
pub mod network;
