//! A made-up server with a machine of libvirt's: its tree of files, and a daemon at a socket in it
//! that keeps pins and does to the tree what libvirt does to a kernel.

use super::Part;
use quell_cgroup::{Group, Layout};
use quell_libvirt::EVERY_CPU_BYTES;
use quell_types::CpuSet;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

pub(super) const NAME: &str = "g1";
pub(super) const PID: u32 = 41;
const UUID: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
const UUID_TEXT: &str = "01020304-0506-0708-090a-0b0c0d0e0f10";
const ALL: &str = "0-3";
const REFUSED: i32 = 8;

pub(super) fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

/// Where libvirt puts its machines.
#[derive(Clone, Copy, Debug)]
pub(super) enum Host {
    /// systemd's scopes on cgroup v2.
    ScopeV2,
    /// The same on cgroup v1.
    ScopeV1,
    /// Groups of libvirt's own on cgroup v1.
    PlainV1,
}

impl Host {
    pub(super) const ALL: [Host; 3] = [Host::ScopeV2, Host::ScopeV1, Host::PlainV1];

    fn is_v1(self) -> bool {
        !matches!(self, Host::ScopeV2)
    }

    fn mounts(self) -> &'static str {
        match self.is_v1() {
            true => {
                "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
                 cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n"
            }
            false => "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n",
        }
    }

    /// Where hierarchies lie that have such files.
    fn tops(self) -> &'static [&'static str] {
        match self.is_v1() {
            true => &["sys/fs/cgroup/cpuset", "sys/fs/cgroup/cpu,cpuacct"],
            false => &["sys/fs/cgroup"],
        }
    }

    /// The machine's group, from the outermost one on, and that of its limits.
    fn groups(self) -> Vec<String> {
        let own = match self {
            Host::PlainV1 => vec!["machine", "qemu-3-g1.libvirt-qemu"],
            Host::ScopeV1 => vec!["machine.slice", r"machine-qemu\x2d3\x2dg1.scope"],
            Host::ScopeV2 => vec!["machine.slice", r"machine-qemu\x2d3\x2dg1.scope", "libvirt"],
        };
        (1..=own.len()).map(|parts| own[..parts].join("/")).collect()
    }

    fn limits(self) -> String {
        self.groups().pop().unwrap()
    }

    /// The lines of a process in the group of the emulator.
    fn membership(self) -> String {
        let path = format!("/{}/emulator", self.limits());
        match self.is_v1() {
            true => format!("3:cpuset:{path}\n2:cpu,cpuacct:{path}\n"),
            false => format!("0::{path}\n"),
        }
    }

    /// The file that pins a part.
    fn file_of(self, part: Part) -> String {
        format!("{}/{}/{}/cpuset.cpus", self.tops()[0], self.limits(), part.group())
    }

    /// Its text where libvirt has not pinned anything: in v1 it is copied from the group above.
    pub(super) fn unpinned(self) -> &'static str {
        if self.is_v1() { "0-3\n" } else { "\n" }
    }
}

/// What the daemon keeps.
struct Kept {
    root: PathBuf,
    host: Host,
    /// Parts with the pins that somebody gave them; none: anywhere.
    pins: BTreeMap<Part, Option<CpuSet>>,
    emulator: CpuSet,
    there: BTreeMap<Part, u32>,
    most_vcpus: u32,
    /// One from before CPUs could be pinned that are not plugged in.
    old: bool,
    /// How often it will still say that it is at starting the machine.
    starting: u32,
}

/// The server; it and its daemon are gone when dropped.
pub(super) struct Server {
    folder: tempfile::TempDir,
    kept: Arc<Mutex<Kept>>,
}

impl Server {
    /// A machine with one CPU of three, the second one to be on CPU 1, and one I/O thread.
    pub(super) fn start(host: Host, old: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        let pins = [(Part::Vcpu(0), None), (Part::Vcpu(1), Some(cpus("1"))), (Part::Vcpu(2), None)];
        let kept = Kept {
            root: root.clone(),
            host,
            pins: pins.into_iter().collect(),
            emulator: cpus(ALL),
            there: BTreeMap::new(),
            most_vcpus: 3,
            old,
            starting: 0,
        };
        let server = Self { folder, kept: Arc::new(Mutex::new(kept)) };
        server.make_tree(host);
        server.plug(Part::Vcpu(0));
        server.plug(Part::Iothread(1));
        server.listen();
        server
    }

    pub(super) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn group(&self) -> Group {
        Group::of_vm_process(&Layout::discover(self.root()), NAME, PID).unwrap()
    }

