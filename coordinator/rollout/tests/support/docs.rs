//! Tables in the docs that the code writes itself.

#![allow(clippy::disallowed_methods, reason = "the test reads and writes the docs, the crate may not")]

use std::path::{Path, PathBuf};

/// Compares what stands between the marks `<!-- name -->` and `<!-- /name -->` of a page with `text`;
/// `UPDATE_GOLDEN=1` writes it.
pub fn keep(page: &str, name: &str, text: &str) {
    let (file, before) = (path(page), read(page));
    let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let (head, rest) = before.split_once(&open).expect("the mark is in the page");
    let (_, tail) = rest.split_once(&close).expect("the mark is in the page");
    let after = format!("{head}{open}{text}{close}{tail}");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        // Several tests write to one page, each its own part.
        std::fs::write(&file, after).expect("the page can be written");
    } else {
        assert_eq!(after, before, "docs/{page} says something else than the code; UPDATE_GOLDEN=1 writes it");
    }
}

/// What a page says.
pub fn read(page: &str) -> String {
    std::fs::read_to_string(path(page)).expect("the page is in the tree")
}

fn path(page: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page)
}
