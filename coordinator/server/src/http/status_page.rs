//! The status page: one look at the cluster, its groups and their rollouts. Rendered here, without a script.

use std::fmt::Write as _;

use axum::extract;
use axum::response::Html;
use rollcall_rollout::{Group, Phase, State};

use super::Page;
use crate::raft::{Consensus, Peer};

const HEAD: &str = "<!doctype html><html lang=en><meta charset=utf-8><title>Rollcall</title>\
<meta name=viewport content=\"width=device-width\"><meta http-equiv=refresh content=5><style>\
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:64rem;padding:0 1rem}\
table{border-collapse:collapse;width:100%;margin:.5rem 0 1.5rem}\
th,td{text-align:left;padding:.25rem .75rem .25rem 0;border-bottom:1px solid #8884;vertical-align:top}\
th{font-weight:600}small{opacity:.7}:root{color-scheme:light dark}</style>";

/// BOUND: rows of what people have set; `rollcall node list` and its like show all.
const MAX_ROWS: usize = 200;

/// `/`
pub async fn show(extract::State(page): extract::State<Page>) -> Html<String> {
    let mut html = String::from(HEAD);
    match page.peer.consensus() {
        None => blank(&mut html, &page.peer),
        Some(consensus) => running(&mut html, &consensus).await,
    }
    Html(html)
}

fn blank(html: &mut String, peer: &Peer) {
    let address = escaped(peer.address());
    html.push_str("<h1>Rollcall</h1>");
    push(
        html,
        format_args!(
            "<p>The peer at {address} belongs to no cluster yet. <code>rollcall cluster init</code> makes one."
        ),
    );
}

async fn running(html: &mut String, consensus: &Consensus) {
    let view = consensus.state();
    let state = &view.state;
    push(
        html,
        format_args!(
            "<h1>Rollcall</h1><p>Cluster {} · revision {} · this is peer {}",
            consensus.cluster_id(),
            view.revision,
            consensus.peer_id()
        ),
    );
    html.push_str("<h2>Peers</h2><table><tr><th>peer<th>address<th>role<th>heard of");
    for member in consensus.members().await {
        let role = match (member.leader, member.voter) {
            (true, _) => "leader",
            (false, true) => "voter",
            (false, false) => "learner",
        };
        let heard = member.last_heard_ms.map_or("–".to_owned(), |ms| format!("{ms} ms ago"));
        push(html, format_args!("<tr><td>{}<td>{}<td>{role}<td>{heard}", member.peer, escaped(&member.address)));
    }
    html.push_str("</table><h2>Groups</h2><table><tr><th>group<th>target<th>members<th>rollout<th>waits on");
    for group in state.groups().values() {
        group_row(html, state, group);
    }
    html.push_str("</table>");
    set_by_people(html, state);
}

/// What people have said that keeps something from moving: freezes, held nodes, releases in quarantine.
fn set_by_people(html: &mut String, state: &State) {
    let freezes = state.freezes().values().map(|freeze| {
        let groups: Vec<String> = freeze.groups.iter().map(ToString::to_string).collect();
        let whom = if groups.is_empty() { "all groups".to_owned() } else { groups.join(", ") };
        (format!("freeze {} of {whom}", freeze.id), freeze.by.0.clone(), freeze.reason.clone())
    });
    let held = state.nodes().values().filter_map(|node| {
        let hold = node.hold.as_ref()?;
        Some((format!("node {} held", node.name), hold.by.0.clone(), hold.reason.clone()))
    });
    let aside = state.quarantine().iter().map(|(release, quarantine)| {
        (format!("{release} in quarantine"), quarantine.by.0.clone(), Some(quarantine.reason.clone()))
    });
    let mut rows = freezes.chain(held).chain(aside).take(MAX_ROWS).peekable();
    if rows.peek().is_none() {
        return;
    }
    html.push_str("<h2>Set by people</h2><table><tr><th>what<th>by<th>why");
    for (what, by, why) in rows {
        let why = why.map_or("–".to_owned(), |why| escaped(&why));
        push(html, format_args!("<tr><td>{}<td>{}<td>{why}", escaped(&what), escaped(&by)));
    }
    html.push_str("</table>");
}

fn group_row(html: &mut String, state: &State, group: &Group) {
    let target = group.target.as_ref().map_or("–".to_owned(), ToString::to_string);
    let unavailable = group.unavailable.len();
    push(
        html,
        format_args!(
            "<tr><td>{}<td><small>{target}</small><td>{}, {unavailable} unavailable",
            group.name,
            group.members.len()
        ),
    );
    let Some(rollout) = state.latest_rollout(&group.name) else {
        html.push_str("<td>–<td>–");
        return;
    };
    let (done, failed) = (rollout.tally.of(Phase::Succeeded), rollout.tally.of(Phase::Failed));
    let (id, status, all) = (rollout.id, rollout.status, rollout.steps.len());
    push(html, format_args!("<td>{id} {}: {done} of {all} steps", status.to_string().replace('_', " ")));
    if failed > 0 {
        push(html, format_args!(", {failed} failed"));
    }
    let has_batches = rollout.is_active() && (group.policy.canary > 0 || !group.policy.batches.is_empty());
    if has_batches {
        push(html, format_args!(", batch {}", rollout.batch.number));
    }
    if let Some(back) = rollout.going_back.as_ref().filter(|_| rollout.is_active()) {
        push(html, format_args!("<br><small>goes back: {}</small>", escaped(&back.why)));
    }
    let waits = rollout.waiting.as_ref().filter(|_| rollout.is_active());
    let waits = waits.map_or("–".to_owned(), |waiting| escaped(&waiting.on.to_string()));
    push(html, format_args!("<td>{waits}"));
}

fn push(html: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string doesn't fail.
    let _ = html.write_fmt(text);
}

/// Details of health checks are anybody's text.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_no_markup() {
        assert_eq!(escaped("<b a=\"1\">&"), "&lt;b a=&quot;1&quot;&gt;&amp;");
    }
}
