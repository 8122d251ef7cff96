//! Lists that come in pages: all of them are fetched, up to a limit.

use crate::failure::Failure;
use crate::view::List;

/// BOUND: one page; far below what a message may hold.
const LARGEST_PAGE: usize = 500;

/// One page, as a service gave it.
pub struct OnePage<T> {
    pub revision: u64,
    pub items: Vec<T>,
    pub next_token: String,
}

/// Fetches pages by `fetch(page_size, page_token)` until there is none left or `limit` items have come.
/// The revision is the last page's.
pub async fn all_pages<T>(
    limit: Option<usize>,
    fetch: impl AsyncFn(u32, String) -> Result<OnePage<T>, Failure>,
) -> Result<List<T>, Failure> {
    let limit = limit.unwrap_or(usize::MAX);
    let mut list = List { revision: 0, items: Vec::new() };
    let mut token = String::new();
    loop {
        let wanted = limit.saturating_sub(list.items.len()).clamp(1, LARGEST_PAGE);
        let page = fetch(u32::try_from(wanted).unwrap_or(u32::MAX), token.clone()).await?;
        list.revision = page.revision;
        list.items.extend(page.items);
        // A token that doesn't move would never end.
        if page.next_token.is_empty() || page.next_token == token || list.items.len() >= limit {
            list.items.truncate(limit);
            return Ok(list);
        }
        token = page.next_token;
    }
}
