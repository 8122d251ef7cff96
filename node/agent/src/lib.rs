//! The agent: installs releases, runs hooks and the service, keeps the step journal.
