//! One run: hosts, clients, faults, the end, and the verdict.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rollcall_jepsen::check::{Outcome, coverage};
use rollcall_jepsen::clock::Clock;
use rollcall_jepsen::hosts::layout::Layout;
use rollcall_jepsen::hosts::{Hosts, evidence};
use rollcall_jepsen::interrupt::interrupted;
use rollcall_jepsen::nemesis::conductor::Conductor;
use rollcall_jepsen::nemesis::schedule::{self, Planned};
use rollcall_jepsen::nemesis::{Fault, clock};
use rollcall_jepsen::ops::book::Book;
use rollcall_jepsen::ops::{Kind, edn};
use rollcall_jepsen::page;
use rollcall_jepsen::power::{apart, network};
use rollcall_jepsen::report;
use rollcall_jepsen::screen::{Screen, Tone};
use rollcall_jepsen::stored::{Ending, Settings, Stored, store_json};
use rollcall_jepsen::workload::Workload;
use rollcall_jepsen::workload::crew::Crew;

use crate::args::Run;

/// BOUND: until there is traffic.
const TRAFFIC_WITHIN: Duration = Duration::from_secs(30);

/// BOUND: until what came to nothing was tried once more, and what the faults have left is put right.
const HEALED_WITHIN: Duration = Duration::from_secs(600);

/// Does it in namespaces of its own, which nothing outlives.
pub fn run_apart(run: &Run) -> Result<Outcome> {
    let faults = run.faults()?;
    apart::live_apart()?;
    network::set_up()?;
    tokio::runtime::Runtime::new()?.block_on(carry_out(run, faults))
}

/// Judges what lies in a run's folder, and shows it.
pub fn conclude(stored: &Stored, screen: &Screen) -> Result<Outcome> {
    let results = stored.judge()?;
    page::write(stored, &results)?;
    screen.heading("Promises");
    screen.raw(&report::verdicts_table(&results.verdicts, screen.is_terminal()));
    let seed = results.settings.seed;
    let last = match results.outcome {
        Outcome::Held => screen.tint(Tone::Green, "Every promise held."),
        Outcome::Unknown => screen.tint(Tone::Yellow, &format!("There is not enough evidence (seed {seed}).")),
        Outcome::Violated => screen.tint(Tone::Red, &format!("A promise was broken (seed {seed}).")),
    };
    screen.raw(&format!("\n{last} {}", page::place(&stored.folder)));
    Ok(results.outcome)
}

async fn carry_out(run: &Run, faults: Vec<Fault>) -> Result<Outcome> {
    let clock = Clock::start();
    let screen = Screen::new(clock);
    let settings = settings(run, faults);
    let schedule = match &run.schedule {
        Some(path) => schedule::load(path)?,
        None => schedule::draw(&settings.faults, Duration::from_secs(settings.time_limit_s), settings.seed),
    };
    let folder = new_folder(run.out.as_deref(), &settings)?;
    store_json(&folder.join("settings.json"), &settings)?;
    schedule::store(&folder.join("schedule.json"), &schedule)?;
    screen.heading(&format!("seed {}: {} faults in {} s", settings.seed, schedule.len(), settings.time_limit_s));
    let played = tokio::select! {
        played = play(&settings, &schedule, &folder, clock, &screen) => played,
        () = interrupted() => Err(anyhow!("interrupted")),
    };
    played.with_context(|| format!("what there is of it: {}", folder.display()))?;
    conclude(&Stored::load(&folder)?, &screen)
}

