#!/usr/bin/env python3
"""Writes the first inputs of every fuzz target below a folder: seeds.py FOLDER.

They come from fixtures/, from texts below, and from regressions/ (inputs that once failed).
"""

import hashlib
import pathlib
import shutil
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
FIXTURES = HERE.parent / "fixtures"

REDIS_CONFIG = """\
[agent]
law = "quell"
interval_s = 0.5

[[link]]
name = "eth0"
capacity = "1Gbit"

[[service]]
unit = "redis.service"
p99 = "3ms"
peak_qps = 50000
links = ["eth0"]

[[batch]]
cgroup = "/quell-batch"
links = ["eth0"]
max_tasks = 2
"""

ENTRY = (
    '{"time":1500000000,"wall_unix_ms":1700000000000,"notes":[{"note":"agent","what":"started"},'
    '{"note":"reasserted","knob":"cpus of batch","found":"0-1"}]}'
)

SAMPLE = (
    '{"time":1500000000,"wall_unix_ms":1700000000000,"host":{"cpu":{"Ok":{"busy_ns":1,"idle_ns":2,'
    '"steal_ns":0}},"pressure":{"Err":{"gap":"absent","why":"no PSI"}},"memory":{"Err":{"gap":'
    '"pending"}},"power":{"Ok":{"0":12.5}},"frequency_khz":{"Ok":{"0":2400000}}},"tenants":{"redis":'
    '{"identity":{"Ok":1},"cpu_ns":{"Ok":2},"throttling":{"Ok":{"periods":1,"throttled_periods":0,'
    '"throttled_ns":0}},"pressure":{"Ok":{"cpu_some_ns":1,"memory_some_ns":2,"io_some_ns":3}},'
    '"page_faults":{"Ok":3},"run_queue_ns":{"Ok":{"counts":[0,1,2]}},"requests":{"Ok":{"requests":3,'
    '"bytes_in":1,"bytes_out":2,"latency_ns":{"Ok":{"counts":[1,0,2]}}}},"egress_bytes":{"Ok":4},'
    '"memory":{"Err":{"gap":"gone","why":"x"}},"llc_bytes":{"Err":{"gap":"not_yet","why":"x"}},'
    '"memory_used_bytes":{"Ok":5}}},"links":{"eth0":{"sent_bytes":{"Ok":1},"by_tenant_bytes":'
    '{"redis":{"Ok":1}},"backlog_bytes":{"Ok":0},"drops":{"Ok":0}}},"knobs":[[{"knob":"frozen",'
    '"tenant":"b"},{"Ok":{"setting":"flag","value":true}}]],"tasks":[],"experiments":[{"id":1,'
    '"chips":[{"from":1,"to":2,"running":true,"victim_cpu_ns":{},"victim_requests":{},'
    '"group_cpu_ns":{}}],"aborted":null}],"outcomes":[],"link_capacity":{"eth0":125000000.1}}'
)

SETUP = (
    '{"topology":{"model":"x","cpus":[{"id":0,"socket":0,"core":0,"node":0}],"caches":[],"llc":[],'
    '"nodes":[],"memory_bytes":1,"hypervisor":null},"managed_cpus":"0-1","services":[{"name":"redis",'
    '"slo":{"percentile_frac":0.99,"target_s":0.003},"peak_qps":null,"links":["eth0"]}],"batch":'
    '[{"name":"b","links":[],"takes_tasks":true,"max_tasks":2}],"links":[{"name":"eth0","capacity":'
    '0.1}],"knobs":[[{"knob":"frozen","tenant":"b"},{"range":"flag"}]]}'
)

ACTION = '{"action":"set","knob":"cpu_weight","tenant":"b","to":{"setting":"weight","value":20}}'

JUDGED = (
    '{"time":1,"wall_unix_ms":2,"proposals":[{"policy":"quell","precedence":"partition","wish":'
    '{"wish":"set","knob":"egress_ceiling","tenant":"b","link":"eth0","to":{"setting":"rate","value":'
    '0.30000000000000004}},"rule":"r","inputs":[{"name":"slack","value":0.1}],"verdict":"tightened",'
    '"to":{"setting":"cpus","value":"0-1"}}],"actions":[' + ACTION + '],"outcomes":[{"action":'
    + ACTION + ',"time":3,"error":"no"}]}'
)

SCENARIO = (
    'scenario X "a test"\nmachine e5-2683v4\n  cores 4\nvary load 20% 50%\nlink eth0 1Gbit\n'
    "service xapian\n  load $load\n  peak p95 8ms\n  link eth0\nbatch jobs\n"
    "  run stream-llc of 4MiB x 2\n  when load<=20%\npolicy thesis\n  cool_down_s 30s\n"
    'at 3s load xapian steps 4s 20% 5s 30%\nrun 5s after 2s\nprint table p95_ms by load\n'
    'expect "tail" max p95_ms where load<=20% < 100\n'
)

