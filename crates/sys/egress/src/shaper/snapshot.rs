//! What a link was like before Quell came, and how to bring it back, by this process or a later
//! one that knows only the saved snapshot.

use super::tree::ROOT;
use super::{ShaperSpec, Takeover, flush_routes, is_ours};
use crate::error::{EgressError, Result};
use crate::netns::Netns;
use crate::route::{Handle, LinkInfo, Mode, QdiscInfo, QdiscKind, Route, SegmentLimits};
use quell_types::Link;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A root qdisc, as far as it must be known to bring it back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum RootSnapshot {
    /// The kernel's own choice, which comes back when ours is removed.
    Kernel {
        /// Its kind; none if it is not known, or there was none on a link that was never up.
        kind: Option<String>,
    },
    /// One that a user made.
    User {
        /// Its kind.
        kind: String,
        /// Its handle.
        handle: Handle,
        /// Its options as the kernel dumped them.
        options: Vec<u8>,
    },
}

/// A link as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSnapshot {
    /// Its name.
    pub link: Link,
    /// The path of its network namespace; none for the caller's own.
    pub netns: Option<PathBuf>,
    /// The namespace's inode, by which another one at the same path is told apart.
    pub netns_inode: Option<u64>,
    /// The kernel's number of it.
    pub ifindex: u32,
    /// Its root qdisc.
    pub root: RootSnapshot,
    /// Its packet sizes; none if the kernel does not tell them (then they are never changed).
    pub segments: Option<SegmentLimits>,
}

/// What a restore found and did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    /// The link is as it was.
    AsBefore,
    /// The link or its namespace is gone: there is nothing to restore.
    LinkGone,
    /// Somebody replaced Quell's root qdisc since; theirs was left in place.
    Replaced,
}

/// Reads what is there. Of a link that still carries Quell's tree (its agent died and its snapshot
/// is lost) the kernel's defaults are taken for what was before.
pub(super) fn take(
    route: &mut Route,
    namespace: &Netns,
    info: &LinkInfo,
    spec: &ShaperSpec,
) -> Result<LinkSnapshot> {
    let root = route.root_qdisc(info.index)?;
    let orphan = root.as_ref().is_some_and(is_ours);
    let root = match root {
        Some(root) if orphan || root.is_kernel_default() => {
            RootSnapshot::Kernel { kind: (!orphan).then_some(root.kind) }
        }
        Some(root) => {
            may_replace(route, &spec.link, &root, spec.takeover)?;
            let handle = root.handle();
            RootSnapshot::User { kind: root.kind, handle, options: root.options }
        }
        None => RootSnapshot::Kernel { kind: None },
    };
    let segments = if orphan { info.default_segment_limits() } else { info.segment_limits() };
    let (link, netns) = (spec.link.clone(), spec.netns.clone());
    let netns_inode = namespace.inode()?;
    Ok(LinkSnapshot { link, netns, netns_inode, ifindex: info.index, root, segments })
}

/// Says no to a foreign root qdisc that must or can not be replaced.
pub(super) fn may_replace(
    route: &mut Route,
    link: &Link,
    root: &QdiscInfo,
    takeover: Takeover,
) -> Result<()> {
    let (link, kind) = (link.to_string(), root.kind.clone());
    if takeover == Takeover::Refuse {
        let handle = root.handle().to_string();
        return Err(EgressError::ForeignQdisc { link, kind, handle });
    }
    // What hangs below a foreign root (classes, qdiscs, filters) is not in a snapshot. A shaper
    // with one built-in class (tbf, red) has a child of the kernel's, without a handle.
    let major = root.handle().major();
    let children = route.qdiscs(root.ifindex)?.into_iter().any(|qdisc| {
        Handle(qdisc.parent).major() == major && !qdisc.is_root() && !qdisc.is_kernel_default()
    });
    let classful = ["htb", "hfsc", "drr", "qfq", "prio", "ets", "mq", "mqprio", "multiq"];
    if children || classful.contains(&kind.as_str()) {
        return Err(EgressError::ClassfulQdisc { link, kind });
    }
    Ok(())
}

