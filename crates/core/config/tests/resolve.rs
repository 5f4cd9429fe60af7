//! A configuration against machines.

mod common;

use common::{check, lines};
use quell_config::{
    Checked, Controller, Found, GroupBinding, Machine, Needs, Role, Selector, resolve,
};
use quell_types::{Cpu, CpuSet, Gap, Knob, KnobRange, Tenant, Topology};
use std::collections::{BTreeMap, BTreeSet};

const V1: [Controller; 3] = [Controller::Cpu, Controller::Cpuset, Controller::Freezer];

fn needs() -> Needs {
    Needs { service: BTreeSet::new(), batch: V1.into() }
}

fn found(path: &str) -> Found {
    Found { groups: V1.into_iter().map(|c| (c, path.to_owned())).collect() }
}

/// Four CPUs, cgroup v1, no selector known.
fn machine() -> Machine {
    let cpu = |id| Cpu { id, socket: 0, core: id, node: 0 };
    Machine {
        topology: Topology { cpus: (0..4).map(cpu).collect(), ..Topology::default() },
        controllers: V1.into(),
        agent: found("/system/quell"),
        ..Machine::default()
    }
}

/// A machine where every cgroup selector of the configuration leads to its path.
fn machine_for(config: &Checked) -> Machine {
    let mut machine = machine();
    let services = config.services.iter().map(|s| &s.selector);
    for selector in services.chain(config.batch.iter().map(|b| &b.selector)) {
        if let Selector::Cgroup(path) = selector {
            machine.selectors.insert(selector.clone(), Ok(found(path)));
        }
    }
    machine
}

fn config(batch: &str) -> Checked {
    check(&format!("[[service]]\ncgroup = \"/s/web\"\np99 = \"3ms\"\n{batch}")).expect("sound")
}

fn refused(config: &Checked, machine: &Machine) -> Vec<String> {
    lines(&resolve(config, machine, &needs()).expect_err("does not fit").0)
}

#[test]
fn what_fits_becomes_a_setup_with_bindings() {
    let config = config(
        "links = [\"eth0\"]\n[[batch]]\ncgroup = \"/batch\"\ntasks = true\n\
         [[link]]\nname = \"eth0\"\ncapacity = \"1Gbit\"\n[agent]\nmanage = \"1-3\"\n",
    );
    let mut machine = machine_for(&config);
    machine.links.insert("eth0".into(), Ok(()));
    let knob = |name: &str| Knob::Cpus { tenant: Tenant::from(name) };
    let range = KnobRange::Cpus { within: "0-3".parse().unwrap(), exclusive: false };
    machine.knobs = BTreeMap::from([
        (knob("web"), range.clone()),
        (knob("stranger"), range),
        (Knob::FrequencyMax { cpu: 0 }, KnobRange::Flag),
        (Knob::FrequencyMax { cpu: 1 }, KnobRange::Flag),
    ]);
    let resolved = resolve(&config, &machine, &needs()).unwrap();
    let setup = &resolved.setup;
    let managed: CpuSet = "1-3".parse().unwrap();
    assert_eq!(setup.managed_cpus, managed);
    assert_eq!(setup.services[0].name.as_str(), "web");
    assert_eq!(setup.batch[0].max_tasks, 1);
    assert_eq!(setup.links[0].capacity.bits(), 1e9);
    assert_eq!(setup.knobs.len(), 2, "knobs of strangers and unmanaged CPUs are left alone");
    let cut = KnobRange::Cpus { within: managed, exclusive: false };
    assert_eq!(setup.knobs[&knob("web")], cut);
    let [service, batch] = &resolved.bindings[..] else { panic!("two bindings") };
    assert_eq!((service.role, batch.role), (Role::Service, Role::Batch));
    assert!(service.latency.is_some() && batch.latency.is_none());
    assert_eq!(batch.groups[&Controller::Cpu], GroupBinding::Existing("/batch".into()));
}

#[test]
fn all_online_cpus_are_managed_unless_said() {
    let config = config("");
    let resolved = resolve(&config, &machine_for(&config), &needs()).unwrap();
    assert_eq!(resolved.setup.managed_cpus.to_string(), "0-3");
}

#[test]
fn cpus_that_are_not_online_are_refused() {
    let config = config("[agent]\nmanage = \"2-5\"\n");
    let said = refused(&config, &machine_for(&config));
    assert_eq!(said, ["5:10 agent.manage: CPU 4-5 are not online"]);
}

