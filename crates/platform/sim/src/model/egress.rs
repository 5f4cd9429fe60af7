//! One link's queues (S-9): a plain FIFO, or HTB classes once batch has ceilings.
//!
//! A fluid: between two looks every class offers bytes at a constant rate, and the queue drains as
//! time passes. Unshaped, all share one FIFO whose buffer greedy senders fill; a response waits for
//! all that is in it. With ceilings, each limited class is held back in a queue of its own, and
//! responses see only the rest of the link.
//!
//! What was offered in a span is known only at its end, at a tick; responses come in between. Until
//! then senders are taken to go on as before, and the tick puts right what was taken wrongly.
//! Units: bytes, seconds; moments in nanoseconds.

use crate::scene::Flow;

/// The buffer of a link without shaping: 1,000 packets of 1,500 bytes, Linux' usual length.
const BUFFER_BYTES: f64 = 1_500_000.0;
/// What a packet ahead that has begun to leave costs at the worst: one full packet.
const PACKET_BYTES: f64 = 1_500.0;

/// One sender on the link.
#[derive(Clone, Debug, Default)]
pub(crate) struct Class {
    /// Most bytes/s that it may send; none = no ceiling.
    pub(crate) ceiling: Option<f64>,
    /// What waits in its own queue.
    waiting: f64,
    /// Threads that send.
    flows: Vec<usize>,
    /// Bytes that left.
    pub(crate) sent: f64,
}

/// A link with its senders.
#[derive(Clone, Debug)]
pub(crate) struct LinkState {
    capacity: f64,
    flow: Flow,
    pub(crate) classes: Vec<Class>,
    /// Bytes in the queue that all unlimited classes share.
    fifo: f64,
    /// When `fifo` stood so.
    flowed: u64,
    /// When offers were last looked at.
    looked: u64,
    /// Bytes/s that limited classes took over the last span.
    limited: f64,
    /// Bytes/s that unlimited senders put into the queue over the last span.
    filling: f64,
    /// Bytes taken to have come into the queue that no class has been charged with yet.
    entered: f64,
    /// Bytes that left the queue since the last look.
    drained: f64,
    /// Packets' worth of bytes that found no room.
    pub(crate) dropped: f64,
}

impl LinkState {
    pub(crate) fn new(capacity: f64, classes: usize, flow: Flow) -> Self {
        Self {
            capacity,
            flow,
            classes: vec![Class::default(); classes],
            fifo: 0.0,
            flowed: 0,
            looked: 0,
            limited: 0.0,
            filling: 0.0,
            entered: 0.0,
            drained: 0.0,
            dropped: 0.0,
        }
    }

    /// Bytes that one flow may have in the queue.
    fn room(&self) -> f64 {
        self.flow.bytes + self.flow.seconds * self.capacity
    }

    /// Bytes that wait.
    pub(crate) fn backlog(&self) -> f64 {
        self.fifo + self.classes.iter().map(|c| c.waiting).sum::<f64>()
    }

    /// Bytes that left, all classes.
    pub(crate) fn sent(&self) -> f64 {
        self.classes.iter().map(|c| c.sent).sum()
    }

    /// Bytes/s left to the queue beside limited classes.
    fn rest(&self) -> f64 {
        (self.capacity - self.limited).max(0.01 * self.capacity)
    }

    /// Lets the queue drain and fill up to now.
    fn flow(&mut self, now: u64) {
        let seconds = (now - self.flowed) as f64 / 1e9;
        self.flowed = now;
        let wanted = self.filling * seconds;
        let out = (self.rest() * seconds).min(self.fifo + wanted);
        let entered = wanted.min((BUFFER_BYTES - self.fifo + out).max(0.0));
        self.fifo = (self.fifo + entered - out).max(0.0);
        self.entered += entered;
        self.drained += out;
    }

    /// A response of `bytes` joins; answers the seconds until its last byte has left.
    pub(crate) fn respond(&mut self, now: u64, class: usize, bytes: f64) -> f64 {
        self.flow(now);
        // A limited class has at most one packet on its way before a response.
        let ahead = if self.limited > 0.0 { PACKET_BYTES } else { 0.0 };
        let seconds = self.fifo / self.rest() + (ahead + bytes) / self.capacity;
        self.fifo += bytes;
        self.classes[class].sent += bytes;
        seconds
    }

    /// A thread hands bytes over from its socket; answers the seconds until there is room for more
    /// below it, 0 if there is.
    pub(crate) fn hand_over(&mut self, now: u64, class: usize, flow: usize, bytes: f64) -> f64 {
        self.flow(now);
        let (rest, room) = (self.rest(), self.room());
        let of = &mut self.classes[class];
        if !of.flows.contains(&flow) {
            of.flows.push(flow);
        }
        let Some(ceiling) = of.ceiling else {
            of.sent += bytes;
            self.fifo += bytes;
            let free = self.classes.iter().filter(|c| c.ceiling.is_none());
            let flows = free.map(|c| c.flows.len()).sum::<usize>() as f64;
            return (self.fifo - flows * room) / rest;
        };
        of.waiting += bytes;
        let left = of.waiting - ceiling * (now - self.looked) as f64 / 1e9;
        (left - of.flows.len() as f64 * room) / ceiling
    }

