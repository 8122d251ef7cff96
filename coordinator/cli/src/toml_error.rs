//! Errors in TOML files: they name the file, the line, the key, and what was expected.

use std::ops::Range;
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

use crate::failure::Failure;

/// A TOML text and where it came from.
pub struct TomlSource<'a> {
    path: &'a Path,
    text: &'a str,
}

impl<'a> TomlSource<'a> {
    pub fn new(path: &'a Path, text: &'a str) -> Self {
        Self { path, text }
    }

    /// Reads it as a `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        toml::from_str(self.text).map_err(|error| match error.span() {
            Some(span) => self.error_at(&span, error.message()),
            None => Failure::Usage(format!("{}: {}", self.path.display(), error.message())),
        })
    }

    /// An error about what stands at a span.
    pub fn error_at(&self, span: &Range<usize>, message: &str) -> Failure {
        let before = &self.text[..span.start.min(self.text.len())];
        let line = before.matches('\n').count() + 1;
        let key = self.key_at(span).map(|key| format!("{key}: ")).unwrap_or_default();
        let message = message.trim().replace('\n', "; ");
        Failure::Usage(format!("{}:{line}: {key}{message}", self.path.display()))
    }

    /// The dotted path of the key that a span belongs to; `None` where the text is no TOML.
    fn key_at(&self, span: &Range<usize>) -> Option<String> {
        let table = DeTable::parse(self.text).ok()?;
        let mut path = Vec::new();
        find_key(table.get_ref(), span, &mut path);
        (!path.is_empty()).then(|| path.join("."))
    }
}

/// Descends to the key or value that holds a span's start, and leaves the way there in `path`.
fn find_key(table: &DeTable<'_>, span: &Range<usize>, path: &mut Vec<String>) -> bool {
    for (key, value) in table.iter() {
        path.push(key.get_ref().to_string());
        if key.span().contains(&span.start) || find_in_value(value.get_ref(), &value.span(), span, path) {
            return true;
        }
        path.pop();
    }
    false
}

fn find_in_value(value: &DeValue<'_>, at: &Range<usize>, span: &Range<usize>, path: &mut Vec<String>) -> bool {
    let found_inside = match value {
        DeValue::Table(table) => find_key(table, span, path),
        DeValue::Array(array) => array.iter().any(|item| match item.get_ref() {
            DeValue::Table(table) => find_key(table, span, path),
            _ => false,
        }),
        _ => false,
    };
    found_inside || at.contains(&span.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[allow(dead_code)]
        policy: Policy,
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Policy {
        #[allow(dead_code)]
        canary: Option<u32>,
    }

    fn error_of(text: &str) -> String {
        TomlSource::new(Path::new("x.toml"), text).parse::<File>().unwrap_err().to_string()
    }

    #[test]
    fn unknown_key_is_named_with_its_line() {
        assert_eq!(
            error_of("[policy]\n# why\ncanari = 1\n"),
            "error: x.toml:3: policy.canari: unknown field `canari`, expected `canary`"
        );
    }

    #[test]
    fn wrong_type_is_named_with_its_line() {
        assert_eq!(
            error_of("[policy]\ncanary = \"one\"\n"),
            "error: x.toml:2: policy.canary: invalid type: string \"one\", expected u32"
        );
    }

    #[test]
    fn text_that_is_no_toml_is_named_with_its_line() {
        assert!(error_of("[policy]\ncanary = = 1\n").starts_with("error: x.toml:2: "));
    }
}
