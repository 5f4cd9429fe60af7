//! What a link can carry, learnt by all flows together.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Before it is learnt the flows find their speed, for so long.
const WARM: Duration = Duration::from_millis(60);
/// How long they send at full speed to learn it.
const LEARN: Duration = Duration::from_millis(250);
/// On a slow link, or when nobody gets CPU time, longer: until so much has arrived, …
const ENOUGH: u64 = 256 << 10;
/// … or so much time has passed.
const LONGEST: Duration = Duration::from_secs(2);
/// How long the first flow waits for the last.
const PATIENCE: Duration = Duration::from_secs(1);

/// Shared by the flows of a polluter. They begin together and count into one sum: each for itself
/// would take for the link's rate what it gets while the others have not begun.
#[derive(Debug)]
pub(crate) struct Link {
    flows: usize,
    arrived: AtomicUsize,
    start: OnceLock<Instant>,
    bytes: AtomicU64,
}

impl Link {
    pub(crate) fn of(flows: usize) -> Self {
        let (arrived, bytes) = (AtomicUsize::new(0), AtomicU64::new(0));
        Link { flows: flows.max(1), arrived, start: OnceLock::new(), bytes }
    }

    /// Takes part with `burst`, which sends and tells how many bytes were acknowledged. Gives one
    /// flow's part of the link in bytes per second; none if nothing got through.
    pub(crate) fn learn<E>(
        &self,
        mut burst: impl FnMut() -> Result<u64, E>,
    ) -> Result<Option<f64>, E> {
        self.arrived.fetch_add(1, Relaxed);
        let came = Instant::now();
        while self.arrived.load(Relaxed) < self.flows && came.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        let start = *self.start.get_or_init(|| Instant::now() + WARM);
        while Instant::now() < start {
            burst()?;
        }
        while !self.over(start.elapsed()) {
            self.bytes.fetch_add(burst()?, Relaxed);
        }
        let rate = self.bytes.load(Relaxed) as f64 / start.elapsed().as_secs_f64();
        Ok(Some(rate / self.flows as f64).filter(|rate| *rate > 0.0))
    }

    fn over(&self, elapsed: Duration) -> bool {
        elapsed >= LONGEST || (elapsed >= LEARN && self.bytes.load(Relaxed) >= ENOUGH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link of 100 MB/s that hands out its capacity as time passes, from the first taker on.
    #[derive(Default)]
    struct Fake {
        start: OnceLock<Instant>,
        given: AtomicU64,
    }

    impl Fake {
        fn take(&self) -> Result<u64, ()> {
            let start = self.start.get_or_init(Instant::now);
            std::thread::sleep(Duration::from_millis(1));
            let due = (start.elapsed().as_secs_f64() * 1e8) as u64;
            Ok(due.saturating_sub(self.given.fetch_max(due, Relaxed)))
        }
    }

    #[test]
    fn parts_add_up_to_the_link() {
        let (link, fake) = (Link::of(4), Fake::default());
        let rates: Vec<f64> = std::thread::scope(|scope| {
            let flow = || link.learn(|| fake.take()).unwrap().unwrap();
            let flows: Vec<_> = (0..4).map(|_| scope.spawn(flow)).collect();
            flows.into_iter().map(|flow| flow.join().unwrap()).collect()
        });
        let sum: f64 = rates.iter().sum();
        assert!((0.5e8..1.1e8).contains(&sum), "{rates:?}");
    }

    #[test]
    fn a_flow_that_comes_too_late_learns_from_the_others() {
        let (link, fake) = (Link::of(2), Fake::default());
        let first = link.learn(|| fake.take()).unwrap().unwrap();
        let second = link.learn(|| Err::<u64, &str>("needs no burst any more")).unwrap().unwrap();
        assert!(second > 0.0 && second <= first, "{first} {second}");
    }

    #[test]
    fn a_dead_link_has_no_rate() {
        let dead = || {
            std::thread::sleep(Duration::from_millis(1));
            Ok::<u64, ()>(0)
        };
        assert_eq!(Link::of(1).learn(dead), Ok(None));
    }
}
