//! Network namespaces: a thread can enter one without the rest of the process.

use crate::PressureError;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

/// Moves the calling thread into the namespace that `path` stands for (`/run/netns/NAME`,
/// `/proc/PID/ns/net`).
pub(crate) fn enter(path: &Path) -> Result<(), PressureError> {
    let failed = |e| PressureError::system("cannot enter the network namespace", path, e);
    let file = File::open(path).map_err(failed)?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|e| failed(e.into()))
}

/// Runs `work` in the namespace, on a thread of its own so that the caller stays where it is.
pub(crate) fn within<T: Send>(
    path: Option<&Path>,
    work: impl FnOnce() -> Result<T, PressureError> + Send,
) -> Result<T, PressureError> {
    let Some(path) = path else { return work() };
    let run = || enter(path).and_then(|()| work());
    std::thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|_| {
        let why = std::io::Error::other("the thread panicked");
        Err(PressureError::system("cannot work in the network namespace", path, why))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_namespace_can_be_entered_and_others_are_refused() {
        let own = Path::new("/proc/self/ns/net");
        assert_eq!(within(Some(own), || Ok(7)).unwrap(), 7);
        assert_eq!(within(None, || Ok(8)).unwrap(), 8);
        let missing = within(Some(Path::new("/run/netns/quell-none")), || Ok(()));
        assert!(missing.unwrap_err().to_string().contains("quell-none"));
        let wrong = within(Some(Path::new("/proc/self/ns/uts")), || Ok(()));
        assert!(wrong.is_err(), "a namespace of another kind");
    }
}
