//! A data folder that is older than what the cluster knows: restored from a backup, copied, or damaged. Old orders aren't
//! acted on, and no step is repeated.

use std::fs;
use std::process::Command;

use rollcall_proto::v1::step_report::Event;
use rollcall_proto::v1::{Failed, Go};

use crate::support::{Agent, Coordinator, Machine, Package, Said, eventually};

async fn running() -> (Machine, Coordinator, Agent) {
    let machine = Machine::with(&[Package::new(1), Package::new(2).gate("install")]);
    let coordinator = Coordinator::start().await;
    let agent = machine.start(&coordinator);
    coordinator.run_step(1, None, 10).await;
    (machine, coordinator, agent)
}

async fn until_logged(machine: &Machine, text: &str) {
    eventually(text, || machine.log().contains(text).then_some(())).await;
}

fn failed(said: &Said, fence: u64) -> Option<Failed> {
    said.events_of(fence).into_iter().find_map(|event| match event {
        Event::Failed(failed) => Some(failed),
        _ => None,
    })
}

/// A backup was taken inside `install` of a step that is long over. As files (`is_copy`), or as blocks, which nobody can see.
async fn a_step_of_the_past_is_not_gone_on_with(is_copy: bool) {
    let (machine, coordinator, agent) = running().await;
    coordinator.order_step(2, Some(1), 20, Go::Prepare);
    machine.until_started("install", 2, 1).await;
    agent.kill();
    let backup = machine.back_up("backup");
    machine.open("install");
    let agent = machine.start(&coordinator);
    coordinator.until_finished(20).await;
    let agent = {
        coordinator.run_step(1, Some(2), 30).await;
        agent
    };
    agent.kill();
    machine.kill_everything();
    let before = machine.witness().len();
    if is_copy {
        machine.restore(&backup);
    } else {
        let journal = backup.join("svc").join(crate::support::GROUP).join("journal");
        fs::write(machine.service().join("journal"), fs::read(journal).unwrap()).unwrap();
        fs::remove_file(machine.data().join("session")).unwrap();
    }
    let _agent = machine.start(&coordinator);
    until_logged(&machine, "by a higher fence than its journals do").await;
    until_logged(&machine, "step closed group=app.default ending=Withdrawn").await;
    assert_eq!(coordinator.said().hellos.last().unwrap().highest_fence, 20);
    assert_eq!(machine.log().contains("the data folder lay elsewhere"), is_copy);
    let begun: Vec<String> = machine.witness()[before..].to_vec();
    assert!(begun.is_empty(), "{begun:?}");
    // The next grant finds a node that is free.
    coordinator.run_step(2, Some(1), 40).await;
}

#[tokio::test]
async fn a_restored_data_folder_does_not_go_on_with_a_step_of_the_past() {
    a_step_of_the_past_is_not_gone_on_with(true).await;
}

#[tokio::test]
async fn an_older_disk_image_does_not_go_on_with_a_step_of_the_past() {
    a_step_of_the_past_is_not_gone_on_with(false).await;
}

/// The backup is older than the step that is still in flight.
#[tokio::test]
async fn a_step_that_the_backup_does_not_know_is_not_repeated() {
    let (machine, coordinator, agent) = running().await;
    let backup = machine.back_up("backup");
    machine.open("install");
    coordinator.order_step_up_to(2, Some(1), 20, Go::Replace);
    coordinator.until_event("started", 2).await;
    agent.kill();
    machine.kill_everything();
    let undrained = machine.starts("undrain", 1);
    machine.restore(&backup);
    let _agent = machine.start(&coordinator);
    let said = coordinator.until("a failed step", |said| failed(said, 20).is_some()).await;
    let failed = failed(&said, 20).unwrap();
    assert_eq!(failed.reason, "journal_behind");
    assert!(failed.detail.contains("rollout retry"), "{}", failed.detail);
    coordinator.order(|orders| orders.step = None);
    until_logged(&machine, "step closed group=app.default ending=Failed").await;
    for (hook, version) in
        [("ready-to-update", 1), ("drain", 1), ("pre-stop", 1), ("post-stop", 1), ("install", 2), ("init", 2)]
    {
        assert_eq!(machine.starts(hook, version), 1, "starts of {hook}");
    }
    assert_eq!(machine.starts("undrain", 1), undrained + 1, "what was drained is undrained");
    coordinator.until("version 1 to be healthy", |said| said.is_healthy(1)).await;
    // Another attempt is another grant.
    coordinator.run_step(2, Some(1), 30).await;
}

