//! The machine under an agent: what lives on when the agent dies, and what a power cut takes.

use std::collections::{BTreeMap, VecDeque};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use rollcall_ident::{BootId, Fence, ReleaseIdent};
use rollcall_proto::v1;
use rollcall_steps::{Baseline, Event, Hook, Instance, RunToken};

use super::RELEASES;

/// A hook that outlives this is killed, with its group.
pub const HOOK_TIMEOUT_MS: u64 = 10_000;

/// BOUND: reports that a node remembers, to say them once more: those of about two steps.
const REMEMBERED: usize = 16;

/// What the hooks of a node do, of 1,000 runs.
#[derive(Debug, Clone, Copy)]
pub struct HookRates {
    /// They exit with a failure.
    pub fail: u32,
    /// They hang until they are killed.
    pub hang: u32,
    /// `ready-to-update` and `drain` say "call me again".
    pub again: u32,
    /// `install` asks for a reboot.
    pub reboot: u32,
    /// A new process never becomes healthy.
    pub sick: u32,
    /// A new process ends soon.
    pub crash: u32,
    /// A new process isn't well again for a moment, soon after it was.
    pub flap: u32,
    /// The agent says once more what it has said of its last steps, as it does where it doesn't know that it was heard.
    pub repeat: u32,
    /// How long a hook takes at most, in milliseconds.
    pub longest_ms: u64,
}

impl Default for HookRates {
    fn default() -> Self {
        Self { fail: 0, hang: 0, again: 0, reboot: 0, sick: 0, crash: 0, flap: 0, repeat: 0, longest_ms: 400 }
    }
}

/// How a hook ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Well.
    Ok,
    /// Call me again.
    Again,
    /// Reboot the machine.
    Reboot,
    /// Badly.
    Failed,
    /// It was killed.
    TimedOut,
}

/// A hook that runs.
#[derive(Debug, Clone, Copy)]
pub struct Running {
    /// When it ends.
    pub ends_at_ms: u64,
    /// How.
    pub exit: Exit,
}

/// The service's process.
#[derive(Debug, Clone)]
pub struct Process {
    /// Which one.
    pub instance: Instance,
    /// From when on it is healthy; none: never.
    pub healthy_at_ms: Option<u64>,
    /// When it ends by itself.
    pub crashes_at_ms: Option<u64>,
    /// It isn't well from then until then.
    pub flaps_ms: Option<(u64, u64)>,
}

/// The machine of a node.
pub struct Machine {
    /// Its name.
    pub name: String,
    /// The node's identity, on its disk.
    pub id: String,
    /// What its hooks do.
    pub rates: HookRates,
    /// The step journal.
    pub journal: Vec<Event>,
    /// How many of its records are synced.
    pub synced: usize,
    /// Hooks that run, whoever started them.
    pub hooks: BTreeMap<RunToken, Running>,
    /// The service.
    pub process: Option<Process>,
    /// How often the service has ended by itself.
    pub exit_count: u64,
    /// The cluster that it belongs to, once it knows.
    pub cluster_id: String,
    /// A release that lies on its disk.
    pub prefetched: Option<ReleaseIdent>,
    /// Its service says that it isn't well until then.
    pub sick_until_ms: u64,
    /// How long its disk takes for a sync, at most.
    pub sync_ms: u64,
    /// Its agent has asked for a reboot.
    pub wants_reboot: bool,
    /// The last reports of steps, and whether they are to be said again, as what wasn't answered is.
    said: VecDeque<v1::report::Kind>,
    repeats: bool,
    boot: u16,
    next_pid: u32,
    rng: StdRng,
}

impl Machine {
    /// The `n`-th one, whose service runs the first release, well.
    #[must_use]
    pub fn new(n: usize, seed: u64, rates: HookRates, sync_ms: u64) -> Self {
        let first: ReleaseIdent = RELEASES[0].parse().expect("our own ident");
        let baseline = Baseline {
            fence: Fence::default(),
            current: Some(first.clone()),
            previous: None,
            installed: [first.clone()].into(),
        };
        let mut machine = Self {
            name: format!("n{n}"),
            id: format!("00000000-0000-4000-8000-{n:012x}"),
            rates,
            journal: vec![Event::Baseline(baseline)],
            synced: 1,
            hooks: BTreeMap::new(),
            process: None,
            exit_count: 0,
            cluster_id: String::new(),
            prefetched: None,
            sick_until_ms: 0,
            sync_ms,
            wants_reboot: false,
            said: VecDeque::new(),
            repeats: false,
            boot: 1,
            next_pid: 100,
            rng: StdRng::seed_from_u64(seed),
        };
        machine.start(&first, 0);
        machine.process.as_mut().expect("just started").healthy_at_ms = Some(0);
        machine
    }

