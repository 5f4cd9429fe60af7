# guest: --topology plain --timeout 900
# Knobs on pure cgroup v2: cpu.max, cpu.weight, cpu.idle, cpuset with its partitions, freezer.
. /lab/guest/check.sh

check "only v2 is mounted" sh -c '! grep -q " cgroup " /proc/mounts'
check "no group of ours before" sh -c '! ls -d /sys/fs/cgroup/quell* 2>/dev/null'
rust_tests /lab/tests/cgroup.real --test-threads 2
check "no group is left behind" sh -c '! ls -d /sys/fs/cgroup/quell* 2>/dev/null'
done_checking
