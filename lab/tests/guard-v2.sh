# guest: --topology plain --timeout 900
# The agent on pure cgroup v2: it guards a redis beside a spinning batch group, and whatever way it
# ends, every file of every knob is as before, byte for byte. The one exception: kernels refuse to
# empty the CPU list of a group with processes, so that all CPUs may stand where nothing stood.
. /lab/guest/check.sh

groups="/sys/fs/cgroup/service /sys/fs/cgroup/batch"
state=/var/lib/quell-lab
all_cpus=$(cat /sys/fs/cgroup/cpuset.cpus.effective)

set_up() {
	echo "+cpu +cpuset +memory" >/sys/fs/cgroup/cgroup.subtree_control || return 1
	mkdir $groups || return 1
	# Values of somebody else, which must come back.
	echo 77 >/sys/fs/cgroup/batch/cpu.weight
	echo "150000 50000" >/sys/fs/cgroup/batch/cpu.max
	in_group service redis-server --port 7001 --save "" --bind 127.0.0.1
	in_group batch sh -c 'while :; do :; done'
	waits 60 redis-cli -p 7001 ping
}

in_group() {
	local group=$1
	shift
	sh -c "echo \$\$ >/sys/fs/cgroup/$group/cgroup.procs; exec \"\$@\"" sh "$@" >/dev/null 2>&1 &
}

# All that can be set in the groups, with its text.
knobs() {
	local group file text
	for group in $groups; do
		for file in cpu.max cpu.max.burst cpu.weight cpu.idle cpuset.cpus cpuset.mems \
			cpuset.cpus.partition cgroup.freeze memory.max memory.high; do
			text=$(cat $group/$file)
			if [ $file = cpuset.cpus ] && [ "$text" = "$all_cpus" ]; then
				text=
			fi
			echo "$group/$file $text"
		done
	done
}

changed() { [ "$(knobs)" != "$before" ]; }

start_guard() {
	"$quell" guard --service name=kv,cgroup=/service,p99=3ms,ports=7001 --batch cgroup=/batch \
		--law "$1" --state-dir "$state" --set agent.metrics=off >/out/guard.log 2>&1 &
	guard=$!
}

requests() {
	redis-benchmark -p 7001 -t get -n 2000 -c 2 -q
}

check "groups, a service and a spinner" set_up
before=$(knobs)

for law in os-only quell; do
	start_guard $law
	check "$law: it guards" waits 60 grep -q guarding /out/guard.log
	check "$law: requests are answered" requests
	check "$law: it changes knobs" waits 60 changed
	# Not within `check`, whose shell has no such child.
	kill -TERM $guard
	wait $guard
	check "$law: SIGTERM ends it well" equals $? 0
	check "$law: every knob is as before" equals "$(knobs)" "$before"
	cp /out/guard.log /out/guard-$law.log
done

start_guard os-only
check "again: it changes knobs" waits 60 changed
kill -KILL $guard
wait $guard 2>/dev/null
check "killed: knobs are left changed" changed
check "killed: quell restore" "$quell" restore --state-dir "$state"
check "killed: every knob is as before" equals "$(knobs)" "$before"
check "no group of ours is left" sh -c '! find /sys/fs/cgroup -name "quell*" | grep .'
done_checking
