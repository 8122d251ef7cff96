//! The pure step machine of a node, and the recovery of its journal.
