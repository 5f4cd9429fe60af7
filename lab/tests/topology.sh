# guest: --topology plain --timeout 600
# guest: --topology smt --timeout 600
# guest: --topology square --timeout 600
# What `quell doctor` says of a machine's shape is what the machine is.
. /lab/guest/check.sh

said() { jq -cr "$1" /out/doctor.json; }

"$quell" doctor --json >/out/doctor.json
check "it answers in JSON" jq -e . /out/doctor.json
case $(nproc)-$(ls -d /sys/devices/system/node/node* | wc -l) in
4-1)
	sockets=1 cores=4 nodes=1 distances='[[10]]' ;;
8-2)
	sockets=2 cores=4 nodes=2 distances='[[10,21],[21,10]]' ;;
8-4)
	sockets=4 cores=8 nodes=4 distances='[[10,21,21,31],[21,10,31,21],[21,31,10,21],[31,21,21,10]]' ;;
esac
check "CPUs" equals "$(said '.topology.cpus | length')" "$(nproc)"
check "sockets" equals "$(said '[.topology.cpus[].socket] | unique | length')" "$sockets"
check "cores" equals "$(said '[.topology.cpus[] | [.socket, .core]] | unique | length')" "$cores"
check "nodes" equals "$(said '.topology.nodes | length')" "$nodes"
check "distances" equals "$(said '[.topology.nodes[].distances]')" "$distances"
check "one last-level cache a socket" equals "$(said '.topology.llc | length')" "$sockets"
done_checking
