//! What panics say: an assertion in the product that doesn't hold is a finding as any other.

use std::sync::{Arc, Mutex, PoisonError};

/// The last panic's words and place.
pub struct Panics(Arc<Mutex<String>>);

/// From now on panics of this process are remembered, and not printed.
#[must_use]
pub fn catch() -> Panics {
    let last = Arc::new(Mutex::new(String::new()));
    let noted = last.clone();
    std::panic::set_hook(Box::new(move |info| {
        let mut last = noted.lock().unwrap_or_else(PoisonError::into_inner);
        // What follows from the first is no news.
        if last.is_empty() {
            let place = info.location().map(|at| format!("{}:{}", at.file(), at.line())).unwrap_or_default();
            *last = format!("{} ({place})", info.payload_as_str().unwrap_or("a panic without words"));
        }
    }));
    Panics(last)
}

impl Panics {
    /// What it said.
    #[must_use]
    pub fn last(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
