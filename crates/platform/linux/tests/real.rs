//! The real server: real cgroups, real eBPF, a real redis.
#![allow(clippy::unwrap_used)]

use quell_cgroup::{Layout, create, remove};
use quell_linux::*;
use quell_platform::{Platform, Scope, conformance};
use quell_types::*;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

static NEXT: AtomicU32 = AtomicU32::new(0);
const CONTROLLERS: [&str; 5] = ["cpu", "cpuacct", "cpuset", "memory", "freezer"];

/// Groups of this test, removed at its end with all that runs in them.
struct Ground {
    folder: tempfile::TempDir,
    layout: Layout,
    top: String,
    children: Vec<Child>,
}

impl Ground {
    fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let top = format!("/quell-test-linux-{}-{number}", std::process::id());
        let layout = Layout::discover("/");
        for group in ["service", "batch"] {
            create(&layout, &format!("{top}/quell-{group}"), &CONTROLLERS).unwrap();
        }
        Self { folder: tempfile::tempdir().unwrap(), layout, top, children: vec![] }
    }

    fn path(&self, group: &str) -> String {
        format!("{}/quell-{group}", self.top)
    }

    /// Runs a command in a group, all hierarchies or v1's only.
    fn run(&mut self, group: &str, v1_only: bool, command: &[&str]) -> u32 {
        let mut procs: Vec<PathBuf> = quell_cgroup::Group::find(&self.layout, &self.path(group))
            .unwrap()
            .places()
            .iter()
            .map(|p| p.file("cgroup.procs"))
            .collect();
        if v1_only {
            procs.retain(|p| !p.starts_with("/sys/fs/cgroup/unified"));
        }
        let enter: Vec<String> =
            procs.iter().map(|p| format!("echo $$ > {}", p.display())).collect();
        let script = format!("{} && exec \"$@\"", enter.join(" && "));
        let child = Command::new("/bin/sh")
            .args(["-c", &script, "sh"])
            .args(command)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id();
        self.children.push(child);
        pid
    }

    fn options(&self) -> LinuxOptions {
        let service = ServiceBinding {
            spec: ServiceSpec {
                name: "web".into(),
                slo: Slo { percentile_frac: 0.99, target_s: 0.01 },
                peak_qps: None,
                links: vec![],
            },
            selector: Selector::Cgroup(self.path("service")),
            latency: Latency::Ebpf { ports: vec![] },
            adopt: false,
        };
        let batch = BatchBinding {
            spec: BatchSpec { name: "jobs".into(), links: vec![], takes_tasks: true, max_tasks: 2 },
            selector: Selector::Cgroup(self.path("batch")),
            adopt: false,
        };
        LinuxOptions {
            services: vec![service],
            batch: vec![batch],
            ..LinuxOptions::new(self.folder.path())
        }
    }

    fn open(&self) -> Linux {
        Linux::open(self.options()).unwrap()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = remove(&self.layout, &self.top, Duration::from_secs(5));
    }
}

fn sample(linux: &mut Linux) -> Sample {
    linux.sample(Duration::from_millis(50), Scope::Full).unwrap()
}

/// Samples until `done` says so; the deadline is generous, since other tests run beside.
fn until<T>(linux: &mut Linux, what: &str, mut done: impl FnMut(&Sample) -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        let sample = sample(linux);
        if let Some(found) = done(&sample) {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "waited in vain for {what}: {sample:?}");
    }
}

fn jobs() -> Tenant {
    "jobs".into()
}

/// For tests that set what belongs to the machine, not to a group of their own.
fn alone_with_the_machine() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn the_real_machine_conforms() {
    let _alone = alone_with_the_machine();
    let mut grounds = Vec::new();
    conformance::run(|| {
        let mut ground = Ground::new();
        ground.run("batch", false, &["sleep", "60"]);
        let linux = ground.open();
        grounds.push(ground);
        linux
    });
}

