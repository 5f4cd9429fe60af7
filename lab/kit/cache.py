"""Steps whose results stay in the cache folder until what they are made from changes."""

import hashlib
import os
import shutil
from pathlib import Path

from kit.say import say


class Step:
    """One result in the cache: a folder that is complete, or not there."""

    def __init__(self, cache, name, *made_from):
        """`made_from`: all that the result depends on; a path counts by its content."""
        self.folder = Path(cache) / name
        self._stamp = self.folder / ".made-from"
        self._key = _digest(made_from)

    def is_done(self):
        return self._stamp.is_file() and self._stamp.read_text() == self._key

    def make(self, what, work):
        """Calls `work(folder)` in a new folder beside, unless the result is there already."""
        if self.is_done():
            return self.folder
        say(what)
        fresh = self.folder.with_name(f"{self.folder.name}.new-{os.getpid()}")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        try:
            work(fresh)
            (fresh / ".made-from").write_text(self._key)
            shutil.rmtree(self.folder, ignore_errors=True)
            fresh.rename(self.folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        return self.folder


def _digest(parts):
    total = hashlib.sha256()
    for part in parts:
        data = part.read_bytes() if isinstance(part, Path) else str(part).encode()
        total.update(hashlib.sha256(data).digest())
    return total.hexdigest()
