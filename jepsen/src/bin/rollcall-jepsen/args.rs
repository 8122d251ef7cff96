//! What can be asked for.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};
use rollcall_jepsen::nemesis::Fault;
use rollcall_jepsen::nemesis::late::Delayer;
use rollcall_jepsen::power::first::FirstProcess;
use rollcall_jepsen::power::keeper::Keeper;
use rollcall_jepsen::workload::{Plant, Workload};

/// Black-box tests of a whole cluster: real processes on hosts of their own, faults that overlap, and a verdict.
#[derive(Debug, Parser)]
#[command(
    name = "rollcall-jepsen",
    version,
    after_help = "\
Examples:
  rollcall-jepsen run --workload register --nemesis kill --time-limit 60
  rollcall-jepsen run --workload register --nemesis all --time-limit 300 --seed 7
  rollcall-jepsen run --full --seed 7
  rollcall-jepsen check target/jepsen/latest
  rollcall-jepsen minimise target/jepsen/latest

Runs need root, /dev/fuse, iproute2, iptables and util-linux; everything happens in namespaces of its own.
Exit codes: 0 every promise held, 1 one was broken, 2 not enough evidence, 3 the run itself failed."
)]
pub struct Args {
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// What this program does.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a cluster, hurt it, and judge what its clients saw
    Run(Run),
    /// List workloads and nemeses
    List,
    /// Judge a run's folder again, without a cluster
    Check {
        /// The folder of a run
        folder: PathBuf,
    },
    /// Look for the fewest faults of a failed run with which it still fails, by running it again and again
    Minimise {
        /// The folder of a run that broke a promise
        folder: PathBuf,
        /// Runs at most
        #[arg(long, value_name = "N", default_value_t = 24)]
        runs: usize,
    },
    /// Be a machine's first process
    #[command(hide = true)]
    FirstProcess(FirstProcess),
    /// Let packets of a queue go late
    #[command(hide = true)]
    Delay(Delayer),
    /// Keep a program running
    #[command(hide = true)]
    Keep(Keeper),
    /// Reboot the machine at once
    #[command(hide = true)]
    Reboot,
}

/// A run.
#[derive(Debug, Clone, ClapArgs)]
pub struct Run {
    /// Everything for half an hour: all workloads, all faults, more clients
    #[arg(long, conflicts_with_all = ["workload", "nemesis", "time_limit", "clients", "rate"])]
    pub full: bool,

    /// What clients do; several are done at once
    #[arg(long, value_enum, value_delimiter = ',', default_value = "register")]
    pub workload: Vec<Workload>,

    /// Which faults come: names, `all`, or `none`
    #[arg(long, value_delimiter = ',', value_name = "FAULT,…", default_value = "kill")]
    pub nemesis: Vec<String>,

    /// For so many seconds faults come
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub time_limit: u64,

    /// What is drawn by chance is drawn from it
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// How many peers
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub peers: usize,

    /// How many nodes, where the workload needs any
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub nodes: usize,

    /// How many clients
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub clients: u64,

    /// How many registers
    #[arg(long, value_name = "N", default_value_t = 6)]
    pub keys: usize,

    /// Operations that each client tries in a second
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub rate: u64,

    /// Disks that keep a name only when its folder is synced, as POSIX has it
    #[arg(long)]
    pub strict: bool,

    /// Where the run's folder is made [default: target/jepsen]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Plant a fault in the clients, as if the peers had it: the run has to find it
    #[arg(long, value_enum, value_name = "FAULT")]
    pub plant: Option<Plant>,

    /// Plant a fault in each peer, by its name (rollout/src/planted.rs); needs peers built by scripts/next-level
    #[arg(long, value_name = "FAULT")]
    pub plant_in_peers: Option<String>,

    /// Faults from a file instead of drawn ones: a run's schedule.json
    #[arg(long, value_name = "FILE")]
    pub schedule: Option<PathBuf>,
}

impl Run {
    /// The same, with what `--full` stands for.
    pub fn spelled_out(mut self) -> Self {
        if self.full {
            self.workload = Workload::ALL.to_vec();
            self.nemesis = vec!["all".to_owned()];
            self.time_limit = 1_800;
            self.clients = 12;
            self.rate = 20;
        }
        self
    }

    /// The faults that were asked for; an error names what is no fault, or can't be one in this run.
    pub fn faults(&self) -> anyhow::Result<Vec<Fault>> {
        let has_nodes = self.workload.iter().any(|workload| workload.needs_nodes());
        let mut faults = Vec::new();
        for name in &self.nemesis {
            match name.as_str() {
                "all" => faults.extend(Fault::ALL.into_iter().filter(|fault| has_nodes || !fault.needs_nodes())),
                "none" => {}
                name => match Fault::ALL.into_iter().find(|fault| fault.name() == name) {
                    Some(fault) if fault.needs_nodes() && !has_nodes => {
                        anyhow::bail!("there are no nodes for {name:?} to hurt; add --workload rollout")
                    }
                    Some(fault) => faults.push(fault),
                    None => anyhow::bail!("there is no nemesis {name:?}; `rollcall-jepsen list` lists them"),
                },
            }
        }
        faults.sort();
        faults.dedup();
        Ok(faults)
    }
}
