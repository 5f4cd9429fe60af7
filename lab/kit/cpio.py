"""Archives of the format that the kernel takes for an initial root (cpio, "newc")."""


class Cpio:
    """Written in memory; owners are root, times are zero, so that equal content is equal."""

    def __init__(self):
        self._out = bytearray()
        self._inode = 0

    def folder(self, name):
        self._entry(name, 0o040755)

    def file(self, name, data, mode=0o644):
        self._entry(name, 0o100000 | mode, data)

    def link(self, name, target):
        self._entry(name, 0o120777, target.encode())

    def console(self):
        """/dev/console, without which the first process has no output."""
        self._entry("dev/console", 0o020600, device=(5, 1))

    def end(self):
        self._entry("TRAILER!!!", 0)
        return bytes(self._out)

    def _entry(self, name, mode, data=b"", device=(0, 0)):
        self._inode += 1
        fields = (self._inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name) + 1, 0)
        head = "070701" + "".join(f"{field:08x}" for field in fields)
        self._pad(head.encode() + name.encode() + b"\0")
        self._pad(data)

    def _pad(self, data):
        self._out += data + b"\0" * (-len(data) % 4)
