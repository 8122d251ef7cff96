//! How far a node is in the step that it was ordered: what is still to be done, and said.

use rollcall_proto::v1;
use rollcall_proto::v1::step_report::Event;

/// The latest step that was ordered, and how much of it was done.
#[derive(Debug, Default)]
pub struct Progress {
    fence: u64,
    attempt: u32,
    done: usize,
}

impl Progress {
    /// The highest fence that was seen.
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// What the order allows and wasn't done yet: each once, in order. It counts as done.
    pub fn todo(&mut self, order: &v1::StepOrder) -> Vec<Event> {
        if order.fence < self.fence || (order.fence == self.fence && order.attempt < self.attempt) {
            return Vec::new();
        }
        if (order.fence, order.attempt) != (self.fence, self.attempt) {
            *self = Self { fence: order.fence, attempt: order.attempt, done: 0 };
        }
        let all = [
            Event::Accepted(v1::Accepted {}),
            Event::Prepared(v1::Prepared {}),
            Event::Drained(v1::Drained {}),
            Event::Stopped(v1::Stopped { killed: false }),
            Event::Installed(v1::Installed { hook_ran: true }),
            Event::Started(v1::Started { instance: None }),
            Event::Finished(v1::Finished::default()),
        ];
        let until = match order.go() {
            v1::Go::Prepare => 2,
            v1::Go::Drain => 3,
            v1::Go::Replace => 6,
            v1::Go::Finish => 7,
            // Nothing that is measured turns back; a node that does nothing then is seen by the measurement's bound.
            v1::Go::TurnBack | v1::Go::Unspecified => 0,
        };
        let begun = self.done;
        self.done = self.done.max(until);
        all.into_iter().take(until).skip(begun).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(fence: u64, go: v1::Go) -> v1::StepOrder {
        v1::StepOrder { fence, attempt: 1, go: go.into(), ..v1::StepOrder::default() }
    }

    #[test]
    fn each_part_is_done_once_and_in_order() {
        let mut progress = Progress::default();
        assert_eq!(progress.todo(&order(5, v1::Go::Prepare)).len(), 2);
        assert!(progress.todo(&order(5, v1::Go::Prepare)).is_empty(), "the same order again");
        assert_eq!(progress.todo(&order(5, v1::Go::Drain)), [Event::Drained(v1::Drained {})]);
        assert_eq!(progress.todo(&order(5, v1::Go::Replace)).len(), 3);
        assert_eq!(progress.todo(&order(5, v1::Go::Finish)), [Event::Finished(v1::Finished::default())]);
        assert!(progress.todo(&order(4, v1::Go::Prepare)).is_empty(), "an older grant");
        assert_eq!(progress.todo(&order(9, v1::Go::Prepare)).len(), 2, "a new one begins anew");
    }
}
