//! Fields of requests.

use std::str::FromStr;

use rollcall_ident::ParseError;

/// A field of a request that can't be what it was given as.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct FieldError {
    /// The field, as in the request or the group file.
    pub field: String,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl FieldError {
    /// `field` has a `problem`.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}

/// A field that must be there.
///
/// # Errors
/// Names the field and what was expected.
pub fn required<T: FromStr<Err = ParseError>>(field: &str, text: &str) -> Result<T, FieldError> {
    text.parse().map_err(|error: ParseError| FieldError::new(field, error.to_string()))
}

/// A field that may be empty.
///
/// # Errors
/// As of [`required`], if it isn't empty.
pub fn optional<T: FromStr<Err = ParseError>>(field: &str, text: &str) -> Result<Option<T>, FieldError> {
    if text.is_empty() { Ok(None) } else { required(field, text).map(Some) }
}

/// A text cut to at most `limit` bytes from its end or its beginning, at a character.
pub(super) fn clipped(text: String, limit: usize, keep: Keep) -> String {
    if text.len() <= limit {
        return text;
    }
    match keep {
        Keep::Begin => text[..text.floor_char_boundary(limit)].to_owned(),
        Keep::End => text[text.ceil_char_boundary(text.len() - limit)..].to_owned(),
    }
}

/// Which part of a text that is too long matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Begin,
    End,
}

#[cfg(test)]
mod tests {
    use rollcall_ident::GroupName;

    use super::*;

    #[test]
    fn a_bad_field_is_named_with_what_was_expected() {
        let error = required::<GroupName>("group", "redis").unwrap_err();
        assert_eq!(error.to_string(), "group: \"redis\" is not a group name: service.group, like redis.default");
        assert_eq!(optional::<GroupName>("group", ""), Ok(None));
    }

    #[test]
    fn clipping_keeps_characters_whole() {
        assert_eq!(clipped("aé".to_owned(), 2, Keep::Begin), "a");
        assert_eq!(clipped("éa".to_owned(), 2, Keep::End), "a");
        assert_eq!(clipped("abc".to_owned(), 3, Keep::End), "abc");
    }
}
