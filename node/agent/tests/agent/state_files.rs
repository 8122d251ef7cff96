//! State files may be missing, empty, cut off anywhere, changed, or half renamed: the agent starts, and nothing is done twice.

use std::fs;

use crate::support::{Coordinator, Machine, Package};

#[tokio::test]
async fn the_agent_starts_whatever_was_lost_cut_off_or_changed() {
    let machine = Machine::with(&[Package::new(1)]);
    let coordinator = Coordinator::start().await;
    let agent = machine.start(&coordinator);
    let said = coordinator.run_step(1, None, 10).await;
    let node_id = said.hellos[0].node_id.clone();
    agent.kill();

    let svc = machine.service();
    let data = machine.data();
    let files = ["identity", "identity.copy", "session", "lock"].map(|name| data.join(name));
    let service_files = ["current", "instance", "instance.copy", "config.toml", "journal"].map(|name| svc.join(name));
    let mut hellos = 1;
    for path in files.iter().chain(&service_files) {
        let whole = fs::read(path).unwrap();
        if path.ends_with("journal") {
            assert_eq!(machine.starts("install", 1), 1);
        }
        let mut flipped = whole.clone();
        flipped.get_mut(whole.len() / 2).into_iter().for_each(|byte| *byte ^= 2);
        let cuts =
            [0, 1, whole.len() / 2, whole.len().saturating_sub(1)].map(|cut| whole[..cut.min(whole.len())].to_vec());
        for damaged in cuts.map(Some).into_iter().chain([Some(flipped), None]) {
            match &damaged {
                Some(damaged) => fs::write(path, damaged).unwrap(),
                None => fs::remove_file(path).unwrap(),
            }
            fs::write(path.with_extension("tmp"), "half").unwrap();
            let agent = machine.start(&coordinator);
            hellos += 1;
            let what = format!("{} damaged: {damaged:?}", path.display());
            let said = coordinator
                .until(&what, |said| {
                    said.hellos.len() >= hellos && said.hellos.last().unwrap().services[0].instance.is_some()
                })
                .await;
            let hello = said.hellos.last().unwrap();
            assert_eq!(hello.node_id, node_id, "{what}");
            agent.kill();
            fs::write(path, &whole).unwrap();
        }
    }
    // A journal that has lost synced records can't know that install has succeeded; the process is known all the same.
    assert_eq!(machine.starts("run", 1), 1);
}
