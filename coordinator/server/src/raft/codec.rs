//! Frames of the peer service: raw bytes in gRPC messages. What is in them is sealed by the codec crate.

use bytes::{Buf as _, BufMut as _, Bytes};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// BOUND: a message between peers. Batches of entries are cut at 1 MiB plus one entry, chunks of snapshots at 1 MiB.
pub(super) const MAX_FRAME_BYTES: usize = 8 << 20;

/// Messages that wait for the socket are sent together up to this size.
const YIELD_BYTES: usize = 64 << 10;

const INITIAL_BYTES: usize = 4 << 10;

/// Hands gRPC messages through as they are.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FrameCodec;

impl Codec for FrameCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for FrameCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, frame: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(frame);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(INITIAL_BYTES, YIELD_BYTES)
    }
}

impl Decoder for FrameCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(INITIAL_BYTES, YIELD_BYTES)
    }
}
