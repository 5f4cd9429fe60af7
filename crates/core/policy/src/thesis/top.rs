//! The top controller: Algorithm 4.1 (T-9 to T-11).

use super::ThesisParams;
use crate::parts::Worst;

/// What a round of the top controller decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// Batch goes off.
    Disable {
        /// Why.
        rule: &'static str,
        /// Whether the controller rests for the cool-down.
        rest: bool,
    },
    /// Batch goes on and may grow.
    Enable,
    /// Batch stays as it is.
    Pause {
        /// Whether it also loses a core.
        shrink: bool,
    },
    /// Nothing changes.
    Keep,
}

/// The top controller's memory: how many bad rounds came in a row.
#[derive(Clone, Debug, Default)]
pub(super) struct Top {
    pub(super) bad: u32,
}

impl Top {
    /// Judges one round. The order of the tests is the printed one and matters: below
    /// `load_low_frac` a small slack does not pause growth (T-10).
    pub(super) fn judge(&mut self, worst: &Worst, params: &ThesisParams) -> Judgement {
        if worst.slack_below(0.0) {
            return self.count_bad(params, "disable-slack-negative", true);
        }
        if worst.load_above(params.load_high_frac) {
            return self.count_bad(params, "disable-load-high", false);
        }
        let short = worst.slack_below(params.slack_pause_frac);
        let low = worst.load_below(params.load_low_frac);
        if low && !(short && params.honour_slack_at_low_load) {
            self.bad = 0;
            return Judgement::Enable;
        }
        if short {
            self.bad = 0;
            return Judgement::Pause { shrink: worst.slack_below(params.slack_shrink_frac) };
        }
        if params.reset_bad_when_neutral && worst.slack.is_some() {
            self.bad = 0;
        }
        Judgement::Keep
    }

    fn count_bad(&mut self, params: &ThesisParams, rule: &'static str, rest: bool) -> Judgement {
        self.bad = self.bad.saturating_add(1);
        if self.bad > params.bad_rounds_tolerated {
            Judgement::Disable { rule, rest }
        } else {
            Judgement::Keep
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Judgement::{Enable, Keep, Pause};

    fn worst(load: f64, slack: f64) -> Worst {
        Worst { slack: Some(slack), load: Some(load), all_known: true }
    }

    fn rounds(params: &ThesisParams, inputs: &[(f64, f64)]) -> Vec<Judgement> {
        let mut top = Top::default();
        inputs.iter().map(|&(load, slack)| top.judge(&worst(load, slack), params)).collect()
    }

    const SLACK_OFF: Judgement = Judgement::Disable { rule: "disable-slack-negative", rest: true };
    const LOAD_OFF: Judgement = Judgement::Disable { rule: "disable-load-high", rest: false };

    #[test]
    fn tests_are_made_in_the_printed_order() {
        let params = ThesisParams::default();
        for (load, slack, expected) in [
            (0.50, -0.01, Keep), // negative slack comes first, first bad round
            (0.90, 0.90, Keep),  // then high load, first bad round
            (0.69, 0.01, Enable),
            (0.69, 0.90, Enable),
            (0.70, 0.39, Pause { shrink: false }),
            (0.70, 0.20, Pause { shrink: false }),
            (0.70, 0.19, Pause { shrink: true }),
            (0.85, 0.19, Pause { shrink: true }),
            (0.80, 0.40, Keep),
            (0.70, 0.90, Keep),
        ] {
            assert_eq!(rounds(&params, &[(load, slack)]), [expected], "{load} {slack}");
        }
    }

    #[test]
    fn below_70_percent_load_small_slack_does_not_pause_growth_unless_asked_to() {
        let mut params = ThesisParams::default();
        assert_eq!(rounds(&params, &[(0.3, 0.05)]), [Enable]);
        params.honour_slack_at_low_load = true;
        assert_eq!(rounds(&params, &[(0.3, 0.05)]), [Pause { shrink: true }]);
        assert_eq!(rounds(&params, &[(0.3, 0.5)]), [Enable]);
    }

    #[test]
    fn two_bad_rounds_in_a_row_put_batch_off() {
        let params = ThesisParams::default();
        assert_eq!(rounds(&params, &[(0.5, -0.1), (0.5, -0.1)]), [Keep, SLACK_OFF]);
        assert_eq!(rounds(&params, &[(0.9, 0.5), (0.9, 0.5)]), [Keep, LOAD_OFF]);
        assert_eq!(rounds(&params, &[(0.9, 0.5), (0.9, -0.5)]), [Keep, SLACK_OFF]);
        let forgotten = [(0.5, -0.1), (0.5, 0.1), (0.5, -0.1)];
        assert_eq!(rounds(&params, &forgotten), [Keep, Enable, Keep]);
    }

    #[test]
    fn a_neutral_round_forgets_bad_ones_unless_literal() {
        let mut params = ThesisParams::default();
        let inputs = [(0.8, -0.1), (0.8, 0.5), (0.8, -0.1)];
        assert_eq!(rounds(&params, &inputs), [Keep, Keep, Keep]);
        params.reset_bad_when_neutral = false;
        assert_eq!(rounds(&params, &inputs), [Keep, Keep, SLACK_OFF]);
    }

    #[test]
    fn nothing_known_changes_nothing() {
        let blind = Worst { slack: None, load: None, all_known: false };
        let mut top = Top { bad: 1 };
        assert_eq!(top.judge(&blind, &ThesisParams::default()), Keep);
        assert_eq!(top.bad, 1);
    }
}