/// Puts a link back as it was, and checks that it is. May be repeated: a link that is already as
/// before is left alone.
///
/// # Errors
/// The kernel's refusals; [`EgressError::NotRestored`] if the link is not as before afterwards.
pub fn restore(snapshot: &LinkSnapshot) -> Result<Restored> {
    let namespace = match Netns::at(snapshot.netns.as_deref()) {
        Err(error) if error.errno() == Some(libc::ENOENT) => return Ok(Restored::LinkGone),
        namespace => namespace?,
    };
    if namespace.inode()? != snapshot.netns_inode {
        return Ok(Restored::LinkGone);
    }
    let mut route = Route::open(&namespace)?;
    let Some(info) = route.link(snapshot.link.as_str())? else { return Ok(Restored::LinkGone) };
    let restored = restore_root(&mut route, &info, snapshot)?;
    // A new link under the old name never had its packets lowered unless it carried our tree.
    let same = info.index == snapshot.ifindex;
    if let (true, Some(wanted)) = (same, snapshot.segments) {
        restore_segments(&mut route, &namespace, &info, wanted)?;
    }
    Ok(restored)
}

fn restore_root(route: &mut Route, info: &LinkInfo, snapshot: &LinkSnapshot) -> Result<Restored> {
    if let Some(root) = route.root_qdisc(info.index)?.filter(|root| !root.is_kernel_default()) {
        if is_ours(&root) {
            route.delete_root(info.index, ROOT)?;
        } else if !is_as_before(Some(&root), &snapshot.root) {
            return Ok(Restored::Replaced);
        }
    }
    let now = route.root_qdisc(info.index)?;
    if !is_as_before(now.as_ref(), &snapshot.root)
        && let RootSnapshot::User { kind, handle, options } = &snapshot.root
    {
        let kind = QdiscKind::Verbatim { kind: kind.clone(), options: options.clone() };
        route.set_qdisc(info.index, *handle, Handle::ROOT, &kind, Mode::Create)?;
    }
    let now = route.root_qdisc(info.index)?;
    if is_as_before(now.as_ref(), &snapshot.root) {
        return Ok(Restored::AsBefore);
    }
    Err(not_restored(info, "its root qdisc", &snapshot.root, &now))
}

/// The kernel's default may be another one than before (`net.core.default_qdisc`): it is still
/// the one that would be there without Quell.
fn is_as_before(now: Option<&QdiscInfo>, before: &RootSnapshot) -> bool {
    match (now, before) {
        (now, RootSnapshot::Kernel { .. }) => now.is_none_or(QdiscInfo::is_kernel_default),
        (Some(now), RootSnapshot::User { kind, handle, options }) => {
            now.kind == *kind && now.handle() == *handle && now.options == *options
        }
        (None, RootSnapshot::User { .. }) => false,
    }
}

fn restore_segments(
    route: &mut Route,
    namespace: &Netns,
    info: &LinkInfo,
    wanted: SegmentLimits,
) -> Result<()> {
    if info.segment_limits() == Some(wanted) {
        return Ok(());
    }
    route.set_segment_limits(info.index, wanted)?;
    flush_routes(namespace)?;
    let now = route.link(&info.name)?.and_then(|link| link.segment_limits());
    if now == Some(wanted) {
        return Ok(());
    }
    Err(not_restored(info, "its gso_max_size", &wanted, &now))
}

fn not_restored(
    info: &LinkInfo,
    what: &'static str,
    wanted: &dyn std::fmt::Debug,
    found: &dyn std::fmt::Debug,
) -> EgressError {
    let (wanted, found) = (format!("{wanted:?}"), format!("{found:?}"));
    EgressError::NotRestored { link: info.name.clone(), what, wanted, found }
}
