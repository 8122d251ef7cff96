//! What the storage of a peer costs: the bytes of an entry, an append with its sync, and a snapshot.
//!
//! `cargo bench -p rollcall-coordinator --bench storage` prints it. Appends are synced: they measure the disk of the
//! folder for temporary files.

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark that can't go on panics")]

use std::hint::black_box;

use bincode::{Kind, open, seal};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use openraft::EntryPayload;
use openraft::storage::{RaftLogStorageExt as _, RaftStateMachine as _};
use rollcall_coordinator::storage::types::{Entry, log_id};
use rollcall_coordinator::storage::{DataDir, LogStore, Sizes, SnapshotBuilder, Storage};
use rollcall_ident::{BootId, ClusterTime, Fence, NodeId, PeerId, ReleaseIdent, WallTime};
use rollcall_rollout::{Actor, Command, Health, Hello, Instance, LogEntry, Proposal, ServiceStatus, Stamp};
use tokio::runtime::Runtime;

/// What the peer allocates with.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// As `scripts/bench` writes it.
const PAYLOAD: usize = 300;

const SNAPSHOT_NODES: [u32; 3] = [100, 10_000, 100_000];

fn logged(command: Command) -> LogEntry {
    let proposal = Proposal {
        actor: Actor("operator@bastion".to_owned()),
        reason: Some("x".repeat(PAYLOAD)),
        ..Proposal::internal(command)
    };
    LogEntry { stamp: Stamp { cluster_time: ClusterTime(1), wall_time: WallTime(1) }, proposal }
}

fn write(number: u64) -> LogEntry {
    logged(Command::CreateChannel { channel: format!("channel-{number}").parse().unwrap() })
}

fn entry(index: u64, command: LogEntry) -> Entry {
    Entry { log_id: log_id(1, index), payload: EntryPayload::Normal(command.into()) }
}

fn hello(number: u32) -> LogEntry {
    let mut id = [0; 16];
    id[12..].copy_from_slice(&number.to_be_bytes());
    let boot_id = BootId([1; 16]);
    let release: ReleaseIdent = "acme/redis/1.0.0/20260101000000".parse().unwrap();
    let instance = Instance { pid: number + 2, start_time: 1, boot_id, release: release.clone() };
    let status = ServiceStatus {
        group: "redis.default".parse().unwrap(),
        release: Some(release),
        instance: Some(instance),
        health: Health::Healthy,
        health_detail: String::new(),
        primary: false,
        priority: None,
    };
    let hello = Hello {
        node: NodeId(id),
        name: format!("redis-{number:06}").parse().unwrap(),
        identity_locus: format!("disk-{number}"),
        machine_id: String::new(),
        hosts_peer: None,
        boot_id,
        agent_version: String::new(),
        address: String::new(),
        labels: [].into(),
        services: vec![status],
        highest_fence: Fence(0),
    };
    logged(Command::OpenSession { host: PeerId(1), hello })
}

fn encoding(c: &mut Criterion) {
    let value = write(1);
    let bytes = seal(Kind::LOG_ENTRY, &value);
    let mut bench = c.benchmark_group("encoding");
    bench.throughput(Throughput::Bytes(bytes.len() as u64));
    bench.bench_function("seal", |b| b.iter(|| seal(Kind::LOG_ENTRY, black_box(&value))));
    bench.bench_function("open", |b| b.iter(|| open::<LogEntry>(Kind::LOG_ENTRY, black_box(&bytes)).unwrap()));
    bench.finish();
}

/// Entries that wait share a sync.
fn append(c: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let mut bench = c.benchmark_group("append");
    bench.sample_size(20);
    for count in [1, 16, 64, 256] {
        let folder = tempfile::tempdir().unwrap();
        let mut log = LogStore::open_chunked(folder.path(), Sizes::default().log_chunk_bytes).unwrap();
        let mut next = 0;
        bench.throughput(Throughput::Elements(count));
        bench.bench_function(BenchmarkId::from_parameter(count), |b| {
            b.iter_batched(
                || {
                    let entries: Vec<_> = (next..next + count).map(|index| entry(index, write(index))).collect();
                    next += count;
                    entries
                },
                |entries| runtime.block_on(log.blocking_append(entries)).unwrap(),
                BatchSize::PerIteration,
            );
        });
    }
    bench.finish();
}

fn snapshot(c: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let mut bench = c.benchmark_group("snapshot");
    bench.sample_size(10);
    for nodes in SNAPSHOT_NODES {
        let folder = tempfile::tempdir().unwrap();
        let dir = DataDir::lock(folder.path()).unwrap();
        let mut storage = Storage::open(&dir, Sizes::default()).unwrap();
        let entries = (0..nodes).map(|number| Ok((entry(u64::from(number) + 1, hello(number)), None)));
        runtime.block_on(storage.state_machine.apply(futures::stream::iter(entries))).unwrap();
        runtime.block_on(storage.history.flush());
        let view = storage.applied.borrow().clone();
        let builder = SnapshotBuilder::new(view, storage.history.clone(), storage.snapshots.clone());
        bench.bench_function(BenchmarkId::from_parameter(nodes), |b| b.iter(|| builder.export().unwrap()));
    }
    bench.finish();
}

criterion_group!(benches, encoding, append, snapshot);
criterion_main!(benches);
