//! Machines that libvirt is just starting, which are left alone until it has done.
//!
//! While it starts a machine libvirt makes its groups, moves it into them and puts its threads where
//! they belong, one after the other. Of what lies there meanwhile a part is missing, and who limits it
//! makes the start fail ("cannot set CPU affinity on process …", seen with libvirt 11.3). So a machine
//! that comes back is not taken before libvirt says that it is up.

use super::worker::{Client, Worker};
use quell_libvirt::{Connection, LibvirtError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A machine whose process runs for so long is up, whatever libvirt says or does not say of it: it may
/// itself be down.
const AT_MOST: Duration = Duration::from_secs(30);
/// At the begin, where nothing else waits, libvirt is waited for.
const AT_BEGIN: Duration = Duration::from_secs(10);
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// What libvirt said, once it has.
type Answer = Arc<Mutex<Option<bool>>>;

/// A machine that came back.
struct Start {
    /// That of its group: another one is another start.
    identity: u64,
    seen: Instant,
    answer: Answer,
}

/// Machines that came back and were not taken yet.
#[derive(Default)]
pub(super) struct Starts(BTreeMap<String, Start>);

impl Starts {
    /// Whether libvirt is, or may be, at starting this machine, whose process is there. It is asked
    /// in the worker's time: what it says comes with a later call.
    pub(super) fn is_at(&mut self, worker: &Worker, name: &str, identity: u64) -> bool {
        self.0.retain(|other, start| other != name || start.identity == identity);
        let begin = || Start { identity, seen: Instant::now(), answer: ask(worker, name) };
        let start = self.0.entry(name.to_owned()).or_insert_with(begin);
        // A job that was dropped leaves no answer.
        let waits = Arc::strong_count(&start.answer) > 1;
        let answer = *start.answer.lock().unwrap_or_else(PoisonError::into_inner);
        if start.seen.elapsed() > AT_MOST || answer == Some(false) {
            self.0.remove(name);
            return false;
        }
        if !waits {
            start.answer = ask(worker, name);
        }
        true
    }
}

fn ask(worker: &Worker, name: &str) -> Answer {
    let answer = Answer::default();
    let (told, name) = (answer.clone(), name.to_owned());
    worker.send(move |client: &mut Client| {
        let said = client.talk(|connection| starts(connection, &name));
        let said = said.unwrap_or(Ok(true)).unwrap_or(true);
        *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
    });
    answer
}

/// Whether libvirt is at starting a machine; if it says nothing in time it is likely to be.
fn starts(connection: &mut Connection, name: &str) -> Result<bool, LibvirtError> {
    let asked = connection.by_name(name).and_then(|domain| connection.is_starting(&domain));
    match asked {
        // A machine of somebody else's, of which no start is to be feared.
        Err(LibvirtError::Refused { .. }) => Ok(false),
        asked => asked,
    }
}

/// Waits until a machine is up; false if it is not within [`AT_BEGIN`].
///
/// # Errors
/// libvirt does not answer.
pub(super) fn wait(connection: &mut Connection, name: &str) -> Result<bool, LibvirtError> {
    let begun = Instant::now();
    while starts(connection, name)? {
        if begun.elapsed() > AT_BEGIN {
            return Ok(false);
        }
        sleep(ASK_AGAIN);
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Host, NAME, PID, Server};
    use super::super::{Vms, find_vm};
    use quell_cgroup::{Group, Layout};
    use std::fs;

    /// What is found of a machine in so many looks, libvirt answering between them.
    fn looks(server: &Server, vms: &mut Vms, count: u32) -> Option<Group> {
        let layout = Layout::discover(server.root());
        (0..count).find_map(|_| {
            vms.settle();
            vms.again(&layout, NAME)
        })
    }

    fn server() -> Server {
        let server = Server::start(Host::ScopeV2, false);
        let file = server.root().join(format!("run/libvirt/qemu/{NAME}.pid"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("{PID}\n")).unwrap();
        server
    }

    #[test]
    fn a_machine_that_comes_back_is_taken_when_its_start_is_over() {
        let server = server();
        let mut vms = Vms::default();
        assert!(vms.take(server.root(), NAME).is_some());
        server.say_starting(u32::MAX);
        assert_eq!(looks(&server, &mut vms, 5), None);
        server.say_starting(0);
        // One look may still have the answer from before.
        assert_eq!(looks(&server, &mut vms, 3), Some(server.group()));
        // The next start is another matter.
        server.say_starting(u32::MAX);
        assert_eq!(looks(&server, &mut vms, 3), None);
    }

    #[test]
    fn while_nobody_answers_it_may_be_starting() {
        let server = server();
        let mut vms = Vms::default();
        server.silence();
        fs::write(server.root().join("run/libvirt/libvirt-sock"), "").unwrap();
        assert!(vms.take(server.root(), NAME).is_some());
        assert_eq!(looks(&server, &mut vms, 3), None);
    }

    #[test]
    fn at_the_begin_a_start_is_waited_for() {
        let server = server();
        let layout = Layout::discover(server.root());
        server.say_starting(2);
        assert_eq!(find_vm(&layout, NAME).unwrap(), server.group());
        // Its file tells of its process all the while, and is not gone by.
        server.say_starting(u32::MAX);
        let error = find_vm(&layout, NAME).unwrap_err().to_string();
        assert!(error.contains("still at starting it"), "{error}");
    }
}
