//! The API's services over one channel, with the bounds that all calls share.

use rollcall_proto::v1::channel_service_client::ChannelServiceClient;
use rollcall_proto::v1::cluster_service_client::ClusterServiceClient;
use rollcall_proto::v1::event_service_client::EventServiceClient;
use rollcall_proto::v1::group_service_client::GroupServiceClient;
use rollcall_proto::v1::node_service_client::NodeServiceClient;
use rollcall_proto::v1::rollout_service_client::RolloutServiceClient;
use rollcall_proto::v1::token_service_client::TokenServiceClient;
use rollcall_proto::v1::window_service_client::WindowServiceClient;
use tonic::transport::Channel;

/// BOUND: a rollout over thousands of nodes with its history is a few MiB.
const LARGEST_ANSWER: usize = 64 << 20;

macro_rules! services {
    ($($(#[$doc:meta])* $function:ident: $client:ident),+ $(,)?) => {
        $($(#[$doc])*
        pub fn $function(channel: Channel) -> $client<Channel> {
            $client::new(channel).max_decoding_message_size(LARGEST_ANSWER)
        })+
    };
}

services! {
    /// Service groups.
    groups: GroupServiceClient,
    /// Rollouts.
    rollouts: RolloutServiceClient,
    /// Nodes.
    nodes: NodeServiceClient,
    /// Tokens.
    tokens: TokenServiceClient,
    /// Channels and what is in them.
    channels: ChannelServiceClient,
    /// Maintenance windows and change freezes.
    windows: WindowServiceClient,
    /// The log for people and programs.
    events: EventServiceClient,
    /// The peers.
    clusters: ClusterServiceClient,
}
