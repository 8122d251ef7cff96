//! The status page: one look at the cluster, its groups and their rollouts. Rendered here, without a script.

use std::fmt::Write as _;

use axum::extract::State;
use axum::response::Html;
use rollcall_rollout::{Group, Phase};

use super::Page;
use crate::raft::{Consensus, Peer};

const HEAD: &str = "<!doctype html><html lang=en><meta charset=utf-8><title>Rollcall</title>\
<meta name=viewport content=\"width=device-width\"><meta http-equiv=refresh content=5><style>\
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:64rem;padding:0 1rem}\
table{border-collapse:collapse;width:100%;margin:.5rem 0 1.5rem}\
th,td{text-align:left;padding:.25rem .75rem .25rem 0;border-bottom:1px solid #8884;vertical-align:top}\
th{font-weight:600}small{opacity:.7}:root{color-scheme:light dark}</style>";

/// `/`
pub async fn show(State(page): State<Page>) -> Html<String> {
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
}

fn group_row(html: &mut String, state: &rollcall_rollout::State, group: &Group) {
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
    let done = rollout.tally.of(Phase::Succeeded);
    push(html, format_args!("<td>{} {}: {done} of {} steps", rollout.id, rollout.status, rollout.steps.len()));
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
