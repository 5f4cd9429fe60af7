//! Bus locks in bursts with pauses between them, as a tenant makes them that hurts now and then.
//!
//! They hurt strangers on the same socket, so nobody can ask for more than [`BusBursts::check`]
//! allows, and each burst has an end that needs nobody: the thread that locks looks at its own clock
//! after each lock; the kernel beneath stops after half a second at a stretch and five in all; and
//! an alarm ends the process if all that fails.

use crate::kernel::Kernel;
use crate::{Options, PressureError, Resource, Stop, bound_process, jobs};
use quell_types::Topology;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// Most bursts of one process.
const MOST: u32 = 10;
/// How long one may be.
const LENGTH: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_millis(500);
/// How long others are left alone between two, and before the first.
const PAUSE: RangeInclusive<Duration> = Duration::from_secs(2)..=Duration::from_secs(30);
/// All bursts together.
const ALL: Duration = Duration::from_secs(5);
/// In pauses at most this share of a CPU is used, in percent.
const MOST_REST_PERCENT: u32 = 60;
/// In pauses it works and sleeps in slices of this length.
const SLICE: Duration = Duration::from_millis(4);

/// How often, how long, and what in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusBursts {
    /// How many: 1 to 10.
    pub bursts: u32,
    /// Length of each: 10 ms to 0.5 s, and 5 s in all.
    pub length: Duration,
    /// Before each: 2 to 30 s.
    pub pause: Duration,
    /// Share of a CPU that it uses in pauses, in percent: 0 to 60. 0 = it sleeps.
    pub rest_percent: u32,
}

/// One burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusBurst {
    /// From 1.
    pub number: u32,
    /// Its begin by `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// Locked additions.
    pub locks: u64,
}

impl BusBursts {
    /// From the begin of the first pause to the end of the last burst.
    #[must_use]
    pub fn lasts(&self) -> Duration {
        (self.pause + self.length) * self.bursts
    }

    /// Refuses what hurts strangers without consent, or more than is allowed even then.
    ///
    /// # Errors
    /// The first thing that is out of bounds, or the lack of consent.
    pub fn check(&self, hurts_everyone: bool) -> Result<(), PressureError> {
        if !hurts_everyone {
            return Err(PressureError::BusLockConsent);
        }
        let ms = |span: Duration| format!("{} ms", span.as_millis());
        let all = self.length.saturating_mul(self.bursts);
        let bounds = [
            ("bursts", self.bursts.to_string(), (1..=MOST).contains(&self.bursts), "give 1 to 10"),
            ("burst-ms", ms(self.length), LENGTH.contains(&self.length), "give 10 to 500"),
            ("bursts", format!("{} in all", ms(all)), all <= ALL, "all together for 5 s at most"),
            ("pause-s", ms(self.pause), PAUSE.contains(&self.pause), "give 2 to 30"),
            (
                "rest-percent",
                self.rest_percent.to_string(),
                self.rest_percent <= MOST_REST_PERCENT,
                "give 0 to 60",
            ),
        ];
        for (option, value, fits, allowed) in bounds {
            if !fits {
                return Err(PressureError::Option { option, value, allowed });
            }
        }
        Ok(())
    }
}

/// Pauses and locks the bus in turn, on the calling thread; `on_burst` is told of each burst when it
/// is over. For a command line only: it uses the alarm of the process.
///
/// # Errors
/// Without consent, or out of bounds; where there are no bus locks; if the kernel has had enough
/// before the first. If it has later, that was the last burst.
pub fn lock_bus_in_bursts(
    plan: &BusBursts,
    hurts_everyone: bool,
    stop: &Stop,
    on_burst: &mut dyn FnMut(&BusBurst),
) -> Result<(), PressureError> {
    plan.check(hurts_everyone)?;
    let mut kernel = kernel(hurts_everyone, stop)?;
    in_turn(kernel.as_mut(), plan, stop, &bound_process, on_burst)
}

/// Pauses and bursts; `bound` is told within what time the next step is over.
fn in_turn(
    kernel: &mut dyn Kernel,
    plan: &BusBursts,
    stop: &Stop,
    bound: &dyn Fn(Duration),
    on_burst: &mut dyn FnMut(&BusBurst),
) -> Result<(), PressureError> {
    for number in 1..=plan.bursts {
        bound(plan.pause + PAUSE_MARGIN);
        if rest(plan.pause, plan.rest_percent, stop) {
            break;
        }
        bound(plan.length + BURST_MARGIN);
        match burst(kernel, number, plan.length, stop) {
            Ok(one) => on_burst(&one),
            // Each burst overshoots a little, so five seconds are over before ten of half a second
            // are: what was told until now is still worth it.
            Err(_) if number > 1 => break,
            Err(why) => return Err(why),
        }
    }
    bound(PAUSE_MARGIN);
    Ok(())
}

/// A thread that has no CPU ends its burst so much later.
const BURST_MARGIN: Duration = Duration::from_secs(1);
/// A pause may be over so much later, on a machine that is busy.
const PAUSE_MARGIN: Duration = Duration::from_secs(20);

/// The same as `quell pressure bus-lock` uses, refused where that refuses.
fn kernel(hurts_everyone: bool, stop: &Stop) -> Result<Box<dyn Kernel>, PressureError> {
    let options =
        Options { hurts_everyone, seconds: ALL.as_secs_f64(), ..Options::new(Resource::BusLock) };
    options.check(&Topology::default())?;
    let mut jobs = jobs::plan(&options, &Topology::default(), &[None], stop)?;
    let missing = || PressureError::Worker { index: 0, why: "it has no job".to_owned() };
    Ok(jobs.jobs.pop().ok_or_else(missing)?())
}