    /// Ends a span in which each class offered so many bytes beyond its responses.
    pub(crate) fn step(&mut self, now: u64, offered: &[f64]) {
        self.flow(now);
        let seconds = (now - self.looked) as f64 / 1e9;
        self.looked = now;
        if seconds <= 0.0 {
            return;
        }
        let taken = self.step_limited(seconds, offered);
        // What limited classes took beyond what they were taken to has not left the queue.
        self.fifo += (taken + self.drained - self.capacity * seconds).max(0.0);
        self.drained = 0.0;
        self.limited = taken / seconds;
        self.filling = self.step_fifo(seconds, offered) / seconds;
    }

    /// Limited classes send up to their ceilings; answers the bytes.
    fn step_limited(&mut self, seconds: f64, offered: &[f64]) -> f64 {
        let mut taken = 0.0;
        for (class, bytes) in self.classes.iter_mut().zip(offered) {
            let Some(ceiling) = class.ceiling else { continue };
            let due = class.waiting + bytes;
            let sent = due.min(ceiling * seconds).min(self.capacity * seconds - taken).max(0.0);
            class.sent += sent;
            taken += sent;
            class.waiting = (due - sent).min(BUFFER_BYTES);
        }
        taken
    }

    /// Unlimited senders fill the buffer; what finds no room they send again, more slowly. Answers
    /// the bytes that came in.
    fn step_fifo(&mut self, seconds: f64, offered: &[f64]) -> f64 {
        let free = |class: &Class| class.ceiling.is_none();
        let wanted: f64 =
            self.classes.iter().zip(offered).filter(|(c, _)| free(c)).map(|(_, b)| b).sum();
        // More or less than was taken to have come.
        let change = (wanted - self.entered).max(-self.fifo);
        let change = change.min((BUFFER_BYTES - self.fifo).max(0.0));
        self.fifo += change;
        let accepted = wanted.min(self.entered + change);
        self.entered += change - accepted;
        if wanted > accepted {
            // TCP backs off: about one packet in a hundred of what is sent is lost.
            self.dropped += 0.01 * self.capacity * seconds;
        }
        if wanted > 0.0 {
            for (class, bytes) in self.classes.iter_mut().zip(offered) {
                if class.ceiling.is_none() {
                    class.sent += accepted * bytes / wanted;
                }
            }
        }
        accepted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// 100 Mbit/s, a service and a greedy sender.
    fn link() -> LinkState {
        LinkState::new(12.5e6, 2, Flow::default())
    }

    /// Lets so many milliseconds pass beside the greedy sender, a response in each and a look at
    /// the end of each span; answers the wait of the last response.
    fn run(link: &mut LinkState, milliseconds: u64, span: u64) -> f64 {
        let (begun, mut wait) = (link.looked / MS, 0.0);
        for ms in begun + 1..=begun + milliseconds {
            wait = link.respond(ms * MS - MS / 2, 0, 1_000.0);
            if ms % span == 0 {
                link.step(ms * MS, &[0.0, 1e6 * span as f64]);
            }
        }
        wait
    }

    #[test]
    fn a_greedy_sender_fills_the_buffer_and_a_ceiling_empties_it() {
        for span in [1, 16] {
            let mut link = link();
            let alone = link.respond(0, 0, 1_000.0);
            assert!((alone - 80e-6).abs() < 1e-9, "{alone}");
            let beside = run(&mut link, 4_000, span);
            assert!(beside > 0.1, "{beside} with spans of {span} ms");
            link.classes[1].ceiling = Some(9e6);
            let shaped = run(&mut link, 4_000, span);
            assert!(shaped < 0.0005, "{shaped} with spans of {span} ms");
        }
    }

    #[test]
    fn no_more_leaves_than_the_link_carries() {
        for span in [1, 16] {
            let mut link = link();
            run(&mut link, 4_000, span);
            let most = 4.0 * 12.5e6 + BUFFER_BYTES + 2_000.0;
            let sent = link.sent();
            assert!(sent <= most && sent > 0.9 * 4.0 * 12.5e6, "{sent}, spans of {span} ms");
            link.classes[1].ceiling = Some(3e6);
            let before = link.classes[1].sent;
            run(&mut link, 2_000, span);
            let rate = (link.classes[1].sent - before) / 2.0;
            assert!((rate / 3e6 - 1.0).abs() < 0.01, "{rate}, spans of {span} ms");
        }
    }

    #[test]
    fn responses_alone_wait_for_those_before_them_however_seldom_the_link_is_looked_at() {
        let mut link = link();
        // 80 µs each: one that comes 50 µs after another waits 30 µs, after 1 ms nothing.
        let first = link.respond(0, 0, 1_000.0);
        let second = link.respond(50_000, 0, 1_000.0);
        let third = link.respond(MS, 0, 1_000.0);
        assert!((second - first - 30e-6).abs() < 1e-9, "{second}");
        assert!((third - first).abs() < 1e-9, "{third}");
    }

    #[test]
    fn bytes_of_a_small_sender_are_counted_to_the_byte_though_spans_differ() {
        let mut link = link();
        let (mut now, mut offered) = (0, 0.0);
        for (round, span) in [1u64, 2, 4, 8, 16, 1, 1, 2].iter().cycle().take(800).enumerate() {
            now += span * MS;
            let bytes = if round % 3 == 0 { 0.0 } else { 5e3 * *span as f64 };
            offered += bytes;
            link.step(now, &[0.0, bytes]);
        }
        let sent = link.classes[1].sent;
        assert!((sent - offered).abs() < 1.0, "{sent} of {offered}");
        assert!(link.backlog() <= BUFFER_BYTES && link.dropped == 0.0);
    }
}
