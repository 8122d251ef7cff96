//! What panics say: an assertion in the product that doesn't hold is a finding as any other.

use std::sync::{Arc, Mutex, PoisonError};

/// The last panic's words and place.
pub struct Panics(Arc<Mutex<String>>);

/// From now on the first panic of this process is remembered; what follows from it is no news.
#[must_use]
pub fn catch() -> Panics {
    let last = Arc::new(Mutex::new(String::new()));
    let noted = last.clone();
    std::panic::set_hook(Box::new(move |info| {
        let mut last = noted.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_empty() {
            let place = info.location().map(|at| format!("{}:{}", at.file(), at.line())).unwrap_or_default();
            *last = format!("{} ({place})", info.payload_as_str().unwrap_or("a panic without words"));
            // It may take the process with it before there is a verdict.
            eprintln!("panicked: {last}");
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