#[test]
fn what_a_killed_agent_left_is_put_back_from_its_journal() {
    let _alone = alone_with_the_machine();
    let ground = Ground::new();
    let mut linux = ground.open();
    let before = sample(&mut linux).knobs;
    let set = |knob, to| Action::Set { knob, to };
    let quota = CpuBandwidth::limited(0.2, Duration::from_millis(10));
    for action in [
        set(Knob::CpuBandwidth { tenant: jobs() }, Setting::Bandwidth(quota)),
        set(Knob::CpuIdle { tenant: jobs() }, Setting::Flag(true)),
        set(Knob::Frozen { tenant: jobs() }, Setting::Flag(true)),
        set(Knob::Cpus { tenant: jobs() }, Setting::Cpus(CpuSet::of(0))),
    ] {
        linux.apply(&action).unwrap();
    }
    let awake = Knob::StayAwake { cpu: 0 };
    if linux.setup().knobs.contains_key(&awake) {
        linux.apply(&set(awake, Setting::Flag(true))).unwrap();
    }
    let changed = sample(&mut linux);
    assert!(changed.outcomes.iter().all(|o| o.error.is_none()), "{:?}", changed.outcomes);
    assert_ne!(changed.knobs, before);
    // SIGKILL: no destructor runs.
    std::mem::forget(linux);
    let state = StateDir(ground.folder.path().to_owned());
    let report = restore_state(Path::new("/"), &state).unwrap();
    assert!(report.failed.is_empty() && report.restored > 0, "{report:?}");
    let again = restore_state(Path::new("/"), &state).unwrap();
    assert_eq!(again.restored, 0, "twice is harmless");
    let mut linux = ground.open();
    assert_eq!(sample(&mut linux).knobs, before);
}

#[test]
fn tasks_run_in_their_group_and_go_back_to_ready_when_stopped() {
    let ground = Ground::new();
    let queue = Queue::open(&StateDir(ground.folder.path().to_owned()).queue()).unwrap();
    let add = |command: &[&str]| {
        let command = command.iter().map(ToString::to_string).collect();
        let spec = TaskSpec { command, tenant: Some(jobs()), directory: None, retries: 0 };
        queue.add(&spec, 1).unwrap()
    };
    let (long, quick) =
        (add(&["sleep", "60"]), add(&["sh", "-c", "cat /proc/self/cgroup; exit 3"]));
    let missing = add(&["/no/such/program"]);
    let mut linux = ground.open();
    for task in [long, quick, missing] {
        linux.apply(&Action::StartTask { task, tenant: jobs() }).unwrap();
    }
    let state = |id| queue.get(id).unwrap().record;
    until(&mut linux, "the quick task's end", |_| {
        (state(quick).state == TaskState::Failed).then_some(())
    });
    assert_eq!(state(quick).last_end, Some(TaskEnd::Exited { status: 3 }));
    let output = ground.folder.path().join(format!("tasks/{quick}.out"));
    let said = std::fs::read_to_string(output).unwrap();
    assert!(said.contains(&ground.path("batch")), "{said}");
    until(&mut linux, "the missing program's end", |_| {
        (state(missing).state == TaskState::Failed).then_some(())
    });
    assert_eq!(state(long).state, TaskState::Running);
    linux.apply(&Action::StopTask { task: long }).unwrap();
    until(&mut linux, "the long task back in the queue", |_| {
        (state(long).state == TaskState::Ready).then_some(())
    });
    assert_eq!(state(long).attempts, 0);
}

