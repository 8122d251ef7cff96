//! The public gRPC API, generated from the .proto files beside this crate, and the names of its enums as people and
//! JSON see them.
//!
//! Wire types stop at the edge of each program: whoever uses them converts them there.

/// Package `rollcall.v1`.
pub mod v1 {
    #![allow(missing_docs, unused_qualifications, clippy::all)]
    tonic::include_proto!("rollcall.v1");
}

mod codec;
mod names;

pub use codec::GrowingCodec;
pub use names::ShortName;

/// The encoded descriptor set of the whole API, for server reflection.
pub const DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rollcall_descriptor.bin"));
