//! `rollcall rollout start` and `undo`: what makes a new rollout.

use std::str::FromStr;

use rollcall_ident::{GroupName, RolloutId};
use rollcall_proto::v1;

use crate::app::App;
use crate::args::{DigestArgs, Format, TargetArgs, WriteArgs};
use crate::client::rollouts;
use crate::failure::{Exit, Failure, Outcome};
use crate::view::{At, RolloutView};

/// A rollout whose target is gone back to: `r42`, or `42`.
#[derive(Debug, Clone, Copy)]
pub struct EarlierRollout(RolloutId);

impl FromStr for EarlierRollout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.parse().map(RolloutId).ok();
        let id = number.map_or_else(|| text.parse(), Ok);
        id.map(Self).map_err(|_| {
            format!("{text:?} is not a rollout: it looks like r42 or 42; `rollcall rollout history GROUP` shows them")
        })
    }
}

/// Runs `rollout start`.
pub async fn start(target: &TargetArgs, digest: DigestArgs, write: WriteArgs, app: &App) -> Outcome {
    let request = v1::StartRolloutRequest {
        group: target.group.to_string(),
        target: target.to.to_string(),
        digest: digest.into_wire(),
        options: Some(write.into_wire()),
    };
    let response = app.client.call(request, async |channel, request| rollouts(channel).start(request).await).await?;
    show(response, app)?;
    Ok(Exit::Done)
}

/// Runs `rollout undo`.
pub async fn undo(group: &GroupName, to: Option<EarlierRollout>, write: WriteArgs, app: &App) -> Outcome {
    let request = v1::UndoRolloutRequest {
        group: group.to_string(),
        to_rollout_id: to.map(|to| to.0.to_string()).unwrap_or_default(),
        options: Some(write.into_wire()),
    };
    let response = app.client.call(request, async |channel, request| rollouts(channel).undo(request).await).await?;
    let rollout = show(response, app)?;
    if app.output.format() == Format::Table {
        app.output.note(&format!("it goes back to {}", rollout.target));
    }
    Ok(Exit::Done)
}

/// The id alone, for `id=$(rollcall rollout start …)`; what it waits for goes beside it.
fn show(response: v1::StartRolloutResponse, app: &App) -> Result<RolloutView, Failure> {
    let rollout = response.rollout.ok_or_else(|| Failure::incomplete_answer("the rollout"))?;
    let view = At { revision: response.revision, item: RolloutView::from(rollout) };
    app.output.show_change(&view, &view.item.rollout_id)?;
    if let Some(ask) = view.item.asks_for().filter(|_| app.output.format() == Format::Table) {
        app.output.note(&ask);
    }
    Ok(view.item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_rollouts_are_named_by_id_or_number() {
        for text in ["r42", "42"] {
            assert_eq!(text.parse::<EarlierRollout>().unwrap().0, RolloutId(42), "{text}");
        }
        for text in ["", "r", "redis.default", "-1", "r42x"] {
            assert!(text.parse::<EarlierRollout>().unwrap_err().contains("like r42 or 42"), "{text}");
        }
    }
}
