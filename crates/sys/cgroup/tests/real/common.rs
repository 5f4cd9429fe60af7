//! Groups and processes for tests on the real kernel, removed whatever happens.

use quell_cgroup::{CpusKnob, Exclusivity, Group, GroupKnob, Layout, WeightKnob, create, remove};
use quell_types::{CpuBandwidth, CpuSet, Setting};
use rustix::fs::{FlockOperation, flock};
use rustix::time::{ClockId, clock_gettime};
use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// One test's group, in the hierarchies of some controllers.
pub(crate) struct Bench {
    layout: Layout,
    path: String,
    controllers: Vec<String>,
    _lock: Option<File>,
}

/// A process that spins, for 20 s of CPU time at most.
pub(crate) struct Spinner(Child);

static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Bench {
    pub(crate) fn new(name: &str, controllers: &[&str]) -> Self {
        let lock = controllers.contains(&"cpuset").then(|| cpuset_lock(false));
        Self::on(name, controllers, lock)
    }

    /// The only one with CPUs, so that it and its children can be exclusive.
    pub(crate) fn exclusive(name: &str) -> Self {
        let bench = Self::on(name, &["cpuset"], Some(cpuset_lock(true)));
        bench.claim_exclusive();
        bench
    }

    /// The same without the v2 tree.
    pub(crate) fn only_v1(name: &str, controllers: &[&str]) -> Self {
        let bench = Self::new(name, controllers);
        let v2 = bench.layout.v2().map(|v2| v2.dir.join(&bench.path[1..]));
        if let Some(dir) = v2 {
            fs::remove_dir(dir).unwrap();
        }
        bench
    }

    fn on(name: &str, controllers: &[&str], lock: Option<File>) -> Self {
        let layout = Layout::discover("/");
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = format!("/quell-test-cgroup-{}-{number}-{name}", std::process::id());
        create(&layout, &path, controllers).unwrap();
        let controllers = controllers.iter().map(|c| (*c).to_owned()).collect();
        Self { layout, path, controllers, _lock: lock }
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn group(&self) -> Group {
        Group::find(&self.layout, &self.path).unwrap()
    }

    /// A group below, made if need be.
    pub(crate) fn child(&self, name: &str) -> Group {
        let controllers: Vec<&str> = self.controllers.iter().map(String::as_str).collect();
        create(&self.layout, &format!("{}/{name}", self.path), &controllers).unwrap()
    }

    /// Lets the group have nearly all CPU time of a busy machine.
    pub(crate) fn outweigh_others(&self) {
        let knob = WeightKnob::new(&self.group()).unwrap();
        knob.write(&Setting::Weight(10_000)).unwrap();
    }

    /// CPUs that the test's group has.
    pub(crate) fn cpus(&self) -> CpuSet {
        let knob = CpusKnob::new(&self.group(), Exclusivity::Shared).unwrap();
        let Ok(Setting::Cpus(cpus)) = knob.read() else { panic!("no CPUs") };
        cpus
    }

    /// Exclusive groups need an exclusive parent, which no sibling that has CPUs allows: waits for
    /// those of other programs. The root of a v2 tree has tasks, so one CPU is left to it.
    fn claim_exclusive(&self) {
        let group = self.group();
        let knob = CpusKnob::new(&group, Exclusivity::Exclusive).unwrap();
        if group.v1("cpuset").is_none() {
            // The CPUs of a removed partition come back some time after its removal.
            let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
            let cpus: CpuSet = online.parse().unwrap();
            let until = Instant::now() + Duration::from_secs(60);
            while self.cpus() != cpus {
                assert!(Instant::now() < until, "other groups hold CPUs for a minute");
                std::thread::sleep(Duration::from_millis(5));
            }
            knob.write(&Setting::Cpus(cpus.difference(&cpus.first(1)))).unwrap();
        }
        let until = Instant::now() + Duration::from_secs(60);
        while let Err(error) = knob.claim() {
            let top = self.layout.serving("cpuset").unwrap().dir.display();
            assert!(Instant::now() < until, "groups in {top} have had CPUs for a minute: {error}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn spinner(&self, group: &Group) -> Spinner {
        let spinner = self.outside();
        group.add_process(spinner.pid()).unwrap();
        spinner
    }

    pub(crate) fn outside(&self) -> Spinner {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -t 20; while :; do :; done"]);
        Spinner(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Ok(group) = Group::find(&self.layout, &self.path) {
            let _ = group.kill(Duration::from_secs(5));
        }
        let _ = remove(&self.layout, &self.path, Duration::from_secs(5));
    }
}

impl Spinner {
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        // A frozen v1 task ends once its group is thawed, which the group's own guard does.
        let until = Instant::now() + Duration::from_millis(500);
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A limit in CPUs over a period in milliseconds.
pub(crate) fn limited(cpus: f64, period_ms: u64) -> Setting {
    Setting::Bandwidth(CpuBandwidth::limited(cpus, Duration::from_millis(period_ms)))
}

/// CPU time of this thread.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

/// Groups at the top of the v1 cpuset hierarchy forbid each other to be exclusive: tests that need
/// that are alone, over all test programs that take this lock.
fn cpuset_lock(exclusive: bool) -> File {
    let path = std::env::temp_dir().join("quell-test-cpuset.lock");
    let file = File::options().create(true).truncate(false).write(true).open(path).unwrap();
    let operation =
        if exclusive { FlockOperation::LockExclusive } else { FlockOperation::LockShared };
    flock(&file, operation).unwrap();
    file
}
