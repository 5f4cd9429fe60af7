//! Pages that move between NUMA nodes, at a cost (S-1).
//!
//! Pages of a group that lie outside its nodes are moved there, at a rate that both nodes' memory
//! serves beside everything else. Programs whose memory lies wherever their threads run have it,
//! from the first move on, where their threads were then.

use super::{Work, World};
use crate::model::memory::Demand;

/// Pages of one program on their way.
#[derive(Clone, Debug)]
pub(super) struct Move {
    work: usize,
    to: Vec<usize>,
    bytes_per_s: f64,
}

/// Memory that lies evenly on these nodes.
pub(super) fn even(nodes: impl ExactSizeIterator<Item = usize>) -> Vec<(usize, f64)> {
    let share = 1.0 / nodes.len().max(1) as f64;
    nodes.map(|node| (node, share)).collect()
}

impl World {
    /// Begins to move a group's pages; answers the nanoseconds until all are there.
    pub(crate) fn move_pages(&mut self, group: usize, to: Vec<usize>, bytes_per_s: f64) -> u64 {
        self.moves.retain(|m| self.works[m.work].group != group);
        let mut bytes = 0.0;
        for work in 0..self.works.len() {
            let ours = self.works[work].group == group && self.works[work].alive;
            if !ours || self.may_stay(work, &to) {
                continue;
            }
            self.pin_pages(work);
            let of = &self.works[work];
            let outside = of.outside(&to);
            if outside > 0.0 {
                bytes += outside * of.program.memory_bytes as f64;
                self.moves.push(Move { work, to: to.clone(), bytes_per_s });
            }
        }
        // They share the rate.
        let all = self.moves.iter().filter(|m| self.works[m.work].group == group).count();
        for index in 0..self.moves.len() {
            if self.works[self.moves[index].work].group == group {
                self.moves[index].bytes_per_s = bytes_per_s / all as f64;
            }
        }
        self.wake_hardware();
        (bytes / bytes_per_s * 1e9) as u64
    }

    /// All pages of a group lie on these nodes from now on.
    pub(crate) fn place_pages(&mut self, group: usize, to: Vec<usize>) {
        self.moves.retain(|m| self.works[m.work].group != group);
        for work in 0..self.works.len() {
            let ours = self.works[work].group == group && self.works[work].alive;
            if ours && !self.may_stay(work, &to) {
                self.pin_pages(work);
                self.works[work].shift(&to, 1.0);
            }
        }
        self.wake_hardware();
    }

    /// A program has ended: none of its pages moves any more.
    pub(super) fn forget_moves(&mut self, work: usize) {
        self.moves.retain(|m| m.work != work);
    }

    /// Whether all of a program's memory may stay wherever its threads run.
    fn may_stay(&self, work: usize, to: &[usize]) -> bool {
        self.works[work].pages.is_empty() && to.len() == self.node_load.len()
    }

    /// Notes where the memory of a program lies that lay wherever its threads ran.
    fn pin_pages(&mut self, work: usize) {
        if !self.works[work].pages.is_empty() {
            return;
        }
        let node = |thread: &usize| self.shape.cpus[self.threads[*thread].cpu].node;
        let mut nodes: Vec<usize> = self.works[work].threads.iter().map(node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        self.works[work].pages = even(nodes.into_iter());
    }

    /// Moves what could be moved since the last tick.
    pub(super) fn step_pages(&mut self, span_ns: f64) {
        for index in 0..self.moves.len() {
            let Move { work, to, bytes_per_s } = self.moves[index].clone();
            let all = self.works[work].program.memory_bytes as f64;
            self.works[work].shift(&to, bytes_per_s * span_ns / 1e9 / all);
        }
        let done = |m: &Move| self.works[m.work].alive && self.works[m.work].outside(&m.to) > 0.0;
        let mut moves = std::mem::take(&mut self.moves);
        moves.retain(done);
        self.moves = moves;
    }

    /// What a move asks of a node: always the same, whatever the load.
    pub(super) fn demand_of_move(&self, of: &Move, node: usize) -> Option<Demand> {
        let work = &self.works[of.work];
        let share = if of.to.contains(&node) {
            1.0 / of.to.len() as f64
        } else {
            let here = work.pages.iter().find(|(n, _)| *n == node)?.1;
            here / work.outside(&of.to).max(f64::MIN_POSITIVE)
        };
        let scale = of.bytes_per_s * share;
        (share > 0.0).then_some(Demand { scale, fixed: 1.0, waiting: 0.0 })
    }
}

impl Work {
    /// The share of its pages that lies on other nodes than these.
    fn outside(&self, nodes: &[usize]) -> f64 {
        self.pages.iter().filter(|(n, _)| !nodes.contains(n)).map(|(_, share)| *share).sum()
    }

    /// Moves up to this share of all pages onto these nodes, evenly from all others.
    fn shift(&mut self, to: &[usize], most: f64) {
        let outside = self.outside(to);
        let moved = most.min(outside);
        if moved <= 0.0 || to.is_empty() {
            return;
        }
        let kept = 1.0 - moved / outside;
        self.pages.iter_mut().filter(|(n, _)| !to.contains(n)).for_each(|(_, s)| *s *= kept);
        for node in to {
            let share = moved / to.len() as f64;
            match self.pages.iter_mut().find(|(n, _)| n == node) {
                Some((_, here)) => *here += share,
                None => self.pages.push((*node, share)),
            }
        }
        self.pages.retain(|(n, share)| to.contains(n) || *share > 1e-9);
    }
}
