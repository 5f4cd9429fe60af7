//! Whether this machine can shape at all, tried out where it disturbs nobody.

use crate::error::{EgressError, Result};
use crate::netns::Netns;
use crate::route::{Handle, Mode, QdiscKind, Route};
use quell_types::Capability;

const LINK: &str = "quellprobe";

/// Tries to put an HTB on a bridge in a namespace of its own, which is gone afterwards. Takes some
/// milliseconds.
#[must_use]
pub fn probe() -> Capability {
    match try_htb() {
        Ok(()) => Capability::Native("tc: HTB by netlink".to_owned()),
        Err(error) => Capability::Absent(error.to_string()),
    }
}

fn try_htb() -> Result<()> {
    let namespace = Netns::create()?;
    let mut route = Route::open(&namespace)?;
    route.add_bridge(LINK)?;
    let missing =
        || EgressError::NoLink { link: LINK.to_owned(), namespace: namespace.to_string() };
    let index = route.link(LINK)?.ok_or_else(missing)?.index;
    let htb = QdiscKind::Htb { default: 1 };
    route.set_qdisc(index, Handle::new(1, 0), Handle::ROOT, &htb, Mode::Create)
}
