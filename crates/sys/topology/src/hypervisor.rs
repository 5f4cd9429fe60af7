//! Whether the machine is virtual, and on what.

use crate::cpuinfo::CpuInfo;
use crate::text::Tree;

/// What firmware tables say only in a virtual machine.
const DMI_VIRTUAL: &[(&str, &str)] = &[
    ("KVM", "kvm"),
    ("QEMU", "qemu"),
    ("VMware", "vmware"),
    ("innotek GmbH", "oracle"),
    ("VirtualBox", "oracle"),
    ("Xen", "xen"),
    ("HVM domU", "xen"),
    ("Bochs", "bochs"),
    ("Parallels", "parallels"),
    ("BHYVE", "bhyve"),
    ("Virtual Machine", "microsoft"),
    ("OpenStack", "kvm"),
];

/// What clouds say of virtual and bare machines alike: tells the kind, not whether.
const DMI_CLOUD: &[(&str, &str)] = &[
    ("Amazon EC2", "amazon"),
    ("Google", "google"),
    ("DigitalOcean", "kvm"),
    ("Alibaba Cloud", "kvm"),
    ("Hetzner", "kvm"),
];

/// Clocks that a hypervisor offers to its guests.
const CLOCKS: &[(&str, &str)] =
    &[("kvm-clock", "kvm"), ("hyperv_clocksource", "microsoft"), ("xen", "xen")];

/// The hypervisor's name; none on bare metal.
pub(crate) fn detect(tree: &Tree, info: &CpuInfo) -> Option<&'static str> {
    let flagged = info.flags().contains("hypervisor");
    let named = device_tree(tree)
        .or_else(|| dmi(tree, DMI_VIRTUAL))
        .or_else(|| sys_hypervisor(tree))
        .or_else(|| user_mode(info));
    // A clock or a cloud's name says which hypervisor, once it is known that there is one.
    let by_clock = || clock(tree).filter(|_| flagged);
    let by_cloud = || dmi(tree, DMI_CLOUD).filter(|_| flagged);
    named.or_else(by_clock).or_else(by_cloud).or(flagged.then_some("unknown"))
}

fn device_tree(tree: &Tree) -> Option<&'static str> {
    let text = tree.text("proc/device-tree/hypervisor/compatible")?;
    Some(match text.trim_end_matches('\0') {
        kvm if kvm.contains("kvm") => "kvm",
        xen if xen.contains("xen") => "xen",
        vmware if vmware.contains("vmware") => "vmware",
        _ => "unknown",
    })
}

fn dmi(tree: &Tree, names: &[(&str, &'static str)]) -> Option<&'static str> {
    ["product_name", "sys_vendor", "board_vendor", "bios_vendor"].iter().find_map(|file| {
        let text = tree.text(&format!("sys/class/dmi/id/{file}"))?;
        names.iter().find(|(start, _)| text.starts_with(start)).map(|(_, name)| *name)
    })
}

/// Xen's control domain runs on the hypervisor as well, but owns the machine's devices.
fn sys_hypervisor(tree: &Tree) -> Option<&'static str> {
    let kind = tree.text("sys/hypervisor/type")?;
    let control = tree.text("proc/xen/capabilities").is_some_and(|c| c.contains("control_d"));
    match kind.trim() {
        "xen" if control => None,
        "xen" => Some("xen"),
        _ => Some("unknown"),
    }
}

fn user_mode(info: &CpuInfo) -> Option<&'static str> {
    (info.any("vendor_id") == Some("User Mode Linux")).then_some("uml")
}

fn clock(tree: &Tree) -> Option<&'static str> {
    let path = "sys/devices/system/clocksource/clocksource0/available_clocksource";
    let clocks = tree.text(path)?;
    CLOCKS.iter().find(|(start, _)| clocks.contains(start)).map(|(_, name)| *name)
}
