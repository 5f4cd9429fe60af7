//! CPU time that the kernel sets aside for a thread (`SCHED_DEADLINE`, sched(7)).
//!
//! [`Thread::reserve`] gives a thread so much of each period before everybody else, and no more than that: who runs as
//! he likes cannot keep it from its time, however he does it, and it keeps nobody from his for longer than that at a
//! stretch. Neither niceness nor weights do: they divide a CPU among those who want it, by rules that some ways of
//! waking and sleeping get round.
//!
//! Processes and threads that it starts have no part of it.
//!
//! Source: sched(7), sched_setattr(2), `Documentation/scheduler/sched-stats.rst`.

use quell_types::Capability;
use std::io;
use std::time::Duration;

/// The length of a period: at a stretch nobody is kept waiting for longer than a share of it.
pub const PERIOD: Duration = Duration::from_millis(25);

/// What [`capability`] tries for a moment.
const TRIED_FRAC: f64 = 0.02;

/// Whether CPU time can be set aside here and now: tried with a thread of its own, for a moment.
#[must_use]
pub fn capability() -> Capability {
    let tried = std::thread::Builder::new().spawn(|| Thread::current().reserve(TRIED_FRAC));
    match tried.map(std::thread::JoinHandle::join) {
        Ok(Ok(Ok(()))) => {
            Capability::Native("SCHED_DEADLINE, for the agent while it is starved".into())
        }
        Ok(Ok(Err(why))) | Err(why) => Capability::Absent(refused(&why)),
        Ok(Err(_)) => Capability::Absent("the thread that tried it died".into()),
    }
}

/// What a refusal means.
fn refused(why: &io::Error) -> String {
    match why.raw_os_error() {
        Some(libc::EPERM) => {
            "not allowed: that takes CAP_SYS_NICE, and all CPUs for this process".into()
        }
        Some(libc::EBUSY) => "promised to others already (sched_rt_runtime_us, deadlines)".into(),
        _ => why.to_string(),
    }
}

/// A thread of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread(libc::pid_t);

/// How a thread has its turn: by which rule, with which priority or niceness.
#[derive(Clone, Debug)]
pub struct Class(libc::sched_attr);

/// What a thread did until now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Whether it runs, or would if it had a CPU.
    pub ready: bool,
    /// CPU time that it had since it began.
    pub ran: Duration,
    /// For how long it stood ready and had none, without a wait that is not over yet.
    pub waited: Duration,
}

impl Thread {
    /// The calling one.
    #[must_use]
    pub fn current() -> Self {
        // SAFETY: it takes nothing and cannot fail.
        Self(unsafe { libc::gettid() })
    }

    /// Sets this share of one CPU aside for it, above 0 and at most 0.95, in the place of another share.
    ///
    /// # Errors
    /// The kernel refuses: without the right to (`EPERM`, as for a thread that is bound to some of the CPUs), where
    /// that much is promised to others already (`EBUSY`), for a share that is none (`EINVAL`), or it is gone (`ESRCH`).
    pub fn reserve(self, share_frac: f64) -> io::Result<()> {
        self.set(&deadline(share_frac))
    }

    /// It has its turn before everybody of the usual classes, and so do threads and processes that it starts from now
    /// on (`SCHED_FIFO`, of this priority, 1 to 99).
    ///
    /// # Errors
    /// As for [`Thread::reserve`].
    pub fn go_first(self, priority: u32) -> io::Result<()> {
        let mut first = deadline(0.0);
        first.sched_policy = libc::SCHED_FIFO as u32;
        first.sched_flags = 0;
        first.sched_priority = priority;
        (first.sched_runtime, first.sched_deadline, first.sched_period) = (0, 0, 0);
        self.set(&first)
    }

    /// How it has its turn now.
    ///
    /// # Errors
    /// It is gone (`ESRCH`).
    pub fn class(self) -> io::Result<Class> {
        self.attributes().map(Class)
    }