#[test]
fn a_clean_end_stops_tasks_even_frozen_ones() {
    let ground = Ground::new();
    let queue = Queue::open(&StateDir(ground.folder.path().to_owned()).queue()).unwrap();
    let spec = TaskSpec {
        command: vec!["sleep".into(), "60".into()],
        tenant: Some(jobs()),
        directory: None,
        retries: 0,
    };
    let task = queue.add(&spec, 1).unwrap();
    let mut linux = ground.open();
    linux.apply(&Action::StartTask { task, tenant: jobs() }).unwrap();
    let pid = until(&mut linux, "the task to run", |s| s.tasks.first().and_then(|t| t.pid));
    let frozen = Knob::Frozen { tenant: jobs() };
    linux.apply(&Action::Set { knob: frozen, to: Setting::Flag(true) }).unwrap();
    linux.restore().unwrap();
    assert_eq!(queue.get(task).unwrap().record.state, TaskState::Ready);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

/// One experiment on the batch group, to its end.
fn played(linux: &mut Linux, id: u64) -> ExperimentTrace {
    linux
        .apply(&Action::Play(Experiment {
            id,
            groups: vec![jobs()],
            victims: vec!["web".into()],
            code: vec![true, false, false, true],
            chip_us: 50_000,
            bound_us: 1_000_000,
        }))
        .unwrap();
    let trace = until(linux, "the trace", |s| s.experiments.first().cloned());
    assert_eq!(trace.id, id);
    trace
}

#[test]
fn an_experiment_holds_a_group_and_lets_it_go() {
    let mut ground = Ground::new();
    // Ends by itself, so that nothing spins on should the test be killed.
    let spin = "end=$(( $(date +%s) + 30 )); while [ $(date +%s) -lt $end ]; do \
                i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; done";
    ground.run("batch", false, &["sh", "-c", spin]);
    let mut linux = ground.open();
    sample(&mut linux);
    // On a crowded machine the bound may pass first: the safe side, and no trace of use.
    let mut why = Vec::new();
    let whole = |id| {
        let trace = played(&mut linux, id);
        why.extend(trace.aborted.clone());
        trace.aborted.is_none().then_some(trace)
    };
    let trace = (1..=10).find_map(whole).unwrap_or_else(|| panic!("all aborted: {why:?}"));
    assert_eq!(trace.chips.len(), 4);
    let used = |i: usize| trace.chips[i].group_cpu_ns[&jobs()].clone().unwrap();
    assert!(used(2) * 5 < used(0).max(used(3)), "held: {}, ran: {} {}", used(2), used(0), used(3));
    let after = sample(&mut linux);
    assert_eq!(after.knobs[&Knob::Frozen { tenant: jobs() }], Ok(Setting::Flag(false)));
}

#[test]
fn a_redis_that_was_there_first_in_v1_groups_only_is_metered() {
    let mut ground = Ground::new();
    // Below the ephemeral ports: a connection to one of those may be answered by itself.
    let port = 20_000 + (std::process::id() % 12_000) as u16;
    let text = port.to_string();
    let redis = ["redis-server", "--port", &text, "--save", "", "--bind", "127.0.0.1"];
    ground.run("service", true, &redis);
    let begun = Instant::now();
    let mut client = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(client) => break client,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(30), "{error}"),
        }
    };
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut linux = ground.open();
    let requests = |s: &Sample| s.tenants[&"web".into()].requests.clone();
    let before = requests(&sample(&mut linux)).unwrap().requests;
    for _ in 0..500 {
        client.write_all(b"PING\r\n").unwrap();
        client.read_exact(&mut [0; 7]).unwrap();
    }
    let seen = requests(&sample(&mut linux)).unwrap();
    assert_eq!(seen.requests - before, 500);
    assert!(seen.latency_ns.unwrap().quantile(0.5).unwrap() > 0.0);
}

#[test]
fn a_group_made_anew_is_found_again_and_a_missing_one_is_a_gap() {
    let ground = Ground::new();
    let mut linux = ground.open();
    sample(&mut linux);
    remove(&ground.layout, &ground.path("batch"), Duration::from_secs(5)).unwrap();
    let gone = sample(&mut linux);
    assert!(matches!(gone.tenants[&jobs()].cpu_ns, Err(Gap::Gone(_))));
    let knob = Knob::CpuWeight { tenant: jobs() };
    linux.apply(&Action::Set { knob: knob.clone(), to: Setting::Weight(7) }).unwrap();
    assert!(sample(&mut linux).outcomes[0].error.is_some());
    create(&ground.layout, &ground.path("batch"), &CONTROLLERS).unwrap();
    let back = sample(&mut linux);
    assert!(back.tenants[&jobs()].cpu_ns.is_ok());
    linux.apply(&Action::Set { knob: knob.clone(), to: Setting::Weight(50) }).unwrap();
    assert_eq!(sample(&mut linux).knobs[&knob], Ok(Setting::Weight(50)));
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let ground = Ground::new();
    let mut options = ground.options();
    options.services[0].selector = Selector::Cgroup("/quell-nowhere".into());
    options.batch[0].selector = Selector::Pid(4_194_300);
    let link = LinkSpec { name: "quell-nolink".into(), capacity: BytesPerSecond(1e6) };
    options.links.push(LinkBinding { spec: link, netns: None });
    let errors = Linux::open(options).err().unwrap();
    assert_eq!(errors.len(), 3, "{errors:?}");
}

/// The group in which a process is, by the hierarchies that have such groups.
fn groups_of(ground: &Ground, pid: u32) -> Vec<String> {
    let homes = quell_cgroup::home_of(&ground.layout, pid).unwrap();
    let name = |home: &PathBuf| Some(home.parent()?.file_name()?.to_str()?.to_owned());
    let mut names: Vec<String> =
        homes.iter().filter_map(name).filter(|name| name.starts_with("quell")).collect();
    names.dedup();
    names
}

