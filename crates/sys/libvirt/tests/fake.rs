//! The client against a scripted daemon on a Unix socket: what it sends, what it makes of answers,
//! and of those that are late, wrong or missing.
#![allow(clippy::unwrap_used)]

use quell_libvirt::{
    Access, Connection, EVERY_CPU_BYTES, LibvirtError, Parameter, SYSTEM, State, Uuid, Value,
    Version, sockets,
};
use quell_types::CpuSet;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Longer than any answer here takes on a crowded machine.
const PATIENCE: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_millis(200);
const UUID: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

/// Words as XDR has them.
#[derive(Clone, Default)]
struct Words(Vec<u8>);

impl Words {
    fn word(mut self, value: i64) -> Self {
        self.0.extend((value as i32).to_be_bytes());
        self
    }

    fn long(mut self, value: i64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    fn bytes(self, bytes: &[u8]) -> Self {
        let padding = vec![0; bytes.len().wrapping_neg() % 4];
        self.word(bytes.len() as i64).raw(bytes).raw(&padding)
    }

    fn machine(self, name: &str, id: i64) -> Self {
        self.bytes(name.as_bytes()).raw(&UUID).word(id)
    }
}

/// What the daemon does about a call.
enum Answer {
    Done(Words),
    Refused(i64, &'static str),
    /// These bytes, a message or not.
    Bytes(Vec<u8>),
    /// Bytes one by one, with this pause before each.
    Trickle(Vec<u8>, Duration),
    /// Nothing, and the connection stays.
    Silence,
    /// The connection is closed.
    Hangs,
}

/// A message with this header.
fn message(
    program: i64,
    procedure: i64,
    kind: i64,
    serial: i64,
    status: i64,
    body: Words,
) -> Vec<u8> {
    let head = Words::default().word(28 + body.0.len() as i64).word(program).word(1);
    head.word(procedure).word(kind).word(serial).word(status).raw(&body.0).0
}

const REMOTE: i64 = 0x2000_8086;

/// A daemon that answers log-in and opening by itself, and the rest by a script.
struct Daemon {
    folder: tempfile::TempDir,
    calls: Receiver<(i32, Vec<u8>)>,
}

type Script = Box<dyn FnMut(i32, &[u8]) -> Option<Answer> + Send>;

impl Daemon {
    fn start(script: impl FnMut(i32, &[u8]) -> Option<Answer> + Send + 'static) -> Self {
        Self::start_at("run/libvirt/libvirt-sock", script)
    }

    fn start_at(
        path: &str,
        script: impl FnMut(i32, &[u8]) -> Option<Answer> + Send + 'static,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join(path);
        fs::create_dir_all(socket.parent().unwrap()).unwrap();
        let listener = UnixListener::bind(socket).unwrap();
        let (told, calls) = channel();
        std::thread::spawn(move || {
            let mut script: Script = Box::new(script);
            while let Ok((stream, _)) = listener.accept() {
                serve(stream, &mut script, &told);
            }
        });
        Self { folder, calls }
    }

    fn root(&self) -> &Path {
        self.folder.path()
    }

    fn open(&self) -> Result<Connection, LibvirtError> {
        Connection::system(self.root(), Access::Full, PATIENCE)
    }

