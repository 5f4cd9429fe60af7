//! Named network namespaces, as `ip netns` makes them (L-2, networked mode).

use crate::LoadError;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

const NAMED: &str = "/run/netns";

/// Where a namespace's handle lies: a name means `/run/netns/NAME`, anything with a slash is a
/// path (as `/proc/PID/ns/net`).
pub(crate) fn path_of(name: &str) -> PathBuf {
    if name.contains('/') { PathBuf::from(name) } else { Path::new(NAMED).join(name) }
}

/// Moves the calling thread (and only it) into a namespace; sockets that it makes stay there.
pub(crate) fn enter(name: &str) -> Result<(), LoadError> {
    let path = path_of(name);
    let file =
        File::open(&path).map_err(|source| LoadError::Netns { path: path.clone(), source })?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|errno| LoadError::Netns { path, source: errno.into() })
}

/// Runs `action` on a thread of its own inside the namespace, or right here if there is none.
pub(crate) fn inside<T: Send>(
    name: Option<&str>,
    action: impl FnOnce() -> Result<T, LoadError> + Send,
) -> Result<T, LoadError> {
    let Some(name) = name else { return action() };
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| enter(name).and_then(|()| action()));
        worker.join().map_err(|_| LoadError::Panicked("namespace"))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths() {
        assert_eq!(path_of("lc"), Path::new("/run/netns/lc"));
        assert_eq!(path_of("/proc/1/ns/net"), Path::new("/proc/1/ns/net"));
    }

    #[test]
    fn a_missing_namespace_is_named_in_the_error() {
        let error = inside(Some("quell-test-absent"), || Ok(())).unwrap_err().to_string();
        assert!(error.contains("/run/netns/quell-test-absent"), "{error}");
    }
}
