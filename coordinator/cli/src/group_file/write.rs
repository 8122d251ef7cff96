//! A group as a group file writes it: what `group get` prints can be applied again.

use rollcall_ident::Millis;
use serde_json::Value;

use crate::view::{GroupView, PolicyView, WindowView};

/// The whole declaration.
pub fn to_file(group: &GroupView) -> String {
    let text = |text: Option<&String>| Value::from(text.map(String::as_str).unwrap_or_default());
    let mut lines = vec!["[group]".to_owned(), line("name", &group.name.as_str().into())];
    if group.package.is_some() {
        lines.push(line("package", &text(group.package.as_ref())));
    }
    lines.push(line("channel", &text(group.channel.as_ref())));
    if group.update_condition.is_some() {
        lines.push(line("update_condition", &text(group.update_condition.as_ref())));
    }
    if group.windows.is_empty() {
        // Applied to a group that has windows, the file says that there are none. Keys of the file itself come first.
        lines.insert(0, "window = []  # none: always open\n".to_owned());
    }
    lines.push(String::new());
    lines.extend(to_policy_lines(&group.policy));
    lines.extend(group.windows.iter().flat_map(|window| [String::new()].into_iter().chain(to_window_lines(window))));
    lines.extend([String::new(), to_config_table(&group.config)]);
    lines.join("\n").trim_end().to_owned()
}

/// The `[config]` table, with those below it; empty where there is none, which says that there is none.
pub fn to_config_table(config: &toml::Table) -> String {
    let file = toml::Table::from_iter([("config".to_owned(), toml::Value::Table(config.clone()))]);
    file.to_string()
}

/// The `[policy]` table: `min_healthy_time = "10s"`.
pub fn to_policy_lines(policy: &PolicyView) -> Vec<String> {
    let Ok(Value::Object(fields)) = serde_json::to_value(policy) else { return Vec::new() };
    let fields = fields.iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| line(key, value));
    [String::from("[policy]")].into_iter().chain(fields).collect()
}

/// One `[[window]]` table. Ids aren't declared.
pub fn to_window_lines(window: &WindowView) -> Vec<String> {
    vec![
        "[[window]]".to_owned(),
        line("days", &window.days.clone().into()),
        line("start_time", &window.start_time.as_str().into()),
        line("length_ms", &window.length_ms.into()),
        line("time_zone", &window.time_zone.as_str().into()),
    ]
}

fn line(key: &str, value: &Value) -> String {
    match (key.strip_suffix("_ms"), value) {
        (Some(name), Value::Number(ms)) => format!("{name} = \"{}\"", Millis(ms.as_u64().unwrap_or_default())),
        (_, Value::Number(permille)) if key == "max_failure_permille" => {
            let permille = permille.as_u64().unwrap_or_default();
            format!("max_failure_ratio = {}.{:03}", permille / 1000, permille % 1000)
        }
        (_, Value::Array(items)) => {
            let items: Vec<_> = items.iter().map(Value::to_string).collect();
            format!("{key} = [{}]", items.join(", "))
        }
        _ => format!("{key} = {value}"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rollcall_proto::v1;

    use super::*;

    #[test]
    fn policies_read_as_a_group_file_writes_them() {
        let policy = PolicyView {
            max_parallel: Some("25%".to_owned()),
            min_healthy_time_ms: Some(90_000),
            max_failure_permille: Some(250),
            inventory: Some(vec!["a".to_owned(), "b".to_owned()]),
            ..PolicyView::default()
        };
        assert_eq!(
            to_policy_lines(&policy),
            [
                "[policy]",
                "max_parallel = \"25%\"",
                "inventory = [\"a\", \"b\"]",
                "min_healthy_time = \"1m30s\"",
                "max_failure_ratio = 0.250",
            ]
        );
    }

    #[test]
    fn what_is_printed_can_be_applied_again() {
        let windowless = include_str!("documented.toml").split("[[window]]").next().unwrap();
        for text in [include_str!("documented.toml"), &format!("window = []\n{windowless}")] {
            let mut spec = super::super::parse(Path::new("g.toml"), text).unwrap();
            // What is printed says all, also that there is nothing.
            spec.config.get_or_insert_default();
            let group = GroupView::from(v1::Group { spec: Some(spec.clone()), ..v1::Group::default() });
            assert_eq!(super::super::parse(Path::new("again.toml"), &to_file(&group)).unwrap(), spec);
        }
    }
}
