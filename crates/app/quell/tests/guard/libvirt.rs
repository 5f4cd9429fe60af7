//! A virtual machine of a real libvirt: found by its API, limited and pinned through it, as before
//! afterwards, and no error when it goes away.
//!
//! libvirtd runs in a mount namespace of its own, with its configuration and state, and all of
//! `/run`, in a folder of the test: the machine's own libvirt is neither seen nor touched. The
//! guest has nothing to boot; its firmware runs on QEMU's translator, so no KVM is needed.

use crate::common::{Ground, Guard, QUELL, text, until};
use quell_cgroup::{Group, Layout, Version};
use quell_libvirt::{Access, Connection, Domain, Role, State, process_of, threads};
use quell_types::CpuSet;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Longer than libvirt takes for anything here; the longest is the first machine, before which it
/// tries all that QEMU can do: some seconds.
const PATIENCE: Duration = Duration::from_secs(60);

const START: &str = r#"
set -e
for place in etc:/etc/libvirt lib:/var/lib/libvirt cache:/var/cache/libvirt \
	log:/var/log/libvirt run:/run; do
	mkdir -p "$1/${place%%:*}" "${place#*:}"
	mount --bind "$1/${place%%:*}" "${place#*:}"
done
mkdir -p /run/libvirt
cat >/etc/libvirt/qemu.conf <<-'END'
	user = "root"
	group = "root"
	dynamic_ownership = 0
	remember_owner = 0
	security_driver = "none"
	namespaces = []
	stdio_handler = "file"
END
cat >/etc/libvirt/libvirtd.conf <<-'END'
	auth_unix_rw = "none"
	auth_unix_ro = "none"
END
exec libvirtd --pid-file /run/libvirt/quell.pid
"#;

/// A libvirtd and its machine; both gone when dropped.
struct Libvirt {
    folder: tempfile::TempDir,
    daemon: Child,
    name: String,
    /// Groups that libvirtd makes and leaves, where nobody had made them before.
    left: Vec<PathBuf>,
}

