#!/bin/sh
# Builds the BPF objects from their sources, bit for bit the same wherever it runs:
#   build.sh [folder]      (default: this folder)
# Needs Debian's clang-14 and llvm-14. Prints the objects' sha256 and writes it beside them.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$(mkdir -p "${1:-$here}" && cd "${1:-$here}" && pwd)
cd "$here"
for source in packets runqueue contention slot_test; do
	object="$source.bpf.o"
	clang-14 -target bpf -mcpu=v3 -O2 -g -Wall -Werror -nostdinc \
		-fno-ident -ffile-prefix-map="$here"=. -c "$source.bpf.c" -o "$out/$object"
	llvm-strip-14 -g "$out/$object"
	(cd "$out" && sha256sum "$object" | tee "$object.sha256")
done
