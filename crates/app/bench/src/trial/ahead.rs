//! The thread that conducts a trial has its time before those whom it conducts.
//!
//! A culprit may starve everybody (`stress-ng --switch` does on some kernels): then who was to stop it at a turn's end
//! stands in the queue as well, turns last for seconds, and so few fit into a trial that nothing is known of the harm.
//! So do the threads that put load on the service: without them nothing is asked of it, and nobody is seen to starve it.

use quell_sched::{Class, Thread};

/// Of one CPU: it sleeps for nearly all of the time.
const SHARE_FRAC: f64 = 0.05;

/// As long as it lives the thread that made it goes first, where the kernel permits; threads and processes that it
/// starts do not.
pub(super) struct Ahead(Option<(Thread, Class)>);

impl Ahead {
    pub(super) fn go() -> Self {
        let thread = Thread::current();
        let before = thread.class().ok().filter(|_| thread.reserve(SHARE_FRAC).is_ok());
        Self(before.map(|class| (thread, class)))
    }
}

/// Threads of that class go before who has the usual one; the load's generator before these.
const PRIORITY: u32 = 1;

/// A thread that `start` begins goes first, as the threads that it begins itself do. Not for processes: those of the
/// trial have their turn as everybody has.
pub(super) fn followed<T>(start: impl FnOnce() -> T) -> T {
    let thread = Thread::current();
    let before = thread.class().ok().filter(|_| thread.go_first(PRIORITY).is_ok());
    let started = start();
    if let Some(class) = before {
        let _ = thread.restore(&class);
    }
    started
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Some((thread, class)) = &self.0 {
            let _ = thread.restore(class);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_conducts_goes_first_for_as_long_as_it_is_wanted() {
        let reserved = || Thread::current().reserved_frac().unwrap();
        let ahead = Ahead::go();
        let may = ahead.0.is_some();
        assert_eq!(reserved().is_some(), may);
        drop(ahead);
        assert_eq!(reserved(), None);
    }

    #[test]
    fn who_starts_others_that_go_first_is_as_before() {
        let ahead = Ahead::go();
        let before = Thread::current().reserved_frac().unwrap();
        let started = followed(|| std::thread::spawn(|| Thread::current().reserved_frac()));
        assert_eq!(started.join().unwrap().unwrap(), None, "it has a class of its own");
        assert_eq!(Thread::current().reserved_frac().unwrap(), before);
        drop(ahead);
    }
}
