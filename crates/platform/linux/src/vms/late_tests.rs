//! Parts of a machine that come and go while it is limited.

use super::fake::{Host, NAME, Server, cpus};
use super::{Part, Vms};
use crate::knobs::{KnobTable, Managers};
use crate::undoer::LinuxUndoer;
use quell_platform::{KnobJournal, MemoryStore, RestoreReport, Store};
use quell_types::{Knob, Setting, Tenant};
use std::time::{Duration, Instant};

/// An agent's part that matters here.
struct Agent<'a> {
    server: &'a Server,
    table: KnobTable,
    journal: KnobJournal<MemoryStore>,
    store: MemoryStore,
    vms: Vms,
}

fn knob() -> Knob {
    Knob::Cpus { tenant: Tenant::from(NAME) }
}

impl<'a> Agent<'a> {
    fn start(server: &'a Server) -> Self {
        let (mut vms, store) = (Vms::default(), MemoryStore::default());
        let vm = vms.take(server.root(), NAME).unwrap();
        let proc = server.root().join("proc");
        let managers = Managers { systemctl: None, vm: Some((&vm, &proc)) };
        let mut table = KnobTable::default();
        let ranges = table.install(&Tenant::from(NAME), &server.group(), false, managers);
        assert!(ranges.iter().any(|(own, _)| *own == knob()));
        vms.settle();
        let journal = KnobJournal::open(store.clone()).unwrap();
        Self { server, table, journal, store, vms }
    }

    /// A sample: how the knob stands.
    fn sample(&mut self) -> Setting {
        let begun = Instant::now();
        loop {
            let read = self.table.read();
            self.table.follow(&mut self.journal).unwrap();
            if let Ok(setting) = &read[&knob()] {
                return setting.clone();
            }
            // libvirt is still at it.
            assert!(begun.elapsed() < Duration::from_secs(20), "{read:?}");
            self.vms.settle();
        }
    }

    fn limit(&mut self, list: &str) {
        self.table.set(&mut self.journal, &knob(), &Setting::Cpus(cpus(list))).unwrap().unwrap();
        self.vms.settle();
    }

    /// Records of parts of their own.
    fn records(&mut self) -> Vec<String> {
        let lines = self.store.read().unwrap();
        lines
            .into_iter()
            .filter(|line| line.contains(", virtual") || line.contains(", I/O"))
            .collect()
    }

    /// It dies; somebody else puts everything back, knowing nothing but the journal.
    fn die_and_restore(self) -> RestoreReport {
        let Self { server, store, table, vms, journal } = self;
        drop((table, vms, journal));
        restore(server, &store)
    }
}

fn restore(server: &Server, store: &MemoryStore) -> RestoreReport {
    let mut journal = KnobJournal::open(store.clone()).unwrap();
    journal.restore(&mut LinuxUndoer::new(server.root())).unwrap()
}

#[test]
fn a_cpu_that_is_plugged_in_is_born_where_it_shall_run_and_goes_back_where_it_belongs() {
    for host in Host::ALL {
        born_where_it_shall_run(host);
    }
}

fn born_where_it_shall_run(host: Host) {
    let server = Server::start(host, false);
    let mut agent = Agent::start(&server);
    agent.limit("0");
    assert_eq!(agent.sample(), Setting::Cpus(cpus("0")));
    for (number, home) in [(1, "1"), (2, "0-3")] {
        let part = Part::Vcpu(number);
        server.plug(part);
        assert_eq!(server.runs_on(part), cpus("0"), "from its first instruction");
        assert_eq!(agent.sample(), Setting::Cpus(cpus("0")), "nothing to repair");
        assert_eq!(agent.records().len(), number as usize);
        // Somebody moves it.
        agent.limit("2");
        assert_eq!(server.runs_on(part), cpus("2"));
        agent.limit("0");
        assert_eq!(agent.sample(), Setting::Cpus(cpus("0")), "{home}");
    }
    let report = agent.die_and_restore();
    assert_eq!(report.failed, Vec::<String>::new());
    for (number, home) in [(0, "0-3"), (1, "1"), (2, "0-3")] {
        let part = Part::Vcpu(number);
        assert_eq!((server.runs_on(part), server.pins_of(part)), (cpus(home), cpus(home)));
    }
    assert_eq!(server.text_of(Part::Vcpu(1)), "1\n");
}

#[test]
fn a_cpu_that_was_never_plugged_in_is_back_where_it_belongs_too() {
    let server = Server::start(Host::ScopeV2, false);
    let mut agent = Agent::start(&server);
    agent.limit("0");
    assert_eq!(server.pins_of(Part::Vcpu(1)), cpus("0"));
    agent.sample();
    assert_eq!(agent.records(), Vec::<String>::new());
    assert_eq!(agent.die_and_restore().failed, Vec::<String>::new());
    assert_eq!(server.pins_of(Part::Vcpu(1)), cpus("1"));
}

