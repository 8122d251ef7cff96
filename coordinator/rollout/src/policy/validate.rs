//! What can't be, and what doesn't fit together.

use rollcall_ident::Millis;

use super::{Amount, FailureAction, Order, Policy, Ratio};

impl Policy {
    /// What is wrong with it: the field, and the problem with what would be right.
    ///
    /// # Errors
    /// The first field, in the order of the group file, that can't be or doesn't fit the others.
    pub fn validate(&self) -> Result<(), (&'static str, String)> {
        let positive = [
            ("success_threshold", self.success_threshold),
            ("failure_threshold", self.failure_threshold),
            ("max_attempts", self.max_attempts),
            ("revision_history_limit", self.revision_history_limit),
        ];
        if let Some((field, _)) = positive.into_iter().find(|(_, value)| *value == 0) {
            return Err((field, "must be at least 1".to_owned()));
        }
        for (field, amount) in [("max_parallel", self.max_parallel), ("max_unavailable", self.max_unavailable)] {
            amount.to_string().parse::<Amount>().map_err(|problem| (field, problem))?;
        }
        if let Some(problem) = self.batches.iter().find_map(|amount| amount.to_string().parse::<Amount>().err()) {
            return Err(("batches", problem));
        }
        if self.order == Order::Inventory && self.inventory.is_empty() {
            return Err(("inventory", "order = \"inventory\" needs the names of the members here".to_owned()));
        }
        let mut names: Vec<&String> = self.inventory.iter().collect();
        names.sort();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(("inventory", format!("names {:?} twice", pair[0])));
        }
        if self.max_failure_ratio > Ratio::NONE && self.failure_action != FailureAction::Continue {
            let problem = format!(
                "has a meaning with failure_action = \"continue\" only, not {:?}",
                self.failure_action.to_string()
            );
            return Err(("max_failure_ratio", problem));
        }
        let ascending = [
            ("min_healthy_time", self.min_healthy_time),
            ("healthy_deadline", self.healthy_deadline),
            ("progress_deadline", self.progress_deadline),
        ];
        ascends(&ascending)?;
        ascends(&[("stale_after", self.stale_after), ("lost_after", self.lost_after)])?;
        let timeouts = [
            ("ready_timeout", self.ready_timeout),
            ("drain_timeout", self.drain_timeout),
            ("reboot_timeout", self.reboot_timeout),
            ("stale_after", self.stale_after),
        ];
        match timeouts.into_iter().find(|(_, timeout)| timeout.0 == 0) {
            Some((field, _)) => Err((field, "must be longer than 0s".to_owned())),
            None => Ok(()),
        }
    }
}

/// Each duration must be shorter than the next.
fn ascends(durations: &[(&'static str, Millis)]) -> Result<(), (&'static str, String)> {
    match durations.windows(2).find(|pair| pair[0].1 >= pair[1].1) {
        Some(pair) => {
            let ((shorter, short), (longer, long)) = (pair[0], pair[1]);
            Err((longer, format!("is {long}, and must be longer than {shorter}, which is {short}")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_out_of_order_are_named() {
        assert_eq!(Policy::default().validate(), Ok(()));
        let policy = Policy { healthy_deadline: Millis::from_secs(5), ..Policy::default() };
        let (field, problem) = policy.validate().unwrap_err();
        assert_eq!(field, "healthy_deadline");
        assert_eq!(problem, "is 5s, and must be longer than min_healthy_time, which is 10s");
    }
}
