//! Jepsen's own form of a history: one EDN map a line, for whoever wants another opinion (Knossos, Elle).

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::ops::{Kind, Op};

/// Writes a history.
pub fn write(path: &Path, history: &[Op]) -> Result<()> {
    let file = std::fs::File::create(path).with_context(|| format!("can't create {}", path.display()))?;
    let mut file = std::io::BufWriter::new(file);
    for op in history {
        writeln!(file, "{}", line(op))?;
    }
    Ok(file.flush()?)
}

fn line(op: &Op) -> String {
    let kind = match op.kind {
        Kind::Invoke => "invoke",
        Kind::Ok => "ok",
        Kind::Fail => "fail",
        Kind::Info => "info",
    };
    let process = op.process.map_or(":nemesis".to_owned(), |process| process.to_string());
    let mut line = format!(
        "{{:index {}, :time {}, :process {process}, :type :{kind}, :f :{}, :value ",
        op.index,
        op.time,
        op.f.replace('_', "-")
    );
    put(&mut line, &op.value);
    for (name, text) in [("peer", &op.peer), ("error", &op.error)] {
        if let Some(text) = text {
            let _ = write!(line, ", :{name} ");
            put(&mut line, &Value::from(text.as_str()));
        }
    }
    line.push('}');
    line
}

fn put(line: &mut String, value: &Value) {
    match value {
        Value::Null => line.push_str("nil"),
        // EDN's strings have JSON's escapes.
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let _ = write!(line, "{value}");
        }
        Value::Array(values) => put_all(line, ('[', ']'), values.iter(), put),
        Value::Object(fields) => put_all(line, ('{', '}'), fields.iter(), |line, (name, value)| {
            let _ = write!(line, ":{} ", name.replace('_', "-"));
            put(line, value);
        }),
    }
}

fn put_all<T>(
    line: &mut String,
    around: (char, char),
    items: impl Iterator<Item = T>,
    put_one: impl Fn(&mut String, T),
) {
    line.push(around.0);
    for (place, item) in items.enumerate() {
        if place > 0 {
            line.push_str(", ");
        }
        put_one(line, item);
    }
    line.push(around.1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_is_as_jepsen_writes_it() {
        let value = json!({"key": "a", "value": [1, null, "x\"y"], "at_revision": 7});
        let op = Op {
            index: 4,
            time: 99,
            process: Some(3),
            kind: Kind::Ok,
            f: "stale_read".into(),
            value,
            peer: Some("peer-1".into()),
            error: None,
        };
        assert_eq!(
            line(&op),
            "{:index 4, :time 99, :process 3, :type :ok, :f :stale-read, :value {:key \"a\", :value [1, nil, \
             \"x\\\"y\"], :at-revision 7}, :peer \"peer-1\"}"
        );
        let kill = Op { process: None, kind: Kind::Info, f: "kill".into(), value: Value::Null, peer: None, ..op };
        assert!(line(&kill).contains(":process :nemesis, :type :info, :f :kill, :value nil}"));
    }
}