    fn make_tree(&self, host: Host) {
        let write = |path: &str, text: &str| write(self.root(), path, text);
        write("proc/mounts", host.mounts());
        write("proc/41/cgroup", &host.membership());
        let line = format!("qemu\0-name\0guest={NAME},debug-threads=on\0-uuid\0{UUID_TEXT}\0");
        write("proc/41/cmdline", &line);
        let zeros = "0 ".repeat(18);
        write("proc/41/stat", &format!("41 (qemu) S {zeros}5 {}\n", "0 ".repeat(30)));
        write_thread(self.root(), PID, "qemu-system-x86", &cpus(ALL));
        let emulator = format!("{}/emulator", host.limits());
        for group in [vec![String::new()], host.groups(), vec![emulator]].concat() {
            for top in host.tops() {
                write(&format!("{top}/{group}/cpuset.cpus"), host.unpinned());
                write(&format!("{top}/{group}/cpuset.mems"), "0\n");
                if !host.is_v1() {
                    write(&format!("{top}/{group}/cgroup.controllers"), "cpuset cpu\n");
                    write(&format!("{top}/{group}/cpuset.cpus.effective"), "0-3\n");
                }
            }
        }
    }

    /// A part comes: QEMU's thread, its group, its pins, as libvirt does it.
    pub(super) fn plug(&self, part: Part) {
        let mut kept = self.kept.lock().unwrap();
        let tid = PID + 2 + kept.there.len() as u32;
        kept.there.insert(part, tid);
        let name = match part {
            Part::Vcpu(number) => format!("CPU {number}/KVM"),
            Part::Iothread(number) => format!("IO iothread{number}"),
        };
        let pins = kept.pins.entry(part).or_default().clone();
        write_thread(&kept.root, tid, &name, &pins.clone().unwrap_or(cpus(ALL)));
        let unpinned = || kept.host.unpinned().to_owned();
        let text = pins.map_or_else(unpinned, |pins| format!("{pins}\n"));
        write(&kept.root, &kept.host.file_of(part), &text);
    }

    /// A part leaves.
    pub(super) fn unplug(&self, part: Part) {
        let mut kept = self.kept.lock().unwrap();
        let tid = kept.there.remove(&part).unwrap();
        fs::remove_dir_all(kept.root.join(format!("proc/{PID}/task/{tid}"))).unwrap();
        fs::remove_dir_all(kept.root.join(kept.host.file_of(part)).parent().unwrap()).unwrap();
        if matches!(part, Part::Iothread(_)) {
            kept.pins.remove(&part);
        }
    }

    /// Where the thread of a part may run.
    pub(super) fn runs_on(&self, part: Part) -> CpuSet {
        let kept = self.kept.lock().unwrap();
        let status = kept.root.join(format!("proc/{PID}/task/{}/status", kept.there[&part]));
        let text = fs::read_to_string(status).unwrap();
        cpus(text.trim().rsplit('\t').next().unwrap())
    }

    /// Where the group of a part says that it may run.
    pub(super) fn text_of(&self, part: Part) -> String {
        let file = self.kept.lock().unwrap().host.file_of(part);
        fs::read_to_string(self.root().join(file)).unwrap()
    }

    /// Where libvirt says that a part belongs.
    pub(super) fn pins_of(&self, part: Part) -> CpuSet {
        self.kept.lock().unwrap().pins[&part].clone().unwrap_or(cpus(ALL))
    }

    /// So often the daemon says from now on that it is at starting the machine.
    pub(super) fn say_starting(&self, times: u32) {
        self.kept.lock().unwrap().starting = times;
    }

    fn socket(&self) -> PathBuf {
        self.root().join("run/libvirt/virtqemud-sock")
    }

    /// Nobody answers any more who has not connected yet.
    pub(super) fn silence(&self) {
        fs::rename(self.socket(), self.socket().with_extension("away")).unwrap();
    }

    pub(super) fn answer_again(&self) {
        fs::rename(self.socket().with_extension("away"), self.socket()).unwrap();
    }

    fn listen(&self) {
        fs::create_dir_all(self.socket().parent().unwrap()).unwrap();
        let listener = UnixListener::bind(self.socket()).unwrap();
        let kept = self.kept.clone();
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let kept = kept.clone();
                std::thread::spawn(move || serve(stream, &kept));
            }
        });
    }
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn write_thread(root: &Path, tid: u32, name: &str, cpus: &CpuSet) {
    write(root, &format!("proc/{PID}/task/{tid}/comm"), &format!("{name}\n"));
    let status = format!("Cpus_allowed_list:\t{cpus}\n");
    write(root, &format!("proc/{PID}/task/{tid}/status"), &status);
}

