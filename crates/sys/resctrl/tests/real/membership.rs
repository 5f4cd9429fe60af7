//! Threads and CPUs that belong to a group, as the processor is told when they run.

use crate::lab::{Lab, caches, cpus, made, waits};
use quell_resctrl::Resource;
use quell_types::{CpuSet, Gap, Setting};
use std::fs;
use std::process::{Child, Command, Stdio};

/// A process that only spins, on one CPU, and ends with the test.
struct Spinner(Child);

impl Spinner {
    fn on(cpu: u32) -> Self {
        let mut command = Command::new("taskset");
        command.args(["-c", &cpu.to_string(), "sh", "-c", "while :; do :; done"]);
        Self(command.stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_thread_takes_its_class_along_and_gives_it_back() {
    let Some((lab, tree)) = Lab::allotting("") else { return };
    let group = made(|| tree.create("quell-a"));
    let ids = lab.ids(&group);
    let cpu = *cpus().last().unwrap();
    let spinner = Spinner::on(cpu);
    group.add_task(spinner.0.id()).unwrap();
    assert_eq!(group.tasks().unwrap(), [spinner.0.id()]);
    waits("the CPU works for the class", || (lab.association(cpu) == ids).then_some(()));
    tree.remove("quell-a").unwrap();
    waits("and for the default class again", || (lab.association(cpu) == (0, 0)).then_some(()));
    assert!(tree.default_group().tasks().unwrap().contains(&spinner.0.id()));
    assert!(matches!(group.counters(), Err(Gap::Gone(_))));
    assert!(matches!(tree.llc_ways(&group, 0).unwrap().read(), Err(Gap::Gone(_))));
    tree.remove("quell-a").unwrap();
}

#[test]
fn a_thread_counted_apart_stays_in_its_class() {
    let Some((lab, tree)) = Lab::mounted("") else { return };
    let part = made(|| tree.create_monitoring("quell-a"));
    let (class, rmid) = lab.ids(&part);
    assert_eq!(class, 0);
    let cpu = *cpus().last().unwrap();
    let spinner = Spinner::on(cpu);
    part.add_task(spinner.0.id()).unwrap();
    waits("it is counted apart", || (lab.association(cpu) == (0, rmid)).then_some(()));
    if tree.classes().is_ok() {
        let group = made(|| tree.create("quell-b"));
        group.add_task(spinner.0.id()).unwrap();
        assert!(part.tasks().unwrap().is_empty());
        let error = part.add_task(spinner.0.id()).unwrap_err();
        let why = error.status().unwrap();
        assert!(why.starts_with("Can't move task to different control group; "), "{why}");
    }
}

#[test]
fn an_ended_thread_is_refused_by_number() {
    let Some((_lab, tree)) = Lab::mounted("") else { return };
    let group = made(|| tree.create_monitoring("quell-a"));
    // Above pid_max on every machine.
    let error = group.add_task(4_999_999).unwrap_err();
    assert_eq!(
        (error.status(), error.errno()),
        (Some("No task 4999999; Error while processing task 4999999"), Some(libc::ESRCH))
    );
}

#[test]
fn cpus_move_between_groups() {
    let Some((lab, tree)) = Lab::allotting("") else { return };
    let (first, second) = (made(|| tree.create("quell-a")), made(|| tree.create("quell-b")));
    let all: CpuSet = cpus().into_iter().collect();
    let (one, two) = (all.last(1), all.last(2));
    first.set_cpus(&two).unwrap();
    second.set_cpus(&one).unwrap();
    assert_eq!(first.cpus().unwrap(), two.difference(&one));
    assert_eq!(second.cpus().unwrap(), one);
    assert_eq!(tree.default_group().cpus().unwrap(), all.difference(&two));
    let cpu = one.iter().next().unwrap();
    let (class, _) =
        waits("it works for its group", || Some(lab.association(cpu)).filter(|ids| ids.0 != 0));
    tree.remove("quell-b").unwrap();
    tree.remove("quell-a").unwrap();
    assert_eq!(tree.default_group().cpus().unwrap(), all);
    waits("it works for all again", || (lab.association(cpu).0 != class).then_some(()));
}

/// A CPU that is offline, until the test ends.
struct Offline(u32);

impl Offline {
    fn new(cpu: u32) -> Self {
        switch(cpu, "0");
        Self(cpu)
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        switch(self.0, "1");
    }
}

fn switch(cpu: u32, to: &str) {
    fs::write(format!("/sys/devices/system/cpu/cpu{cpu}/online"), to).unwrap();
}

/// The last domain with all its CPUs.
fn last_domain() -> (u32, Vec<u32>) {
    let domain = *caches().last().unwrap();
    let of = |cpu: &u32| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/cache/index3/id");
        fs::read_to_string(path).unwrap().trim() == domain.to_string()
    };
    (domain, cpus().into_iter().filter(of).collect())
}

#[test]
fn a_domain_goes_with_its_last_cpu_and_comes_back_with_all_ways() {
    let Some((lab, tree)) = Lab::allotting("") else { return };
    let group = made(|| tree.create("quell-a"));
    let (class, _) = lab.ids(&group);
    let (domain, its_cpus) = last_domain();
    let knob = tree.llc_ways(&group, domain).unwrap();
    knob.write(&Setting::Ways(0b1)).unwrap();
    tree.llc_ways(&group, 0).unwrap().write(&Setting::Ways(0b10)).unwrap();
    let gone: Vec<Offline> = its_cpus.iter().map(|cpu| Offline::new(*cpu)).collect();
    assert!(!tree.domains(Resource::L3).unwrap().contains(&domain));
    assert!(matches!(knob.read(), Err(Gap::Absent(_))), "{:?}", knob.read());
    let error = knob.write(&Setting::Ways(0b1)).unwrap_err();
    assert!(error.to_string().contains("no domain"), "{error}");
    let error = group.set_cpus(&CpuSet::of(its_cpus[0])).unwrap_err();
    assert_eq!(error.status(), Some("Can only assign online CPUs"));
    drop(gone);
    // The kernel does not remember: whoever wants it so writes it again.
    let full = tree.info().llc().unwrap().rules.full;
    assert_eq!((knob.read(), lab.l3(domain, class)), (Ok(Setting::Ways(full)), full));
    assert_eq!(lab.l3(0, class), 0b10, "other domains are left alone");
    knob.write(&Setting::Ways(0b1)).unwrap();
    assert_eq!(lab.l3(domain, class), 0b1);
}
