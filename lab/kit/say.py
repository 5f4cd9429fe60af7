"""How the lab's commands speak, run others and fail."""

import subprocess
import sys


# Of what a failed command said.
SHOWN_LINES = 20


class LabError(Exception):
    """Something the caller should read: what failed, on what, and what to do."""


def say(text):
    print(f"lab: {text}", file=sys.stderr, flush=True)


def run(command, **options):
    """Runs a command; its output is shown only if it fails."""
    command = [str(word) for word in command]
    try:
        done = subprocess.run(command, capture_output=True, check=False, **options)
    except FileNotFoundError as error:
        raise LabError(f"{command[0]} is not there: run .ci/setup lab") from error
    if done.returncode != 0:
        said = (done.stdout + done.stderr).decode(errors="replace").strip()
        said = "\n".join(said.splitlines()[-SHOWN_LINES:])
        raise LabError(f"{' '.join(command[:6])} …: status {done.returncode}\n{said}")
    return done.stdout


def main(work):
    """Runs a command's body; errors that are meant to be read come without a traceback."""
    try:
        sys.exit(work())
    except LabError as error:
        say(f"error: {error}")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
