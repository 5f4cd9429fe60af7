# guest: --init systemd --root machines --timeout 1200
# guest: --init systemd --root machines-next --timeout 1200
# A machine of a real libvirt on pure cgroup v2, where systemd has it in machine.slice: found by its
# name, limited through libvirt, as before after a stop and after a death; a CPU that is plugged in
# meanwhile is limited too, and a machine that goes away is no error. Once with Debian's own libvirt,
# once with a later one. The machine has nothing to boot: its firmware runs, emulated in the emulated.
. /lab/guest/check.sh

name=quell-lab
state=/var/lib/quell-lab
virsh="virsh -q -c qemu:///system"

set_up() {
	mkdir -p /etc/libvirt
	cat >/etc/libvirt/qemu.conf <<-'END'
		user = "root"
		group = "root"
		dynamic_ownership = 0
		remember_owner = 0
		security_driver = "none"
		namespaces = []
		stdio_handler = "file"
	END
	printf 'auth_unix_rw = "none"\nauth_unix_ro = "none"\n' >/etc/libvirt/libvirtd.conf
	cat >/run/machine.xml <<-END
		<domain type='qemu'><name>$name</name><memory unit='MiB'>32</memory>
		<vcpu placement='static' current='2'>3</vcpu>
		<cputune><vcpupin vcpu='1' cpuset='1'/></cputune>
		<os><type arch='x86_64' machine='pc'>hvm</type></os><features><acpi/></features>
		<cpu mode='maximum'><feature policy='disable' name='cx16'/></cpu>
		<devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
		<memballoon model='none'/><controller type='usb' model='none'/></devices></domain>
	END
	systemctl start dbus.socket dbus.service || return 1
	systemd-run --quiet --unit kv redis-server --port 7001 --save "" &&
		waits 60 redis-cli -p 7001 ping || return 1
	libvirtd -d
	# It asks the emulator for all that it can do before it answers.
	waits 120 $virsh list
}

boot() {
	$virsh create /run/machine.xml || return 1
	pid=$(cat /run/libvirt/qemu/$name.pid)
	within=$(cut -d: -f3- "/proc/$pid/cgroup")
	group=/sys/fs/cgroup${within%/emulator}
}

in_machine_slice() {
	[[ $within == /machine.slice/machine-qemu*.scope/libvirt/emulator ]] || {
		echo "it is in $within"
		return 1
	}
}

vcpupin() { $virsh vcpupin $name --vcpu "$1" | awk '{ print $2 }'; }

# All that is limited, as libvirt and the kernel have it.
limits() {
	local file thread
	$virsh schedinfo $name | grep global
	$virsh vcpupin $name
	$virsh emulatorpin $name
	for file in $(find "$group" -name cpu.max -o -name cpu.idle -o -name cpu.weight \
		-o -name cpuset.cpus.effective); do
		echo "$file $(cat "$file")"
	done
	for thread in "/proc/$pid/task/"*; do
		echo "$(cat "$thread/comm") $(grep Cpus_allowed_list "$thread/status")"
	done | grep CPU | sort
}

limited() {
	local said
	said=$($virsh schedinfo $name | awk '/global_(period|quota)/ { print $3 }' | xargs)
	[ "$said $(vcpupin 0) $(vcpupin 1)" = "10000 5000 0 0" ] &&
		[ "$(cat "$group/cpu.max")" = "5000 10000" ]
}

start_guard() {
	"$quell" guard --service name=kv,unit=kv.service,p99=20ms,ports=7001 --batch vm=$name \
		--law static --set law.static.batch_cpu_count=1 --set law.static.batch_limit_cpus=0.5 \
		--set agent.metrics=off --state-dir $state --status-json /run/quell.json \
		>>/out/guard.log 2>&1 &
	guard=$!
}

# Its status is the guard's.
stop_guard() {
	kill "-$1" $guard
	wait $guard 2>/dev/null
}

samples() { jq .samples /run/quell.json; }
samples_beyond() { [ "$(samples)" -gt "$1" ]; }
goes_on() { waits 120 samples_beyond $(($(samples) + 5)); }

# What `quell restore` says of itself fits.
restored() {
	"$quell" restore --json --state-dir $state >/out/restored.json || return 1
	jq -e "$1" /out/restored.json
}

doctor() {
	"$quell" doctor --json >/out/doctor.json || return 1
	jq -e '.capabilities[] | select(.kind == "libvirt") | .state == "native" and
		(.detail | contains("1 machine runs"))' /out/doctor.json
}

check "$(libvirtd --version) answers" set_up
# Not within `check`, whose shell forgets where it is.
boot
check "a machine starts" equals $? 0
check "systemd has the machine in machine.slice" in_machine_slice
check "doctor tells of it" doctor
before=$(limits)

start_guard
check "it is limited through libvirt" waits 120 limited
systemctl daemon-reload
check "systemd reloads: it is limited again" waits 120 limited
stop_guard TERM
check "SIGTERM ends the guard well" equals $? 0
check "all is as before" equals "$(limits)" "$before"

start_guard
check "again: it is limited" waits 120 limited
stop_guard KILL
check "killed: it is still limited" limited
check "killed: quell restore" restored '.failed == [] and .restored > 0'
check "killed: all is as before" equals "$(limits)" "$before"

pins=$($virsh vcpupin $name)
start_guard
check "once more: it is limited" waits 120 limited
check "a CPU is plugged in" $virsh setvcpus $name 3 --live
check "it is limited as soon as it is there" equals "$(vcpupin 2)" 0
$virsh destroy $name
check "the machine goes away: the guard goes on" goes_on
boot
check "it comes again" equals $? 0
check "it comes again: it is limited" waits 120 limited
stop_guard TERM
check "SIGTERM ends the guard well again" equals $? 0
check "what came again is as it began" equals "$($virsh vcpupin $name)" "$pins"

start_guard
check "the last time: it is limited" waits 120 limited
stop_guard KILL
$virsh destroy $name
check "both gone: quell restore" restored '.failed == []'
check "nothing is left to put back" restored '.restored == 0 and .failed == []'
cp -r /var/log/libvirt /out/libvirt 2>/dev/null
done_checking
