"""QEMU with Resource Director Technology, which no release has: Debian's source and our registers.

Debian's own source of the emulator that is installed, whose firmware it uses; apt checks the
source's hash by the archive's signature."""

import os
import shutil
from pathlib import Path

from kit.say import LabError, run

HERE = Path(__file__).resolve().parent.parent / "rdt"
# What is laid into the source tree, and where; the patch names them to the tree.
ADDED = {
    HERE / "rdt.c": "target/i386/tcg/sysemu/rdt.c",
    HERE / "rdt.h": "target/i386/tcg/sysemu/rdt.h",
    HERE / "lab.mak": "configs/devices/x86_64-softmmu/lab.mak",
}
PATCH = HERE / "qemu.patch"
MADE_FROM = [Path(__file__).resolve(), PATCH, *ADDED]
PROGRAM = "qemu-system-x86_64"
# The firmware of Debian's packages.
FIRMWARE = ["/usr/share/qemu", "/usr/share/seabios"]
OPTIONS = [
    "--target-list=x86_64-softmmu",
    "--without-default-features",
    "--without-default-devices",
    "--with-devices-x86_64=lab",
    "--enable-tcg",
    "--enable-fdt=system",
    "--disable-debug-info",
    "--disable-install-blobs",
    "--disable-werror",
]


def build(apt, folder):
    """Makes `qemu-system-x86_64` in a folder, from the source that `apt` fetches. Takes minutes."""
    work = folder / "work"
    work.mkdir()
    source = _source(apt, work)
    for path, place in ADDED.items():
        shutil.copy(path, source / place)
    try:
        run(["patch", "-p1", "--no-backup-if-mismatch", "-i", PATCH], cwd=source)
    except LabError as error:
        raise LabError(f"{PATCH} does not fit {source.name}, the QEMU of this Debian\n{error}") from error
    made = work / "build"
    made.mkdir()
    run([source / "configure", *OPTIONS], cwd=made)
    run(["nice", "ninja", "-j", os.cpu_count() or 1, PROGRAM], cwd=made)
    run(["strip", "-o", folder / PROGRAM, made / PROGRAM])
    (folder / "source").write_text(source.name + "\n")
    shutil.rmtree(work)


def _source(apt, work):
    """The unpacked source, Debian's patches applied."""
    described = apt.source("qemu", work)
    tree = work / described.stem.replace("_", "-")
    run(["dpkg-source", "-x", described, tree])
    return tree


def command(folder):
    """How it is called: the words before the machine's."""
    program = folder / PROGRAM
    if not program.is_file():
        raise LabError(f"{program} is not there: run lab/prepare CACHE rdt")
    return [program, *(word for place in FIRMWARE for word in ("-L", place))]
