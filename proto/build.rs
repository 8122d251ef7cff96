//! Compiles the .proto files without a `protoc` on the machine.

use std::env;
use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let files = ["agent", "channel", "cluster", "common", "event", "group", "node", "rollout", "window"]
        .map(|name| format!("rollcall/v1/{name}.proto"));
    println!("cargo:rerun-if-changed=rollcall");
    let descriptors = protox::compile(&files, ["."])?;
    let out = PathBuf::from(env::var("OUT_DIR")?).join("rollcall_descriptor.bin");
    // Comments live in the set's source info; reflection needs none of them, and they are a third of its size.
    let mut slim = descriptors.clone();
    for file in &mut slim.file {
        file.source_code_info = None;
    }
    std::fs::write(out, prost_encode(&slim))?;
    tonic_prost_build::configure().codec_path("crate::GrowingCodec").compile_fds(descriptors)?;
    Ok(())
}

fn prost_encode(set: &prost_types::FileDescriptorSet) -> Vec<u8> {
    use prost::Message as _;
    set.encode_to_vec()
}