fn children_of(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    text.unwrap_or_default().split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// An agent that adopts the batch group, under a name that no other test's group has.
fn adopts(ground: &Ground) -> (LinuxOptions, String) {
    let mut options = ground.options();
    let name = format!("jobs-{}", ground.top.trim_start_matches("/quell-"));
    options.batch[0].spec.name = name.as_str().into();
    options.batch[0].adopt = true;
    (options, format!("quell-{name}"))
}

#[test]
fn adopted_processes_go_back_unless_somebody_moved_them_on() {
    let mut ground = Ground::new();
    let (stays, moved) = (
        ground.run("batch", false, &["sleep", "60"]),
        ground.run("batch", false, &["sleep", "60"]),
    );
    for pid in [stays, moved] {
        wait_for("its group", || (groups_of(&ground, pid) == ["quell-batch"]).then_some(()));
    }
    let (options, adopted) = adopts(&ground);
    let linux = Linux::open(options).unwrap();
    assert_eq!(groups_of(&ground, stays), [adopted.as_str()]);
    let elsewhere = quell_cgroup::Group::find(&ground.layout, &ground.path("service")).unwrap();
    elsewhere.add_process(moved).unwrap();
    std::mem::forget(linux);
    let state = StateDir(ground.folder.path().to_owned());
    let report = restore_state(Path::new("/"), &state).unwrap();
    assert_eq!(report.failed, Vec::<String>::new());
    assert_eq!(groups_of(&ground, stays), ["quell-batch"]);
    assert_eq!(groups_of(&ground, moved), ["quell-service"], "somebody wanted it there");
}

#[test]
fn what_adopted_processes_forked_goes_where_they_came_from() {
    let mut ground = Ground::new();
    // The first forks when it is told to; the second too, and ends, which leaves an orphan.
    let fork = |after: &str| {
        format!("mkfifo $0; read line < $0; sleep 60.$$ & echo $! > $0.forked; {after}")
    };
    let fifo = |name: &str| ground.folder.path().join(name).display().to_string();
    let (lives, ends) = (fifo("lives"), fifo("ends"));
    let parent = ground.run("batch", false, &["sh", "-c", &fork("wait"), &lives]);
    ground.run("batch", false, &["sh", "-c", &fork("exit"), &ends]);
    for path in [&lives, &ends] {
        wait_for("its fifo", || Path::new(path).exists().then_some(()));
    }
    let (options, adopted) = adopts(&ground);
    let linux = Linux::open(options).unwrap();
    let forked = |path: &str| {
        std::fs::write(path, "go\n").unwrap();
        wait_for("what it forked", || {
            let text = std::fs::read_to_string(format!("{path}.forked")).ok()?;
            text.trim().parse::<u32>().ok()
        })
    };
    let (child, orphan) = (forked(&lives), forked(&ends));
    assert_eq!(children_of(parent), [child]);
    for pid in [child, orphan] {
        assert_eq!(groups_of(&ground, pid), [adopted.as_str()]);
    }
    drop(linux);
    for pid in [parent, child, orphan] {
        assert_eq!(groups_of(&ground, pid), ["quell-batch"], "of {pid}");
    }
    for pid in [child, orphan] {
        let _ = Command::new("kill").arg(pid.to_string()).status();
    }
}

#[test]
fn what_was_given_up_or_gone_leaves_no_record_under_an_earlier_group() {
    let ground = Ground::new();
    let mut linux = ground.open();
    sample(&mut linux);
    let journal = StateDir(ground.folder.path().to_owned()).knob_journal();
    let records = || std::fs::read_to_string(&journal).unwrap().lines().count();
    let before = records();
    let knob = Knob::CpuWeight { tenant: jobs() };
    for weight in [7, 9] {
        let set = Action::Set { knob: knob.clone(), to: Setting::Weight(weight) };
        linux.apply(&set).unwrap();
        assert_eq!(records(), before + 1, "of the group that there is");
        if weight == 7 {
            remove(&ground.layout, &ground.path("batch"), Duration::from_secs(5)).unwrap();
            create(&ground.layout, &ground.path("batch"), &CONTROLLERS).unwrap();
            assert!(sample(&mut linux).tenants[&jobs()].cpu_ns.is_ok());
            assert_eq!(records(), before, "nobody is owed anything in a group that is gone");
        }
    }
    linux.disown(&knob).unwrap();
    assert_eq!(records(), before);
    drop(linux);
    let group = quell_cgroup::Group::find(&ground.layout, &ground.path("batch")).unwrap();
    let weight = quell_cgroup::GroupKnob::read(&quell_cgroup::WeightKnob::new(&group).unwrap());
    assert_eq!(weight, Ok(Setting::Weight(9)), "left to others");
}
