//! Queueing disciplines.

use super::{
    Handle, Mode, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, QueueStats, Record, Route, rate_spec,
    tc_head, ticks,
};
use crate::error::Result;
use crate::wire::{Message, attrs, text, u32_at};

const RTM_NEWQDISC: u16 = 36;
const RTM_DELQDISC: u16 = 37;
const RTM_GETQDISC: u16 = 38;
pub(super) const TCA_KIND: u16 = 1;
pub(super) const TCA_OPTIONS: u16 = 2;
pub(super) const TCA_STATS2: u16 = 7;
const TCA_HTB_INIT: u16 = 2;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const HTB_VERSION: u32 = 3;
const HTB_RATE_TO_QUANTUM: u32 = 10;

/// A queueing discipline to make or change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QdiscKind {
    /// Hierarchical token buckets; unclassified packets go to the class `default`.
    Htb {
        /// The minor number of the default class.
        default: u16,
    },
    /// One token bucket.
    Tbf {
        /// Bytes per second.
        rate: u64,
        /// Bytes that may pass at once.
        burst: u32,
        /// Bytes that may wait.
        limit: u32,
    },
    /// A queue of at most so many packets.
    Pfifo {
        /// Packets that may wait.
        packets: u32,
    },
    /// A queue of at most so many bytes.
    Bfifo {
        /// Bytes that may wait.
        bytes: u32,
    },
    /// Any other, by the option bytes that a dump of it gave.
    Verbatim {
        /// Its name.
        kind: String,
        /// Its `TCA_OPTIONS`.
        options: Vec<u8>,
    },
}

impl QdiscKind {
    /// The kernel's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            QdiscKind::Htb { .. } => "htb",
            QdiscKind::Tbf { .. } => "tbf",
            QdiscKind::Pfifo { .. } => "pfifo",
            QdiscKind::Bfifo { .. } => "bfifo",
            QdiscKind::Verbatim { kind, .. } => kind,
        }
    }

    fn put(&self, message: Message) -> Message {
        let message = message.attr_text(TCA_KIND, self.name());
        match self {
            QdiscKind::Htb { default } => message.nest(TCA_OPTIONS, |m| {
                let init = [HTB_VERSION, HTB_RATE_TO_QUANTUM, u32::from(*default), 0, 0];
                m.attr(TCA_HTB_INIT, init.map(u32::to_ne_bytes).as_flattened())
            }),
            QdiscKind::Tbf { rate, burst, limit } => {
                message.nest(TCA_OPTIONS, |m| put_tbf(m, *rate, *burst, *limit))
            }
            QdiscKind::Pfifo { packets: limit } | QdiscKind::Bfifo { bytes: limit } => {
                message.attr_u32(TCA_OPTIONS, *limit)
            }
            QdiscKind::Verbatim { options, .. } if options.is_empty() => message,
            QdiscKind::Verbatim { options, .. } => message.attr(TCA_OPTIONS, options),
        }
    }
}

/// `struct tc_tbf_qopt`: rate, peak rate (none), limit, buffer in ticks, mtu of the peak rate.
fn put_tbf(message: Message, rate: u64, burst: u32, limit: u32) -> Message {
    let mut parms = rate_spec(rate).to_vec();
    parms.extend([0; 12]);
    for value in [limit, ticks(burst, rate), 0] {
        parms.extend(value.to_ne_bytes());
    }
    let message = message.attr(TCA_TBF_PARMS, &parms).attr_u32(TCA_TBF_BURST, burst);
    if rate > u64::from(u32::MAX) {
        return message.attr(TCA_TBF_RATE64, &rate.to_ne_bytes());
    }
    message
}

/// A queueing discipline that is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QdiscInfo {
    /// Its link.
    pub ifindex: u32,
    /// Its handle; `0:` if the kernel made it by itself.
    pub handle: u32,
    /// What it hangs on.
    pub parent: u32,
    /// Its kind.
    pub kind: String,
    /// Its options as the kernel dumps them.
    pub options: Vec<u8>,
    /// Its counters.
    pub stats: Option<QueueStats>,
}

