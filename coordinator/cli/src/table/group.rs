//! Groups.

use crate::group_file::{to_config_table, to_policy_lines, to_window_lines};
use crate::output::{Page, Tone, View, column, key_values, millis, table};
use crate::table::{or_none, short_time};
use crate::view::{At, GroupView, List, MemberView, short_release};

impl View for List<GroupView> {
    fn to_table(&self, page: &Page) -> String {
        if self.items.is_empty() {
            return "no groups yet; `rollcall group apply -f FILE` declares one".to_owned();
        }
        let rows = self.items.iter().map(|group| {
            let total = group.members.len();
            let healthy = group.healthy_count();
            let health_tone = if healthy == total { Tone::Good } else { Tone::Warning };
            [
                column(&group.name, Tone::Plain),
                column(short_release(or_none(group.target.as_deref())), Tone::Plain),
                column(format!("{}/{total}", group.on_target_count()), Tone::Plain),
                column(format!("{healthy}/{total}"), health_tone),
                column(or_none(group.active_rollout_id.as_deref()), Tone::Plain),
                column(group.waiting_on.as_ref().map(|waiting| waiting.short_text()).unwrap_or_default(), Tone::Plain),
            ]
        });
        table(page, ["GROUP", "TARGET", "ON TARGET", "HEALTHY", "ROLLOUT", "WAITING ON"], rows)
    }
}

impl View for At<GroupView> {
    fn to_table(&self, page: &Page) -> String {
        let group = &self.item;
        let head = key_values(
            page,
            [
                ("group", group.name.clone()),
                ("package", group.package.clone().unwrap_or_default()),
                ("channel", channel_text(group)),
                ("target", or_none(group.target.as_deref()).to_owned()),
                ("rollout", or_none(group.active_rollout_id.as_deref()).to_owned()),
                ("waiting on", group.waiting_on.as_ref().map(|waiting| waiting.text()).unwrap_or_default()),
                ("left out", group.left_out_nodes.join(" ")),
                ("a step takes", group.typical_step_ms.map(|ms| format!("about {}", millis(ms))).unwrap_or_default()),
                ("revision", format!("{} (declared at {})", self.revision, group.modified_revision)),
            ],
        );
        let policy = to_policy_lines(&group.policy);
        let windows =
            group.windows.iter().flat_map(|window| [String::new()].into_iter().chain(to_window_lines(window)));
        let config = (!group.config.is_empty()).then(|| to_config_table(&group.config));
        let config =
            config.iter().flat_map(|table| [String::new()].into_iter().chain(table.lines().map(str::to_owned)));
        let declared: Vec<_> = policy.into_iter().chain(windows).chain(config).collect();
        format!("{head}\n\n{}\n\n{}", members_table(page, &group.members), declared.join("\n"))
    }
}

fn channel_text(group: &GroupView) -> String {
    match (&group.channel, &group.update_condition) {
        (Some(channel), Some(condition)) => format!("{channel} ({condition})"),
        (Some(channel), None) => channel.clone(),
        (None, _) => "-".to_owned(),
    }
}

fn members_table(page: &Page, members: &[MemberView]) -> String {
    if members.is_empty() {
        return "no members yet: no agent has declared a service of this group".to_owned();
    }
    let rows = members.iter().map(|member| {
        [
            column(&member.node_name, Tone::Plain),
            column(&member.presence, Tone::of(&member.presence)),
            column(&member.health, Tone::of(&member.health)),
            column(if member.primary { "primary" } else { "" }, Tone::Plain),
            column(short_release(or_none(member.release.as_deref())), Tone::Plain),
            column(short_time(member.health_since_at.as_deref()), Tone::Dim),
        ]
    });
    table(page, ["NODE", "PRESENCE", "HEALTH", "ROLE", "RELEASE", "HEALTH SINCE (UTC)"], rows)
}
