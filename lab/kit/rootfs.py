"""A guest's root: a Debian with systemd, as a disk image."""

import shutil
from dataclasses import dataclass, field

from kit.say import run

SMALL = [
    "base-files",
    "base-passwd",
    "bash",
    "busybox-static",
    "coreutils",
    "diffutils",
    "findutils",
    "grep",
    "iproute2",
    "jq",
    "libc-bin",
    "mount",
    "procps",
    "redis-server",
    "sed",
    "systemd-sysv",
    # In place of a package that would bring all of Perl.
    "usr-is-merged",
    "util-linux",
]
# Machines within the machine: the daemon that starts them, the emulator, and what systemd wants to
# know of them, which it is told over the bus.
EMULATOR = ["dbus", "qemu-system-x86", "systemd-container"]
LIBVIRT = ["libvirt-clients", "libvirt-daemon", "libvirt-daemon-driver-qemu"]


@dataclass
class Root:
    """What stands in one."""

    packages: list = field(default_factory=list)
    # From the suite of backports; all that must be of the same version is named.
    backports: list = field(default_factory=list)
    megabytes: int = 400


ROOTS = {
    "small": Root(SMALL),
    "machines": Root(SMALL + EMULATOR + LIBVIRT, megabytes=1200),
    # With a later libvirt.
    "machines-next": Root(SMALL + EMULATOR, LIBVIRT + ["libvirt0"], megabytes=1200),
}
# Without these the bus and libvirt's daemon do not start.
ACCOUNTS = {"messagebus": 100, "libvirt-qemu": 64055}
# Not wanted in a guest that lives for seconds.
LEAVE_OUT = ["usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info"]
# Units that take time and serve nothing here.
MASKED = [
    "e2scrub_reap.service",
    "getty.target",
    "systemd-binfmt.service",
    "systemd-journal-flush.service",
    "systemd-journal-catalog-update.service",
    "systemd-logind.service",
    "systemd-pstore.service",
    "systemd-random-seed.service",
    "systemd-resolved.service",
    "systemd-timesyncd.service",
    "systemd-update-utmp.service",
]


def build(archives, guest, megabytes, folder):
    """Makes `root.img` in a folder from packages. None of their scripts is run."""
    root = folder / "root"
    _folders(root)
    for archive in archives:
        _unpack(archive, root)
    for name in LEAVE_OUT:
        shutil.rmtree(root / name, ignore_errors=True)
    _accounts(root)
    _settings(root)
    _units(root, guest)
    image = folder / "root.img"
    options = ["-q", "-t", "ext4", "-O", "^has_journal", "-E", "root_owner=0:0"]
    run(["mke2fs", *options, "-d", root, image, f"{megabytes}M"])
    run(["rm", "-r", root])


def _folders(root):
    for name in ["usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "dev", "proc", "sys", "run"]:
        (root / name).mkdir(parents=True)
    for name in ["tmp", "lab", "out", "root", "etc/systemd/system", "var/log"]:
        (root / name).mkdir(parents=True)
    for name in ["bin", "sbin", "lib", "lib64"]:
        (root / name).symlink_to(f"usr/{name}")
    (root / "var/run").symlink_to("/run")


def _unpack(archive, root):
    """As `dpkg-deb -x`, but into the folders that links point to."""
    script = 'dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink -C "$2"'
    run(["bash", "-o", "pipefail", "-c", script, "unpack", archive, root])


def _accounts(root):
    for name in ["passwd", "group"]:
        shutil.copy(root / "usr/share/base-passwd" / f"{name}.master", root / "etc" / name)
    for name, number in ACCOUNTS.items():
        with open(root / "etc/passwd", "a") as accounts:
            accounts.write(f"{name}:x:{number}:{number}::/nonexistent:/usr/sbin/nologin\n")
        with open(root / "etc/group", "a") as groups:
            groups.write(f"{name}:x:{number}:\n")


def _settings(root):
    """What the packages' scripts would have set up, as far as it matters."""
    etc = root / "etc"
    (etc / "hostname").write_text("lab\n")
    (etc / "hosts").write_text("127.0.0.1 localhost lab\n")
    (etc / "fstab").write_text("")
    (etc / "machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    for name, target in [("sh", "bash"), ("awk", "mawk")]:
        if not (root / "usr/bin" / name).exists():
            (root / "usr/bin" / name).symlink_to(target)


def _units(root, guest):
    system = root / "etc/systemd/system"
    for name in MASKED:
        (system / name).unlink(missing_ok=True)
        (system / name).symlink_to("/dev/null")
    shutil.copy(guest / "lab.service", system / "lab.service")
    (system / "default.target").unlink(missing_ok=True)
    (system / "default.target").symlink_to("/usr/lib/systemd/system/multi-user.target")
    wants = system / "multi-user.target.wants"
    shutil.rmtree(wants, ignore_errors=True)
    wants.mkdir()
    (wants / "lab.service").symlink_to("/etc/systemd/system/lab.service")