/// Locks until its own clock says that it is over, or the kernel has had enough.
fn burst(
    kernel: &mut dyn Kernel,
    number: u32,
    length: Duration,
    stop: &Stop,
) -> Result<BusBurst, PressureError> {
    let (from_ns, begun, mut locks) = (monotonic_ns(), Instant::now(), 0);
    while begun.elapsed() < length && !stop.requested() {
        match kernel.burst() {
            Ok(more) => locks += more,
            Err(_) if locks > 0 => break,
            Err(why) => return Err(PressureError::Worker { index: 0, why }),
        }
    }
    Ok(BusBurst { number, from_ns, to_ns: monotonic_ns(), locks })
}

/// Sleeps, or works for a share of the time; true if it is asked to stop.
fn rest(pause: Duration, percent: u32, stop: &Stop) -> bool {
    let begun = Instant::now();
    let work = SLICE * percent / 100;
    while percent > 0 && begun.elapsed() < pause {
        let slice = Instant::now();
        while slice.elapsed() < work {
            std::hint::spin_loop();
        }
        let left = pause.saturating_sub(begun.elapsed());
        if stop.wait(SLICE.saturating_sub(work).min(left)) {
            return true;
        }
    }
    stop.wait(pause.saturating_sub(begun.elapsed()))
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds.unwrap_or(0) * 1_000_000_000 + nanos.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: BusBursts = BusBursts {
        bursts: 10,
        length: Duration::from_millis(400),
        pause: Duration::from_secs(5),
        rest_percent: 0,
    };

    fn refused(change: impl FnOnce(&mut BusBursts)) -> String {
        let mut plan = USUAL;
        change(&mut plan);
        plan.check(true).expect_err("should be refused").to_string()
    }

    #[test]
    fn nobody_gets_more_than_is_allowed_or_anything_without_consent() {
        assert!(USUAL.check(true).is_ok());
        assert_eq!(USUAL.lasts(), Duration::from_secs(54));
        let consent = USUAL.check(false).unwrap_err().to_string();
        assert!(consent.contains("--i-know-this-hurts-everyone"), "{consent}");
        assert!(refused(|p| p.bursts = 0).starts_with("bursts is 0"));
        assert!(refused(|p| p.bursts = 11).contains("1 to 10"));
        assert!(refused(|p| p.length = Duration::from_millis(501)).contains("10 to 500"));
        assert!(refused(|p| p.length = Duration::ZERO).contains("10 to 500"));
        assert!(refused(|p| p.pause = Duration::from_millis(1999)).contains("2 to 30"));
        assert!(refused(|p| p.pause = Duration::MAX).contains("2 to 30"));
        assert!(refused(|p| p.rest_percent = 61).contains("0 to 60"));
        let longest = BusBursts { length: Duration::from_millis(500), ..USUAL };
        assert!(longest.check(true).is_ok(), "five seconds in all");
        assert!(refused(|p| p.bursts = u32::MAX).starts_with("bursts is"));
    }

    #[test]
    fn without_consent_nothing_begins() {
        let stop = Stop::new().unwrap();
        let mut told = 0;
        let refused = lock_bus_in_bursts(&USUAL, false, &stop, &mut |_| told += 1);
        assert!(matches!(refused, Err(PressureError::BusLockConsent)));
        assert_eq!(told, 0);
    }

    /// Counts its bursts, and locks nothing.
    struct Harmless(u64);

    impl Kernel for Harmless {
        fn burst(&mut self) -> Result<u64, String> {
            self.0 += 1;
            Ok(1)
        }

        fn probe(&mut self) -> Option<crate::kernel::Probe> {
            None
        }
    }

    #[test]
    fn a_burst_ends_by_its_own_clock_or_when_it_is_asked_to() {
        let stop = Stop::new().unwrap();
        let mut kernel = Harmless(0);
        let length = Duration::from_millis(20);
        let one = burst(&mut kernel, 3, length, &stop).unwrap();
        assert!((one.number, one.locks) == (3, kernel.0) && one.locks > 0, "{one:?}");
        assert!(one.to_ns - one.from_ns >= 20_000_000, "{one:?}");
        stop.request();
        assert_eq!(burst(&mut kernel, 4, length, &stop).unwrap().locks, 0);
    }

    /// Has had enough after so many, and locks nothing.
    struct Tired(u64);

    impl Kernel for Tired {
        fn burst(&mut self) -> Result<u64, String> {
            self.0 = self.0.checked_sub(1).ok_or("enough")?;
            Ok(1)
        }

        fn probe(&mut self) -> Option<crate::kernel::Probe> {
            None
        }
    }

    #[test]
    fn what_was_locked_before_the_kernel_had_enough_is_told() {
        let stop = Stop::new().unwrap();
        let plan = BusBursts { length: Duration::from_secs(60), pause: Duration::ZERO, ..USUAL };
        let play = |left| {
            let mut told = Vec::new();
            let mut tell = |burst: &BusBurst| told.push((burst.number, burst.locks));
            let ended = in_turn(&mut Tired(left), &plan, &stop, &|_| (), &mut tell);
            (ended.is_ok(), told)
        };
        assert_eq!(play(3), (true, vec![(1, 3)]), "the first is cut short, no second begins");
        assert_eq!(play(0), (false, vec![]), "nothing was locked at all");
    }

    #[test]
    fn in_pauses_it_sleeps_or_works_for_its_share() {
        let stop = Stop::new().unwrap();
        for percent in [0, 25] {
            let begun = Instant::now();
            assert!(!rest(Duration::from_millis(40), percent, &stop));
            assert!(begun.elapsed() >= Duration::from_millis(40), "{percent} %");
        }
        stop.request();
        assert!(rest(Duration::from_secs(60), 25, &stop), "it does not wait for that");
    }
}
