//! Configurations of the group: they come with a step, are kept, and are what the service is started with from then on.

use rollcall_proto::v1::{Go, Health, StepOrder};

use crate::support::{Coordinator, Machine, Package, Said, eventually, ident, step};

/// One whose service says what it is configured with.
fn package() -> Package {
    Package::new(1)
        .hook("run", "echo \"mode $ROLLCALL_CONFIG_MODE: $(cat $ROLLCALL_CONFIG)\" >> $WITNESS; exec sleep 1000")
}

fn configured(config: &str) -> String {
    format!("{}@{config}", ident(1))
}

/// A step to the release with this configuration.
async fn run_step(coordinator: &Coordinator, from: Option<&str>, config: &str, mode: &str, fence: u64) -> Said {
    coordinator.drive(true);
    let order = StepOrder {
        rollout_id: format!("r{fence}"),
        from: from.map(configured).unwrap_or_default(),
        to: configured(config),
        config: format!("mode = \"{mode}\"\n"),
        ..step(1, None, fence, Go::Prepare)
    };
    coordinator.order(|orders| orders.step = Some(order));
    coordinator.until_finished(fence).await
}

fn modes(machine: &Machine) -> Vec<String> {
    machine.witness().into_iter().filter(|line| line.starts_with("mode ")).collect()
}

#[tokio::test]
async fn a_configuration_is_moved_to_without_another_install_and_outlives_the_agent() {
    let machine = Machine::with(&[package()]);
    let coordinator = Coordinator::start().await;
    let agent = machine.start(&coordinator);
    run_step(&coordinator, None, "c5", "one", 10).await;
    let said = run_step(&coordinator, Some("c5"), "c9", "two", 20).await;
    assert_eq!(modes(&machine), ["mode one: mode = \"one\"", "mode two: mode = \"two\""]);
    assert_eq!((machine.starts("install", 1), machine.starts("pre-stop", 1)), (1, 1));
    let status = said.status().unwrap();
    assert_eq!((status.release.as_str(), status.health()), (configured("c9").as_str(), Health::Healthy));

    // Nobody is left to ask.
    coordinator.stop().await;
    agent.kill();
    machine.kill_everything();
    let agent = machine.start(&coordinator);
    eventually("the service with its present configuration", || (modes(&machine).len() == 3).then_some(())).await;
    assert_eq!(modes(&machine)[2], "mode two: mode = \"two\"");

    // Without it the service isn't started with another.
    agent.kill();
    machine.kill_everything();
    std::fs::remove_file(machine.service().join("configs/c9.toml")).unwrap();
    let _agent = machine.start(&coordinator);
    eventually("a word on what is missing", || machine.log().contains("the configuration of acme/app").then_some(()))
        .await;
    assert_eq!(modes(&machine).len(), 3);
}
