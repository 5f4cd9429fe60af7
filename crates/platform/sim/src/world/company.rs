//! Beside whom services get how much done, as kernel programs count it on a real machine.
//!
//! A request is put down to whom each other CPU has when it begins: at the answer before, or when a
//! worker comes to run that has nothing done since. So what is put down does not hang on where in a
//! request turns begin and end, which a neighbour that wakes with the service would otherwise have as
//! its own cost. Only whole nanoseconds are read and nothing is settled, so that all else stays as it is.

use super::World;
use quell_types::Beside;

/// What a service has done since its last answer is the end of that, as long as it is less.
const TAIL_NS: u64 = 30_000;

/// What a service did beside whom, until it began its last request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Company {
    /// What it had done by then.
    begun: Beside,
    /// Who had each CPU then; none of those that it had itself.
    had: Vec<Option<Has>>,
    /// By group.
    pub(crate) groups: Vec<Beside>,
    /// Beside CPUs on which nobody ran.
    pub(crate) nobody: Beside,
}

/// Who has a CPU.
#[derive(Clone, Copy, Debug)]
enum Has {
    Nobody,
    Group(usize),
}

impl Company {
    /// Another request begins when this was done, beside those who have the CPUs now.
    fn begin(&mut self, did: Beside, have: impl Iterator<Item = Option<Has>>) {
        let done = Beside {
            cpu_ns: did.cpu_ns.saturating_sub(self.begun.cpu_ns),
            sends: did.sends.saturating_sub(self.begun.sends),
        };
        for has in self.had.iter().flatten() {
            let beside = match has {
                Has::Nobody => &mut self.nobody,
                Has::Group(group) => &mut self.groups[*group],
            };
            beside.cpu_ns += done.cpu_ns;
            beside.sends += done.sends;
        }
        self.begun = did;
        self.had.clear();
        self.had.extend(have);
    }
}

impl World {
    /// A service answered, or comes to run: what it does from now on is another request.
    pub(super) fn begin_request(&mut self, service: usize) {
        let (did, own) = (self.did(service), self.services[service].group);
        let mut company = std::mem::take(&mut self.services[service].company);
        company.groups.resize(self.groups.len(), Beside::default());
        let has = |cpu: &super::CpuState| match cpu.current.map(|t| self.threads[t].group) {
            None => Some(Has::Nobody),
            Some(group) => (group != own).then_some(Has::Group(group)),
        };
        company.begin(did, self.cpus.iter().map(has));
        self.services[service].company = company;
    }

    /// A thread came to run. If its service has done nothing since its last answer, a request begins.
    pub(super) fn may_begin_request(&mut self, thread: usize) {
        let Some(service) = self.works[self.threads[thread].work].service else { return };
        // Nothing is served yet while the scene is put up.
        let Some(of) = self.services.get(service) else { return };
        if self.did(service).cpu_ns.saturating_sub(of.company.begun.cpu_ns) < TAIL_NS {
            self.begin_request(service);
        }
    }

    /// What a service has done until now, with what is not settled yet.
    fn did(&self, service: usize) -> Beside {
        let of = &self.services[service];
        let group = &self.groups[of.group];
        let mut cpu_ns = group.cpu_ns;
        let cpus = if group.running > 0 { self.running } else { Default::default() };
        for cpu in cpus.iter() {
            let state = &self.cpus[cpu];
            let its_own = state.current.is_some_and(|t| self.threads[t].group == of.group);
            let gone = state.stolen && !self.machine.steal.hidden;
            if its_own && !gone {
                cpu_ns += self.now.saturating_sub(state.since);
            }
        }
        Beside { cpu_ns, sends: of.requests }
    }
}
