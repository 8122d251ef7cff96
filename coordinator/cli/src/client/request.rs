//! What a request says of itself: the id by which a write is known when it is sent again.

use rollcall_proto::v1::{
    AddPeerRequest, ApplyGroupRequest, ClusterStatusRequest, CreateChannelRequest, DeleteChannelRequest,
    DeleteGroupRequest, DemoteRequest, ExplainRequest, GetGroupRequest, GetNodeRequest, GetRolloutRequest,
    InitClusterRequest, ListChannelsRequest, ListEventsRequest, ListGroupsRequest, ListNodesRequest,
    ListRolloutsRequest, ListTokensRequest, PlanRolloutRequest, PromoteRequest, RemoveNodeRequest, RemovePeerRequest,
    RolloutVerbRequest, StartRolloutRequest, TransferLeaderRequest, WatchEventsRequest, WatchRolloutRequest,
};

/// A request of the API.
pub trait ApiRequest: Clone {
    /// The id of a write that the cluster remembers; `None` for everything else.
    fn request_id(&self) -> Option<&str>;
}

macro_rules! writes {
    ($($request:ident),+ $(,)?) => {
        $(impl ApiRequest for $request {
            fn request_id(&self) -> Option<&str> {
                self.options.as_ref().map(|options| options.request_id.as_str())
            }
        })+
    };
}

macro_rules! without_id {
    ($($request:ident),+ $(,)?) => {
        $(impl ApiRequest for $request {
            fn request_id(&self) -> Option<&str> {
                None
            }
        })+
    };
}

writes! {
    AddPeerRequest, ApplyGroupRequest, CreateChannelRequest, DeleteChannelRequest, DeleteGroupRequest, DemoteRequest,
    PromoteRequest, RemoveNodeRequest, RemovePeerRequest, RolloutVerbRequest, StartRolloutRequest,
}

without_id! {
    ClusterStatusRequest, ExplainRequest, GetGroupRequest, GetNodeRequest, GetRolloutRequest, InitClusterRequest,
    ListChannelsRequest, ListEventsRequest, ListGroupsRequest, ListNodesRequest, ListRolloutsRequest,
    ListTokensRequest, PlanRolloutRequest, TransferLeaderRequest, WatchEventsRequest, WatchRolloutRequest,
}
