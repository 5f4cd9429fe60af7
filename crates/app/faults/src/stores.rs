//! Faults of the media that records are written to.

use crate::director::{Stage, Throw};
use crate::{FaultKind, Site};
use quell_platform::{Medium, StoreFault};

/// What goes wrong with a record.
pub(crate) fn throw_at_store(stage: &Stage, disk: &Medium, site: Site) {
    let mut director = stage.director();
    let Some(throw) = director.at(site) else { return };
    let mut rest = Vec::new();
    let mut thrown = false;
    for kind in &throw.kinds {
        let fault = match kind {
            FaultKind::LostWrite => StoreFault::NoSync,
            FaultKind::LateWrite => StoreFault::Unconfirmed,
            FaultKind::RefusedWrite => StoreFault::Refuse,
            FaultKind::DeathBefore => StoreFault::DieBefore,
            FaultKind::DeathAfter => StoreFault::DieAfter,
            other => {
                rest.push(*other);
                continue;
            }
        };
        // A record meets one fault of its own.
        if !std::mem::replace(&mut thrown, true) {
            disk.throw(fault);
            director.note(*kind, throw.site, "");
        }
    }
    if thrown && throw.kinds.len() > 1 {
        director.note_two(throw.site);
    }
    if !rest.is_empty() {
        director.deferred.push(Throw { kinds: rest, ..throw });
    }
}
