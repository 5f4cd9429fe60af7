# The commands of the README. Each does everything it needs, Debian packages included; they need
# root or sudo, since Quell controls the machine.
#
#   make demo         the main job on an embedded example, in about three minutes
#   make test         all tests, emulated machines included
#   make check        format, lints, layers, house rules, documentation, licences, FMA
#   make bench        all measurements: costs, deaths by SIGKILL, the full comparison (hours)
#   make fuzz         every reader of text or bytes against made-up inputs (SECONDS=30 each)
#
# ARGS is passed on: make demo ARGS="--seconds 20".

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

CARGO ?= cargo
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo -E)
BUILT := $(or $(CARGO_TARGET_DIR),target)
QUELL := $(BUILT)/release/quell
# Tests run as root, but are built as whoever calls make.
RUNNER := $(if $(SUDO),--config 'target."cfg(unix)".runner = "$(SUDO)"')
XTASK := $(CARGO) run --quiet --package xtask --

# What takes long to build is kept here.
CACHE := .cache
DENY_VERSION := 0.20.2
DENY := $(CACHE)/tools/cargo-deny-$(DENY_VERSION)/bin/cargo-deny

.PHONY: help setup setup-run setup-lab demo test test-lab fuzz check fmt lint house fma doc deny bench clean-cache

help:
	@sed -n '/^#   make/s/^# *//p' Makefile

# -- what must be there ---------------------------------------------------------------------------

setup-run:
	@.ci/setup run

setup:
	@.ci/setup test

setup-lab:
	@.ci/setup lab

$(QUELL): setup-run FORCE
	$(CARGO) build --release --package quell

FORCE:

# -- the main job ---------------------------------------------------------------------------------

demo: $(QUELL)
	$(SUDO) $(QUELL) demo --report demo-report $(ARGS)

# Everything that SPECIFICATION.md has a bench for; the comparison comes last, since it takes longest.
bench: $(QUELL) setup
	$(CARGO) $(RUNNER) run --release --package quell-ebpf --example cost -- 20
	$(CARGO) $(RUNNER) run --release --package quell-linux --example sampling_cost
	$(CARGO) $(RUNNER) run --release --package quell-egress --example inflation
	$(SUDO) $(QUELL) bench signal --json bench-signal.json
	$(SUDO) $(QUELL) bench signal --halting --json bench-signal-halting.json
	$(SUDO) $(QUELL) pressure validate --parts linearity,timing --report bench-pressure
	$(SUDO) $(QUELL) pressure validate --parts linearity --only network-bandwidth --link-mbit 1000 --report bench-link
	$(SUDO) $(QUELL) pressure validate --parts impact,crosstalk --rounds 3 --report bench-crosstalk
	$(SUDO) $(QUELL) matrix search --report bench-matrix-search
	$(SUDO) $(QUELL) matrix store --report bench-matrix-store
	sh docs/experiments/prediction-inputs.sh /tmp/quell-inputs
	$(SUDO) $(QUELL) profile --quick -- gzip -c -1 /tmp/quell-inputs/some.txt
	$(SUDO) $(QUELL) profile -- gzip -c -1 /tmp/quell-inputs/some.txt
	$(SUDO) $(QUELL) predict --check docs/experiments/prediction-programs.txt --rounds 4 --json bench-predict.json
	$(SUDO) $(QUELL) trial polluter --trials 60 --json bench-trial.json
	$(SUDO) $(QUELL) trial polluter --trials 60 --harm none --json bench-trial-none.json
	QUELL_KILL_ROUNDS=100 $(CARGO) $(RUNNER) test --package quell --test guard -- deaths
	$(SUDO) $(QUELL) bench guard $(ARGS)

# -- tests ----------------------------------------------------------------------------------------

test: export CARGO := $(CARGO)
test: export RUNNER := $(RUNNER)
test: setup
	.ci/tests $(ARGS)
	$(MAKE) test-lab

# Emulated machines (QEMU): what this machine cannot show. Needs no root.
# LAB_TESTS names some of them.
test-lab: setup-lab
	lab/test $(CACHE)/lab $(LAB_TESTS)

# Coverage-guided, outside the workspace: fuzz/README.md. Needs no root.
fuzz: setup
	fuzz/run $(or $(SECONDS),30)

# -- checks ---------------------------------------------------------------------------------------

check: setup fmt lint house fma doc deny

fmt:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings

house:
	$(XTASK) layers
	$(XTASK) tidy
	$(XTASK) bpf
	$(CARGO) metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null

# Journals do not depend on whether the CPU can multiply and add in one step.
fma:
	$(XTASK) fma

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet

# Advisories are left out: their database is not to be had everywhere.
deny: $(DENY)
	$(DENY) --log-level error check licenses bans sources

# Built without optimisation, which is faster to build and fast enough to run.
$(DENY):
	$(CARGO) install cargo-deny --version $(DENY_VERSION) --locked --debug --quiet \
		--config profile.dev.debug=false \
		--root $(CACHE)/tools/cargo-deny-$(DENY_VERSION) --target-dir $(CACHE)/tools/build
	rm -rf $(CACHE)/tools/build

clean-cache:
	rm -rf $(CACHE)
