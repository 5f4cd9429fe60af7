"""A guest's kernel: Debian's package, unpacked, as QEMU boots it soonest."""

import lzma
import re
import subprocess
from pathlib import Path

from kit.cpio import Cpio
from kit.say import LabError, run

# What a guest needs before it has a root: disks, the channel for results, the file system.
MODULES = ["virtio_pci", "virtio_blk", "virtio_console", "ext4"]
BUSYBOX = Path("/bin/busybox")


def unpack(archives, init, folder):
    """Makes `kernel` and `initramfs` in a folder from a kernel's packages."""
    tree = folder / "tree"
    for archive in archives:
        run(["dpkg-deb", "-x", archive, tree])
    # Later kernels lie beside their modules.
    (image,) = [*tree.glob("boot/vmlinuz-*"), *tree.glob("**/lib/modules/*/vmlinuz")]
    (modules,) = (p for p in tree.glob("**/lib/modules/*") if p.is_dir())
    (folder / "kernel").write_bytes(payload(image.read_bytes()))
    (folder / "initramfs").write_bytes(initramfs(modules, init))
    (folder / "release").write_text(modules.name)
    run(["rm", "-r", tree])


def payload(image):
    """What a compressed kernel unpacks to, so that the guest, which is slow, need not do it.

    Kernels packed otherwise (LZ4) are left to the guest."""
    for magic, command in [(b"\x28\xb5\x2f\xfd", "zstd"), (b"\xfd7zXZ\x00", "xz")]:
        for found in re.finditer(re.escape(magic), image):
            unpacked = _unpacked(command, image[found.start() :])
            if unpacked.startswith(b"\x7fELF"):
                return unpacked
    return image


def _unpacked(command, data):
    """Bytes after the payload make the command complain: what it wrote is judged instead."""
    try:
        done = subprocess.run([command, "-dcq"], input=data, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise LabError(f"{command} is not there: run .ci/setup lab") from error
    return done.stdout


def initramfs(modules, init):
    """The first root: a shell, the modules in their order, and the script that finds the disk."""
    cpio = Cpio()
    for name in ["bin", "dev", "proc", "sys", "root", "modules"]:
        cpio.folder(name)
    cpio.console()
    cpio.file("bin/busybox", BUSYBOX.read_bytes(), 0o755)
    cpio.file("init", init.read_bytes(), 0o755)
    paths = _load_order(modules)
    for path in paths:
        data = path.read_bytes()
        data = lzma.decompress(data) if path.suffix == ".xz" else data
        cpio.file(f"modules/{_name(path)}.ko", data)
    cpio.file("modules/order", "".join(f"{_name(path)}\n" for path in paths).encode())
    return cpio.end()


def _load_order(folder):
    """Paths of the modules that are not built in, each after what it needs."""
    files = {_name(path): path for path in folder.glob("kernel/**/*.ko*")}
    order = []

    def add(name):
        path = files.get(name)
        if path is None or path in order:
            return
        for needed in _needs(path):
            add(needed)
        order.append(path)

    for name in MODULES:
        add(name)
    return order


def _needs(path):
    """What a module says of itself: `depends=a,b`, and soft wishes that count as much here."""
    data = path.read_bytes()
    data = lzma.decompress(data) if path.suffix == ".xz" else data
    hard = re.findall(rb"\0depends=([^\0]*)\0", b"\0" + data)
    soft = re.findall(rb"\0softdep=pre: ([^\0]*)\0", data)
    names = b",".join(hard).split(b",") + b" ".join(soft).split()
    return [name.decode().replace("-", "_") for name in names if name]


def _name(path):
    return path.name.split(".ko")[0].replace("-", "_")
