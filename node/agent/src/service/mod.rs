//! One service of the node: its process, its health, its releases, and the step that moves it.

mod configs;
mod context;
mod health;
mod orders;
mod post_run;
mod prefetch;
mod sample;
mod status;
mod task;

pub use configs::Configs;
pub use context::{FenceFloor, NodeContext, ServiceContext, new_token};
pub use health::{Health, HealthSettings, HealthView, Pace};
pub use orders::{GroupOrders, HealthRules, OrderedStep, Target};
pub use prefetch::fetch;
pub use status::ServiceStatus;
pub use task::{Service, ServiceError, keep_up};
