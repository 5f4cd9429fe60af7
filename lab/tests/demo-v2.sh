# guest: --topology plain --timeout 1800
# The demo on pure cgroup v2: one that SIGKILL ends leaves groups and processes, which `quell
# restore` takes away, and one that runs to its end leaves nothing.
. /lab/guest/check.sh

figures=/out/demo.json
# Not searched: where the host stands still now and then, no rate is one that lasts.
peak=5

demo() {
	"$quell" demo --service store --peak $peak --loads 0.4 --laws "$1" --seconds "$2" --no-network \
		--json "$figures" >"/out/demo-$2.log" 2>&1 &
	demo=$!
}

groups() { find /sys/fs/cgroup -mindepth 1 -type d -name 'quell*'; }
helpers() { grep -l "quell-demo-$demo/" /proc/[0-9]*/cmdline 2>/dev/null; }
no_helper() { [ -z "$(helpers)" ]; }
batch_works() { grep -q . "/sys/fs/cgroup/quell-demo-$demo/quell-batch-llc/cgroup.procs"; }
figure() { sed -n "s/^ *\"$1\": *\([^,]*\),*$/\1/p" "$figures" | head -n 1; }

# Batch works only once an agent runs it.
demo none,quell 60
check "a demo: batch works" waits 400 batch_works
kill -KILL $demo
wait $demo 2>/dev/null
check "killed: its groups are left" sh -c "find /sys/fs/cgroup -name 'quell*' | grep -q ."
check "killed: quell restore" "$quell" restore --state-dir /var/lib/quell-lab
check "killed: no group is left" equals "$(groups)" ""
check "killed: no helper is left" waits 10 no_helper
check "killed: its folder is gone" test ! -e "/run/quell-demo-$demo"

demo alone,quell 12
wait $demo
check "another: runs to its end" equals $? 0
check "another: knobs are as before" equals "$(figure knobs_restored)" true
check "another: law quell let batch work" sh -c \
	"grep batch_work_frac $figures | grep -vq ' 0\.0*,'"
check "another: no group is left" equals "$(groups)" ""
done_checking