async fn play(settings: &Settings, schedule: &[Planned], folder: &Path, clock: Clock, screen: &Screen) -> Result<()> {
    let moves_clocks =
        settings.faults.contains(&Fault::Clock) || schedule.iter().any(|planned| planned.fault == Fault::Clock);
    let layout = Layout {
        folder: folder.to_path_buf(),
        peer_count: settings.peers,
        node_count: settings.nodes,
        strict: settings.strict,
        faketime: moves_clocks.then(clock::library).flatten(),
        planted: settings.plant_in_peers.clone(),
    };
    let (mut hosts, depot) = layout.switch_on(clock).await?;
    screen.say(&format!("{} peers and {} nodes, each a machine of its own", settings.peers, settings.nodes));
    let book = Book::create(&folder.join("history.jsonl"), clock)?;
    let recorder = evidence::Recorder::start(&hosts.doors);
    let crew = Crew::start(settings, &hosts, &book, depot).await?;
    let floor = coverage::TRAFFIC_FLOOR * 2;
    wait_for_traffic(&book, floor).await?;
    screen.say(&format!("{} clients work; {floor} operations came out well", settings.clients));

    let mut ending = Ending { faults_from: nanos(clock), ..Ending::default() };
    let mut conductor = Conductor::new(&mut hosts, book.clone(), clock, screen);
    let played = tokio::time::timeout(
        // BOUND: faults that take longer than planned, each at most some tens of seconds.
        Duration::from_secs(settings.time_limit_s * 2 + 120),
        conductor.play(schedule),
    );
    played.await.context("the faults didn't come to an end")??;
    let healed = async {
        conductor.make_up_for(&settings.faults, settings.seed).await?;
        conductor.heal().await
    };
    match tokio::time::timeout(HEALED_WITHIN, healed).await {
        Ok(healed) => healed?,
        Err(_) => ending.failed = Some(format!("the hosts aren't whole again within {HEALED_WITHIN:?}")),
    }
    store_json(&folder.join("faults.json"), &conductor.done)?;
    ending.faults_to = nanos(clock);
    screen.say("all faults are over");
    if ending.failed.is_none() {
        end(&hosts, crew, &mut ending, screen).await?;
    }
    let evidence::Collected { log, notes } = recorder.end(&hosts).await?;
    for note in &notes {
        screen.say(&screen.tint(Tone::Red, note));
    }
    ending.notes = notes;
    store_json(&folder.join("ending.json"), &ending)?;
    let lines: Vec<String> = log.iter().map(serde_json::to_string).collect::<Result<_, serde_json::Error>>()?;
    std::fs::write(folder.join("log.jsonl"), lines.join("\n"))?;
    edn::write(&folder.join("history.edn"), &book.ops())?;
    Ok(())
}

/// Waits until everything works again, and brings the clients to their end.
async fn end(hosts: &Hosts, crew: Crew, ending: &mut Ending, screen: &Screen) -> Result<()> {
    match hosts.await_recovery().await {
        Ok(took) => {
            ending.recovered_in_ms = u64::try_from(took.as_millis()).ok();
            screen.say(&format!("all peers serve again after {}", report::seconds(took)));
        }
        Err(error) => ending.failed = Some(format!("{error:#}")),
    }
    let (runs, failed) = crew.end(hosts).await?;
    ending.runs = runs;
    ending.failed = ending.failed.take().or(failed);
    Ok(())
}

async fn wait_for_traffic(book: &Book, floor: usize) -> Result<()> {
    let enough = async {
        while book.count(None, Kind::Ok) < floor {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(TRAFFIC_WITHIN, enough).await.context("there is too little traffic")
}

fn settings(run: &Run, faults: Vec<Fault>) -> Settings {
    // They are the traffic, and show that the peers serve.
    let mut workloads = [&[Workload::Register], &run.workload[..]].concat();
    workloads.sort();
    workloads.dedup();
    let nodes = if workloads.iter().any(|workload| workload.needs_nodes()) { run.nodes } else { 0 };
    Settings {
        workloads,
        faults,
        time_limit_s: run.time_limit,
        seed: run.seed.unwrap_or_else(|| u64::from(rand::random::<u16>())),
        peers: run.peers,
        nodes,
        clients: run.clients,
        keys: run.keys,
        rate: run.rate,
        strict: run.strict,
        plant: run.plant,
        plant_in_peers: run.plant_in_peers.clone(),
    }
}

/// A folder that wasn't there before, and `latest` beside it, which leads there.
fn new_folder(out: Option<&Path>, settings: &Settings) -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let all = out.map_or_else(|| target.join("jepsen"), Path::to_path_buf);
    std::fs::create_dir_all(&all)?;
    let all = all.canonicalize()?;
    let names: Vec<&str> = settings.workloads.iter().map(|workload| workload.name()).collect();
    let name = format!("{}-seed-{}", names.join("-"), settings.seed);
    let folder = (1..)
        .map(|number| all.join(if number == 1 { name.clone() } else { format!("{name}-{number}") }))
        .find(|folder| !folder.exists())
        .context("no name is left")?;
    std::fs::create_dir(&folder).with_context(|| format!("can't make {}", folder.display()))?;
    let latest = all.join("latest");
    let _ = std::fs::remove_file(&latest);
    std::os::unix::fs::symlink(&folder, latest)?;
    Ok(folder)
}

fn nanos(clock: Clock) -> u64 {
    u64::try_from(clock.now().as_nanos()).unwrap_or(u64::MAX)
}
