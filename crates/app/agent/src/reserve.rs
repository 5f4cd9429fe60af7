//! CPU time that is set aside for the thread that decides, while others starve it.
//!
//! Who wakes and sleeps some hundred thousand times a second can starve everybody else, whatever their weights: beside
//! `stress-ng --pipe 2` an agent had 22 ms of CPU time in 22 s (`docs/experiments/polluter.md`). Then it sees nothing
//! and limits nobody, and a watchdog of 10 s ends it. It cannot help itself: it does not run. So a *sentinel*, a thread
//! with half a millisecond of CPU time set aside in 25, looks four times a second whether the one that decides is
//! ready to run and does not, or stood for half of the time before it did. Was that so for half a second, that one has
//! its time before all others for a minute.
//!
//! Not always: a service whose CPU it takes at once, four times a second for a few milliseconds each, has a tail that
//! is a fifth longer.

use quell_sched::{Activity, Class, Thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// What is set aside for the sentinel.
const SENTINEL_FRAC: f64 = 0.02;
/// Between two of its looks.
const LOOK: Duration = Duration::from_millis(250);
/// Of the time between two looks, the share that who is not starved never stands for.
const STOOD_FRAC: f64 = 0.5;
/// Looks in a row that find it starved.
const STARVED_LOOKS: u32 = 2;
/// So many looks a reservation lasts; then it is tried whether it can do without.
const LASTS_LOOKS: u32 = 240;

/// Watches over the thread that made it, until it is dropped.
#[derive(Debug)]
pub(crate) struct Reserve {
    ends: Arc<AtomicBool>,
    sentinel: Option<JoinHandle<()>>,
}

impl Reserve {
    /// This share of one CPU, 0 for none; what happens is told. Without a sentinel the agent has its turn as everybody
    /// has.
    pub(crate) fn new(share_frac: f64, say: fn(&str)) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let of = Thread::current();
        let watch = Watch { of, share_frac, say, judge: Judge::default(), before: None };
        let told = Arc::clone(&ends);
        let sentinel = (share_frac > 0.0).then(|| {
            let name = "quell-sentinel".to_owned();
            std::thread::Builder::new()
                .name(name)
                .stack_size(128 << 10)
                .spawn(move || watch.run(&told))
        });
        let sentinel = sentinel.and_then(|spawned| {
            spawned.inspect_err(|why| say(&format!("no thread watches over the agent: {why}"))).ok()
        });
        Self { ends, sentinel }
    }

    /// Another share from now on. What was set aside is given back.
    pub(crate) fn renew(&mut self, share_frac: f64, say: fn(&str)) {
        self.end();
        *self = Self::new(share_frac, say);
    }

    fn end(&mut self) {
        self.ends.store(true, Ordering::Release);
        if let Some(sentinel) = self.sentinel.take() {
            sentinel.thread().unpark();
            let _ = sentinel.join();
        }
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        self.end();
    }
}

struct Watch {
    of: Thread,
    share_frac: f64,
    say: fn(&str),
    judge: Judge,
    /// How it had its turn before CPU time was set aside for it; none while none is.
    before: Option<Class>,
}

impl Watch {
    fn run(mut self, ends: &AtomicBool) {
        if let Err(why) = Thread::current().reserve(SENTINEL_FRAC) {
            (self.say)(&format!("no CPU time can be set aside for the agent: {why}"));
            return;
        }
        // Who is watched over lives as long as this thread.
        while let Ok(activity) = self.of.activity() {
            match self.judge.see(activity) {
                Some(Verdict::Starved) => self.reserve(),
                Some(Verdict::Over) => self.release(),
                None => {}
            }
            std::thread::park_timeout(LOOK);
            if ends.load(Ordering::Acquire) {
                break;
            }
        }
        self.release();
    }

    /// What cannot be given back ends with the thread.
    fn release(&mut self) {
        if let Some(class) = self.before.take() {
            let _ = self.of.restore(&class);
        }
    }