    /// It has its turn as it had when that was asked for.
    ///
    /// # Errors
    /// As for [`Thread::reserve`].
    pub fn restore(self, class: &Class) -> io::Result<()> {
        self.set(&class.0)
    }

    /// The share of one CPU that is set aside for it; none if none is.
    ///
    /// # Errors
    /// It is gone (`ESRCH`).
    pub fn reserved_frac(self) -> io::Result<Option<f64>> {
        let now = self.attributes()?;
        let is_deadline = now.sched_policy == libc::SCHED_DEADLINE as u32;
        Ok(is_deadline.then(|| now.sched_runtime as f64 / now.sched_period.max(1) as f64))
    }

    /// What it did until now.
    ///
    /// # Errors
    /// It is gone, or the kernel does not tell (`schedstat`).
    pub fn activity(self) -> io::Result<Activity> {
        let text =
            |file: &str| std::fs::read_to_string(format!("/proc/self/task/{}/{file}", self.0));
        let unclear = || io::Error::new(io::ErrorKind::InvalidData, "unclear stat or schedstat");
        parse_activity(&text("stat")?, &text("schedstat")?).ok_or_else(unclear)
    }

    fn attributes(self) -> io::Result<libc::sched_attr> {
        let mut now = deadline(0.0);
        let size = now.size;
        // SAFETY: the kernel writes `size` bytes at most into `now`, which is that long and lives until the call
        // returns; no flags are known.
        let done = unsafe { libc::syscall(libc::SYS_sched_getattr, self.0, &raw mut now, size, 0) };
        told(done).map(|()| now)
    }

    fn set(self, wanted: &libc::sched_attr) -> io::Result<()> {
        let wanted = std::ptr::from_ref(wanted);
        // SAFETY: the kernel reads the bytes of `wanted` that its `size` says, which are its length, and it lives until
        // the call returns; no flags are known.
        told(unsafe { libc::syscall(libc::SYS_sched_setattr, self.0, wanted, 0) })
    }
}

/// Its state stands behind the name in brackets; its CPU time and its waits come first, in nanoseconds.
fn parse_activity(stat: &str, schedstat: &str) -> Option<Activity> {
    let state = stat.rsplit_once(')')?.1.split_whitespace().next()?;
    let mut times = schedstat.split_whitespace().map(|ns| ns.parse().map(Duration::from_nanos));
    let (ran, waited) = (times.next()?.ok()?, times.next()?.ok()?);
    Some(Activity { ready: state == "R", ran, waited })
}

fn deadline(share_frac: f64) -> libc::sched_attr {
    let period_ns = PERIOD.as_nanos() as u64;
    libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_DEADLINE as u32,
        sched_flags: libc::SCHED_FLAG_RESET_ON_FORK as u64,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: (share_frac * period_ns as f64) as u64,
        sched_deadline: period_ns,
        sched_period: period_ns,
    }
}

