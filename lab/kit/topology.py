"""The shapes of the machines that guests pretend to be, as arguments of QEMU."""

from kit.say import LabError


def _single(cpus, megabytes):
    return ["-smp", f"{cpus},sockets=1,cores={cpus},threads=1", "-m", f"{megabytes}M"]


def _nodes(count, cpus, smp, megabytes, distance):
    """Machines of several nodes; `distance(a, b)` is what their firmware says."""
    words = ["-smp", f"{count * cpus},{smp}", "-m", f"{count * megabytes}M"]
    for node in range(count):
        first, last = node * cpus, node * cpus + cpus - 1
        words += ["-object", f"memory-backend-ram,id=m{node},size={megabytes}M"]
        words += ["-numa", f"node,nodeid={node},memdev=m{node},cpus={first}-{last}"]
    for a in range(count):
        for b in range(a + 1, count):
            words += ["-numa", f"dist,src={a},dst={b},val={distance(a, b)}"]
    return words


def _servers(a, b):
    """Distance of two of 36 nodes: six servers in a ring, of three sockets with two nodes each."""
    if a // 6 == b // 6:
        return 16 if a // 2 == b // 2 else 22
    apart = abs(a // 6 - b // 6)
    return 160 if apart in (1, 5) else 200


SHAPES = {
    # One socket, four cores: the usual small server.
    "plain": _single(4, 1024),
    # Two sockets, each one node of two cores with two threads.
    "smt": _nodes(2, 4, "sockets=2,cores=2,threads=2", 512, lambda a, b: 21),
    # Four sockets in a square: neighbours are nearer than who stands across.
    "square": _nodes(
        4, 2, "sockets=4,cores=2,threads=1", 256, lambda a, b: 31 if a ^ b == 3 else 21
    ),
    # 36 sockets of one core each, as six servers that are coupled to one.
    "many": _nodes(36, 1, "sockets=36,cores=1,threads=1", 128, _servers),
}


def arguments(name):
    if name not in SHAPES:
        raise LabError(f"no topology {name}; there are {', '.join(SHAPES)}")
    return SHAPES[name]
