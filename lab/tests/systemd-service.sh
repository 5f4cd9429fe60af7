# guest: --init systemd --timeout 900
# Quell as a service of systemd: READY, limits through systemd that outlive a daemon-reload, the
# watchdog, and a stop that restores.
. /lab/guest/check.sh

units=/run/systemd/system

set_up() {
	mkdir -p /usr/local/bin $units
	cp "$quell" /usr/local/bin/quell
	cp /lab/files/quell.service $units/
	printf '[Service]\nExecStart=/usr/bin/redis-server --port 7001 --save ""\n' >$units/kv.service
	printf '[Service]\nExecStart=/bin/sh -c "while :; do :; done"\nSlice=jobs.slice\n' \
		>$units/spinner.service
	printf '[Slice]\nCPUWeight=77\n' >$units/jobs.slice
	cat >/etc/quell.toml <<'T'
[agent]
metrics = "off"
law = "os-only"

[[service]]
unit = "kv.service"
p99 = "3ms"
ports = [7001]

[[batch]]
unit = "jobs.slice"
T
	systemctl daemon-reload && systemctl start kv.service spinner.service &&
		waits 60 redis-cli -p 7001 ping
}

limits() {
	systemctl show jobs.slice kv.service -p CPUWeight -p CPUQuotaPerSecUSec -p AllowedCPUs
	cat /sys/fs/cgroup/jobs.slice/cpu.{weight,idle,max}
}

held_still() { [ "$(limits)" = "$held" ]; }

# All that the agent wanted is there: nothing changed for two seconds.
settled() {
	local seen
	seen=$(limits)
	sleep 2
	[ "$(limits)" = "$seen" ]
}

changed() { [ "$(limits)" != "$before" ]; }
pid() { systemctl show quell.service -p MainPID --value; }
another_pid() { [ "$(pid)" != "$1" ] && [ "$(systemctl is-active quell)" = active ]; }

check "units of a service and of batch" set_up
before=$(limits)
check "systemctl start quell: it says that it is ready" systemctl start quell
check "it is active" equals "$(systemctl is-active quell)" active
check "limits change" waits 60 changed
check "limits settle" waits 60 settled
held=$(limits)
systemctl daemon-reload
# What systemd does not know of (the idle class) it may reset; the agent puts it right.
check "limits outlive a daemon-reload" waits 60 held_still
first=$(pid)
kill -STOP "$first"
check "the watchdog starts a stuck agent anew" waits 120 another_pid "$first"
put_back() { journalctl -u quell --no-pager -q | grep -q 'changes taken back'; }
check "what the stuck one had changed was put back before" waits 60 put_back
check "limits change again" waits 60 changed
check "systemctl stop quell" systemctl stop quell
check "a stop restores" equals "$(limits)" "$before"
check "the service still runs" redis-cli -p 7001 ping
journalctl -u quell --no-pager -q >/out/quell.log
done_checking