    fn reserve(&mut self) {
        let reserved = self.of.class().and_then(|class| {
            self.of.reserve(self.share_frac)?;
            Ok(class)
        });
        let percent = 100.0 * self.share_frac;
        match reserved {
            Ok(class) => {
                self.before = Some(class);
                (self.say)(&format!(
                    "others starve the agent: {percent:.0} % of a CPU is set aside for it"
                ));
            }
            Err(why) => (self.say)(&format!(
                "others starve the agent, and no CPU time can be set aside: {why}"
            )),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Starved,
    Over,
}

/// Tells by looks whether a thread is starved.
#[derive(Debug, Default)]
struct Judge {
    last: Option<Activity>,
    starved_looks: u32,
    /// Looks that a reservation lasts from here; none without one.
    left: Option<u32>,
}

impl Judge {
    fn see(&mut self, now: Activity) -> Option<Verdict> {
        let before = self.last.replace(now);
        if let Some(left) = &mut self.left {
            *left -= 1;
            let over = *left == 0;
            if over {
                self.left = None;
            }
            return over.then_some(Verdict::Over);
        }
        let stands = before.is_some_and(|before| is_starved(before, now));
        self.starved_looks = if stands { self.starved_looks + 1 } else { 0 };
        if self.starved_looks < STARVED_LOOKS {
            return None;
        }
        self.starved_looks = 0;
        self.left = Some(LASTS_LOOKS);
        Some(Verdict::Starved)
    }
}

/// Whether it did not run between two looks though it was ready, or stood for long before it did.
fn is_starved(before: Activity, now: Activity) -> bool {
    let stood = now.waited.saturating_sub(before.waited);
    (before.ready && now == before) || stood >= LOOK.mul_f64(STOOD_FRAC)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ready: bool, ms: u64) -> Activity {
        after(ready, ms, 0)
    }

    fn after(ready: bool, ran_ms: u64, waited_ms: u64) -> Activity {
        let [ran, waited] = [ran_ms, waited_ms].map(Duration::from_millis);
        Activity { ready, ran, waited }
    }

    #[test]
    fn who_is_ready_and_does_not_run_is_starved() {
        let a_little = [after(true, 5, 0), after(true, 6, 240), after(false, 7, 490)];
        let at_times = [after(true, 5, 0), after(true, 6, 200), after(true, 9, 260)];
        let table: [(&str, &[Activity], bool); 7] = [
            ("runs a little between long waits", &a_little, true),
            ("waits now and then", &at_times, false),
            ("stands for half a second", &[at(true, 5); 3], true),
            ("stood once", &[at(true, 5), at(true, 5), at(true, 6), at(true, 6)], false),
            ("sleeps", &[at(false, 5); 9], false),
            ("runs", &[at(true, 5), at(true, 6), at(true, 7), at(true, 8)], false),
            ("woke a moment ago", &[at(false, 5), at(true, 5), at(true, 5)], false),
        ];
        for (name, looks, starved) in table {
            let mut judge = Judge::default();
            let told = looks.iter().any(|look| judge.see(*look) == Some(Verdict::Starved));
            assert_eq!(told, starved, "{name}");
        }
    }

    #[test]
    fn a_reservation_lasts_for_a_minute_and_comes_again() {
        let mut judge = Judge::default();
        let mut look = || judge.see(at(true, 5));
        let told: Vec<_> = (0..3).map(|_| look()).collect();
        assert_eq!(told, [None, None, Some(Verdict::Starved)]);
        let told: Vec<_> = (0..LASTS_LOOKS).map(|_| look()).collect();
        assert!(told[..told.len() - 1].iter().all(Option::is_none));
        assert_eq!(told[told.len() - 1], Some(Verdict::Over));
        assert_eq!([look(), look()], [None, Some(Verdict::Starved)]);
    }

    #[test]
    fn the_one_that_is_watched_over_has_its_share_and_is_as_before_in_the_end() {
        let of = Thread::current();
        let (judge, before) = (Judge::default(), None);
        let mut watch = Watch { of, share_frac: 0.2, say: |_| (), judge, before };
        watch.reserve();
        assert_eq!(of.reserved_frac().unwrap(), Some(0.2));
        watch.release();
        assert_eq!(of.reserved_frac().unwrap(), None);
    }

    #[test]
    fn a_sentinel_ends_with_who_made_it() {
        for share in [0.2, 0.0] {
            let reserve = Reserve::new(share, |_| ());
            assert_eq!(reserve.sentinel.is_some(), share > 0.0);
            drop(reserve);
        }
    }

    #[test]
    fn another_share_has_another_sentinel() {
        let mut reserve = Reserve::new(0.2, |_| ());
        let first = Arc::downgrade(&reserve.ends);
        reserve.renew(0.0, |_| ());
        assert!(first.upgrade().is_none() && reserve.sentinel.is_none());
    }
}
