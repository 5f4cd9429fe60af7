//! Which tasks start and which stop (T-22).

use quell_types::{Action, TaskRecord, TaskState, Tenant};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Whether and how many tasks may run in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    pub(crate) allowed: bool,
    pub(crate) at_most: u32,
}

/// What the policies together allow: of each group as much as the strictest of them.
#[derive(Debug, Default)]
pub(crate) struct Allowances {
    wishes: BTreeMap<Tenant, BTreeMap<Cow<'static, str>, Allowance>>,
    settled: BTreeMap<Tenant, Allowance>,
}

impl Allowances {
    /// Takes in what a policy allows from now on.
    pub(crate) fn wish(&mut self, policy: Cow<'static, str>, tenant: &Tenant, own: Allowance) {
        let wishes = self.wishes.entry(tenant.clone()).or_default();
        wishes.insert(policy, own);
        let stricter = |a: Allowance, b: &Allowance| Allowance {
            allowed: a.allowed && b.allowed,
            at_most: a.at_most.min(b.at_most),
        };
        let settled = wishes.values().fold(own, stricter);
        self.settled.insert(tenant.clone(), settled);
    }

    /// By group.
    pub(crate) fn settled(&self) -> &BTreeMap<Tenant, Allowance> {
        &self.settled
    }
}

/// Starts the oldest ready tasks where room is, stops the youngest where there are too many.
/// A task without a group of its own may run in any that has room.
pub(crate) fn dispatch(
    tasks: &[TaskRecord],
    allowances: &BTreeMap<Tenant, Allowance>,
) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut room: BTreeMap<&Tenant, u32> = BTreeMap::new();
    for (tenant, allowance) in allowances {
        let limit = if allowance.allowed { allowance.at_most } else { 0 };
        let mut running: Vec<&TaskRecord> = in_state(tasks, TaskState::Running)
            .filter(|t| t.spec.tenant.as_ref() == Some(tenant))
            .collect();
        running.sort_by_key(|t| (t.started, t.id));
        for task in running.iter().skip(limit as usize) {
            actions.push(Action::StopTask { task: task.id });
        }
        room.insert(tenant, limit.saturating_sub(running.len() as u32));
    }
    let mut ready: Vec<&TaskRecord> = in_state(tasks, TaskState::Ready).collect();
    ready.sort_by_key(|t| t.id);
    for task in ready {
        let fits = |tenant: &Tenant| task.spec.tenant.as_ref().is_none_or(|t| t == tenant);
        let Some((tenant, left)) = room.iter_mut().find(|(t, left)| fits(t) && **left > 0) else {
            continue;
        };
        *left -= 1;
        actions.push(Action::StartTask { task: task.id, tenant: (*tenant).clone() });
    }
    actions
}

fn in_state(tasks: &[TaskRecord], state: TaskState) -> impl Iterator<Item = &TaskRecord> {
    tasks.iter().filter(move |t| t.state == state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_types::{TaskId, TaskSpec, Time};

    fn task(id: i64, state: TaskState, tenant: Option<&str>) -> TaskRecord {
        TaskRecord {
            id: TaskId(id),
            spec: TaskSpec {
                command: vec!["true".into()],
                tenant: tenant.map(Tenant::from),
                directory: None,
                retries: 0,
            },
            state,
            attempts: 0,
            pid: None,
            started: (state == TaskState::Running).then_some(Time(id as u64)),
            last_end: None,
        }
    }

    fn allow(allowed: bool, at_most: u32) -> BTreeMap<Tenant, Allowance> {
        BTreeMap::from([("jobs".into(), Allowance { allowed, at_most })])
    }

    #[test]
    fn the_oldest_ready_tasks_fill_the_room() {
        use TaskState::{Failed, Finished, Ready, Running};
        let tasks = [
            task(1, Finished, Some("jobs")),
            task(2, Running, Some("jobs")),
            task(3, Ready, Some("jobs")),
            task(4, Failed, None),
            task(5, Ready, None),
            task(6, Ready, None),
        ];
        let start = |id| Action::StartTask { task: TaskId(id), tenant: "jobs".into() };
        assert_eq!(dispatch(&tasks, &allow(true, 3)), vec![start(3), start(5)]);
        assert_eq!(dispatch(&tasks, &allow(true, 1)), vec![]);
    }

    #[test]
    fn what_is_no_longer_allowed_is_stopped_youngest_first() {
        use TaskState::Running;
        let tasks = [task(1, Running, Some("jobs")), task(2, Running, Some("jobs"))];
        let stop = |id| Action::StopTask { task: TaskId(id) };
        assert_eq!(dispatch(&tasks, &allow(true, 1)), vec![stop(2)]);
        assert_eq!(dispatch(&tasks, &allow(false, 9)), vec![stop(1), stop(2)]);
    }

    #[test]
    fn of_several_policies_the_strictest_decides() {
        let (law, other) = ("quell", "bus-lock");
        let tenant = Tenant::from("jobs");
        let of = |allowed, at_most| Allowance { allowed, at_most };
        let mut allowances = Allowances::default();
        for (policy, own, settled) in [
            (law, of(true, 2), of(true, 2)),
            (other, of(true, 4), of(true, 2)),
            (law, of(false, 0), of(false, 0)),
            (other, of(true, 1), of(false, 0)),
            (law, of(true, 3), of(true, 1)),
        ] {
            allowances.wish(Cow::Borrowed(policy), &tenant, own);
            assert_eq!(allowances.settled()[&tenant], settled);
        }
    }
}
