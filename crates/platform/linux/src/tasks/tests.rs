//! Deaths between the record of a task and its process.

use super::*;
use crate::restore::{StateDir, restore_state};
use quell_platform::{FileStore, MemoryStore};
use quell_types::TaskSpec;
use std::time::Duration;

struct Ground {
    folder: tempfile::TempDir,
    queue: Queue,
    task: TaskId,
}

impl Ground {
    fn new() -> Self {
        Self::running(&["sleep", "60"])
    }

    fn running(command: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let queue = Queue::open(&StateDir(folder.path().to_owned()).queue()).unwrap();
        let command = command.iter().map(ToString::to_string).collect();
        let spec = TaskSpec { command, tenant: None, directory: None, retries: 0 };
        let task = queue.add(&spec, 1).unwrap();
        Self { folder, queue, task }
    }

    fn state(&self) -> StateDir {
        StateDir(self.folder.path().to_owned())
    }

    fn start<S: Store>(
        &self,
        tasks: &mut Tasks,
        journal: &mut KnobJournal<S>,
    ) -> Result<Result<(), String>, StoreError> {
        let output = self.state().task_output();
        let place = (&Tenant::from("jobs"), &[][..]);
        tasks.start(&self.queue, journal, &Machine::new("/"), self.task, place, &output)
    }
}

fn lives(pid: u32) -> bool {
    Machine::new("/").process(pid).is_ok_and(|process| process.state != 'Z')
}

/// Polls until it is so; other tests run beside.
fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn what_cannot_be_recorded_is_not_started() {
    let ground = Ground::new();
    let mut journal = KnobJournal::open(MemoryStore::with_room(0)).unwrap();
    let mut tasks = Tasks::default();
    assert!(ground.start(&mut tasks, &mut journal).is_err());
    assert!(tasks.running.is_empty());
    assert!(!ground.state().task_output().exists(), "no process was made");
}

#[test]
fn a_process_whose_id_cannot_be_recorded_is_killed() {
    let length = format!("60.{}", std::process::id());
    let ground = Ground::running(&["sleep", &length]);
    let mut journal = KnobJournal::open(MemoryStore::with_room(1)).unwrap();
    let mut tasks = Tasks::default();
    assert!(ground.start(&mut tasks, &mut journal).is_err());
    assert!(tasks.running.is_empty());
    let sleeps = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words == format!("sleep\0{length}\0").as_bytes()
    };
    until("the process ends", || !Machine::new("/").processes().iter().any(sleeps));
}

/// The moment of the death: the mark is on record, the process is there, its id is not on record.
#[test]
fn a_death_right_after_the_start_leaves_no_process() {
    let ground = Ground::new();
    let store = FileStore::open(&ground.state().knob_journal()).unwrap();
    let mut journal = KnobJournal::open(store).unwrap();
    let mark = format!("1.{}.a-death-right-after-the-start", std::process::id());
    journal.before_write("task marked", || vec![Undo::EndMarked { mark: mark.clone() }]).unwrap();
    let row = ground.queue.get(ground.task).unwrap();
    let mut child = spawn(&row.record, &[], &ground.state().task_output(), &mark).unwrap();
    drop(journal);
    let report = restore_state(Path::new("/"), &ground.state()).unwrap();
    assert_eq!(report.failed, Vec::<String>::new());
    assert_eq!(report.restored, 1);
    until("the process ends", || !lives(child.id()));
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    let again = restore_state(Path::new("/"), &ground.state()).unwrap();
    assert_eq!(again.restored, 0, "twice is harmless");
}

#[test]
fn a_mark_ends_nobody_else() {
    let ground = Ground::new();
    let store = FileStore::open(&ground.state().knob_journal()).unwrap();
    let mut journal = KnobJournal::open(store).unwrap();
    let mut tasks = Tasks::default();
    ground.start(&mut tasks, &mut journal).unwrap().unwrap();
    let pid = tasks.running[&ground.task].child.id();
    let other = Ground::new();
    let store = FileStore::open(&other.state().knob_journal()).unwrap();
    let mark = format!("1.{}.nobody", std::process::id());
    let undo = || vec![Undo::EndMarked { mark }];
    KnobJournal::open(store).unwrap().before_write("task marked", undo).unwrap();
    assert_eq!(restore_state(Path::new("/"), &other.state()).unwrap().restored, 1);
    assert!(lives(pid));
    assert_eq!(restore_state(Path::new("/"), &ground.state()).unwrap().restored, 2);
    until("the process ends", || !lives(pid));
    tasks.reap(&ground.queue).unwrap();
}