impl Libvirt {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = fs::File::create(folder.path().join("log.txt")).unwrap();
        let daemon = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", START, "sh"])
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let hierarchies = Layout::discover("/");
        let tops = hierarchies.hierarchies().iter().map(|h| h.dir.join("machine"));
        let left = tops.filter(|dir| !dir.exists()).collect();
        let name = format!("quell-libvirt-{}", std::process::id());
        let mut libvirt = Self { folder, daemon, name, left };
        until("libvirtd", || {
            let ended = libvirt.daemon.try_wait().unwrap();
            assert!(ended.is_none(), "libvirtd ended ({ended:?}):\n{}", libvirt.log());
            libvirt.virsh(&["list"]).status.success().then_some(())
        });
        libvirt
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log.txt")).unwrap_or_default()
    }

    /// The test's own view of the daemon's root.
    fn root(&self) -> &Path {
        self.folder.path()
    }

    fn virsh(&self, args: &[&str]) -> Output {
        let socket = self.root().join("run/libvirt/libvirt-sock");
        let uri = format!("qemu+unix:///system?socket={}", socket.display());
        Command::new("virsh").args(["-q", "-c", &uri]).args(args).output().unwrap()
    }

    /// The same, which must succeed.
    fn told(&self, args: &[&str]) -> String {
        let output = self.virsh(args);
        assert!(output.status.success(), "{args:?}: {}\n{}", text(&output), self.log());
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts the machine: two CPUs of four, the second and the fourth one pinned to CPU 1.
    fn boot(&self) {
        let name = &self.name;
        let xml = format!(
            "<domain type='qemu'><name>{name}</name><memory unit='MiB'>32</memory>\
             <vcpu placement='static' current='2'>4</vcpu>\
             <iothreads>1</iothreads><cputune><vcpupin vcpu='1' cpuset='1'/>\
             <vcpupin vcpu='3' cpuset='1'/></cputune>\
             <os><type arch='x86_64' machine='pc'>hvm</type></os><features><acpi/></features>\
             <devices><emulator>/usr/bin/qemu-system-x86_64</emulator>\
             <memballoon model='none'/><controller type='usb' model='none'/></devices></domain>"
        );
        let path = self.root().join("machine.xml");
        fs::write(&path, xml).unwrap();
        self.told(&["create", path.to_str().unwrap()]);
    }

    fn destroy(&self) {
        self.told(&["destroy", &self.name]);
    }

    fn signal(&self, signal: &str) {
        let pid = self.daemon.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    fn connect(&self) -> Connection {
        Connection::system(self.root(), Access::Full, PATIENCE).unwrap()
    }

    /// Quell where it sees this libvirt alone.
    fn quell(&self, args: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--target", &self.daemon.id().to_string(), "--", QUELL]);
        command.args(args);
        command
    }

    /// A scheduler parameter as virsh shows it.
    fn schedinfo(&self, field: &str) -> i64 {
        let all = self.told(&["schedinfo", &self.name]);
        let line = all.lines().find_map(|line| line.strip_prefix(field)?.trim().strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {field}: {all}")).trim().parse().unwrap()
    }

    /// Where a virtual CPU is pinned, as virsh shows it.
    fn vcpupin(&self, vcpu: u32) -> String {
        let all = self.told(&["vcpupin", &self.name, "--vcpu", &vcpu.to_string()]);
        all.split_whitespace().last().unwrap_or_else(|| panic!("no CPU {vcpu}: {all}")).to_owned()
    }
}

impl Drop for Libvirt {
    fn drop(&mut self) {
        self.signal("-CONT");
        let _ = self.virsh(&["destroy", &self.name]);
        let _ = Command::new("kill").arg(self.daemon.id().to_string()).status();
        let begun = std::time::Instant::now();
        while matches!(self.daemon.try_wait(), Ok(None)) && begun.elapsed() < PATIENCE / 6 {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        for dir in &self.left {
            let _ = fs::remove_dir(dir);
        }
    }
}

/// The machine as the kernel has it.
struct Seen {
    pid: u32,
    group: Group,
}

impl Seen {
    fn new(libvirt: &Libvirt, domain: &Domain) -> Self {
        let pid = process_of(Path::new("/proc"), &domain.uuid).unwrap();
        let group = Group::of_vm_process(&Layout::discover("/"), &libvirt.name, pid).unwrap();
        Self { pid, group }
    }

    /// Where the threads of its CPUs may run, its main thread, and its I/O thread.
    fn cpus(&self) -> Vec<CpuSet> {
        let all = threads(Path::new("/proc"), self.pid).unwrap();
        let of = |wanted: Role| all.iter().find(|t| t.role == wanted).unwrap().cpus.clone();
        let main = all.iter().find(|t| t.tid == self.pid).unwrap().cpus.clone();
        vec![of(Role::Vcpu(0)), of(Role::Vcpu(1)), main, of(Role::Iothread(1))]
    }

    /// Knob files of the machine's groups with their texts. An empty CPU set of cgroup v2 comes
    /// back as all CPUs of the group above, so there the set that counts is looked at.
    fn texts(&self) -> BTreeMap<PathBuf, String> {
        let mut texts = BTreeMap::new();
        for place in self.group.places() {
            let list = if place.version == Version::V1 { "" } else { ".effective" };
            let cpus = format!("cpuset.cpus{list}");
            let knobs = ["cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.max", "cpu.idle", &cpus];
            let mut folders = vec![place.dir.clone()];
            while let Some(folder) = folders.pop() {
                for path in knobs.map(|knob| folder.join(knob)) {
                    let Ok(text) = fs::read_to_string(&path) else { continue };
                    texts.insert(path, text);
                }
                let inside = fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path());
                folders.extend(inside.filter(|path| path.is_dir()));
            }
        }
        assert!(texts.len() >= 6, "{texts:?}");
        texts
    }
}

fn list(text: &str) -> CpuSet {
    text.parse().unwrap()
}

/// The client alone, against what virsh and the kernel say.
fn the_api_says_and_does_what_virsh_does(libvirt: &Libvirt) {
    let mut connection = libvirt.connect();
    let version = connection.version().unwrap().to_string();
    assert!(libvirt.told(&["version"]).contains(&version), "{version}");
    let running = connection.running().unwrap();
    let domain = connection.by_name(&libvirt.name).unwrap();
    assert_eq!(running, std::slice::from_ref(&domain));
    assert_eq!(libvirt.told(&["domuuid", &libvirt.name]).trim(), domain.uuid.to_string());
    assert_eq!(connection.by_uuid(&domain.uuid).unwrap(), domain);
    assert_eq!(connection.state(&domain).unwrap(), State::Running);
    let info = connection.info(&domain).unwrap();
    assert_eq!((info.vcpus, info.max_memory_kib), (2, 32 * 1024));
    let vcpus = connection.vcpus(&domain).unwrap();
    assert_eq!(vcpus.iter().map(|vcpu| vcpu.number).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(vcpus[1].affinity, list("1"));

    let seen = Seen::new(libvirt, &domain);
    let (before, cpus) = (seen.texts(), seen.cpus());
    assert_eq!(cpus[1], list("1"));
    let pins = connection.vcpu_pins(&domain).unwrap();
    let emulator = connection.emulator_pin(&domain).unwrap();
    assert_eq!(connection.max_vcpus(&domain).unwrap(), 4);
    assert_eq!(
        pins,
        [&cpus[..2], &cpus[..2]].concat(),
        "those to come are as those that are there"
    );
    let iothreads = connection.iothread_pins(&domain).unwrap();
    assert_eq!(emulator, cpus[2]);
    assert_eq!(iothreads, [(1, cpus[3].clone())]);
    connection.pin_vcpu(&domain, 0, &list("1")).unwrap();
    connection.pin_emulator(&domain, &list("0")).unwrap();
    connection.pin_iothread(&domain, 1, &list("1")).unwrap();
    assert_eq!(seen.cpus(), [list("1"), list("1"), list("0"), list("1")]);
    assert_eq!(connection.iothread_pins(&domain).unwrap(), [(1, list("1"))]);
    assert_eq!(libvirt.vcpupin(0), "1");
    assert_eq!(connection.vcpu_pins(&domain).unwrap()[..2], [list("1"), list("1")]);
    connection.pin_vcpu(&domain, 0, &pins[0]).unwrap();
    connection.pin_vcpu(&domain, 2, &list("0")).unwrap();
    assert_eq!(libvirt.vcpupin(2), "0", "pinned before it is there");
    connection.pin_vcpu(&domain, 2, &pins[2]).unwrap();
    connection.pin_emulator(&domain, &emulator).unwrap();
    connection.pin_iothread(&domain, 1, &iothreads[0].1).unwrap();

    let scheduler = connection.scheduler(&domain).unwrap();
    let global: Vec<_> =
        scheduler.iter().filter(|p| p.field.starts_with("global_")).cloned().collect();
    assert_eq!(global.len(), 2, "{scheduler:?}");
    let mut halved = global.clone();
    for parameter in &mut halved {
        parameter.value = match parameter.field.as_str() {
            "global_period" => quell_libvirt::Value::Ulong(50_000),
            _ => quell_libvirt::Value::Long(25_000),
        };
    }
    connection.set_scheduler(&domain, &halved).unwrap();
    let shown = ["global_period", "global_quota"].map(|field| libvirt.schedinfo(field));
    assert_eq!(shown, [50_000, 25_000]);
    connection.set_scheduler(&domain, &global).unwrap();
    assert_eq!(seen.texts(), before);
    assert!(connection.pin_vcpu(&domain, 7, &list("0")).is_err(), "there is no such CPU");
    assert!(connection.by_name("quell-no-such-machine").unwrap_err().is_gone());
}

/// Batch gets CPU 0 and half of its time.
const LIMITED: [&str; 12] = [
    "--law",
    "static",
    "--set",
    "law.static.batch_cpu_count=1",
    "--set",
    "law.static.batch_limit_cpus=0.5",
    "--set",
    "agent.metrics=off",
    "--set",
    "agent.interval_s=0.1",
    "--set",
    "agent.fast_interval_s=0.1",
];

fn guard(ground: &Ground, libvirt: &Libvirt) -> Guard {
    let service = format!("name=web,cgroup={},p99=20ms", ground.path("service"));
    let batch = format!("vm={}", libvirt.name);
    let mut command = libvirt.quell(&["guard", "--service", &service, "--batch", &batch]);
    command.args(LIMITED).arg("--state-dir").arg(ground.state());
    Guard::start(command.arg("--status-json").arg(ground.status_file()), ground)
}

fn until_limited(libvirt: &Libvirt, guard: &Guard) {
    until("the limit in libvirt's view", || {
        let limited = ["global_period", "global_quota"].map(|field| libvirt.schedinfo(field));
        let pins = [libvirt.vcpupin(0), libvirt.vcpupin(1)];
        let emulator = libvirt.told(&["emulatorpin", &libvirt.name]);
        let log = guard.log();
        assert!(!log.contains("panicked"), "{log}");
        let there = limited == [10_000, 5_000] && pins == ["0", "0"];
        (there && emulator.split_whitespace().last() == Some("0")).then_some(())
    });
}

/// What `quell restore` says it did.
fn restored(ground: &Ground, libvirt: &Libvirt) -> Value {
    let mut command = libvirt.quell(&["restore", "--json", "--state-dir"]);
    let output = command.arg(ground.state()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn the_agent_limits_it_through_libvirt_and_puts_it_back(ground: &Ground, libvirt: &Libvirt) {
    let domain = libvirt.connect().by_name(&libvirt.name).unwrap();
    let seen = Seen::new(libvirt, &domain);
    let (before, cpus) = (seen.texts(), seen.cpus());
    let pins = [libvirt.vcpupin(0), libvirt.vcpupin(1)];
    let quota = libvirt.schedinfo("global_quota");
    for death in [false, true] {
        let mut guard = guard(ground, libvirt);
        guard.ready();
        until_limited(libvirt, &guard);
        assert_eq!(seen.cpus(), [list("0"), list("0"), list("0"), list("0")]);
        assert_ne!(seen.texts(), before);
        if death {
            guard.signal("-KILL");
            guard.exit_code();
            let report = restored(ground, libvirt);
            assert!(report["restored"].as_u64() > Some(0), "{report:#}");
        } else {
            assert_eq!(guard.stop(), Some(0), "{}", guard.log());
        }
        assert_eq!(seen.texts(), before, "after a death: {death}");
        assert_eq!(seen.cpus(), cpus);
        assert_eq!([libvirt.vcpupin(0), libvirt.vcpupin(1)], pins);
        assert_eq!(libvirt.schedinfo("global_quota"), quota);
    }
}

/// Destroyed while limited, started again while guarded, destroyed while nobody guards.
fn one_that_goes_away_is_no_error(ground: &Ground, libvirt: &Libvirt) {
    let mut guard = guard(ground, libvirt);
    guard.ready();
    until_limited(libvirt, &guard);
    libvirt.destroy();
    goes_on(&mut guard, 5);
    libvirt.boot();
    until_limited(libvirt, &guard);
    libvirt.destroy();
    assert_eq!(guard.stop(), Some(0), "{}", guard.log());
    assert_eq!(restored(ground, libvirt)["failed"], serde_json::json!([]));
    libvirt.boot();
    let mut guard = self::guard(ground, libvirt);
    guard.ready();
    until_limited(libvirt, &guard);
    guard.signal("-KILL");
    guard.exit_code();
    libvirt.destroy();
    assert_eq!(restored(ground, libvirt)["failed"], serde_json::json!([]));
    let again = restored(ground, libvirt);
    assert_eq!(again["restored"], 0, "{again:#}");
}

fn goes_on(guard: &mut Guard, samples: u64) {
    let now = guard.status().unwrap()["samples"].as_u64().unwrap();
    guard.until("more samples", |status| status["samples"].as_u64() > Some(now + samples));
}

/// CPUs are plugged in and an I/O thread is added while it is limited; all of it is where libvirt's
/// definition has it afterwards, after a death too.
fn what_comes_while_it_is_limited_is_limited_too(ground: &Ground, libvirt: &Libvirt) {
    let domain = libvirt.connect().by_name(&libvirt.name).unwrap();
    let pid = Seen::new(libvirt, &domain).pid;
    let runs_on = |wanted: Role| {
        let all = threads(Path::new("/proc"), pid).unwrap();
        all.into_iter().find(|thread| thread.role == wanted).map(|thread| thread.cpus)
    };
    let anywhere = runs_on(Role::Vcpu(0)).unwrap();
    for (death, cpu, home) in [(false, 2, anywhere.clone()), (true, 3, list("1"))] {
        let mut guard = guard(ground, libvirt);
        guard.ready();
        until_limited(libvirt, &guard);
        libvirt.told(&["setvcpus", &libvirt.name, &(cpu + 1).to_string(), "--live"]);
        assert_eq!(runs_on(Role::Vcpu(cpu)), Some(list("0")), "as soon as libvirt has it");
        assert_eq!(libvirt.vcpupin(cpu), "0");
        libvirt.told(&["iothreadadd", &libvirt.name, "2"]);
        until("the I/O thread that came", || {
            (runs_on(Role::Iothread(2)) == Some(list("0"))).then_some(())
        });
        if death {
            guard.signal("-KILL");
            guard.exit_code();
            let report = restored(ground, libvirt);
            assert_eq!(report["failed"], serde_json::json!([]));
        } else {
            // The first one leaves, and nobody minds.
            libvirt.told(&["iothreaddel", &libvirt.name, "1"]);
            goes_on(&mut guard, 5);
            assert_eq!(guard.stop(), Some(0), "{}", guard.log());
        }
        assert_eq!(runs_on(Role::Vcpu(cpu)), Some(home.clone()), "after a death: {death}");
        assert_eq!(list(&libvirt.vcpupin(cpu)), home);
        assert_eq!(runs_on(Role::Iothread(2)), Some(anywhere.clone()));
        assert_eq!(runs_on(Role::Vcpu(0)), Some(anywhere.clone()));
        libvirt.told(&["iothreaddel", &libvirt.name, "2"]);
    }
}

/// Stopped, it answers nobody: samples go on, a change of somebody else's is mended when it is back,
/// and what cannot be put back stays on record until it can.
fn a_libvirt_that_hangs_holds_nobody_up(ground: &Ground, libvirt: &Libvirt) {
    let domain = libvirt.connect().by_name(&libvirt.name).unwrap();
    let seen = Seen::new(libvirt, &domain);
    let (before, cpus) = (seen.texts(), seen.cpus());
    let pins = [libvirt.vcpupin(0), libvirt.vcpupin(1)];
    let mut guard = guard(ground, libvirt);
    guard.ready();
    until_limited(libvirt, &guard);
    libvirt.signal("-STOP");
    let limited = seen.texts();
    let quota = |path: &&PathBuf| {
        let name = path.file_name().unwrap();
        (name == "cpu.cfs_quota_us" || name == "cpu.max") && limited[*path] != before[*path]
    };
    let quota = limited.keys().find(quota).unwrap();
    fs::write(quota, &before[quota]).unwrap();
    // Longer than a call to it may take.
    goes_on(&mut guard, 40);
    assert_eq!(fs::read_to_string(quota).unwrap(), before[quota]);
    libvirt.signal("-CONT");
    until_limited(libvirt, &guard);
    libvirt.signal("-STOP");
    assert_ne!(guard.stop(), Some(0), "{}", guard.log());
    assert!(guard.log().contains("did not answer"), "{}", guard.log());
    assert_eq!(seen.texts(), before, "the kernel's side needs no libvirt");
    libvirt.signal("-CONT");
    let report = restored(ground, libvirt);
    assert!(report["restored"].as_u64() > Some(0), "{report:#}");
    assert_eq!(report["failed"], serde_json::json!([]));
    assert_eq!((seen.texts(), seen.cpus()), (before, cpus));
    assert_eq!([libvirt.vcpupin(0), libvirt.vcpupin(1)], pins);
}

fn doctor_tells_of_it(libvirt: &Libvirt) {
    let output = libvirt.quell(&["doctor", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let lines = report["capabilities"].as_array().unwrap();
    let line = lines.iter().find(|line| line["kind"] == "libvirt").unwrap();
    assert_eq!(line["state"], "native", "{line:#}");
    let detail = line["detail"].as_str().unwrap();
    let version = libvirt.connect().version().unwrap().to_string();
    assert!(detail.contains(&version) && detail.contains("1 machine runs"), "{detail}");
}

#[test]
fn a_machine_of_a_real_libvirt_is_limited_through_it_and_as_before_afterwards() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("with one CPU nothing can be pinned apart");
        return;
    }
    let mut ground = Ground::new();
    ground.redis();
    let libvirt = Libvirt::start();
    libvirt.boot();
    doctor_tells_of_it(&libvirt);
    the_api_says_and_does_what_virsh_does(&libvirt);
    the_agent_limits_it_through_libvirt_and_puts_it_back(&ground, &libvirt);
    a_libvirt_that_hangs_holds_nobody_up(&ground, &libvirt);
    one_that_goes_away_is_no_error(&ground, &libvirt);
    libvirt.boot();
    what_comes_while_it_is_limited_is_limited_too(&ground, &libvirt);
}
