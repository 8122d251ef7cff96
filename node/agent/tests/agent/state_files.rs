//! state_files
