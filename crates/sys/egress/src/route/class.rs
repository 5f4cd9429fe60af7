//! HTB classes.

use super::qdisc::{TCA_KIND, TCA_OPTIONS, TCA_STATS2};
use super::{
    Handle, Mode, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, QueueStats, Record, Route, rate_spec,
    tc_head, ticks,
};
use crate::error::Result;
use crate::wire::{Message, attrs, text, u32_at, u64_at};

const RTM_NEWTCLASS: u16 = 40;
const RTM_DELTCLASS: u16 = 41;
const RTM_GETTCLASS: u16 = 42;
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;

/// What an HTB class may send. Rates in bytes per second, sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HtbClass {
    /// Its own rate, which it may always use.
    pub rate: u64,
    /// The most it may reach by borrowing from its parent.
    pub ceil: u64,
    /// Bytes that it may send at once at its own rate.
    pub burst: u32,
    /// Bytes that it may send at once when borrowing.
    pub ceil_burst: u32,
    /// Bytes that it sends in its turn among classes of the same priority.
    pub quantum: u32,
    /// 0 (first) to 7: who borrows first.
    pub priority: u32,
}

impl HtbClass {
    /// `struct tc_htb_opt`.
    fn put(&self, message: Message) -> Message {
        let mut parms = rate_spec(self.rate).to_vec();
        parms.extend(rate_spec(self.ceil));
        let (buffer, ceil_buffer) =
            (ticks(self.burst, self.rate), ticks(self.ceil_burst, self.ceil));
        for value in [buffer, ceil_buffer, self.quantum, 0, self.priority] {
            parms.extend(value.to_ne_bytes());
        }
        let mut message = message.attr(TCA_HTB_PARMS, &parms);
        for (kind, rate) in [(TCA_HTB_RATE64, self.rate), (TCA_HTB_CEIL64, self.ceil)] {
            if rate > u64::from(u32::MAX) {
                message = message.attr(kind, &rate.to_ne_bytes());
            }
        }
        message
    }
}

#[cfg(feature = "fuzzing")]
impl HtbClass {
    /// The class as the kernel lists it.
    pub(crate) fn listed(&self) -> Message {
        Message::new(RTM_NEWTCLASS, 0)
            .raw(&tc_head(1, Handle::new(1, 2), Handle::new(1, 1)))
            .attr_text(TCA_KIND, "htb")
            .nest(TCA_OPTIONS, |message| self.put(message))
    }
}

/// A class that is there. The rates are none for other kinds than HTB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassInfo {
    /// Its link.
    pub ifindex: u32,
    /// Its class id.
    pub handle: u32,
    /// The class or qdisc above it.
    pub parent: u32,
    /// The handle of its own qdisc; 0 for inner classes.
    pub leaf: u32,
    /// The kind of qdisc it belongs to.
    pub kind: String,
    /// Own rate in bytes per second.
    pub rate: Option<u64>,
    /// Ceiling in bytes per second.
    pub ceil: Option<u64>,
    /// Bytes a turn.
    pub quantum: Option<u32>,
    /// Priority, 0 first.
    pub priority: Option<u32>,
    /// Its counters.
    pub stats: Option<QueueStats>,
}

impl ClassInfo {
    /// Reads the body of an `RTM_NEWTCLASS`.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let mut info = Self {
            ifindex: u32_at(body, 4)?,
            handle: u32_at(body, 8)?,
            parent: u32_at(body, 12)?,
            leaf: u32_at(body, 16)?,
            ..Self::default()
        };
        let mut options: &[u8] = &[];
        for (kind, data) in attrs(body.get(20..)?) {
            match kind {
                TCA_KIND => info.kind = text(data),
                TCA_OPTIONS => options = data,
                TCA_STATS2 => info.stats = QueueStats::parse(data),
                _ => {}
            }
        }
        if info.kind == "htb" {
            info.read_htb(options);
        }
        (!info.kind.is_empty()).then_some(info)
    }

    fn read_htb(&mut self, options: &[u8]) {
        for (kind, data) in attrs(options) {
            match kind {
                TCA_HTB_PARMS => {
                    self.rate = u32_at(data, 8).map(u64::from);
                    self.ceil = u32_at(data, 20).map(u64::from);
                    self.quantum = u32_at(data, 32);
                    self.priority = u32_at(data, 40);
                }
                // Sent after the parameters, which hold the rate cut to 32 bits.
                TCA_HTB_RATE64 => self.rate = u64_at(data, 0).or(self.rate),
                TCA_HTB_CEIL64 => self.ceil = u64_at(data, 0).or(self.ceil),
                _ => {}
            }
        }
    }

    /// Its class id.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle(self.handle)
    }
}

impl Route {
    /// All classes of a link.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn classes(&mut self, ifindex: u32) -> Result<Vec<ClassInfo>> {
        let message = Message::new(RTM_GETTCLASS, NLM_F_REQUEST | NLM_F_DUMP).raw(&tc_head(
            ifindex,
            Handle::NONE,
            Handle::NONE,
        ));
        let records = self.dump(&message, || format!("list classes of link {ifindex}"))?;
        let class = |record| if let Record::Class(class) = record { Some(class) } else { None };
        Ok(records.into_iter().filter_map(class).collect())
    }

    /// Makes or changes an HTB class under `parent`.
    ///
    /// # Errors
    /// `ENOENT` if it shall be changed and is not there; the kernel's refusal otherwise.
    pub fn set_htb_class(
        &mut self,
        ifindex: u32,
        class: Handle,
        parent: Handle,
        parameters: &HtbClass,
        mode: Mode,
    ) -> Result<()> {
        let message = Message::new(RTM_NEWTCLASS, NLM_F_REQUEST | NLM_F_ACK | mode.flags())
            .raw(&tc_head(ifindex, class, parent))
            .attr_text(TCA_KIND, "htb")
            .nest(TCA_OPTIONS, |m| parameters.put(m));
        self.request(message, || format!("set class {class} under {parent} of link {ifindex}"))
    }

    /// Removes a class with what waits in it.
    ///
    /// # Errors
    /// `ENOENT` if there is none, `EBUSY` while it has children.
    pub fn delete_class(&mut self, ifindex: u32, class: Handle) -> Result<()> {
        let message = Message::new(RTM_DELTCLASS, NLM_F_REQUEST | NLM_F_ACK).raw(&tc_head(
            ifindex,
            class,
            Handle::NONE,
        ));
        self.request(message, || format!("remove class {class} of link {ifindex}"))
    }
}
