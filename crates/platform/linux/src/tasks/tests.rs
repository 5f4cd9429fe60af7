//! Deaths between the record of a task and its process; what tasks leave behind.

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

impl Ground {
    /// One task more.
    fn add(&mut self, command: &[&str]) {
        let command = command.iter().map(ToString::to_string).collect();
        let spec = TaskSpec { command, tenant: None, directory: None, retries: 0 };
        self.task = self.queue.add(&spec, 1).unwrap();
    }

    /// Until nothing of what ended is on record any more.
    fn settle<S: Store>(&self, tasks: &mut Tasks, journal: &mut KnobJournal<S>) {
        until("the records of what ended go", || {
            tasks.reap(&self.queue).unwrap();
            tasks.sweep(journal, &Machine::new("/")).unwrap();
            tasks.running.is_empty() && tasks.ended.is_empty()
        });
    }
}

#[test]
fn many_tasks_leave_no_records_behind() {
    let mut ground = Ground::running(&["true"]);
    let store = MemoryStore::default();
    let mut journal = KnobJournal::open(store.clone()).unwrap();
    journal.before_write("a knob", Vec::new).unwrap();
    let mut tasks = Tasks::default();
    for task in 0..40 {
        let started = ground.start(&mut tasks, &mut journal).unwrap();
        assert_eq!(started, Ok(()), "task {task}");
        // Some end as others begin, as in a long queue.
        if task % 8 == 0 {
            ground.settle(&mut tasks, &mut journal);
        }
        ground.add(&["true"]);
    }
    ground.settle(&mut tasks, &mut journal);
    assert_eq!(store.clone().read().unwrap().len(), 1, "what is no task's is there");
    assert!(journal.knows("a knob"));
}

#[test]
fn one_that_cannot_be_started_leaves_no_record() {
    let mut ground = Ground::new();
    let store = MemoryStore::default();
    let mut journal = KnobJournal::open(store.clone()).unwrap();
    let mut tasks = Tasks::default();
    ground.task = TaskId(4711);
    let _ = ground.start(&mut tasks, &mut journal);
    assert!(tasks.running.is_empty() && store.clone().read().unwrap().is_empty());
}

/// One stays in the task's process group, one leaves it.
#[test]
fn what_a_task_leaves_running_ends_with_it_and_nothing_else_does() {
    let length = format!("61.{}", std::process::id());
    let script = format!("sleep {length} & setsid sleep {length} & exit 0");
    let ground = Ground::running(&["sh", "-c", &script]);
    let other = Ground::new();
    let mut journal = KnobJournal::open(MemoryStore::default()).unwrap();
    let mut others = KnobJournal::open(MemoryStore::default()).unwrap();
    let (mut tasks, mut alive) = (Tasks::default(), Tasks::default());
    other.start(&mut alive, &mut others).unwrap().unwrap();
    ground.start(&mut tasks, &mut journal).unwrap().unwrap();
    ground.settle(&mut tasks, &mut journal);
    let sleeps = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words == format!("sleep\0{length}\0").as_bytes()
    };
    until("what was left ends", || !Machine::new("/").processes().iter().any(sleeps));
    assert_eq!(ground.queue.get(ground.task).unwrap().record.state, TaskState::Finished);
    assert!(lives(alive.running[&other.task].child.id()) && !others.is_empty());
    alive.stop_all(&other.queue).unwrap();
}