    /// The arguments of the first call of this procedure.
    fn call(&self, procedure: i32) -> Vec<u8> {
        loop {
            let (number, arguments) = self.calls.recv_timeout(PATIENCE).unwrap();
            if number == procedure {
                return arguments;
            }
        }
    }
}

fn serve(mut stream: UnixStream, script: &mut Script, told: &Sender<(i32, Vec<u8>)>) {
    loop {
        let mut head = [0; 28];
        if stream.read_exact(&mut head).is_err() {
            return;
        }
        let word = |at: usize| i32::from_be_bytes(head[4 * at..4 * at + 4].try_into().unwrap());
        assert_eq!((word(1) as i64 & 0xffff_ffff, word(2), word(4), word(6)), (REMOTE, 1, 0, 0));
        let mut body = vec![0; word(0) as usize - 28];
        stream.read_exact(&mut body).unwrap();
        let (procedure, serial) = (word(3), i64::from(word(5)));
        let _ = told.send((procedure, body.clone()));
        let answer = script(procedure, &body).unwrap_or_else(|| match procedure {
            66 => Answer::Done(Words::default().word(1).word(0)),
            _ => Answer::Done(Words::default()),
        });
        let reply = |status, words| message(REMOTE, procedure.into(), 1, serial, status, words);
        let sent = match answer {
            Answer::Done(words) => {
                // An event and a keep-alive come first, which are nobody's answer.
                let event = message(REMOTE, 107, 2, 0, 0, Words::default().word(7));
                let ping = message(0x6b65_6570, 1, 2, 0, 0, Words::default());
                stream.write_all(&[event, ping, reply(0, words)].concat())
            }
            Answer::Refused(code, why) => {
                let error = Words::default().word(code).word(10).word(1).bytes(why.as_bytes());
                let rest = (0..8).fold(error.word(2), |words, _| words.word(0));
                stream.write_all(&reply(1, rest))
            }
            Answer::Bytes(bytes) => stream.write_all(&bytes),
            Answer::Trickle(bytes, pause) => bytes.iter().try_for_each(|byte| {
                std::thread::sleep(pause);
                stream.write_all(&[*byte])
            }),
            Answer::Silence => Ok(()),
            Answer::Hangs => return,
        };
        if sent.is_err() {
            return;
        }
    }
}

/// One procedure is answered so, the others as usual.
fn answers(wanted: i32, answer: impl Fn() -> Answer + Send + 'static) -> Daemon {
    Daemon::start(move |procedure, _| (procedure == wanted).then(&answer))
}

fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

#[test]
fn a_connection_logs_in_opens_the_systems_driver_and_says_when_it_is_over() {
    let daemon = answers(157, || Answer::Done(Words::default().long(9_000_000)));
    let mut connection = daemon.open().unwrap();
    assert_eq!(connection.version().unwrap(), Version(9_000_000));
    assert!(connection.is_open());
    connection.close().unwrap();
    assert_eq!(daemon.call(66), b"");
    let open = Words::default().word(1).bytes(SYSTEM.as_bytes()).word(0);
    assert_eq!(daemon.call(1), open.0);
    assert_eq!(daemon.call(2), b"");
    assert_eq!(sockets(daemon.root()), [daemon.root().join("run/libvirt/libvirt-sock")]);
    Connection::system(daemon.root(), Access::Read, PATIENCE).unwrap();
    assert_eq!(daemon.call(1).last(), Some(&1), "reading only");
}

#[test]
fn machines_are_listed_and_looked_up() {
    let list = Words::default().word(2).machine("g1", 3).machine("quell-é", 11).word(2);
    let one = Words::default().machine("g1", -1);
    let daemon = Daemon::start(move |procedure, _| match procedure {
        273 => Some(Answer::Done(list.clone())),
        23 | 24 => Some(Answer::Done(one.clone())),
        212 => Some(Answer::Done(Words::default().word(3).word(1))),
        _ => None,
    });
    let mut connection = daemon.open().unwrap();
    let running = connection.running().unwrap();
    let seen: Vec<_> = running.iter().map(|d| (d.name.as_str(), d.id)).collect();
    assert_eq!(seen, [("g1", Some(3)), ("quell-é", Some(11))]);
    assert_eq!(daemon.call(273), Words::default().word(1).word(1).0);
    let found = connection.by_name("g1").unwrap();
    assert_eq!((found.uuid, found.id), (Uuid(UUID), None));
    assert_eq!(daemon.call(23), Words::default().bytes(b"g1").0);
    assert_eq!(connection.by_uuid(&Uuid(UUID)).unwrap(), found);
    assert_eq!(daemon.call(24), UUID);
    assert_eq!(connection.state(&found).unwrap(), State::Paused);
    assert_eq!(daemon.call(212), Words::default().machine("g1", -1).word(0).0);
}

#[test]
fn a_machine_that_is_being_started_is_told_from_one_that_somebody_paused() {
    // State and reason, as `virDomainState` and `virDomainPausedReason` count them.
    for (state, reason, wanted) in [(3, 11, true), (3, 1, false), (1, 1, false), (1, 11, false)] {
        let daemon = Daemon::start(move |procedure, _| match procedure {
            23 => Some(Answer::Done(Words::default().machine("g1", 3))),
            212 => Some(Answer::Done(Words::default().word(state).word(reason))),
            _ => None,
        });
        let mut connection = daemon.open().unwrap();
        let g1 = connection.by_name("g1").unwrap();
        assert_eq!(connection.is_starting(&g1).unwrap(), wanted, "{state} {reason}");
    }
}

#[test]
fn cpus_of_a_machine_are_told_and_pinned() {
    let map = |first: u8| [vec![first], vec![0; EVERY_CPU_BYTES as usize - 1]].concat();
    let maps = Words::default().bytes(&[map(1), map(2)].concat());
    let info = Words::default().word(1).long(65_536).long(65_536).word(2).long(5_000);
    let vcpu = |words: Words, n: i64| words.word(n).word(1).long(100 + n).word(n);
    let vcpus = vcpu(vcpu(Words::default().word(2), 0), 1).raw(&maps.0);
    let daemon = Daemon::start(move |procedure, _| match procedure {
        16 => Some(Answer::Done(info.clone())),
        20 => Some(Answer::Done(vcpus.clone())),
        18 => Some(Answer::Done(Words::default().word(2))),
        230 => Some(Answer::Done(maps.clone().word(2))),
        280 => Some(Answer::Done(Words::default().bytes(&map(3)).word(1))),
        351 => Some(Answer::Done(Words::default().word(1).word(4).bytes(&[2]).word(1))),
        23 => Some(Answer::Done(Words::default().machine("g1", 3))),
        _ => None,
    });
    let mut connection = daemon.open().unwrap();
    let g1 = connection.by_name("g1").unwrap();
    let info = connection.info(&g1).unwrap();
    assert_eq!((info.state, info.vcpus, info.cpu_time_ns), (State::Running, 2, 5_000));
    let seen = connection.vcpus(&g1).unwrap();
    let seen: Vec<_> = seen.iter().map(|v| (v.number, v.cpu, v.affinity.to_string())).collect();
    assert_eq!(seen, [(0, Some(0), "0".to_owned()), (1, Some(1), "1".to_owned())]);
    assert_eq!(connection.vcpu_pins(&g1).unwrap(), [cpus("0"), cpus("1")]);
    assert_eq!(connection.emulator_pin(&g1).unwrap(), cpus("0-1"));
    connection.pin_vcpu(&g1, 1, &cpus("0,9")).unwrap();
    let machine = || Words::default().machine("g1", 3);
    assert_eq!(daemon.call(225), machine().word(1).bytes(&[1, 2]).word(1).0);
    connection.pin_emulator(&g1, &cpus("1")).unwrap();
    assert_eq!(daemon.call(279), machine().bytes(&[2]).word(1).0);
    assert_eq!(connection.iothread_pins(&g1).unwrap(), [(4, cpus("1"))]);
    connection.pin_iothread(&g1, 4, &cpus("0")).unwrap();
    assert_eq!(daemon.call(352), machine().word(4).bytes(&[1]).word(1).0);
}

#[test]
fn pins_of_cpus_that_are_not_plugged_in_are_told_where_the_daemon_knows_how_many_there_may_be() {
    let map = |first: u8| [vec![first], vec![0; EVERY_CPU_BYTES as usize - 1]].concat();
    for (most, wanted) in [(Some(3), vec!["0", "1", "0-1"]), (None, vec!["0"])] {
        let maps: Vec<u8> = [1, 2, 3].into_iter().take(wanted.len()).flat_map(map).collect();
        let count = wanted.len() as i64;
        let daemon = Daemon::start(move |procedure, _| match procedure {
            // Of one CPU that runs.
            16 => Some(Answer::Done(Words::default().word(1).long(9).long(9).word(1).long(5))),
            18 => Some(most.map_or(Answer::Refused(3, "not so old a daemon"), |most| {
                Answer::Done(Words::default().word(most))
            })),
            230 => Some(Answer::Done(Words::default().bytes(&maps).word(count))),
            23 => Some(Answer::Done(Words::default().machine("g1", 3))),
            _ => None,
        });
        let mut connection = daemon.open().unwrap();
        let g1 = connection.by_name("g1").unwrap();
        let wanted: Vec<CpuSet> = wanted.into_iter().map(cpus).collect();
        assert_eq!(connection.vcpu_pins(&g1).unwrap(), wanted);
        let asked = Words::default().machine("g1", 3).word(count);
        assert_eq!(daemon.call(230), asked.word(EVERY_CPU_BYTES.into()).word(1).0);
    }
}

#[test]
fn scheduler_parameters_are_read_and_set() {
    let list = Words::default().word(2).bytes(b"global_quota").word(3).long(-1);
    let list = list.bytes(b"global_period").word(4).long(100_000);
    let set = list.clone();
    let daemon = Daemon::start(move |procedure, _| match procedure {
        223 => Some(Answer::Done(list.clone())),
        23 => Some(Answer::Done(Words::default().machine("g1", 3))),
        _ => None,
    });
    let mut connection = daemon.open().unwrap();
    let g1 = connection.by_name("g1").unwrap();
    let parameters = connection.scheduler(&g1).unwrap();
    let wanted = [
        Parameter::new("global_quota", Value::Long(-1)),
        Parameter::new("global_period", Value::Ulong(100_000)),
    ];
    assert_eq!(parameters, wanted);
    let machine = Words::default().machine("g1", 3);
    assert_eq!(daemon.call(223), machine.clone().word(16).word(1).0);
    connection.set_scheduler(&g1, &parameters).unwrap();
    assert_eq!(daemon.call(219), machine.raw(&set.0).word(1).0);
}

#[test]
fn a_refusal_says_what_libvirt_said() {
    let daemon = answers(23, || Answer::Refused(42, "no domain with matching name 'g9'"));
    let mut connection = daemon.open().unwrap();
    let error = connection.by_name("g9").unwrap_err();
    assert!(error.is_gone());
    let text = error.to_string();
    assert!(text.contains("no domain with matching name 'g9'") && text.contains("42"), "{text}");
    assert!(connection.is_open(), "a refusal ends nothing");
    let daemon = answers(1, || Answer::Refused(1, "no driver for it"));
    let error = daemon.open().unwrap_err();
    assert!(!error.is_gone() && error.to_string().contains("opening"), "{error}");
}

#[test]
fn a_log_in_that_quell_has_not_is_said() {
    let daemon = answers(66, || Answer::Done(Words::default().word(1).word(1)));
    let error = daemon.open().unwrap_err();
    assert!(matches!(&error, LibvirtError::Login { .. }), "{error}");
    assert!(error.to_string().contains("SASL"), "{error}");
    let daemon = answers(66, || Answer::Done(Words::default().word(1).word(2)));
    daemon.open().unwrap();
    assert_eq!(daemon.call(70), b"", "polkit was asked");
}

#[test]
fn who_never_answers_is_left_at_the_limit() {
    for answer in [
        || Answer::Silence,
        // Every byte in time, but not all of them.
        || Answer::Trickle(message(REMOTE, 157, 1, 3, 0, Words::default().long(1)), SOON / 4),
    ] {
        let daemon = answers(157, answer);
        let mut connection = daemon.open().unwrap();
        connection.set_limit(SOON);
        let begun = Instant::now();
        let error = connection.version().unwrap_err();
        assert!(matches!(&error, LibvirtError::Timeout { .. }), "{error}");
        assert!(begun.elapsed() >= SOON, "{:?}", begun.elapsed());
        assert!(!connection.is_open());
        // What comes later must not be taken for the answer to another call.
        let error = connection.version().unwrap_err();
        assert!(matches!(&error, LibvirtError::Broken { .. }), "{error}");
    }
}

#[test]
fn what_is_no_answer_ends_the_connection() {
    let ok = || Words::default().long(1);
    let header = move |kind, serial, status| message(REMOTE, 157, kind, serial, status, ok());
    let long = Words::default().word(i64::from(u32::MAX)).word(REMOTE);
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("another call", header(1, 99, 0)),
        ("another call", message(REMOTE, 4, 1, 3, 0, ok())),
        ("no known kind", header(9, 3, 0)),
        ("no known status", header(1, 3, 7)),
        ("ends early", message(REMOTE, 157, 1, 3, 0, Words::default().word(1))),
        ("ends early", message(REMOTE, 157, 1, 3, 1, Words::default().word(1))),
        ("over 4 MiB", long.0),
        ("shorter than its header", Words::default().word(5).word(0).0),
    ];
    for (why, bytes) in cases {
        let daemon = answers(157, move || Answer::Bytes(bytes.clone()));
        let mut connection = daemon.open().unwrap();
        let error = connection.version().unwrap_err();
        assert!(matches!(&error, LibvirtError::Protocol { .. }), "{why}: {error}");
        assert!(error.to_string().contains(why), "{why}: {error}");
        assert!(!connection.is_open());
    }
}

#[test]
fn a_daemon_that_hangs_up_or_is_not_there_is_said() {
    let daemon = answers(157, || Answer::Hangs);
    let error = daemon.open().unwrap().version().unwrap_err();
    assert!(matches!(&error, LibvirtError::Broken { .. }), "{error}");
    let empty = tempfile::tempdir().unwrap();
    let error = Connection::system(empty.path(), Access::Full, SOON).unwrap_err();
    assert!(matches!(&error, LibvirtError::NoSocket { .. }), "{error}");
    let socket = empty.path().join("run/libvirt/virtqemud-sock");
    fs::create_dir_all(socket.parent().unwrap()).unwrap();
    drop(UnixListener::bind(&socket).unwrap());
    let error = Connection::system(empty.path(), Access::Full, SOON).unwrap_err();
    assert!(matches!(&error, LibvirtError::Connect { .. }), "{error}");
    assert!(error.to_string().contains("virtqemud-sock"), "{error}");
}

#[test]
fn daemons_of_both_kinds_are_found_for_reading_too_where_nothing_more_is_had() {
    let at = |path: &str| {
        let daemon = Daemon::start_at(path, |_, _| None);
        let socket = |access| {
            let connection = Connection::system(daemon.root(), access, PATIENCE).ok()?;
            assert_eq!(connection.socket(), daemon.root().join(path));
            Some(())
        };
        (socket(Access::Read).is_some(), socket(Access::Full).is_some(), sockets(daemon.root()))
    };
    for name in ["virtqemud-sock", "libvirt-sock"] {
        let (read, full, found) = at(&format!("run/libvirt/{name}"));
        assert!(read && full && found.len() == 1, "{name}");
        let (read, full, found) = at(&format!("run/libvirt/{name}-ro"));
        assert!(read && !full && found.is_empty(), "{name}: nothing can be set at it");
        // Of a user's session.
        let (read, full, found) = at(&format!("run/user/0/libvirt/{name}"));
        assert!(!read && !full && found.is_empty(), "{name}");
    }
    // One that went and left its socket does not stand in the other's way.
    let daemon = Daemon::start(|_, _| None);
    drop(UnixListener::bind(daemon.root().join("run/libvirt/virtqemud-sock")).unwrap());
    let connection = daemon.open().unwrap();
    assert!(connection.socket().ends_with("libvirt-sock"));
}

#[test]
fn a_daemon_that_takes_no_connection_is_left_at_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("run/libvirt/libvirt-sock");
    fs::create_dir_all(socket.parent().unwrap()).unwrap();
    let address = SocketAddrUnix::new(&socket).unwrap();
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let fd = fd.unwrap();
    bind(&fd, &address).unwrap();
    listen(&fd, 0).unwrap();
    // Connections that nobody takes fill the queue; the kernel lets the next one wait.
    let begun = Instant::now();
    let call = loop {
        match Connection::open(&socket, SYSTEM, Access::Full, SOON / 10) {
            Err(LibvirtError::Timeout { call, .. }) if call.contains("opening") => break call,
            Err(LibvirtError::Timeout { .. }) => {}
            other => panic!("{other:?}"),
        }
        assert!(begun.elapsed() < PATIENCE, "every connection was taken");
    };
    assert_eq!(call, "opening a connection");
}
