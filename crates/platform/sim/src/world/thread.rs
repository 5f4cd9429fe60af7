//! A thread, and where it stands.

/// Where a thread stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Has nothing to do.
    Blocked,
    /// Waits for its CPU.
    Queued,
    /// Runs on its CPU.
    Running,
    /// Would run, but its group is throttled or frozen.
    Parked,
}

/// One thread.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) work: usize,
    pub(crate) group: usize,
    /// Whether it runs before all threads of other classes.
    pub(super) real_time: bool,
    pub(crate) state: State,
    /// The CPU that it is on, or was on last.
    pub(crate) cpu: usize,
    /// Weighted run time in nanoseconds.
    pub(crate) vruntime: f64,
    /// Instructions to where it stops next: the end of its request or task, a barrier, a full
    /// socket.
    pub(crate) left: f64,
    /// Instructions from where it stopped last to where it stops next.
    pub(super) lap: f64,
    /// Instructions to the end of its task from where it stopped last.
    pub(super) todo: f64,
    /// Whether it waits for the others at a barrier.
    pub(super) meets: bool,
    pub(crate) queued_at: u64,
    /// When balancing moved it last.
    pub(super) moved: u64,
    /// When its request came.
    pub(crate) arrived: u64,
}
