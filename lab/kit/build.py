"""The programs that guests run: the agent and the tests as `cargo test` builds them, without their symbols.

Guests are Debian 12 or newer and have its C library, so what this machine's tests are is what theirs are: after
`make test` nothing is left to build."""

import json
import os
import subprocess
from pathlib import Path

from kit.say import LabError, run, say

WORKSPACE = Path(__file__).resolve().parent.parent.parent
# Crates that touch the kernel, and those of their tests that run in guests too.
TESTED = ["quell-cgroup", "quell-ebpf", "quell-linux", "quell-resctrl"]
TESTS = ["kernel", "real", "systemd"]
AGENT = "quell"


def programs(cache):
    """Names in the guest (below /lab) with paths: bin/quell, tests/CRATE.TEST."""
    say("the programs, as tests build them")
    found = dict(named for message in _built() if (named := _named(message)))
    if f"bin/{AGENT}" not in found:
        raise LabError(f"cargo built no program {AGENT}")
    return {name: _stripped(path, cache / "programs" / name) for name, path in found.items()}


def _built():
    """What cargo says of each program. All of the workspace: another choice of crates wants other features."""
    command = [os.environ.get("CARGO", "cargo"), "test", "--workspace", "--no-run", "--quiet"]
    command += ["--message-format", "json"]
    try:
        done = subprocess.run(command, cwd=WORKSPACE, stdout=subprocess.PIPE, check=False)
    except FileNotFoundError as error:
        raise LabError("cargo is not there: install Rust (rustup)") from error
    messages = [json.loads(line) for line in done.stdout.splitlines() if line[:1] == b"{"]
    if done.returncode != 0:
        said = "".join(m["message"]["rendered"] for m in messages if m.get("message"))
        raise LabError(f"cargo test: status {done.returncode}\n{said}")
    return [message for message in messages if message.get("executable")]


def _named(message):
    """Its name in the guest and its path; nothing if no guest runs it."""
    crate = Path(message["manifest_path"]).parent.name
    target, path = message["target"], message["executable"]
    if not message["profile"]["test"]:
        return (f"bin/{AGENT}", path) if target["name"] == AGENT else None
    if f"quell-{crate}" in TESTED and target["name"] in TESTS:
        return f"tests/{crate}.{target['name']}", path
    return None


def _stripped(path, to):
    to.parent.mkdir(parents=True, exist_ok=True)
    run(["strip", "-o", to, path])
    return to