impl QdiscInfo {
    /// Reads the body of an `RTM_NEWQDISC`.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let mut info = Self {
            ifindex: u32_at(body, 4)?,
            handle: u32_at(body, 8)?,
            parent: u32_at(body, 12)?,
            ..Self::default()
        };
        for (kind, data) in attrs(body.get(20..)?) {
            match kind {
                TCA_KIND => info.kind = text(data),
                TCA_OPTIONS => info.options = data.to_vec(),
                TCA_STATS2 => info.stats = QueueStats::parse(data),
                _ => {}
            }
        }
        (!info.kind.is_empty()).then_some(info)
    }

    /// Its handle.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle(self.handle)
    }

    /// Whether it is the root of its link.
    #[must_use]
    pub fn is_root(&self) -> bool {
        Handle(self.parent) == Handle::ROOT
    }

    /// Whether the kernel made it by itself: what users make always has a handle.
    #[must_use]
    pub fn is_kernel_default(&self) -> bool {
        self.handle().major() == 0
    }

    /// The default class of an HTB; none for other kinds.
    #[must_use]
    pub fn htb_default(&self) -> Option<u16> {
        let htb = self.kind == "htb";
        let init = attrs(&self.options).find(|(kind, _)| htb && *kind == TCA_HTB_INIT)?.1;
        u32_at(init, 8).and_then(|minor| u16::try_from(minor).ok())
    }

    /// The limit of a pfifo or bfifo, in its unit; none for other kinds.
    #[must_use]
    pub fn fifo_limit(&self) -> Option<u32> {
        let fifo = ["pfifo", "bfifo"].contains(&self.kind.as_str());
        fifo.then(|| u32_at(&self.options, 0)).flatten()
    }
}

impl Route {
    /// All queueing disciplines of a link.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn qdiscs(&mut self, ifindex: u32) -> Result<Vec<QdiscInfo>> {
        let message = Message::new(RTM_GETQDISC, NLM_F_REQUEST | NLM_F_DUMP).raw(&tc_head(
            ifindex,
            Handle::NONE,
            Handle::NONE,
        ));
        let records = self.dump(&message, || format!("list qdiscs of link {ifindex}"))?;
        // The kernel's qdisc dump ignores the link asked for.
        let mine = |record| match record {
            Record::Qdisc(qdisc) if qdisc.ifindex == ifindex => Some(qdisc),
            _ => None,
        };
        Ok(records.into_iter().filter_map(mine).collect())
    }

    /// The root qdisc of a link; none while the link was never up.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn root_qdisc(&mut self, ifindex: u32) -> Result<Option<QdiscInfo>> {
        Ok(self.qdiscs(ifindex)?.into_iter().find(QdiscInfo::is_root))
    }

    /// Makes or changes a queueing discipline under `parent`.
    ///
    /// # Errors
    /// The kernel's refusal with its explanation.
    pub fn set_qdisc(
        &mut self,
        ifindex: u32,
        handle: Handle,
        parent: Handle,
        kind: &QdiscKind,
        mode: Mode,
    ) -> Result<()> {
        let message = Message::new(RTM_NEWQDISC, NLM_F_REQUEST | NLM_F_ACK | mode.flags())
            .raw(&tc_head(ifindex, handle, parent));
        let doing = || format!("set {} {handle} at {parent} of link {ifindex}", kind.name());
        self.request(kind.put(message), doing)
    }

    /// Removes the root qdisc if it has this handle; the kernel puts its default in its place.
    ///
    /// # Errors
    /// `ENOENT` if there is none, `EINVAL` if it has another handle.
    pub fn delete_root(&mut self, ifindex: u32, handle: Handle) -> Result<()> {
        let message = Message::new(RTM_DELQDISC, NLM_F_REQUEST | NLM_F_ACK).raw(&tc_head(
            ifindex,
            handle,
            Handle::ROOT,
        ));
        self.request(message, || format!("remove root qdisc {handle} of link {ifindex}"))
    }
}
