"""The programs that guests run, linked statically; what is built stays in the cache."""

import json
import os
import subprocess
from pathlib import Path

from kit.say import LabError, say

WORKSPACE = Path(__file__).resolve().parent.parent.parent
SETTINGS = WORKSPACE / "lab" / "static.toml"
# Crates that touch the kernel, and those of their tests that run in guests too.
TESTED = ["quell-cgroup", "quell-ebpf", "quell-linux", "quell-resctrl"]
TESTS = ["kernel", "real", "systemd"]
AGENT = "quell"


def programs(cache, with_agent):
    """Names in the guest (below /lab) with paths: bin/quell, tests/CRATE.TEST."""
    say("the programs, linked statically")
    # In one go: what they share is built once, with the features that all of them want.
    wanted = [("-p", crate) for crate in TESTED] + [("--test", name) for name in TESTS]
    if with_agent:
        wanted += [("-p", AGENT), ("--bin", AGENT)]
    found = _cargo(["build", *(word for pair in wanted for word in pair)], cache / "target")
    if with_agent and f"bin/{AGENT}" not in found:
        raise LabError(f"cargo built no program {AGENT}")
    return found


def _cargo(words, target):
    command = [os.environ.get("CARGO", "cargo"), "--config", SETTINGS, *words, "--quiet"]
    command += ["--profile", "lab", "--target-dir", target, "--message-format", "json"]
    try:
        done = subprocess.run(command, cwd=WORKSPACE, stdout=subprocess.PIPE, check=False)
    except FileNotFoundError as error:
        raise LabError("cargo is not there: install Rust (rustup)") from error
    messages = [json.loads(line) for line in done.stdout.splitlines() if line[:1] == b"{"]
    if done.returncode != 0:
        said = "".join(m["message"]["rendered"] for m in messages if m.get("message"))
        raise LabError(f"cargo {words[0]}: status {done.returncode}\n{said}")
    return dict(_named(m) for m in messages if m.get("executable"))


def _named(message):
    crate = Path(message["manifest_path"]).parent.name
    target = message["target"]
    kind = "tests" if message["profile"]["test"] else "bin"
    if kind == "bin":
        return f"bin/{target['name']}", message["executable"]
    return f"tests/{crate}.{target['name']}", message["executable"]
