"""One guest: what it is given, the run, what comes back."""

import os
import shutil
import signal
import subprocess
import tempfile
import threading
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from kit import emulator, rdt, topology
from kit.say import LabError, run

QEMU = "qemu-system-x86_64"
INITS = {"plain": "/lab/guest/plain-init", "systemd": "/usr/lib/systemd/systemd"}
# The suites of Debian that they come from; `next` is the next Debian's backports.
KERNELS = ["backports", "stable", "next"]
# Emulated, so that it runs anywhere. QEMU 7.2 emulates cmpxchg16b wrongly: the guest is not told
# of it. One host thread for all CPUs boots many of them soonest, and leaves the others to others.
MACHINE = ["-M", "q35", "-accel", "tcg,thread=single", "-cpu"]
PROCESSOR = "max,vendor=GenuineIntel,-cx16,l3-cache=on"
QUIET = ["-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio"]
# Spares the guest what takes long and tests nothing here.
BOOT = (
    "console=ttyS0 loglevel=3 panic=-1 nokaslr mitigations=off tsc=reliable no_timer_check "
    "lpj=4000000 cryptomgr.notests audit=0 nowatchdog rcupdate.rcu_expedited=1 apparmor=0 selinux=0 "
    "transparent_hugepage=madvise systemd.show_status=0 systemd.log_target=null"
)
# What a run brings: sparse, so its size costs nothing.
PAYLOAD_MB = 1024
NO_ANSWER = 125


@dataclass
class Guest:
    """What to run, and where. `files` are put into /lab under their names."""

    cache: Path
    command: str
    topology: str = "plain"
    init: str = "plain"
    kernel: str = KERNELS[0]
    # One of rootfs.ROOTS.
    root: str = "small"
    # One of rdt.SHAPES: a machine whose caches can be divided.
    rdt: str = ""
    timeout_s: int = 120
    files: dict = field(default_factory=dict)


@dataclass
class Result:
    """The command's exit status (125: the guest died or hung) and what it said."""

    status: int
    console: str


def boot(guest, out):
    """Runs a guest to its end; what it left in /out comes into the folder `out`."""
    if guest.init not in INITS:
        raise LabError(f"no init {guest.init}; there are {', '.join(INITS)}")
    with tempfile.TemporaryDirectory(prefix="quell-lab-") as scratch:
        scratch = Path(scratch)
        disk = _payload(guest, scratch)
        answer = scratch / "answer.tar"
        control = rdt.outside(guest.rdt, scratch) if guest.rdt else nullcontext(([], {}))
        with control as (words, environment):
            command = [*_qemu(guest, disk, answer), *words]
            console = _emulate(command, guest.timeout_s, os.environ | environment)
        return Result(_unpack_answer(answer, Path(out)), console)


def _payload(guest, scratch):
    """The disk that the guest sees at /lab."""
    tree = scratch / "payload"
    shutil.copytree(Path(__file__).resolve().parent.parent / "guest", tree / "guest")
    for name, path in guest.files.items():
        if not Path(path).is_file():
            raise LabError(f"{path} is not there: nothing to give to the guest")
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tree / name)
    (tree / "command").write_text(guest.command + "\n")
    disk = scratch / "payload.img"
    features = ["-O", "^has_journal", "-E", "root_owner=0:0"]
    run(["mke2fs", "-q", "-t", "ext4", *features, "-d", tree, disk, f"{PAYLOAD_MB}M"])
    return disk


def _qemu(guest, disk, answer):
    kernel = guest.cache / f"kernel-{guest.kernel}"
    root = guest.cache / f"root-{guest.root}" / "root.img"
    for path in [kernel / "kernel", root]:
        if not path.is_file():
            raise LabError(f"{path} is not there: run lab/prepare {guest.cache}")
    program = emulator.command(guest.cache / "emulator") if guest.rdt else [QEMU]
    processor = PROCESSOR + (rdt.processor(guest.rdt) if guest.rdt else "")
    words = [*program, *MACHINE, processor, *QUIET, *topology.arguments(guest.topology)]
    words += ["-kernel", kernel / "kernel", "-initrd", kernel / "initramfs"]
    words += ["-append", f"{BOOT} lab_init={INITS[guest.init]}"]
    words += ["-drive", f"if=virtio,format=raw,snapshot=on,file={root}"]
    words += ["-drive", f"if=virtio,format=raw,readonly=on,file={disk}"]
    words += ["-device", "virtio-serial", "-chardev", f"file,id=answer,path={answer}"]
    words += ["-device", "virtserialport,chardev=answer"]
    return [str(word) for word in words]


def _emulate(command, timeout_s, environment):
    """Runs QEMU; at the deadline it is killed, and what the guest said until then counts."""
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=environment,
        )
    except FileNotFoundError as error:
        raise LabError(f"{QEMU} is not there: run .ci/setup lab") from error
    with _killed_at_the_end(process):
        try:
            said, _ = process.communicate(timeout=timeout_s)
            late = ""
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
            late = f"\nlab: the guest was killed after {timeout_s} s\n"
    return said.decode(errors="replace").replace("\r", "") + late


@contextmanager
def _killed_at_the_end(process):
    """Also when this program is told to end."""

    def stop(number, _frame):
        process.kill()
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, stop) if _is_main_thread() else None
    try:
        yield
    finally:
        process.kill()
        process.wait()
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _is_main_thread():
    return threading.current_thread() is threading.main_thread()


def _unpack_answer(answer, out):
    out.mkdir(parents=True, exist_ok=True)
    try:
        run(["tar", "-x", "--no-same-owner", "-f", answer, "-C", out])
        return int((out / ".status").read_text())
    except (LabError, OSError, ValueError):
        return NO_ANSWER