#[test]
fn what_comes_unannounced_is_a_stray_until_it_is_pinned_and_goes_on_record_before() {
    for host in Host::ALL {
        stray_until_it_is_pinned(host);
    }
}

fn stray_until_it_is_pinned(host: Host) {
    // Of this libvirt nobody learns of CPUs that are not there yet.
    let server = Server::start(host, true);
    let mut agent = Agent::start(&server);
    agent.limit("0");
    for (count, (part, home)) in
        (1..).zip([(Part::Vcpu(1), "1"), (Part::Vcpu(2), "0-3"), (Part::Iothread(2), "0-3")])
    {
        server.plug(part);
        let astray = agent.sample();
        assert_eq!(astray, Setting::Cpus(cpus("0").union(&cpus(home))), "{part}");
        agent.vms.settle();
        agent.sample();
        let records = agent.records();
        assert!(records.len() == count && records[count - 1].contains(&part.to_string()));
        assert_eq!(server.runs_on(part), cpus(home), "not before it was on record and set");
        agent.limit("0");
        assert_eq!(server.runs_on(part), cpus("0"), "{part}");
        assert_eq!(agent.sample(), Setting::Cpus(cpus("0")));
    }
    let report = agent.die_and_restore();
    assert_eq!(report.failed, Vec::<String>::new());
    for (part, home) in [(Part::Vcpu(1), "1"), (Part::Vcpu(2), "0-3"), (Part::Iothread(2), "0-3")] {
        assert_eq!(
            (server.runs_on(part), server.pins_of(part)),
            (cpus(home), cpus(home)),
            "{part}"
        );
    }
}

#[test]
fn the_record_of_a_part_goes_with_it_and_one_that_left_is_no_error() {
    let all = Host::ALL.into_iter().flat_map(|host| [(host, false), (host, true)]);
    for (host, old) in all {
        let server = Server::start(host, old);
        let mut agent = Agent::start(&server);
        agent.limit("0");
        for part in [Part::Vcpu(1), Part::Iothread(2)] {
            server.plug(part);
            agent.sample();
            agent.vms.settle();
            agent.sample();
            agent.limit("0");
            assert_eq!(agent.records().len(), 1, "{part}");
            server.unplug(part);
            assert_eq!(agent.sample(), Setting::Cpus(cpus("0")));
            assert_eq!(agent.records(), Vec::<String>::new(), "{part}");
            agent.limit("0-1");
            agent.limit("0");
        }
        // The one that was there from the beginning leaves too, and another has its number.
        server.unplug(Part::Iothread(1));
        assert_eq!(agent.sample(), Setting::Cpus(cpus("0")));
        agent.limit("0-1");
        agent.limit("0");
        server.plug(Part::Iothread(1));
        assert_eq!(agent.sample(), Setting::Cpus(cpus("0-3")));
        assert!(agent.records().concat().contains("I/O thread 1"), "of the group that it has now");
        agent.limit("0");
        assert_eq!(agent.sample(), Setting::Cpus(cpus("0")));
        server.plug(Part::Iothread(2));
        agent.sample();
        agent.vms.settle();
        agent.sample();
        agent.limit("0");
        assert_eq!(server.runs_on(Part::Iothread(2)), cpus("0"));
        // Nobody sees any more that this one leaves.
        server.unplug(Part::Iothread(2));
        assert_eq!(agent.die_and_restore().failed, Vec::<String>::new(), "{host:?}, old: {old}");
        assert_eq!(server.runs_on(Part::Vcpu(0)), cpus("0-3"));
    }
}

#[test]
fn the_kernels_side_of_what_came_needs_no_libvirt_to_be_put_back() {
    for host in Host::ALL {
        put_back_without_libvirt(host);
    }
}

fn put_back_without_libvirt(host: Host) {
    let server = Server::start(host, false);
    let mut agent = Agent::start(&server);
    agent.limit("0");
    server.plug(Part::Vcpu(1));
    server.plug(Part::Iothread(2));
    agent.sample();
    agent.vms.settle();
    agent.sample();
    agent.limit("0");
    assert_eq!([server.text_of(Part::Vcpu(1)), server.text_of(Part::Iothread(2))], ["0\n", "0\n"]);
    let store = agent.store.clone();
    drop(agent);
    server.silence();
    let report = restore(&server, &store);
    assert_eq!(
        [server.text_of(Part::Vcpu(1)), server.text_of(Part::Iothread(2))],
        ["1\n", host.unpinned()]
    );
    assert!(!report.failed.is_empty(), "libvirt has not said so: {report:?}");
    server.answer_again();
    assert_eq!(restore(&server, &store).failed, Vec::<String>::new());
    assert_eq!(server.pins_of(Part::Vcpu(1)), cpus("1"));
    assert_eq!(server.pins_of(Part::Iothread(2)), cpus("0-3"));
    assert_eq!(restore(&server, &store), RestoreReport::default());
}
