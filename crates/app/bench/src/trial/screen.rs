//! Leaves out, before anything is drawn, polluters that hurt this service on this machine too little.
//!
//! # Problem
//! What hurts is the machine's: who fills a cache hurts nobody where nothing of it is shared, and who streams within
//! it hardly anybody. A trial of such a culprit is discarded after its harm was measured, and where there are more of
//! them than may be discarded, no run comes to its end.
//!
//! # Idea
//! Each polluter is played twice, in crowds that no trial has and with all others in between, with Quell off and in as
//! many pairs of turns as a trial measures harm with, at full intensity. Who does too little, by the mean of both, is
//! not drawn. Twice, since a host's tenants and what it does with its CPUs make harm come and go within minutes: who did
//! nothing once may do much in a trial, and stays if it did so in the other look. By the mean, since of two looks at who
//! does little one is above the bound by chance: such a polluter was a third of all draws, none of which counted. If
//! nobody stays, nobody is left out: then the trials themselves say that hardly anything hurts here.
//!
//! Too little for much harm is less than half of what is wanted at least: that comes and goes, and with it who does so
//! much. Little harm is found by turning the culprit down, so that who does less than the middle of the class when it
//! works as hard as it can is of the class by chance at most: of draws of one who did 1.04 half were discarded. A
//! program is not turned down: of little harm, too, it may do less.
//!
//! Trials of those that stay are drawn and judged as without it.

use super::crowd::Crowd;
use super::draw::{Cast, Composition, Harm};
use super::harm::{Latencies, Measured};
use super::off::{Arrivals, OffTurns};
use super::patience::wants_cache;
use super::{BEFORE, Ground, SETTLED};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// What crowds of the rounds are drawn from: no trial has these numbers.
const NUMBERS: [u32; 2] = [u32::MAX, u32::MAX - 1];
/// Of the least much harm that is wanted, beyond none, less than so much is too little.
const ENOUGH_FRAC: f64 = 0.5;

/// A polluter that is not drawn, and what it did to the service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// What it runs.
    pub polluter: String,
    /// The harm in each round, as in trials.
    pub harm_ratios: Vec<f64>,
}

impl LeftOut {
    /// One line about it.
    pub(super) fn in_words(&self) -> String {
        let each: Vec<String> =
            self.harm_ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
        format!("{} is not drawn: it hurts {} times", self.polluter, each.join(" and "))
    }
}

/// What a polluter must do at full intensity to be drawn, as a factor; whether it can be turned down.
fn enough(wanted: Harm, turned_down: bool) -> f64 {
    match wanted.bounds() {
        None => 1.0,
        Some(class) if turned_down && class.end.is_finite() => (class.start * class.end).sqrt(),
        Some(class) => 1.0 + ENOUGH_FRAC * (class.start - 1.0),
    }
}

impl Ground<'_> {
    /// The cast without those polluters whose harm is too little, and these; what each does is told.
    pub(super) fn screen(
        &self,
        cast: Cast,
        rate: f64,
        say: &dyn Fn(&str),
    ) -> anyhow::Result<(Cast, Vec<LeftOut>)> {
        let options = self.options;
        let each = cast.each_polluter();
        // Who takes CPUs hurts everywhere; a control measures chance; the only one would stay whatever it did.
        if !wants_cache(options.harm, options.taken, options.control) || each.len() < 2 {
            return Ok((cast, Vec::new()));
        }
        let mut harms = vec![Vec::new(); each.len()];
        let looks = NUMBERS.len() * each.len();
        for (round, number) in NUMBERS.into_iter().enumerate() {
            for (place, one) in each.iter().enumerate() {
                self.interrupt.check()?;
                let harm = self.harm_of(one, number, rate)?;
                let look = round * each.len() + place + 1;
                say(&format!("before the trials, {look} of {looks}: {}", one.hurts(harm)));
                harms[place].push(harm);
            }
        }
        Ok(cast.parted(each, &harms, options.harm))
    }

    /// How much the only polluter of this cast hurts; none if that was not to be measured.
    fn harm_of(&self, cast: &Cast, number: u32, rate: f64) -> anyhow::Result<Option<f64>> {
        let options = self.options;
        let drawn = Composition::draw(options.seed, number, cast, options.room_cpus()?);
        self.await_common_cache()?;
        let crowd = Crowd::start(&options.program, self.groups, &drawn, self.folder.path())?;
        let (mut off, latencies) = (OffTurns::default(), Latencies::default());
        if crowd.works(self.interrupt)? {
            self.interrupt.sleep(SETTLED)?;
            let arrivals = Arrivals { rate, seed: options.seed ^ u64::from(number) << 24 };
            let until = Instant::now() + BEFORE;
            self.off_turns(&crowd, arrivals, (&mut off, until), &latencies)?;
        }
        Ok(off.harm().map(Measured::ratio))
    }
}

impl Cast {
    /// The cast with those of its polluters who may do as much harm as is wanted, and the others; `each` has one of
    /// them, and its harm in each round, if that was measured.
    fn parted(
        self,
        each: Vec<Self>,
        harms: &[Vec<Option<f64>>],
        wanted: Harm,
    ) -> (Self, Vec<LeftOut>) {
        let enough = enough(wanted, self.polluters.is_empty());
        let (mut stay, mut out) = (Vec::new(), Vec::new());
        for (one, harms) in each.into_iter().zip(harms) {
            match harms.iter().copied().collect::<Option<Vec<f64>>>() {
                Some(harm_ratios) if mean(&harm_ratios) < enough => {
                    out.push(LeftOut { polluter: one.only_polluter(), harm_ratios });
                }
                _ => stay.push(one),
            }
        }
        if stay.is_empty() { (self, Vec::new()) } else { (self.of_polluters(stay), out) }
    }

