//! Pages of lists. A token is the key of the last item on the page before, so a list that changes in between neither
//! repeats nor skips what stays in it.

use std::str::FromStr;

use prost::Message;
use rollcall_ident::ParseError;

use super::{FieldError, optional};

/// BOUND: bytes of a page, beside its number of items: it ends with the item that reaches it. A rollout over 10,000 nodes
/// is some MiB, and a hundred of them aren't one answer.
const PAGE_BYTES: usize = 1 << 20;

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

/// The items of a page that are on it, as they are sent, and the token of the next one; empty where it is the last.
pub fn page<T, M: Message>(
    items: impl Iterator<Item = T>,
    size: usize,
    key: impl Fn(&T) -> String,
    send: impl Fn(T) -> M,
) -> (Vec<M>, String) {
    let mut items = items.peekable();
    let (mut page, mut bytes, mut token) = (Vec::new(), 0, String::new());
    while page.len() < size
        && bytes < PAGE_BYTES
        && let Some(item) = items.next()
    {
        token = key(&item);
        let message = send(item);
        bytes += message.encoded_len();
        page.push(message);
    }
    if items.peek().is_none() {
        token.clear();
    }
    (page, token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_strings(sizes: &[usize], size: usize) -> (usize, String) {
        let (page, token) =
            page(sizes.iter().enumerate(), size, |(at, _)| at.to_string(), |(_, bytes)| "x".repeat(*bytes));
        (page.len(), token)
    }

    #[test]
    fn a_page_ends_by_its_items_and_by_its_bytes() {
        let small = [10; 7];
        assert_eq!(of_strings(&small, 5), (5, "4".to_owned()));
        assert_eq!(of_strings(&small, 7), (7, String::new()));
        let large = [600 << 10; 7];
        assert_eq!(of_strings(&large, 5), (2, "1".to_owned()));
        assert_eq!(of_strings(&[8 << 20, 1], 5), (1, "0".to_owned()), "one item there is, however large");
        assert_eq!(of_strings(&[], 5), (0, String::new()));
    }
}
