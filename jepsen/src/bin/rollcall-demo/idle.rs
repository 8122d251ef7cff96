//! An idle cluster writes nothing and hardly runs.

use std::time::Duration;

use anyhow::Result;
use rollcall_jepsen::procfs;
use rollcall_jepsen::report;

use crate::scene::Scene;

/// As the target says: for a minute.
const WATCHED: Duration = Duration::from_secs(60);

/// Watches and tells.
pub async fn watch(scene: &mut Scene) -> Result<()> {
    scene.screen.heading("Idle for a minute");
    let processes: Vec<(String, u32)> = scene
        .cluster
        .peers
        .iter()
        .map(|peer| (peer.name.clone(), peer.id()))
        .chain(scene.cluster.agents.iter().map(|agent| (format!("agent of {}", agent.name), agent.id())))
        .filter_map(|(name, id)| Some((name, id?)))
        .collect();
    let cpu = |id: u32| procfs::cpu_time(id).unwrap_or_default();
    let before: Vec<Duration> = processes.iter().map(|(_, id)| cpu(*id)).collect();
    let revision_before = scene.api.cluster(true).await?.revision;
    tokio::time::sleep(WATCHED).await;
    let revision_after = scene.api.cluster(true).await?.revision;
    let mut facts = vec![("entries appended".to_owned(), (revision_after - revision_before).to_string())];
    for ((name, id), before) in processes.iter().zip(before) {
        let used = cpu(*id).saturating_sub(before);
        let permille = used.as_millis() * 1_000 / WATCHED.as_millis();
        facts.push((name.clone(), format!("{}.{} % of a core", permille / 10, permille % 10)));
    }
    scene.screen.raw(&report::facts_table(&facts, scene.screen.is_terminal()));
    Ok(())
}