#[test]
fn selectors_that_lead_to_nothing_are_told_with_the_reason_each() {
    let config = config("[[batch]]\nunit = \"b.service\"\n[[batch]]\npid = 7\n");
    let mut machine = machine();
    let gone = |why: &str| Err(Gap::failed(why));
    machine.selectors = BTreeMap::from([
        (Selector::Cgroup("/s/web".into()), gone("no hierarchy has it")),
        (Selector::Unit("b.service".into()), gone("systemd does not run here")),
    ]);
    let said = refused(&config, &machine);
    let wanted = [
        "2:10 service[0].cgroup: cgroup /s/web was not found: failed: no hierarchy has it",
        "5:8 batch[0].unit: unit b.service was not found: failed: systemd does not run here",
        "7:7 batch[1].pid: pid 7 was not found: it was not looked up",
    ];
    assert_eq!(said, wanted);
}

#[test]
fn a_link_that_is_not_there_is_refused() {
    let text = "[[link]]\nname = \"eth9\"\ncapacity = \"1Gbit\"\nnetns = \"blue\"\n";
    let config = config(text);
    let mut machine = machine_for(&config);
    machine.links.insert("eth9".into(), Err(Gap::absent("no such device")));
    let said = refused(&config, &machine);
    assert!(said[0].starts_with("5:8 link[0].name: there is no interface `eth9`"), "{said:?}");
    assert!(said[0].contains("namespace blue: absent: no such device"), "{said:?}");
}

#[test]
fn groups_that_overlap_are_refused_each_with_its_reason() {
    for (batch, said) in [
        ("/s/web", "`b` and `web` are the same group (cpu:/s/web)"),
        ("/s", "`b` contains `web` (cpu:/s, /s/web)"),
        ("/s/web/jobs", "`web` contains `b` (cpu:/s/web, /s/web/jobs)"),
        ("/system", "`b` holds the agent itself (cpu:/system/quell)"),
        ("/system/quell", "`b` holds the agent itself"),
    ] {
        let config = config(&format!("[[batch]]\nname = \"b\"\ncgroup = \"{batch}\"\n"));
        let found = refused(&config, &machine_for(&config));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("6:10 batch[0]: ") && found[0].contains(said), "{found:?}");
    }
}

#[test]
fn groups_side_by_side_are_accepted_though_one_name_begins_the_other() {
    let config = config("[[batch]]\ncgroup = \"/s/we\"\n[[batch]]\ncgroup = \"/s/web2\"\n");
    assert!(resolve(&config, &machine_for(&config), &needs()).is_ok());
}

#[test]
fn one_group_by_two_selectors_is_still_one_group() {
    let config = config("[[batch]]\npid = 7\n");
    let mut machine = machine_for(&config);
    machine.selectors.insert(Selector::Pid(7), Ok(found("/s/web")));
    assert!(refused(&config, &machine)[0].contains("are the same group"));
}

#[test]
fn a_controller_without_a_group_is_refused_or_adopted() {
    for (adopt, accepted) in [("", false), ("adopt = true\n", true)] {
        let config = config(&format!("[[batch]]\ncgroup = \"/batch\"\n{adopt}"));
        let mut machine = machine_for(&config);
        let groups = BTreeMap::from([
            (Controller::Cpu, "/batch".to_owned()),
            (Controller::Freezer, "/".to_owned()),
        ]);
        machine.selectors.insert(Selector::Cgroup("/batch".into()), Ok(Found { groups }));
        let answer = resolve(&config, &machine, &needs());
        if accepted {
            let groups = &answer.unwrap().bindings[1].groups;
            assert_eq!(groups[&Controller::Cpu], GroupBinding::Existing("/batch".into()));
            for adopted in [Controller::Cpuset, Controller::Freezer] {
                assert_eq!(groups[&adopted], GroupBinding::Adopted("/quell/batch".into()));
            }
        } else {
            let errors = answer.unwrap_err().0;
            let said = &errors[0].problem;
            assert!(said.contains("no group of its own under the controllers cpuset, freezer"));
            assert!(errors[0].help.as_deref().unwrap().contains("adopt = true"));
        }
    }
}

#[test]
fn what_no_hierarchy_offers_is_not_needed() {
    let config = config("[[batch]]\ncgroup = \"/batch\"\n");
    let mut machine = machine_for(&config);
    let groups = BTreeMap::from([(Controller::Cpu, "/batch".to_owned())]);
    machine.selectors.insert(Selector::Cgroup("/batch".into()), Ok(Found { groups }));
    machine.controllers = BTreeSet::from([Controller::Cpu]);
    assert!(resolve(&config, &machine, &needs()).is_ok());
}

#[test]
fn all_that_does_not_fit_is_told_at_once() {
    let config = config(
        "[agent]\nmanage = \"9\"\n[[batch]]\ncgroup = \"/s\"\n[[batch]]\npid = 7\n\
         [[link]]\nname = \"eth9\"\ncapacity = \"1Gbit\"\n",
    );
    assert_eq!(refused(&config, &machine_for(&config)).len(), 4);
}
