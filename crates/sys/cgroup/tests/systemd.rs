//! The systemd back end against a program that answers as `systemctl` does. One test only: a script
//! that was just written cannot be run while another thread forks.

use quell_cgroup::{CgroupError, Systemctl, SystemdProperty, SystemdUnit};
use std::fs;
use std::os::unix::fs::PermissionsExt;

const SCRIPT: &str = r#"#!/bin/sh
echo "$@" >> "$(dirname "$0")/log"
case "$*" in
  *ControlGroup*redis.service) echo "ControlGroup=/system.slice/redis.service"; echo "LoadState=loaded"; echo "ActiveState=active" ;;
  *ControlGroup*) echo "ControlGroup="; echo "LoadState=not-found"; echo "ActiveState=inactive" ;;
  *Delegate*docker.service) echo "Delegate=yes" ;;
  *Delegate*) echo "Delegate=no" ;;
  show*) echo "CPUQuotaPerSecUSec=200ms"; echo "CPUQuotaPeriodUSec=infinity"; echo "CPUWeight=[not set]"; echo "AllowedCPUs=0-1" ;;
  *bad.service*) echo "Unit bad.service not loaded." >&2; exit 1 ;;
esac
"#;

#[test]
fn a_unit_is_asked_set_and_brought_back() -> Result<(), CgroupError> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let program = dir.path().join("systemctl");
    fs::write(&program, SCRIPT).expect("the script is written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it may be run");
    let systemctl = Systemctl::with_program(&program);

    assert_eq!(systemctl.control_group("redis.service")?, "/system.slice/redis.service");
    let unknown = systemctl.control_group("nginx.service").unwrap_err().to_string();
    assert!(unknown.contains("not-found and inactive"), "{unknown}");
    assert!(systemctl.delegates("docker.service")? && !systemctl.delegates("redis.service")?);

    let unit = SystemdUnit::new("redis.service", systemctl.clone());
    let saved = unit.save()?;
    assert_eq!(saved, ["CPUQuota=20.00%", "CPUQuotaPeriodSec=", "CPUWeight=", "AllowedCPUs=0-1"]);
    unit.set(&[SystemdProperty::Idle])?;
    unit.restore(&saved)?;
    let log = fs::read_to_string(dir.path().join("log")).expect("the script ran");
    let written: Vec<&str> = log.lines().filter(|line| line.starts_with("set-property")).collect();
    assert_eq!(
        written,
        [
            "set-property --runtime -- redis.service CPUWeight=idle",
            "set-property --runtime -- redis.service CPUQuota=20.00% CPUQuotaPeriodSec= CPUWeight= AllowedCPUs=0-1",
        ]
    );

    let bad = SystemdUnit::new("bad.service", systemctl).set(&[SystemdProperty::Weight(None)]);
    let error = bad.unwrap_err().to_string();
    assert!(error.contains("not loaded") && error.contains("set-property"), "{error}");
    let none = SystemdUnit::new("x", Systemctl::with_program("/no/such/program")).save();
    assert!(matches!(none, Err(CgroupError::Systemctl { .. })));
    Ok(())
}
