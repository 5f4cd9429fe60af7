# guest: --init systemd --timeout 900
# Groups and limits where systemd is process 1 and owns the tree.
. /lab/guest/check.sh

check "systemd is process 1" equals "$(cat /proc/1/comm)" systemd
check "all units are well" equals "$(systemctl is-system-running --wait)" running
rust_tests /lab/tests/cgroup.systemd
rust_tests /lab/tests/cgroup.real --test-threads 2
check "no group is left behind" sh -c '! ls -d /sys/fs/cgroup/quell* 2>/dev/null'
check "all units are still well" equals "$(systemctl is-system-running)" running
done_checking
