//! A made-up workload on a made-up host, for tests of what measures it.

use super::Effort;
use crate::canary::{Placement, Watch};
use crate::{Metric, ProfileError, Speed, Subject};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Loses a fifth of its speed under pressure for so many windows, in which the host runs both CPUs on
/// one core, and nothing afterwards.
pub(crate) struct Made {
    windows: u32,
    stretch: u32,
    host: Rc<Host>,
    rests: bool,
    /// Whether it is a command that is run over and over.
    runs: bool,
}

/// Where the made-up host has the CPUs.
#[derive(Default)]
struct Host {
    together: Cell<bool>,
    /// Looks since the last window.
    looks: Cell<u32>,
    /// It moves them apart for good when it is looked at so often without a window in between; 0: it does not.
    waits: u32,
    apart: Cell<bool>,
}

impl Host {
    fn place(&self) -> Placement {
        self.looks.set(self.looks.get() + 1);
        if self.looks.get() == self.waits {
            self.apart.set(true);
        }
        let together = self.together.get() && !self.apart.get();
        if together { Placement::Together } else { Placement::Apart }
    }
}

impl Made {
    /// It, and looks at that host.
    pub(crate) fn on_a_host(stretch: u32) -> (Made, Watch) {
        Made::on_a_host_that_moves(stretch, 0)
    }

    /// The same, of a host that is waited for: after so many looks in a row it has the CPUs where they belong.
    pub(crate) fn on_a_host_that_moves(stretch: u32, waits: u32) -> (Made, Watch) {
        let host = Rc::new(Host { waits, ..Host::default() });
        let theirs = Rc::clone(&host);
        let made = Made { windows: 0, stretch, host, rests: false, runs: false };
        (made, Watch::scripted(move |_| theirs.place()))
    }

    /// The same as a command that is run over and over.
    pub(crate) fn in_runs(self) -> Made {
        Made { runs: true, ..self }
    }
}

impl Subject for Made {
    fn name(&self) -> &str {
        "made"
    }

    fn metric(&self) -> Metric {
        Metric::OwnCount
    }

    /// Quiet, pressed, quiet, pressed: every second window is under pressure.
    fn speed(&mut self, _: Duration) -> Result<Speed, ProfileError> {
        assert!(!self.rests, "nobody measures a workload that rests");
        let together = self.windows <= self.stretch && !self.host.apart.get();
        self.host.together.set(together);
        self.host.looks.set(0);
        let slow = together && self.windows % 2 == 1;
        self.windows += 1;
        Ok(Speed { by_wall: if slow { 0.8 } else { 1.0 }, by_cpu: None })
    }

    fn can_rest(&self) -> bool {
        true
    }

    fn rests_between(&self) -> bool {
        self.runs
    }

    fn rest(&mut self) -> Result<(), ProfileError> {
        self.rests = true;
        Ok(())
    }

    fn wake(&mut self) -> Result<(), ProfileError> {
        self.rests = false;
        Ok(())
    }
}

/// Windows without a length, as many as it takes.
pub(crate) const NO_TIME: Effort = Effort {
    window: Duration::ZERO,
    settle: Duration::ZERO,
    grid: &[],
    pairs: 4,
    listens: 4,
    resolution: 50.0,
    budget: Duration::from_secs(60),
};