/// A disk that has lost what it had synced: the log knows more of the step than the journal.
#[tokio::test]
async fn a_step_that_the_log_knows_more_of_is_not_repeated() {
    let (machine, coordinator, agent) = running().await;
    coordinator.order_step(2, Some(1), 20, Go::Prepare);
    machine.until_started("install", 2, 1).await;
    // Everything up to the intent to install.
    let journal = machine.service().join("journal");
    let early = fs::read(&journal).unwrap();
    machine.open("install");
    coordinator.until_event("started", 2).await;
    coordinator.until_finished(20).await;
    agent.kill();
    // As if the step were still being verified, as far as the log has heard.
    fs::write(&journal, early).unwrap();
    machine.kill_everything();
    coordinator.drive(false);
    coordinator.order_step(2, Some(1), 20, Go::Replace);
    let _agent = machine.start(&coordinator);
    let said = coordinator.until("a failed step", |said| failed(said, 20).is_some()).await;
    assert_eq!(failed(&said, 20).unwrap().reason, "journal_behind");
    assert_eq!((machine.starts("install", 2), machine.starts("run", 2)), (1, 1));
}

#[tokio::test]
async fn a_moved_data_folder_waits_for_a_word_of_the_cluster() {
    let (machine, coordinator, agent) = running().await;
    agent.kill();
    machine.kill_everything();
    let backup = machine.back_up("backup");
    machine.restore(&backup);
    coordinator.stop().await;
    let _agent = machine.start(&coordinator);
    until_logged(&machine, "no session").await;
    assert_eq!(machine.starts("run", 1), 1);
    coordinator.restart().await;
    machine.until_started("run", 1, 2).await;
    until_logged(&machine, "takes this data folder for the node's").await;
    coordinator.until("version 1 to be healthy", |said| said.is_healthy(1)).await;
    // The place is known from now on.
    drop(_agent);
    machine.kill_everything();
    coordinator.stop().await;
    let _agent = machine.start(&coordinator);
    machine.until_started("run", 1, 3).await;
}

/// A copied disk on the same machine: what the original runs is none of the copy's business.
#[tokio::test]
async fn a_copied_data_folder_touches_nothing_of_the_original() {
    let (machine, coordinator, _agent) = running().await;
    let pid = machine.recorded_pid().unwrap();
    let copy = Machine::with(&[Package::new(1)]);
    let status = Command::new("cp").arg("-a").arg(machine.data()).arg(copy.path()).status().unwrap();
    assert!(status.success());
    coordinator.refuse("identity_in_use", false);
    let copied = copy.start(&coordinator);
    until_logged(&copy, "identity_in_use").await;
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
    machine.until_started("run", 1, 2).await;
    until_logged(&copy, "the service has ended by itself").await;
    let again = eventually("the record", || machine.recorded_pid().filter(|again| *again != pid)).await;
    assert!(copied.terminate().await.success());
    // Neither was another one started by the copy, nor was the new one ended by it.
    assert!(copy.witness().is_empty(), "{:?}", copy.witness());
    assert_eq!(machine.starts("run", 1), 2);
    assert!(rollcall_node::process::read_stat(again).is_some_and(|stat| !stat.is_zombie));
}

/// Damage in the middle of a step's journal, with whole records behind it.
#[tokio::test]
async fn a_journal_damaged_in_its_middle_fails_the_step_by_name() {
    let (machine, coordinator, agent) = running().await;
    coordinator.order_step(2, Some(1), 20, Go::Prepare);
    machine.until_started("install", 2, 1).await;
    agent.kill();
    machine.kill_everything();
    let journal = machine.service().join("journal");
    let mut bytes = fs::read(&journal).unwrap();
    let at = bytes.len() * 3 / 4;
    bytes[at] ^= 0x10;
    fs::write(&journal, &bytes).unwrap();
    machine.open("install");
    let _agent = machine.start(&coordinator);
    let said = coordinator.until("a failed step", |said| failed(said, 20).is_some()).await;
    assert_eq!(failed(&said, 20).unwrap().reason, "journal_behind");
    assert_eq!(machine.starts("install", 2), 1);
    until_logged(&machine, "`rollcall rollout retry r2` tries it again").await;
    coordinator.until("version 1 to be healthy", |said| said.is_healthy(1)).await;
    coordinator.run_step(2, Some(1), 30).await;
}

#[tokio::test]
async fn a_lost_identity_is_named_with_the_command_that_heals_it() {
    let (machine, coordinator, agent) = running().await;
    let before = coordinator.said().hellos[0].node_id.clone();
    agent.kill();
    fs::remove_file(machine.data().join("identity")).unwrap();
    fs::write(machine.data().join("identity.copy"), "3b24").unwrap();
    coordinator.refuse("name_taken", false);
    let _agent = machine.start(&coordinator);
    until_logged(&machine, "name_taken").await;
    let new = coordinator.said().hellos.last().unwrap().node_id.clone();
    assert_ne!(new, before);
    assert!(machine.log().contains(&format!("`rollcall node replace node-1 {new}`")));
    assert!(machine.log().contains("`rollcall node remove node-1`"));
    // The service goes on meanwhile: it is this machine's.
    assert_eq!(machine.starts("run", 1), 1);
}
