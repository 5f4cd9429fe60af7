# guest: --topology square --kernel backports --rdt server --timeout 1800
# guest: --topology square --kernel next --rdt small --timeout 1800
# The agent on a machine whose caches can be divided: ways and bandwidth of its laws reach the
# processor, what the processor counts reaches its laws, and whatever way it ends, resctrl and the
# registers are as before.
. /lab/guest/check.sh
exec 9<>/dev/vport0p2

tree=/sys/fs/resctrl
state=/var/lib/quell-lab
domains="0 1 2 3"
offers=$(outside offers)
free=$(($(sed 's/.*l3_classes=\([0-9]*\).*/\1/' <<<"$offers") - 2))
scale=$(sed 's/.*scale=\([0-9]*\).*/\1/' <<<"$offers")

set_up() {
	echo "+cpu +cpuset +memory" >/sys/fs/cgroup/cgroup.subtree_control || return 1
	mkdir /sys/fs/cgroup/{service,batch,more} || return 1
	in_group service redis-server --port 7001 --save "" --bind 127.0.0.1
	in_group batch sh -c 'while :; do :; done'
	in_group more sleep 100000
	waits 60 redis-cli -p 7001 ping
}

in_group() {
	local group=$1
	shift
	sh -c "echo \$\$ >/sys/fs/cgroup/$group/cgroup.procs; exec \"\$@\"" sh "$@" >/dev/null 2>&1 &
}

# Somebody else's group, which must stay as it is.
research() {
	mount -t resctrl resctrl $tree && mkdir $tree/research &&
		echo "L3:0=3;1=3" >$tree/research/schemata && echo "MB:2=40" >$tree/research/schemata
}

groups() { find $tree -mindepth 1 -maxdepth 2 -type d -name 'quell*' | sort; }
# All that is allotted to others, by file and in the processor (the default class and research's).
found() {
	cat $tree/schemata $tree/research/schemata $tree/cpus_list
	registers 0 1
}

registers() {
	local domain slot
	for domain in $domains; do
		for slot in "$@"; do
			echo "$domain $slot $(outside l3 "$domain" "$slot") $(outside mba "$domain" "$slot")"
		done
	done
}

# A group's value in a domain, as the processor says it: value GROUP L3|MB DOMAIN
value() {
	sed -n "s/^ *$2:\(.*;\)\{0,1\}$3= *0*\([0-9a-f][0-9a-f]*\).*/\2/p" "$tree/$1/schemata"
}

# Whether a class of the processor has, in every domain, what the group's schemata says.
is_class() {
	local domain percent
	for domain in $domains; do
		percent=$(value "$1" MB "$domain")
		[ "$(outside l3 "$domain" "$2")" = "$(value "$1" L3 "$domain")" ] &&
			[ "$(outside mba "$domain" "$2")" = $((100 - ${percent:-0})) ] || return 1
	done
}

programmed() {
	local slot
	for slot in 2 3 4 5; do
		is_class "$1" $slot && return
	done
	return 1
}

# Batch may not fill all ways of a cache: held_back [DOMAIN]
held_back() {
	local mask
	mask=$(value quell-batch L3 "${1:-0}") && [ -n "$mask" ] &&
		[ "$mask" != "$(value . L3 "${1:-0}")" ]
}

throttled() {
	local percent
	percent=$(value quell-batch MB 0) && [ "$percent" -lt 100 ]
}

# Takes the CPUs of the last cache offline (0) or online (1).
last_cache() {
	local cpu
	for cpu in 6 7; do
		echo "$1" >/sys/devices/system/cpu/cpu$cpu/online
	done
}

# The spinner's CPU works for a class of ours.
spinner_is_in_class() {
	local pid cpu
	pid=$(cat /sys/fs/cgroup/batch/cgroup.procs)
	cpu=$(awk '{ print $39 }' "/proc/$pid/stat")
	[ "$(outside pqr "$cpu" | cut -d' ' -f1)" -gt 1 ]
}

# From now on each group that is made moves 256 MiB a second.
groups_move() {
	local rmid
	for rmid in 2 3 4 5 6 7; do
		outside flow 0 $rmid total "$(printf %x $((268435456 / scale)))" || return 1
	done
}

# What law heracles said it moved when it gave batch a way, in bytes per second.
told_traffic() {
	jq -r '.. | objects | select(.rule? == "grow-llc") | .inputs[]
		| select(.name == "memory_batch_bytes_per_s") | .value' $state/decisions.jsonl |
		awk '$1 > 0 { print; found = 1; exit } END { exit !found }'
}