TEXTS = {
    "scenario": [SCENARIO],
    "quantity": ["3ms", "1.5 s", "250 µs", "100Mbit", "12.5MB/s", "64KiB", "40 %", "0.4", "2min"],
    "cpu_list": ["0-3,8", "0", "0-1,4-5\n", "ff", "00000000,000000ff", ""],
    "config_toml": [REDIS_CONFIG, "[law.quell]\nsettle_s = 2\n", "[[service]]\npid = 12\np95 = 1"],
    "config_flags": [
        "sunit=redis.service,p99=3ms\nbcgroup=/quell-batch\nleth0=1Gbit\nwquell\n-agent.interval_s=1",
        "scgroup=/a,p95=10ms,links=eth0",
    ],
    "cgroup_files": [
        "max 100000\n",
        "50000 100000\n",
        "usage_usec 12\nnr_periods 3\nnr_throttled 1\nthrottled_usec 9\n",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\n",
        "12:cpu,cpuacct:/docker/ab\n0::/system.slice/redis.service\n1:name=systemd:/\n",
    ],
    "systemd_show": [
        "CPUQuotaPerSecUSec=200ms\nCPUQuotaPeriodUSec=10ms\nCPUWeight=20\nAllowedCPUs=0-1 3\n",
        "CPUQuotaPerSecUSec=infinity\nCPUWeight=[not set]\n",
        "/system.slice/docker.service/ab",
        "1min 1s 500ms",
    ],
    "proc_files": ["32K", "1M\n", "7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 12 3 0 0 20 0 1 0 99 0 0\n"],
    "kernel_log": [
        "4,812,5130412,-;x86/split lock detection: #AC: a/4211 took a split_lock trap at address: 0x40",
        "4,813,5,-,caller=T7;x86/split lock detection: #DB: CPU 0/KVM/7 took a bus_lock trap at address: 0x7f",
        "6,814,1,-;eth0: link up\n SUBSYSTEM=net\n",
    ],
    "schemata": ["Unavailable", "12345\n", "mon_L3_00", "[mbm_event]\ndefault\n"],
    "listening": [
        "   0: 0100007F:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 12 1 0",
    ],
    "prometheus": [
        'd_bucket{path="/a",le="0.001"} 10\nd_bucket{path="/a",le="+Inf"} 100\n',
        'd_bucket{le="0.1"} 8 # {trace_id="a"} 0.05 1700000000\nd_bucket{le="+Inf"} 1e3\n',
    ],
    "pushed_samples": ["1000\n2000\n", "nonsense\n-5\n1500.5"],
    "knob_journal": [
        '{"key":"a","undo":[{"undo":"file","path":"/a","text":"1\\n"},{"undo":"link","snapshot":{}}]}\n'
        '{"key":"b","undo":[{"undo":"remove_group","path":"/quell"},'
        '{"undo":"move_process","pid":1,"start_ns":2,"procs":"/p"}]}\n',
        '{"key":"u","undo":[{"undo":"unit_property","unit":"a.service","property":"CPUWeight",'
        '"value":""},{"undo":"end_process","pid":3,"start_ns":4}]}',
    ],
    "file_store": ["{}\n{\"a\":1}\n{tor", "\n\r\n"],
    "recording": [
        SAMPLE,
        f'{{"record":"setup","setup":{SETUP}}}\n{{"record":"action","action":{ACTION}}}',
        f'{{"record":"sample","sample":{SAMPLE}}}',
    ],
    "decisions": [ENTRY, JUDGED],
    "json_records": [
        ACTION,
        SAMPLE,
        SETUP,
        '{"command":["true"],"tenant":"batch","directory":null,"retries":2}',
        '{"path":"/a","text":"b"}',
        '{"spec":{"service":"store"},"listen":"127.0.0.1:0","threads":1,"netns":null}',
        '{"link":"eth0","netns":null,"netns_inode":1,"ifindex":2,"root":{"by":"kernel",'
        '"kind":"mq"},"segments":{"gso_bytes":65536,"gso_ipv4_bytes":null}}',
    ],
    "http_answer": [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        "HTTP/1.1 100 Go\r\n\r\nHTTP/1.0 204 No\r\nConnection: close\r\n\r\n",
        "3;x=y\r\nabc\r\n0\r\nT: 1\r\n\r\n",
        "http://[::1]:80/x?y#z",
    ],
    "redis_answer": ["+OK\r\n", "$3\r\nabc\r\n", "-ERR no\r\n", "*2\r\n:1\r\n$-1\r\n", "_\r\n",
                     "keys=200000&value_bytes=1000&set_frac=0.1"],
    "memcached_answer": ["VALUE a 0 2\r\nhi\r\nEND\r\n", "STORED\r\n", "SERVER_ERROR out\r\n"],
    "pressure_words": ["70", "12.5%", "0:100", "llc-capacity", "spin", "memory-bandwidth"],
    "pressure_feed": ["MemAvailable:   123456 kB\n", "7f0000000000-7f0000200000 rw-p\nAnonHugePages:  2048 kB\n"],
    "metrics_page": ["GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.0\r\n\r\n", "POST / HTTP/1.1\r\n\r\n"],
}