    /// Of this boot.
    #[must_use]
    pub fn boot_id(&self) -> BootId {
        let mut bytes = [0xb0; 16];
        bytes[14..].copy_from_slice(&self.boot.to_be_bytes());
        BootId(bytes)
    }

    /// One of so many.
    pub fn draw(&mut self, below: u64) -> u64 {
        self.rng.random_range(0..below.max(1))
    }

    fn happens(&mut self, permille: u32) -> bool {
        self.rng.random_range(0..1_000) < permille
    }

    /// Starts a hook, now. Its token finds it again.
    pub fn start_hook(&mut self, hook: Hook, now_ms: u64) -> (RunToken, Running) {
        let rates = self.rates;
        self.repeats |= self.happens(rates.repeat);
        let exit = match hook {
            _ if self.happens(rates.hang) => Exit::TimedOut,
            Hook::ReadyToUpdate | Hook::Drain if self.happens(rates.again) => Exit::Again,
            Hook::Install if self.happens(rates.reboot) => Exit::Reboot,
            Hook::Install | Hook::Init | Hook::Drain if self.happens(rates.fail) => Exit::Failed,
            _ => Exit::Ok,
        };
        let takes_ms = if exit == Exit::TimedOut { HOOK_TIMEOUT_MS } else { 20 + self.draw(rates.longest_ms) };
        let running = Running { ends_at_ms: now_ms + takes_ms, exit };
        let token = RunToken(self.rng.random());
        self.hooks.insert(token, running);
        (token, running)
    }

    /// Starts the service, now.
    pub fn start(&mut self, release: &ReleaseIdent, now_ms: u64) -> Instance {
        self.next_pid += 1;
        let (pid, start_time) = (self.next_pid, now_ms);
        let instance = Instance { pid, start_time, boot_id: self.boot_id(), release: release.clone() };
        let is_sick = self.happens(self.rates.sick);
        let healthy_at_ms = (!is_sick).then(|| now_ms + 200 + self.draw(2_000));
        let crashes_at_ms = self.happens(self.rates.crash).then(|| now_ms + 100 + self.draw(4_000));
        let flaps_ms = self.happens(self.rates.flap).then(|| {
            let from_ms = healthy_at_ms.unwrap_or(now_ms) + 100 + self.draw(1_500);
            (from_ms, from_ms + 150 + self.draw(1_500))
        });
        self.process = Some(Process { instance: instance.clone(), healthy_at_ms, crashes_at_ms, flaps_ms });
        instance
    }

    /// Whether the service is well, as it really is.
    pub fn is_well(&mut self, now_ms: u64) -> bool {
        if self.process.as_ref().and_then(|process| process.crashes_at_ms).is_some_and(|at| at <= now_ms) {
            self.crash_service();
        }
        let is_up = self.process.as_ref().and_then(|process| process.healthy_at_ms).is_some_and(|at| at <= now_ms);
        let flaps_ms = self.process.as_ref().and_then(|process| process.flaps_ms);
        let flaps = flaps_ms.is_some_and(|(from_ms, to_ms)| (from_ms..to_ms).contains(&now_ms));
        is_up && !flaps && now_ms >= self.sick_until_ms
    }

    /// Remembers what was said of a step.
    pub fn note_said(&mut self, kind: &v1::report::Kind) {
        self.said.push_back(kind.clone());
        if self.said.len() > REMEMBERED {
            self.said.pop_front();
        }
    }

    /// What is to be said once more.
    pub fn take_repeated(&mut self) -> Vec<v1::report::Kind> {
        match std::mem::take(&mut self.repeats) {
            true => self.said.iter().cloned().collect(),
            false => Vec::new(),
        }
    }

    /// The service ends by itself.
    pub fn crash_service(&mut self) {
        if self.process.take().is_some() {
            self.exit_count += 1;
        }
    }

    /// The power is gone: hooks, the service, and what wasn't synced. Of that the disk may have kept a part. It comes back with
    /// another boot id.
    pub fn cut_power(&mut self) {
        let kept = self.draw((self.journal.len() - self.synced) as u64 + 1);
        self.journal.truncate(self.synced + usize::try_from(kept).unwrap_or(0));
        self.boot_again();
    }

    /// An orderly reboot: everything ends, and is synced.
    pub fn reboot(&mut self) {
        self.boot_again();
    }

    fn boot_again(&mut self) {
        self.synced = self.journal.len();
        self.hooks.clear();
        self.process = None;
        self.wants_reboot = false;
        self.boot += 1;
    }

    /// From now on nothing goes wrong by itself any more.
    pub fn heal(&mut self, now_ms: u64) {
        self.rates = HookRates::default();
        self.sick_until_ms = 0;
        if let Some(process) = &mut self.process {
            process.healthy_at_ms = Some(process.healthy_at_ms.unwrap_or(now_ms));
            (process.crashes_at_ms, process.flaps_ms) = (None, None);
        }
    }
}
