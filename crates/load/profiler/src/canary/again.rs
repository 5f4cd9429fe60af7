//! Whole measurements that were disturbed, measured again at the end. Pure but for what it is given to
//! measure with.

use super::Placement;
use std::collections::VecDeque;
use std::time::Duration;

/// How often, and how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Tries of one measurement, the first included.
    pub(crate) tries: u32,
    /// Between two looks while it is waited for the host.
    pub(crate) pause: Duration,
    /// All such waiting together.
    pub(crate) patience: Duration,
}

/// What measures, and what tells of the host.
pub(crate) trait Course {
    /// What is measured.
    type Found;
    /// Why it cannot be.
    type Error;

    /// Where the host runs the CPUs now.
    fn look(&mut self) -> Placement;

    /// Measures one, and says whether it was disturbed.
    fn measure(&mut self, index: usize) -> Result<(Self::Found, bool), Self::Error>;

    /// Lets time pass.
    fn pause(&mut self, length: Duration) -> Result<(), Self::Error>;
}

/// What was found, over all tries.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Try<T> {
    /// The last try, which counts.
    pub(crate) found: T,
    /// The first one.
    pub(crate) first: T,
    /// Whether the last one was disturbed too.
    pub(crate) disturbed: bool,
    /// How many there were.
    pub(crate) tries: u32,
}

/// Measures `count` things in order; what was disturbed comes again after the others. Where nothing at
/// all was clean it is the machine and no disturbance, and nothing is repeated.
pub(crate) fn until_clean<C: Course>(
    course: &mut C,
    count: usize,
    limits: Limits,
) -> Result<Vec<Try<C::Found>>, C::Error>
where
    C::Found: Clone,
{
    let mut all = Vec::with_capacity(count);
    for index in 0..count {
        let (found, disturbed) = course.measure(index)?;
        all.push(Try { first: found.clone(), found, disturbed, tries: 1 });
    }
    if all.iter().all(|one| one.disturbed) {
        return Ok(all);
    }
    let mut queue: VecDeque<usize> = (0..count).filter(|i| all[*i].disturbed).collect();
    let mut patience = limits.patience;
    while let Some(index) = queue.pop_front() {
        let one = &mut all[index];
        if one.tries >= limits.tries {
            continue;
        }
        while patience >= limits.pause && course.look().disturbs() {
            patience -= limits.pause;
            course.pause(limits.pause)?;
        }
        (one.found, one.disturbed) = course.measure(index)?;
        one.tries += 1;
        if one.disturbed {
            queue.push_back(index);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { tries: 3, pause: Duration::from_secs(1), patience: Duration::from_secs(40) };

    /// A host that runs the CPUs on one core in these stretches of simulated seconds. A measurement
    /// takes three of them and gives when it began.
    struct Host {
        now: f64,
        stretches: Vec<(f64, f64)>,
        order: Vec<usize>,
        fails_at: Option<usize>,
    }

    impl Host {
        fn new(stretches: &[(f64, f64)]) -> Host {
            Host { now: 0.0, stretches: stretches.to_vec(), order: Vec::new(), fails_at: None }
        }

        fn together(&self, from: f64, to: f64) -> bool {
            self.stretches.iter().any(|(begin, end)| from < *end && *begin < to)
        }
    }

    impl Course for Host {
        type Found = f64;
        type Error = usize;

        fn look(&mut self) -> Placement {
            let there = self.together(self.now, self.now + 0.006);
            if there { Placement::Together } else { Placement::Apart }
        }

        fn measure(&mut self, index: usize) -> Result<(f64, bool), usize> {
            if self.fails_at == Some(index) {
                return Err(index);
            }
            let begun = self.now;
            self.now += 3.0;
            self.order.push(index);
            Ok((begun, self.together(begun, self.now)))
        }

        fn pause(&mut self, length: Duration) -> Result<(), usize> {
            self.now += length.as_secs_f64();
            Ok(())
        }
    }

    fn disturbed(all: &[Try<f64>]) -> Vec<usize> {
        (0..all.len()).filter(|i| all[*i].disturbed).collect()
    }

    #[test]
    fn a_quiet_host_costs_nothing() {
        let mut host = Host::new(&[]);
        let all = until_clean(&mut host, 5, LIMITS).unwrap();
        assert_eq!((host.order, host.now), (vec![0, 1, 2, 3, 4], 15.0));
        assert!(all.iter().all(|one| one.tries == 1 && one.found == one.first));
    }

    #[test]
    fn what_fell_into_a_stretch_comes_again_at_the_end() {
        let mut host = Host::new(&[(4.0, 8.0)]);
        let all = until_clean(&mut host, 6, LIMITS).unwrap();
        assert_eq!(host.order, [0, 1, 2, 3, 4, 5, 1, 2]);
        assert_eq!(disturbed(&all), Vec::<usize>::new());
        assert_eq!((all[1].first, all[1].found, all[1].tries), (3.0, 18.0, 2));
        assert_eq!(all[0].tries, 1);
    }

    #[test]
    fn a_stretch_at_the_end_is_waited_for() {
        let mut host = Host::new(&[(8.0, 45.0)]);
        let all = until_clean(&mut host, 6, LIMITS).unwrap();
        assert_eq!(disturbed(&all), Vec::<usize>::new());
        assert_eq!(host.now, 45.0 + 4.0 * 3.0, "each once more, and none before its end");
    }

    #[test]
    fn a_host_that_never_settles_ends_it_all_the_same() {
        let mut host = Host::new(&[(8.0, 1e9)]);
        let all = until_clean(&mut host, 6, LIMITS).unwrap();
        assert_eq!(disturbed(&all), [2, 3, 4, 5]);
        assert!(all[2..].iter().all(|one| one.tries == LIMITS.tries));
        let most = 3.0 * (6.0 + 4.0 * f64::from(LIMITS.tries - 1)) + LIMITS.patience.as_secs_f64();
        assert!(host.now <= most, "{} of {most}", host.now);
    }

    #[test]
    fn where_nothing_is_clean_it_is_the_machine() {
        let mut host = Host::new(&[(0.0, 1e9)]);
        let all = until_clean(&mut host, 4, LIMITS).unwrap();
        assert_eq!((disturbed(&all), host.now), (vec![0, 1, 2, 3], 12.0));
    }

    #[test]
    fn short_stretches_may_hit_a_repeat_as_well() {
        let mut host = Host::new(&[(1.0, 2.0), (13.0, 14.0)]);
        let all = until_clean(&mut host, 4, LIMITS).unwrap();
        assert_eq!((disturbed(&all), all[0].tries), (vec![], 3));
    }

    #[test]
    fn a_failure_ends_it() {
        let mut host = Host { fails_at: Some(2), ..Host::new(&[]) };
        assert_eq!(until_clean(&mut host, 4, LIMITS), Err(2));
    }
}
