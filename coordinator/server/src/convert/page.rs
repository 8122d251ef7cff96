//! Pages of lists. A token is the key of the last item on the page before, so a list that changes in between neither
//! repeats nor skips what stays in it.

use std::str::FromStr;

use rollcall_ident::ParseError;

use super::{FieldError, optional};

/// How many items a page may have: what was asked for, or the default, or the most.
pub fn page_size(asked: u32, default: usize, most: usize) -> usize {
    match usize::try_from(asked) {
        Ok(0) | Err(_) => default,
        Ok(asked) => asked.min(most),
    }
}

/// The key behind which the page begins.
///
/// # Errors
/// A token that no page of ours carried.
pub fn page_token<K: FromStr<Err = ParseError>>(token: &str) -> Result<Option<K>, FieldError> {
    optional("page_token", token).map_err(|error| {
        FieldError::new("page_token", format!("not a token of this list ({}); begin again without one", error.problem))
    })
}
