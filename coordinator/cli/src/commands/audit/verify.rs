//! `rollcall audit --verify`: the copy of each endpoint is recomputed and held against where the replicated state stands,
//! and against the other copies.

use rollcall_ident::Digest;
use rollcall_proto::v1;

use super::chain::{Chain, Noted, noted};
use crate::app::App;
use crate::client::{Client, PeerAddress, events};
use crate::failure::{Exit, Failure, Outcome};
use crate::view::{CopyView, ProblemView, VerificationView};

/// BOUND: one page.
const PAGE: u32 = 1_000;

/// What the copy of one peer turned out to be.
struct Copy {
    endpoint: PeerAddress,
    peer_id: u64,
    chain: Chain,
    /// Where the chain stands in the state, by a linearizable read.
    head: Noted,
    problem: Option<ProblemView>,
}

/// Verifies the copies of all endpoints.
pub async fn run(since: u64, expected: Option<Noted>, app: &App) -> Outcome {
    let mut copies = Vec::new();
    let mut unanswered = Vec::new();
    for endpoint in app.client.addresses() {
        match fetch_copy(endpoint, since, app).await {
            Ok(copy) => copies.push(copy),
            Err(failure) => unanswered.push((endpoint, failure)),
        }
    }
    if copies.is_empty()
        && let Some((_, failure)) = unanswered.pop()
    {
        return Err(failure);
    }
    compare(&mut copies);
    if let Some(expected) = expected {
        copies.iter_mut().for_each(|copy| expect(copy, expected));
    }
    for (endpoint, failure) in &unanswered {
        app.output.note(&format!("{endpoint} wasn't verified: {failure}"));
    }
    let copies: Vec<_> = copies.into_iter().map(view).collect();
    let verified = unanswered.is_empty() && copies.iter().all(|copy| copy.verified);
    app.output.show(&VerificationView { verified, copies })?;
    Ok(if verified { Exit::Done } else { Exit::NotWell })
}

/// Fetches what a peer keeps, up to where its state stood when it was asked first, and recomputes it.
async fn fetch_copy(endpoint: &PeerAddress, since: u64, app: &App) -> Result<Copy, Failure> {
    let client = Client::with_endpoints(std::slice::from_ref(endpoint), app.config.timeout);
    let mut next = since;
    let mut copy: Option<Copy> = None;
    loop {
        let request = v1::AuditRequest { since_revision: next, limit: PAGE };
        let page = client.call(request, async |channel, request| events(channel).audit(request).await).await?;
        let head =
            noted(page.head.as_ref()).ok_or_else(|| Failure::incomplete_answer("where the audit chain stands"))?;
        let copy = copy.get_or_insert_with(|| Copy {
            endpoint: endpoint.clone(),
            peer_id: page.answering_peer_id,
            chain: Chain::default(),
            head,
            problem: None,
        });
        let head = copy.head;
        let wanted = page.records.iter().take_while(|record| record.revision <= head.revision);
        copy.problem = wanted.into_iter().find_map(|record| copy.chain.take(record).err());
        let is_end = !page.more || page.revision <= next || page.revision >= head.revision;
        if copy.problem.is_some() || is_end {
            break;
        }
        next = page.revision;
    }
    let mut copy = copy.ok_or_else(|| Failure::incomplete_answer("the audit trail"))?;
    if copy.problem.is_none() {
        copy.problem = copy.chain.end_at(copy.head).err();
    }
    Ok(copy)
}

/// Holds each copy against the first one that is whole in itself: where the hashes were made anew too, only this tells
/// at which revision.
fn compare(copies: &mut [Copy]) {
    let Some(whole) = copies.iter().find(|copy| copy.problem.is_none()) else { return };
    let detail = format!("it isn't the record that peer {} has", whole.peer_id);
    let differences: Vec<_> = copies.iter().map(|copy| copy.chain.first_difference(&whole.chain)).collect();
    for (copy, difference) in copies.iter_mut().zip(differences) {
        if let Some(revision) = difference {
            copy.problem = Some(ProblemView { revision, detail: detail.clone() });
        }
    }
}

fn expect(copy: &mut Copy, expected: Noted) {
    if copy.problem.is_some() {
        return;
    }
    let detail = match copy.chain.hash_at(expected.revision) {
        Some(hash) if hash == expected.hash => return,
        Some(hash) => format!("its hash is {}, and {} was noted", Digest(hash), Digest(expected.hash)),
        None => "the copy has no record of this revision, so the noted hash can't be checked".to_owned(),
    };
    copy.problem = Some(ProblemView { revision: expected.revision, detail });
}

fn view(copy: Copy) -> CopyView {
    let hex = |noted: Noted| Digest(noted.hash).to_string();
    let anchor = copy.chain.anchor;
    CopyView {
        endpoint: copy.endpoint.to_string(),
        peer_id: copy.peer_id.to_string(),
        verified: copy.problem.is_none(),
        anchor_revision: anchor.map(|anchor| anchor.revision),
        anchor_hash: anchor.map(hex),
        head_revision: copy.head.revision,
        head_hash: hex(copy.head),
        record_count: copy.chain.hashes.len(),
        problem: copy.problem,
    }
}
