//! The top-level controller (H-2).

use super::HeraclesParams;
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
    /// Batch stays on, or goes on where `enable`.
    Run {
        /// Whether it goes on if it is off.
        enable: bool,
        /// Whether it may grow from now on; none = as before.
        growth: Option<bool>,
        /// Whether it keeps only a few cores.
        shrink: bool,
    },
}

/// Judges one round.
pub(super) fn judge(worst: &Worst, params: &HeraclesParams) -> Judgement {
    if worst.slack_below(0.0) {
        return Judgement::Disable { rule: "disable-slack-negative", rest: true };
    }
    if worst.load_above(params.load_high_frac) {
        return Judgement::Disable { rule: "disable-load-high", rest: false };
    }
    let enable = worst.load_below(params.load_low_frac);
    let short = worst.slack_below(params.slack_no_growth_frac);
    if short && !(enable && params.literal_order) {
        let shrink = worst.slack_below(params.slack_shrink_frac);
        return Judgement::Run { enable, growth: Some(false), shrink };
    }
    let recovered = !params.literal_order && worst.slack.is_some();
    let growth = (enable || recovered).then_some(true);
    Judgement::Run { enable, growth, shrink: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLACK_OFF: Judgement = Judgement::Disable { rule: "disable-slack-negative", rest: true };
    const LOAD_OFF: Judgement = Judgement::Disable { rule: "disable-load-high", rest: false };

    fn run(enable: bool, growth: Option<bool>, shrink: bool) -> Judgement {
        Judgement::Run { enable, growth, shrink }
    }

    fn judged(params: &HeraclesParams, load: f64, slack: f64) -> Judgement {
        judge(&Worst { slack: Some(slack), load: Some(load), all_known: true }, params)
    }

    #[test]
    fn slack_acts_whenever_batch_is_on() {
        let params = HeraclesParams::default();
        for (load, slack, expected) in [
            (0.50, -0.01, SLACK_OFF),
            (0.90, -0.01, SLACK_OFF),
            (0.86, 0.50, LOAD_OFF),
            (0.79, 0.50, run(true, Some(true), false)),
            (0.79, 0.09, run(true, Some(false), false)),
            (0.79, 0.04, run(true, Some(false), true)),
            (0.82, 0.09, run(false, Some(false), false)),
            (0.82, 0.04, run(false, Some(false), true)),
            (0.82, 0.50, run(false, Some(true), false)),
        ] {
            assert_eq!(judged(&params, load, slack), expected, "{load} {slack}");
        }
    }

    #[test]
    fn printed_order_lets_slack_act_only_between_the_load_bounds() {
        let params = HeraclesParams { literal_order: true, ..HeraclesParams::default() };
        for (load, slack, expected) in [
            (0.50, -0.01, SLACK_OFF),
            (0.79, 0.04, run(true, Some(true), false)),
            (0.82, 0.04, run(false, Some(false), true)),
            (0.82, 0.50, run(false, None, false)),
        ] {
            assert_eq!(judged(&params, load, slack), expected, "{load} {slack}");
        }
    }

    #[test]
    fn nothing_known_changes_nothing() {
        let blind = Worst { slack: None, load: None, all_known: false };
        assert_eq!(judge(&blind, &HeraclesParams::default()), run(false, None, false));
    }
}
