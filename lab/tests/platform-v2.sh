# guest: --topology plain --timeout 900
# The server as a platform on pure cgroup v2: the conformance suite, tasks, experiments, journal,
# and the meter on a redis.
. /lab/guest/check.sh

rust_tests /lab/tests/linux.real --test-threads 2
check "no group is left behind" sh -c '! ls -d /sys/fs/cgroup/quell* 2>/dev/null'
check "no process is left behind" sh -c '! pgrep -x "redis-server|sleep"'
done_checking
