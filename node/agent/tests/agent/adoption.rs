//! adoption