# Targets whose seeds are fixture files as they are, by the ends of their paths.
FILES = {
    "cgroup_files": ["cpu.stat", "memory.stat", ".pressure", "cpu.max", "cgroup"],
    "mount_table": ["proc/mounts", "mountinfo"],
    "proc_files": ["proc/cpuinfo", "proc/meminfo", "proc/stat", "/stat", "/size"],
    "cpu_list": ["cpulist", "_list", "/online", "shared_cpu_map"],
    "schemata": ["schemata"],
    "netlink": [".bin"],
    "prometheus": [],
}

# Trees of which one file is damaged; the same lists as in the targets.
TREES = {
    "tree_topology": ("topology", ["firecracker-2cpu", "arm-server", "bare"]),
    "tree_cgroup": ("cgroup", ["container", "hybrid-split", "none", "v1-docker", "v2-systemd"]),
    "tree_resctrl": (
        "resctrl",
        ["amd-milan", "cdp-on", "intel-skx-full", "mba-mbps", "monitoring-only"],
    ),
    "tree_counters": (
        "counters",
        ["amd-pstate", "arm-cpufreq", "damaged", "intel-pstate", "vm-nothing"],
    ),
}

MOST_BYTES = 2000


def feed():
    """A feed of one thread that presses on the integer units."""
    return struct.pack("=8Q8Q", 1, 11, 7, 0, 0, 0, 0, 0, *range(1, 9))


def frame():
    """A request and a response of Quell's own services."""
    return struct.pack("<IQQ2sIQQQ2s", 18, 1, 2, b"hi", 26, 1, 3, 4, b"ok")


def text(words):
    """A text as libvirt has it."""
    return struct.pack(">I", len(words)) + words + b"\0" * (-len(words) % 4)


def libvirt():
    """An error, a machine, its parameters and a map of its CPUs, as libvirt answers."""
    machine = text(b"g1") + bytes(range(16)) + struct.pack(">i", 3)
    yield struct.pack(">iiI", 42, 10, 1) + text(b"no domain") + struct.pack(">i8I", 2, *[0] * 8)
    yield struct.pack(">I", 1) + machine
    quota = text(b"global_quota") + struct.pack(">Iq", 3, -1)
    yield struct.pack(">I", 2) + quota + text(b"cpu_shares") + struct.pack(">IQ", 4, 1024)
    yield text(bytes([3]) + bytes(255)) + struct.pack(">i", 1)
    yield struct.pack(">IIIiIII", 28, 0x20008086, 1, 66, 1, 1, 0)


def seeds():
    """Yields target and bytes."""
    for target, texts in TEXTS.items():
        for text in texts:
            yield target, text.encode()
    for target, ends in FILES.items():
        for path in sorted(FIXTURES.rglob("*")):
            if path.is_file() and any(str(path).endswith(end) for end in ends):
                yield target, path.read_bytes()[:MOST_BYTES]
    for target, (kind, names) in TREES.items():
        trees = [FIXTURES / kind / name for name in names]
        files = [path for tree in sorted(trees) for path in sorted(tree.rglob("*")) if path.is_file()]
        for number, path in enumerate(files):
            yield target, struct.pack("<H", number) + path.read_bytes()[:MOST_BYTES]
    for path in sorted((HERE.parent / "scenarios").glob("*.scenario")):
        yield "scenario", path.read_bytes()[:MOST_BYTES]
    for answer in libvirt():
        yield "libvirt_answer", answer
    yield "pressure_feed", feed()
    yield "service_wire", frame()
    yield "service_wire", b"r" + bytes(range(16))
    yield "way_masks", bytes(range(64))
    for path in sorted((HERE / "regressions").glob("*/*")):
        yield path.parent.name, path.read_bytes()


def main():
    """Replaces the seeds below the folder."""
    folder = pathlib.Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    for target in (HERE / "targets").glob("*.rs"):
        (folder / target.stem).mkdir(parents=True)
    for target, content in seeds():
        (folder / target / hashlib.sha1(content).hexdigest()).write_bytes(content)


if __name__ == "__main__":
    main()
