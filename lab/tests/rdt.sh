# guest: --topology square --kernel backports --rdt server --timeout 900
# guest: --topology square --kernel next --rdt small --timeout 900
# guest: --topology many --kernel next --rdt server --timeout 1200
# guest: --topology many --kernel backports --rdt small --timeout 1200
# guest: --topology plain --kernel backports --rdt monitor --timeout 900
# resctrl of the kernel itself, with 4 and 36 caches: what is written is what the processor is
# told, what it counts is what is read, and what the kernel refuses comes back with its reason.
. /lab/guest/check.sh

echo "kernel $(uname -r), $(nproc) CPUs"
check "the processor has it" grep -qw resctrl /proc/filesystems
export QUELL_LAB_OUTSIDE=/dev/vport0p2
rust_tests /lab/tests/resctrl.real --test-threads 1
check "nothing is mounted" sh -c '! grep -q resctrl /proc/mounts'
check "the processor took every write" sh -c '! dmesg | grep "unchecked MSR"'
done_checking