fn told(done: libc::c_long) -> io::Result<()> {
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_goes_first_is_followed_by_those_it_starts_until_it_is_as_before() {
        let policy = || Thread::current().attributes().unwrap().sched_policy;
        let started = || std::thread::spawn(policy).join().unwrap();
        let (thread, before) = (Thread::current(), Thread::current().class().unwrap());
        if let Err(why) = thread.go_first(1) {
            assert_eq!(why.raw_os_error(), Some(libc::EPERM), "{why}");
            return;
        }
        assert_eq!([policy(), started()], [libc::SCHED_FIFO as u32; 2]);
        thread.restore(&before).unwrap();
        assert_eq!(started(), libc::SCHED_OTHER as u32);
    }

    #[test]
    fn root_may_set_time_aside_and_a_refusal_says_what_it_takes() {
        assert!(matches!(capability(), Capability::Native(_)), "{:?}", capability());
        let table =
            [(libc::EPERM, "CAP_SYS_NICE"), (libc::EBUSY, "others"), (libc::ENOSYS, "implemented")];
        for (number, word) in table {
            let told = refused(&io::Error::from_raw_os_error(number));
            assert!(told.contains(word), "{told}");
        }
    }

    #[test]
    fn a_share_is_set_aside_for_one_thread_until_it_is_released() {
        let this = Thread::current();
        assert_eq!(this.reserved_frac().unwrap(), None);
        let class = this.class().unwrap();
        this.reserve(0.4).unwrap();
        assert_eq!(this.reserved_frac().unwrap(), Some(0.4));
        this.reserve(0.1).unwrap();
        assert_eq!(this.reserved_frac().unwrap(), Some(0.1));
        let started = std::thread::spawn(|| Thread::current().reserved_frac());
        assert_eq!(started.join().unwrap().unwrap(), None);
        this.restore(&class).unwrap();
        assert_eq!(this.reserved_frac().unwrap(), None);
    }

    #[test]
    fn a_thread_is_as_nice_afterwards_as_it_was() {
        let this = Thread::current();
        let nicer = libc::sched_attr { sched_nice: 7, ..this.attributes().unwrap() };
        this.set(&nicer).unwrap();
        let class = this.class().unwrap();
        this.reserve(0.1).unwrap();
        this.restore(&class).unwrap();
        let now = this.attributes().unwrap();
        assert_eq!((now.sched_policy, now.sched_nice), (libc::SCHED_OTHER as u32, 7));
    }

    #[test]
    fn another_thread_of_the_process_can_be_meant() {
        let this = Thread::current();
        let class = this.class().unwrap();
        std::thread::spawn(move || this.reserve(0.2)).join().unwrap().unwrap();
        assert_eq!(this.reserved_frac().unwrap(), Some(0.2));
        this.restore(&class).unwrap();
    }

    #[test]
    fn a_share_that_is_none_is_refused_and_so_is_a_thread_that_is_gone() {
        let this = Thread::current();
        for share in [0.0, 2.0, -1.0, f64::NAN] {
            let refused = this.reserve(share).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EINVAL), "{share}");
        }
        assert_eq!(this.reserved_frac().unwrap(), None);
        let gone = std::thread::spawn(Thread::current).join().unwrap();
        assert_eq!(gone.reserve(0.1).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        assert!(gone.activity().is_err());
    }

    #[test]
    fn a_process_that_is_started_has_no_part_of_it() {
        let this = Thread::current();
        let class = this.class().unwrap();
        this.reserve(0.1).unwrap();
        let told = std::process::Command::new("cat").arg("/proc/self/stat").output();
        this.restore(&class).unwrap();
        let text = String::from_utf8(told.unwrap().stdout).unwrap();
        // Behind the name in brackets: 41st of all fields, the policy.
        let policy = text.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(38));
        assert_eq!(policy, Some("0"));
    }

    #[test]
    fn what_a_thread_did_is_read() {
        let read = |stat, schedstat| parse_activity(stat, schedstat);
        let [ran, waited] = [1200, 3].map(Duration::from_nanos);
        assert_eq!(read("7 (a) b) R 1 2", "1200 3 4"), Some(Activity { ready: true, ran, waited }));
        assert_eq!(read("7 (a) S 1 2", "1200 3 4"), Some(Activity { ready: false, ran, waited }));
        let unclear = [("", "1 2 3"), ("7 (a)", "1 2"), ("7 (a) R", "1"), ("7 (a) R", "1 x")];
        for (stat, schedstat) in unclear {
            assert_eq!(read(stat, schedstat), None, "{stat} {schedstat}");
        }
        let this = Thread::current();
        let before = this.activity().unwrap();
        std::hint::black_box((0..5_000_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n)));
        let after = this.activity().unwrap();
        assert!(after.ready && after.ran > before.ran, "{before:?} {after:?}");
    }
}
