//! Tasks of the queue that no group will ever take.

use super::Session;
use crate::decisions::Decisions;
use quell_platform::Platform;
use quell_types::{Sample, Setup, TaskRecord, TaskState, Tenant};
use std::collections::BTreeSet;

impl<P: Platform, D: Decisions> Session<P, D> {
    /// Says once for which tasks there is no place: no law ever starts them, and without a word
    /// that looks as if they were held back.
    pub(super) fn tell_stranded(&mut self, sample: &Sample) {
        for text in stranded(self.platform.setup(), &sample.tasks) {
            self.say_once(&text);
        }
    }
}

/// Why tasks that are ready will not start, once for each group that they ask for.
fn stranded(setup: &Setup, tasks: &[TaskRecord]) -> Vec<String> {
    let takers: BTreeSet<&Tenant> =
        setup.batch.iter().filter(|batch| batch.takes_tasks).map(|batch| &batch.name).collect();
    let ready = tasks.iter().filter(|task| task.state == TaskState::Ready);
    let wanted: BTreeSet<Option<&Tenant>> = ready.map(|task| task.spec.tenant.as_ref()).collect();
    let why = |wanted: Option<&Tenant>| match wanted {
        None if takers.is_empty() => {
            Some("tasks are queued, but no batch group has tasks = true".to_owned())
        }
        Some(name) if !takers.contains(name) => {
            Some(format!("tasks are queued for {name}, but no such batch group has tasks = true"))
        }
        _ => None,
    };
    wanted.into_iter().filter_map(why).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{session, table};
    use super::*;
    use quell_platform::Scope;
    use quell_types::{TaskId, TaskSpec};
    use std::time::Duration;

    fn task(id: i64, tenant: Option<&str>) -> TaskRecord {
        let tenant = tenant.map(Tenant::from);
        let command = vec!["true".to_owned()];
        TaskRecord {
            id: TaskId(id),
            spec: TaskSpec { command, tenant, directory: None, retries: 0 },
            state: TaskState::Ready,
            attempts: 0,
            pid: None,
            started: None,
            last_end: None,
        }
    }

    #[test]
    fn who_waits_for_a_group_that_takes_no_tasks_is_told() {
        let (_folder, mut session) = session(table(), "none");
        let mut setup = session.platform.setup().clone();
        let tasks = [task(1, None), task(2, Some("jobs")), task(3, None), task(4, Some("job"))];
        let told = stranded(&setup, &tasks);
        assert_eq!(told.len(), 3, "once for each group: {told:?}");
        assert!(told[0].contains("no batch group"), "{told:?}");
        setup.batch[0].takes_tasks = true;
        let told = stranded(&setup, &tasks);
        assert!(told.len() == 1 && told[0].contains("for job,"), "{told:?}");
        assert!(stranded(&setup, &[]).is_empty());
        let mut sample = session.platform.sample(Duration::ZERO, Scope::Full).unwrap();
        sample.tasks = tasks.to_vec();
        session.tell_stranded(&sample);
        session.tell_stranded(&sample);
        assert_eq!(session.told.len(), 3);
    }
}