    /// What its only polluter was seen to do.
    fn hurts(&self, harm: Option<f64>) -> String {
        let polluter = self.only_polluter();
        harm.map_or_else(
            || format!("{polluter} did not begin to work"),
            |ratio| format!("{polluter} hurts {ratio:.2} times"),
        )
    }

    /// What the polluter runs, where there is one.
    fn only_polluter(&self) -> String {
        let kernel = || self.kernels.first().map_or_else(String::new, |name| (*name).to_owned());
        self.polluters.first().map_or_else(kernel, ToString::to_string)
    }
}

fn mean(ratios: &[f64]) -> f64 {
    ratios.iter().sum::<f64>() / ratios.len() as f64
}

#[cfg(test)]
mod tests {
    use super::super::draw::Taken;
    use super::*;

    #[test]
    fn who_is_to_be_turned_down_has_to_reach_the_middle_of_the_class() {
        let stay = |wanted: Harm, full: [f64; 3]| {
            let cast = Cast::of_kernels(wanted, Taken::Memory);
            let harms: Vec<Vec<Option<f64>>> = full.map(|harm| vec![Some(harm); 2]).to_vec();
            let (left, _) = cast.clone().parted(cast.each_polluter(), &harms, wanted);
            cast.kernels.iter().map(|kernel| left.kernels.contains(kernel)).collect::<Vec<_>>()
        };
        assert_eq!(stay(Harm::Little, [1.04, 1.11, 1.13]), [false, false, true]);
        assert_eq!(stay(Harm::Much, [1.04, 1.11, 1.13]), [false, true, true]);
        assert_eq!(stay(Harm::Little, [1.3, 1.5, 2.0]), [true; 3], "it is turned down");
        assert_eq!(stay(Harm::Little, [1.01, 1.02, 1.04]), [true; 3], "nobody stays");
        assert!(enough(Harm::Little, false) < 1.05, "a program works as it does");
    }

    #[test]
    fn who_hurts_too_little_on_average_is_left_out_unless_everybody_does() {
        let cast = Cast::of_kernels(Harm::Much, Taken::Memory);
        let parted = |harms: [[Option<f64>; 2]; 3]| {
            let harms: Vec<Vec<Option<f64>>> = harms.iter().map(|h| h.to_vec()).collect();
            let (cast, out) = cast.clone().parted(cast.each_polluter(), &harms, Harm::Much);
            (cast.kernels, out)
        };
        let (kernels, out) =
            parted([[Some(1.3), Some(1.0)], [Some(1.09), Some(1.02)], [None, Some(1.0)]]);
        assert_eq!(kernels, [cast.kernels[0], cast.kernels[2]]);
        assert_eq!(out.len(), 1);
        // A bound that one of two looks passes by a little is passed by chance.
        let (kernels, _) =
            parted([[Some(1.3), Some(1.0)], [Some(1.07), Some(1.11)], [Some(1.1), Some(1.2)]]);
        assert_eq!(kernels, [cast.kernels[0], cast.kernels[2]]);
        let words = out[0].in_words();
        assert_eq!(
            words,
            format!("{} is not drawn: it hurts 1.09 and 1.02 times", cast.kernels[1])
        );
        let (kernels, out) = parted([[Some(1.0); 2]; 3]);
        assert_eq!((kernels, out), (cast.kernels.clone(), vec![]));
    }

    #[test]
    fn what_a_polluter_does_is_told_while_it_is_found_out() {
        let one = Cast {
            polluters: vec!["xz -T1".parse().unwrap()],
            ..Cast::of_kernels(Harm::Much, Taken::Memory)
        };
        assert_eq!(one.hurts(Some(1.456)), "xz -T1 hurts 1.46 times");
        assert_eq!(one.hurts(None), "xz -T1 did not begin to work");
    }

    #[test]
    fn who_stays_is_drawn_and_who_is_left_out_is_not() {
        let programs = || ["stress-ng --stream 1", "xz -T1"].map(|text| text.parse().unwrap());
        let kernels = Cast::of_kernels(Harm::Much, Taken::Memory);
        let programs = Cast { polluters: programs().to_vec(), ..kernels.clone() };
        for (cast, all) in [(kernels, 3), (programs, 2)] {
            let each = cast.each_polluter();
            assert_eq!(each.len(), all);
            let first = cast.clone().of_polluters(each[..1].to_vec());
            let runs = |cast: &Cast, number| {
                let drawn = Composition::draw(1, number, cast, 9.0);
                drawn.members[drawn.culprit.unwrap()].in_words()
            };
            let all_runs: std::collections::BTreeSet<String> =
                (0..60).map(|number| runs(&cast, number)).collect();
            assert_eq!(all_runs.len(), all);
            assert!((0..60).all(|number| runs(&first, number) == runs(&first, 0)));
            // Nobody left out: everything is drawn as it was.
            let same = cast.clone().of_polluters(each);
            assert!((0..60).all(|number| runs(&same, number) == runs(&cast, number)));
        }
    }
}
