//! Work inside network namespaces leaves the caller where it was.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use quell_egress::Netns;
use quell_egress::route::Route;
use std::process::Command;

#[test]
fn a_new_namespace_is_empty_and_the_caller_stays_outside() {
    let namespace = Netns::create().unwrap();
    let own = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    let (before, inside) = (own(), namespace.run(own).unwrap());
    assert_ne!(before, inside);
    assert_eq!(own(), before);
    assert_eq!(Netns::current().run(own).unwrap(), before);
    let mut route = Route::open(&namespace).unwrap();
    let index = route.link("lo").unwrap().unwrap().index;
    assert!(!route.link("lo").unwrap().unwrap().up);
    route.set_up(index).unwrap();
    assert!(route.link("lo").unwrap().unwrap().up);
    assert!(Route::open(&Netns::current()).unwrap().link("lo").unwrap().is_some());
}

#[test]
fn another_process_finds_it_by_its_path_and_starts_in_it() {
    let namespace = Netns::create().unwrap();
    let inside = namespace.run(|| std::fs::read_link("/proc/thread-self/ns/net").unwrap());
    let mut command = Command::new("readlink");
    let started = namespace.enter(command.arg("/proc/self/ns/net")).output().unwrap();
    assert_eq!(
        String::from_utf8(started.stdout).unwrap().trim(),
        inside.unwrap().to_str().unwrap()
    );
    let again = Netns::open(namespace.path().unwrap()).unwrap();
    assert_eq!(again.run(|| 7).unwrap(), 7);
    assert_eq!(again.spawn("quell-test", || 8).unwrap().join().unwrap(), Some(8));
}

#[test]
fn what_is_no_namespace_is_refused_with_its_path() {
    for path in ["/run/netns/quell-test-none", "/dev/null"] {
        let refused = Netns::open(path).and_then(|namespace| namespace.run(|| ()));
        assert!(refused.unwrap_err().to_string().contains(path));
    }
    assert!(Netns::named("quell-test-none").is_err());
}

#[test]
fn a_panic_inside_is_the_callers() {
    let namespace = Netns::create().unwrap();
    let caught = std::panic::catch_unwind(|| namespace.run(|| panic!("on purpose")));
    assert!(caught.is_err());
}
