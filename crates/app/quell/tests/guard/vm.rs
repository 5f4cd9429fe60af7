//! A virtual machine as batch, as libvirt has it: a real QEMU in a group of its machine's name,
//! which libvirt's file tells of.

use crate::common::{Ground, read, until};
use std::fs;
use std::path::{Path, PathBuf};

const NAME: &str = "quell-guest";
const RUNNING: &str = "/run/libvirt/qemu";

/// The file that libvirt keeps of a machine that runs; gone when dropped, with folders that were
/// made for it.
struct Told {
    file: PathBuf,
    made: Vec<PathBuf>,
}

impl Told {
    fn new(pid: u32) -> Self {
        let folders = ["/run/libvirt", RUNNING].map(PathBuf::from);
        let made: Vec<PathBuf> = folders.into_iter().filter(|path| !path.exists()).collect();
        fs::create_dir_all(RUNNING).unwrap();
        let file = Path::new(RUNNING).join(format!("{NAME}.pid"));
        fs::write(&file, format!("{pid}\n")).unwrap();
        Self { file, made }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
        for folder in self.made.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}

#[test]
fn a_virtual_machine_is_batch_by_its_name_and_is_as_before_afterwards() {
    let mut ground = Ground::new();
    let own = ground.make_vm(NAME);
    let port = ground.redis();
    // Halted before its first instruction: a machine without anything to boot.
    let guest = format!("guest={NAME},debug-threads=on");
    let pid = ground.run_in(
        &format!("{own}/vcpu0"),
        &["qemu-system-x86_64", "-name", &guest, "-S", "-m", "16", "-display", "none"],
    );
    until("the machine", || {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        line.contains(&guest).then_some(())
    });
    let _told = Told::new(pid);
    let idle = ground.file_of(&own, "cpu.idle");
    assert_eq!(read(&idle), "0");
    let vm = format!("vm={NAME}");
    let mut guard = ground.guard_batch(&vm, &["--law", "os-only"]);
    let status = guard.ready();
    assert!(status["batch"][NAME].is_object(), "{status:#} (redis on {port})");
    until("the idle class", || (read(&idle) == "1").then_some(()));
    assert_eq!(guard.stop(), Some(0), "{}", guard.log());
    assert_eq!(read(&idle), "0");
}

#[test]
fn a_machine_that_does_not_run_is_refused_by_its_name() {
    let ground = Ground::new();
    let mut guard = ground.guard_batch("vm=quell-no-such-guest", &["--law", "none"]);
    assert_eq!(guard.exit_code(), Some(2), "{}", guard.log());
    assert!(guard.log().contains("virtual machine quell-no-such-guest"), "{}", guard.log());
}
