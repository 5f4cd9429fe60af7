//! Groups, services and programs join and leave.

use super::{Cell, Group, NEVER, Service, State, Thread, Work, World, cost, pages};
use crate::random::Stream;
use crate::scene::{Scene, SimService};
use crate::workload::Program;

impl World {
    /// From now on it is kept behind whom the threads of services stand.
    pub(super) fn watch_services(&mut self) {
        let rows = self.groups.len() + 1;
        for group in self.groups.iter_mut().take(self.services.len()) {
            group.stood_ns = vec![0; rows];
            group.elsewhere_ns = vec![0; rows];
        }
    }

    pub(super) fn populate(&mut self, scene: &Scene) {
        let links = |names: &[quell_types::Link]| -> Vec<usize> {
            let known = |l: &quell_types::LinkSpec| names.contains(&l.name);
            (0..scene.links.len()).filter(|i| known(&scene.links[*i])).collect()
        };
        for (number, service) in scene.services.iter().enumerate() {
            let group = self.add_group(links(&service.spec.links));
            let random = Stream::new(scene.seed, 1_000 + number as u64);
            self.add_service(group, service, random);
        }
        for batch in &scene.batch {
            let group = self.add_group(links(&batch.spec.links));
            for program in &batch.programs {
                self.add_work(group, program, None);
            }
        }
    }

    pub(crate) fn add_group(&mut self, links: Vec<usize>) -> usize {
        let full = (1u64 << self.machine.cache.ways) - 1;
        let domains = self.machine.domains();
        let all = (0..self.machine.cpus()).collect();
        self.groups.push(Group::new(all, full, domains, links));
        self.group_next.push();
        self.groups.len() - 1
    }

    fn add_service(&mut self, group: usize, service: &SimService, random: Stream) {
        let number = self.services.len();
        let program = Program { threads: service.workers, ..service.program.clone() };
        let work = self.add_work(group, &program, Some(number));
        let idle = self.works[work].threads.clone();
        self.services.push(Service::new(service, group, idle, random));
        self.arrival_next.push();
        self.draw_arrival(number);
    }

    /// Starts a program in a group. Workers of a service wait for requests.
    pub(crate) fn add_work(
        &mut self,
        group: usize,
        program: &Program,
        service: Option<usize>,
    ) -> usize {
        let mut program = program.clone();
        for phase in &mut program.phases {
            phase.fit(&self.machine.cache);
        }
        let (threads, work_instructions) = (program.threads, program.work_instructions);
        let work = self.slot(Work {
            group,
            access: cost::AccessCost::of(&program, &self.machine),
            unfinished: threads as usize,
            pages: pages::even(program.memory_nodes.iter().map(|node| *node as usize)),
            program,
            phase: 0,
            alive: true,
            threads: Vec::new(),
            service,
            meeting: 0,
        });
        self.begin_phase(work);
        self.hardware();
        let share = work_instructions.map_or(f64::INFINITY, |all| all / f64::from(threads.max(1)));
        for _ in 0..threads {
            let thread = self.add_thread(work, group, share);
            if service.is_none() {
                self.fork(thread);
            }
        }
        work
    }

    /// A place for a program: that of one which has ended, or a new one. Holders of caches bear
    /// the numbers of programs.
    fn slot(&mut self, work: Work) -> usize {
        let (group, domains) = (work.group, self.caches.len());
        if let Some(slot) = self.works.iter().position(|old| !old.alive) {
            self.works[slot] = work;
            for (domain, cell) in self.cells[slot * domains..][..domains].iter_mut().enumerate() {
                *cell = Cell::new(slot, domain, self.shape.domain_node[domain]);
            }
            self.active.retain(|cell| cell / domains != slot);
            for (domain, cache) in self.caches.iter_mut().enumerate() {
                cache.set_mask(slot, self.groups[group].ways[domain]);
            }
            return slot;
        }
        for (domain, cache) in self.caches.iter_mut().enumerate() {
            cache.add(self.groups[group].ways[domain]);
        }
        self.works.push(work);
        let work = self.works.len() - 1;
        let homes = self.shape.domain_node.iter().enumerate();
        self.cells.extend(homes.map(|(domain, home)| Cell::new(work, domain, *home)));
        self.phase_next.push();
        self.works.len() - 1
    }

    /// Another cache mask of a group in one domain.
    pub(crate) fn set_ways(&mut self, group: usize, domain: usize, mask: u64) {
        self.groups[group].ways[domain] = mask;
        for (index, work) in self.works.iter().enumerate() {
            if work.group == group && work.alive {
                self.caches[domain].set_mask(index, mask);
            }
        }
        self.wake_hardware();
    }

    fn add_thread(&mut self, work: usize, group: usize, left: f64) -> usize {
        let thread = self.threads.len();
        let of = &self.works[work];
        let lap = of.program.phases[of.phase].stop_instructions();
        let real_time = of.program.real_time;
        self.sleep_next.push();
        self.threads.push(Thread {
            work,
            group,
            state: State::Blocked,
            real_time,
            cpu: self.groups[group].cpus.first().unwrap_or(0),
            vruntime: 0.0,
            left: left.min(lap),
            lap: left.min(lap),
            todo: left,
            meets: false,
            queued_at: self.now,
            moved: 0,
            arrived: 0,
        });
        self.groups[group].threads.push(thread);
        self.works[work].threads.push(thread);
        thread
    }

    /// Ends a program: its threads leave, its lines are given back.
    pub(crate) fn end_work(&mut self, work: usize) {
        let threads = std::mem::take(&mut self.works[work].threads);
        for thread in threads {
            self.block(thread);
            self.sleep_next.set(thread, NEVER);
            let group = self.threads[thread].group;
            self.groups[group].threads.retain(|t| *t != thread);
        }
        self.works[work].alive = false;
        self.forget_moves(work);
        self.phase_next.set(work, NEVER);
        self.caches.iter_mut().for_each(|cache| cache.clear(work));
        self.wake_hardware();
    }
}
