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

/// Bytes sent so far over all links of a namespace but loopback, this thread's if none is given; none where the kernel
/// does not tell, or the namespace is not to be entered.
#[must_use]
pub fn sent_bytes(netns: Option<&Path>) -> Option<u64> {
    let read = || {
        let file = Path::new("/proc/thread-self/net/dev");
        std::fs::read_to_string(file).map_err(|e| PressureError::system("cannot read", file, e))
    };
    sent_in(&within(netns, read).ok()?)
}

/// The same from `/proc/net/dev`: a link a line, its name, a colon, eight numbers of what it received, then what it sent.
pub(crate) fn sent_in(table: &str) -> Option<u64> {
    let links = table.lines().filter_map(|line| line.split_once(':'));
    let others = links.filter(|(name, _)| name.trim() != "lo");
    let mut sent =
        others.map(|(_, numbers)| numbers.split_whitespace().nth(8)?.parse::<u64>().ok());
    sent.try_fold(0u64, |all, one| Some(all.saturating_add(one?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_links_sent_is_counted_without_loopback() {
        let table = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs
    lo: 7 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0
  eth0:100 2 0 0 0 0 0 0 30 1 0 0 0 0 0 0
 quell0: 5 1 0 0 0 0 0 0 4000000000000 1 0 0 0 0 0 0
";
        assert_eq!(sent_in(table), Some(4_000_000_000_030));
        assert_eq!(sent_in(""), Some(0), "no link, nothing sent");
        assert_eq!(sent_in(" eth0: 1 2 3"), None, "a line that is none");
        let most = format!("a: 0 0 0 0 0 0 0 0 {0}\nb: 0 0 0 0 0 0 0 0 {0}", u64::MAX);
        assert_eq!(sent_in(&most), Some(u64::MAX));
        assert!(sent_bytes(None).is_some());
        assert_eq!(sent_bytes(Some(Path::new("/run/netns/quell-none"))), None);
    }

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