impl Kept {
    /// The answer to a call, or the refusal of it.
    fn answer(&mut self, procedure: u32, arguments: &[u8]) -> Result<Vec<u8>, &'static str> {
        // Behind the machine: its name, its UUID, its number.
        let mut words = Words(arguments.get(8 + 16 + 4..).unwrap_or_default());
        let map = |cpus: &CpuSet| {
            let mut map = [0u8; EVERY_CPU_BYTES as usize];
            cpus.iter().for_each(|cpu| map[cpu as usize / 8] |= 1 << (cpu % 8));
            map
        };
        let anywhere = |pins: &Option<CpuSet>| map(pins.as_ref().unwrap_or(&cpus(ALL)));
        let vcpus = self.there.keys().filter(|part| matches!(part, Part::Vcpu(_))).count() as u32;
        let unplugged = |part: Part| self.old && !self.there.contains_key(&part);
        Ok(match procedure {
            // Looking it up.
            23 | 24 => [&bytes(NAME.as_bytes())[..], &UUID, &word(3)].concat(),
            // Its size: state, memory twice, CPUs, time.
            16 => [&word(1)[..], &[0; 16], &word(vcpus), &[0; 8]].concat(),
            // What it does, and why.
            212 if self.starting > 0 => {
                self.starting -= 1;
                [word(3), word(11)].concat()
            }
            212 => [word(1), word(1)].concat(),
            18 if self.old => return Err("nobody knows how many there may be"),
            18 => word(self.most_vcpus).to_vec(),
            // Pins of CPUs.
            230 => {
                let count = words.word().min(self.most_vcpus);
                let one = |number| self.pins.get(&Part::Vcpu(number)).map(anywhere);
                let maps: Vec<_> = (0..count).filter_map(one).collect();
                [bytes(&maps.concat()), word(maps.len() as u32).to_vec()].concat()
            }
            225 => {
                let part = Part::Vcpu(words.word());
                if !self.pins.contains_key(&part) || unplugged(part) {
                    return Err("there is no such CPU");
                }
                self.pin(part, words.cpus())
            }
            351 => {
                let is = |part: &Part| matches!(part, Part::Iothread(_));
                let all = self.pins.iter().filter(|(part, _)| is(part));
                let one = |(part, pins): (&Part, &Option<CpuSet>)| match part {
                    Part::Vcpu(number) | Part::Iothread(number) => {
                        [&word(*number)[..], &bytes(&anywhere(pins))].concat()
                    }
                };
                let list: Vec<Vec<u8>> = all.map(one).collect();
                [word(list.len() as u32).to_vec(), list.concat()].concat()
            }
            352 => {
                let part = Part::Iothread(words.word());
                if !self.pins.contains_key(&part) {
                    return Err("there is no such I/O thread");
                }
                self.pin(part, words.cpus())
            }
            280 => [bytes(&map(&self.emulator)), word(1).to_vec()].concat(),
            279 => {
                self.emulator = words.cpus();
                write_thread(&self.root, PID, "qemu-system-x86", &self.emulator);
                Vec::new()
            }
            // How to log in: not at all. Opening, closing.
            66 => [word(1), word(0)].concat(),
            1 | 2 => Vec::new(),
            _ => return Err("not here"),
        })
    }

    /// Pins a part: its thread and its group, if it is there.
    fn pin(&mut self, part: Part, cpus: CpuSet) -> Vec<u8> {
        if let Some(tid) = self.there.get(&part) {
            let comm = self.root.join(format!("proc/{PID}/task/{tid}/comm"));
            let name = fs::read_to_string(comm).unwrap();
            write_thread(&self.root, *tid, name.trim(), &cpus);
            write(&self.root, &self.host.file_of(part), &format!("{cpus}\n"));
        }
        self.pins.insert(part, Some(cpus));
        Vec::new()
    }
}

fn serve(mut stream: UnixStream, kept: &Mutex<Kept>) {
    let mut head = [0; 28];
    while stream.read_exact(&mut head).is_ok() {
        let mut words = Words(&head);
        let length = words.word();
        let mut body = vec![0; length as usize - head.len()];
        stream.read_exact(&mut body).unwrap();
        let procedure = Words(&head[12..]).word();
        let done = kept.lock().unwrap().answer(procedure, &body);
        let (status, body) = match done {
            Ok(body) => (0, body),
            Err(why) => {
                // Number, part, text; then what Quell does not read.
                let parts = [word(REFUSED).to_vec(), word(10).to_vec(), word(1).to_vec()];
                let rest = [bytes(why.as_bytes()), word(2).to_vec(), vec![0; 32]];
                (1, [parts.concat(), rest.concat()].concat())
            }
        };
        let length = word(28 + body.len() as u32);
        let answer = [&length[..], &head[4..16], &word(1), &head[20..24], &word(status), &body];
        if stream.write_all(&answer.concat()).is_err() {
            return;
        }
    }
}

/// Words of XDR, to be read.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn word(&mut self) -> u32 {
        let (word, rest) = self.0.split_first_chunk::<4>().unwrap();
        self.0 = rest;
        u32::from_be_bytes(*word)
    }

    /// A map of CPUs.
    fn cpus(&mut self) -> CpuSet {
        let length = self.word() as usize;
        let set = |cpu: &u32| self.0[*cpu as usize / 8] >> (cpu % 8) & 1 == 1;
        (0..8 * length as u32).filter(set).collect()
    }
}

fn word(value: impl Into<i64>) -> [u8; 4] {
    (value.into() as u32).to_be_bytes()
}

fn bytes(bytes: &[u8]) -> Vec<u8> {
    let padding = vec![0; bytes.len().wrapping_neg() % 4];
    [&word(bytes.len() as u32)[..], bytes, &padding].concat()
}