# A profile's model of a service's traffic, by ways and load.
models_traffic() {
	"$quell" profile --service store --rate 20 --peak 80 --only network-bandwidth \
		--json /out/profile.json >/out/profile.log 2>&1 &&
		jq -e '.bandwidth | (.counted_by | test("resctrl"))
			and ([.points[].ways] | unique | length >= 2)
			and ([.points[].load_frac] | unique | length == 5)
			and ([.points[].bytes_per_s.value] | max > 0)' /out/profile.json
}

start_guard() {
	"$quell" guard --service name=kv,cgroup=/service,p99=10s,ports=7001 \
		--batch cgroup=/batch --batch cgroup=/more --state-dir "$state" \
		--set agent.metrics=off "$@" >/out/guard.log 2>&1 &
	guard=$!
}

end_guard() {
	kill "-$1" $guard
	wait $guard 2>/dev/null
}

working_for_nobody() {
	local cpu
	for cpu in 0 1 2 3 4 5 6 7; do
		[ "$(outside pqr $cpu | cut -d' ' -f1)" -le 1 ] || return 1
	done
}

check "groups, a service and a spinner" set_up
while redis-benchmark -p 7001 -t get -n 200 -c 1 -q; do sleep 0.2; done >/dev/null 2>&1 &
"$quell" doctor --json >/out/doctor-before.json
check "doctor: not mounted" grep -q "supported but not mounted" /out/doctor-before.json
check "somebody mounts it and has a group" research
outside count 0 0 total $(printf %x $((5 * 1073741824 / scale))) >/dev/null
"$quell" doctor --json >/out/doctor.json
check "doctor: ways, bandwidth, counters" equals "$(jq -r '.capabilities[]
	| select(.kind == "resctrl_cat" or .kind == "resctrl_mba" or .kind == "resctrl_monitoring")
	| .state' /out/doctor.json | sort -u)" native
check "doctor: what the processor counted" grep -q "5120 MiB moved so far" /out/doctor.json
check "what the processor counts grows" groups_move
before=$(found)
check "profile: a service's traffic by load and ways" waits 120 models_traffic
check "profile: leaves no group" equals "$(groups)" ""
check "profile: all is as before, in the processor too" equals "$(found)" "$before"

start_guard --law heracles --set law.heracles.top_period_s=2
check "heracles: it guards" waits 90 grep -q guarding /out/guard.log
check "heracles: batch is held to its ways" waits 90 held_back
check "heracles: so is it in the processor" waits 60 programmed quell-batch
check "heracles: the spinner's CPU works for its class" waits 60 spinner_is_in_class
check "heracles: what batch moves reaches the law" waits 120 told_traffic
told=$(told_traffic)
check "heracles: it is what two groups moved, $told" awk \
	"BEGIN { exit !($told > 268435456 && $told < 4 * 268435456) }"
if [ "$free" -lt 3 ]; then
	check "classes are few: batch has them" test -d $tree/quell-more
	check "the service is counted apart" test -d $tree/mon_groups/quell-kv
	check "and it is said" grep -q "no class of service is left for kv" $state/decisions.jsonl
else
	check "the service has a class" test -d $tree/quell-kv
fi
end_guard TERM
check "heracles: SIGTERM leaves no group" equals "$(groups)" ""
check "heracles: all is as before, in the processor too" equals "$(found)" "$before"
check "heracles: no CPU works for a class that is gone" waits 60 working_for_nobody
cp /out/guard.log /out/guard-heracles.log

start_guard --law quell --set law.quell.start_trust=0.2
check "quell: batch is held to its ways" waits 90 held_back
check "quell: its bandwidth is throttled" waits 60 throttled
check "quell: so is it in the processor" waits 60 programmed quell-batch
last_cache 0
check "quell: a cache goes with its CPUs" equals "$(value quell-batch L3 3)" ""
last_cache 1
check "quell: it comes back, and batch is held there again" waits 90 held_back 3
check "quell: in the processor as well" waits 60 programmed quell-batch
end_guard KILL
check "killed: its groups are left" test -d $tree/quell-batch
check "killed: quell restore" "$quell" restore --state-dir "$state"
check "killed: no group is left" equals "$(groups)" ""
check "killed: all is as before, in the processor too" equals "$(found)" "$before"
check "killed: no CPU works for a class that is gone" waits 60 working_for_nobody
cp /out/guard.log /out/guard-quell.log

check "nobody has it mounted any more" umount $tree
before=$(registers 0 1 2 3)
for signal in TERM KILL; do
	start_guard --law quell --set agent.mount_resctrl=true
	check "it mounts resctrl itself" waits 90 held_back
	end_guard $signal
	[ $signal = TERM ] || check "killed: quell restore" "$quell" restore --state-dir "$state"
	check "$signal: nothing is mounted" sh -c '! grep -q " resctrl " /proc/mounts'
	check "$signal: every register is as before" equals "$(registers 0 1 2 3)" "$before"
done
check "the processor took every write" sh -c '! dmesg | grep "unchecked MSR"'
done_checking
