# guest: --kernel backports --timeout 900
# guest: --kernel stable --timeout 900
# The eBPF programs on this kernel: they load, meter requests, fill the run-queue histogram, and
# leave nothing attached.
. /lab/guest/check.sh

echo "kernel $(uname -r)"
check "the kernel tells its types" test -s /sys/kernel/btf/vmlinux
# Left out: what needs v1 groups or the sources, and what counts on a machine that is fast enough
# (in a slow guest TCP sends again what is late); ebpf-all runs these.
rust_tests /lab/tests/ebpf.kernel --test-threads 2 lifetime:: objects:: groups:: meter:: \
	--skip v1 --skip objects_are --skip large_requests --skip a_slow_client
done_checking
