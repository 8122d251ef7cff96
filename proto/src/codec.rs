//! How messages become bytes: prost's encoding, in buffers that begin small.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::{ProstDecoder, ProstEncoder};

/// BOUND: what a stream's buffers hold before anything is in them; they grow with its messages. A peer has 40,000 streams
/// of agents that say a hundred bytes a second, and tonic would give each of them 16 KiB.
const BUFFER_BYTES: usize = 512;

/// BOUND: what is encoded before it is sent; tonic's own.
const SENT_AFTER_BYTES: usize = 32 << 10;

/// The codec of every service in [`v1`](crate::v1).
#[derive(Debug, Clone)]
pub struct GrowingCodec<T, U>(PhantomData<(T, U)>);

fn settings() -> BufferSettings {
    BufferSettings::new(BUFFER_BYTES, SENT_AFTER_BYTES)
}

impl<T, U> Default for GrowingCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for GrowingCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(settings())
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::new(settings())
    }
}
