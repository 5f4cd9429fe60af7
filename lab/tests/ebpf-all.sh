# guest: --kernel backports --timeout 1200
# guest: --kernel stable --timeout 1200
# only by name: takes minutes, and fails now and then where the guest is too slow for TCP.
# All eBPF tests that a guest can run.
. /lab/guest/check.sh

echo "kernel $(uname -r)"
# Left out: what needs v1 groups, veth pairs (the guests lack the module), or the sources.
rust_tests /lab/tests/ebpf.kernel --test-threads 2 --skip namespaces --skip v1 --skip objects_are
done_checking
