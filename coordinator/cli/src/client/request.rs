//! What a request says of itself: the id by which a write is known when it is sent again.

use rollcall_proto::v1::{
    AddPeerRequest, AddWindowRequest, ApplyGroupRequest, AuditRequest, ClusterStatusRequest, CreateChannelRequest,
    CreateFreezeRequest, DeleteChannelRequest, DeleteGroupRequest, DemoteRequest, DoctorRequest, ExplainRequest,
    GetGroupRequest, GetNodeRequest, GetRolloutRequest, HoldNodeRequest, InitClusterRequest, LiftFreezeRequest,
    ListChannelsRequest, ListEventsRequest, ListFreezesRequest, ListGroupsRequest, ListNodesRequest,
    ListQuarantineRequest, ListRolloutsRequest, ListTokensRequest, ListWindowsRequest, PlanRolloutRequest,
    PromoteRequest, QuarantineRequest, ReleaseNodeRequest, RemoveNodeRequest, RemovePeerRequest, RemoveWindowRequest,
    ReplaceNodeRequest, RevokeTokenRequest, RolloutVerbRequest, SaveSnapshotRequest, SetHealthRequest,
    StartRolloutRequest, TransferLeaderRequest, UndoRolloutRequest, WatchEventsRequest, WatchRolloutRequest,
};

/// A request of the API.
pub trait ApiRequest: Clone {
    /// The id of a write that the cluster remembers; `None` for everything else.
    fn request_id(&self) -> Option<&str>;

    /// Whether a peer may work on it for long, so that its silence is no reason to ask another one.
    fn is_slow(&self) -> bool;
}

macro_rules! requests {
    ($($request:ident: $request_id:expr, $is_slow:literal;)+) => {
        $(impl ApiRequest for $request {
            fn request_id(&self) -> Option<&str> {
                let request_id: fn(&Self) -> Option<&str> = $request_id;
                request_id(self)
            }

            fn is_slow(&self) -> bool {
                $is_slow
            }
        })+
    };
}

macro_rules! reads {
    ($($request:ident),+ $(,)?) => {
        requests! { $($request: |_| None, false;)+ }
    };
}

macro_rules! writes {
    ($($request:ident),+ $(,)?) => {
        requests! {
            $($request: |request| request.options.as_ref().map(|options| options.request_id.as_str()), false;)+
        }
    };
}

/// Changes of the peers are known by what they change, not by an id; a new peer catches up first.
macro_rules! changes_of_peers {
    ($($request:ident),+ $(,)?) => {
        requests! { $($request: |_| None, true;)+ }
    };
}

reads! {
    AuditRequest, ClusterStatusRequest, DoctorRequest, ExplainRequest, GetGroupRequest, GetNodeRequest, GetRolloutRequest, ListChannelsRequest, ListEventsRequest, ListFreezesRequest, ListGroupsRequest, ListNodesRequest, ListQuarantineRequest, ListRolloutsRequest, ListTokensRequest, ListWindowsRequest, PlanRolloutRequest, SaveSnapshotRequest, WatchEventsRequest, WatchRolloutRequest,
}

writes! {
    AddWindowRequest, ApplyGroupRequest, CreateChannelRequest, CreateFreezeRequest, DeleteChannelRequest,
    DeleteGroupRequest, DemoteRequest, HoldNodeRequest, LiftFreezeRequest, PromoteRequest, QuarantineRequest,
    ReleaseNodeRequest, RemoveNodeRequest, RemoveWindowRequest, ReplaceNodeRequest, RevokeTokenRequest, RolloutVerbRequest,
    SetHealthRequest, StartRolloutRequest, UndoRolloutRequest,
}

changes_of_peers! {
    AddPeerRequest, InitClusterRequest, RemovePeerRequest, TransferLeaderRequest,
}
