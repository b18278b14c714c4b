# make bill         install what is missing, build, and bill the unmap route on a real Xen and Linux
# make test         install what is missing, and run all tests; a few cases each of those below, or none
# make check        format, lints and unit tests: minutes
# make lint         rustfmt, clippy, rustdoc
# make deny         licences, sources and bans of dependencies, by cargo-deny
# make check-oldest build by the oldest compiler that Cargo.toml allows
# make check-publish package and build the libraries as crates.io would
# make test-arm64   build for arm64, run the unit tests below qemu-user, which has neither KVM nor userfaultfd
# make test-docs    run the long commands of README.md and docs/ as written: hours
# make test-python  checks and tests of the Python package, in a venv below target/ (CLUSTER=all|smoke|: which need Ray)
# make check-fixes  build the patched kernels and prove each fix: hours on two CPUs
# make conformance  compare the simulated Xen with the real one
# make fuzz         read 10^9 bytes by each reader of foreign files: half an hour and more (READER=bill BYTES=1000000)
# make faults       fail system calls of 1000 runs (N=1000 SEED=1 RUNS=lab,live)
# make kills        kill 1000 runs at random moments (N=1000 SEED=1 RUNS=lab,live)
# make signals      end every command by signals within a second: on a machine that does nothing else
# make power-cuts   cut the power of 100 file systems while the cache is written (N=100 SEED=1)
# make deb          a Debian package in dist/: program, manual pages, completions, documentation
# make static       a program in dist/ that runs on any Linux of this processor, without a library
# make wheel        the Python package, in dist/
# make man          manual pages and shell completions, in dist/
# make pictures     draw the pictures in docs/ from their bills
# make atlas        bill unmap, fork, pin and demand on all kernels of atlas/, draw dist/atlas.html: an hour
# make bench-engine time the simulator's engine against its peers
#
# ARGS is passed on: make bill ARGS='--kernel debian:trixie-backports --format md'

PAGETOLL = target/release/pagetoll
ARGS =
N =
SEED = 1
BYTES = 1000000000
READER =
ARM64 = aarch64-unknown-linux-gnu
STATIC = $(shell uname -m)-unknown-linux-gnu
ARM64_PACKAGES = qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross
VENV = $(CURDIR)/target/python-venv
CLUSTER = smoke
LIBRARIES = pagetoll-engine pagetoll-marks pagetoll-pager pagetoll-xentrace

.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help check deny check-oldest check-publish prerequisites atlas pictures bill check-fixes deb faults fuzz kills power-cuts signals test test-here test-guests test-packages tests test-arm64 \
	test-docs test-python wheel conformance python-venv setup static toolchain toolchain-arm64 build lint man bench-engine clean

help:
	@sed -n 's/^# \{0,1\}//p; /^$$/q' Makefile

bill: setup
	$(PAGETOLL) bill unmap $(ARGS)

# What needs no machine comes first; then real guests; then packages as the distribution has them now.
# With --keep-going, a failure of one does not hide what the next would have said.
test: test-here test-python test-guests test-packages

test-here: tests
	cargo test --workspace --no-fail-fast --lib --bins --test '[!hl]*' --test 'ho*'

test-guests: tests
	cargo test --workspace --no-fail-fast --test harm --test lab

test-packages: tests
	cargo test --workspace --test real_packages -- --ignored --test-threads=1

# All test programs, and what the lab needs: their own build of the program knows, and is optimised enough.
tests: toolchain
	cargo test --workspace --no-run
	target/debug/pagetoll doctor --install > /dev/null
	-target/debug/pagetoll doctor --install --arch arm64 > /dev/null

# Not a part of make test: qemu-user emulates the processor and no KVM, so that what needs KVM is skipped.
test-arm64: toolchain-arm64
	cargo build --target $(ARM64) -p pagetoll
	cargo test --target $(ARM64) --workspace --no-fail-fast --lib

test-arm64: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER = aarch64-linux-gnu-gcc
test-arm64: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER = qemu-aarch64 -L /usr/aarch64-linux-gnu

# Optimised, because models of hundreds of vCPUs are among the commands.
test-docs: setup
	cargo test --release -p pagetoll --test docs -- --ignored

# Builds kernels, and broken ones, and runs the fixes' checks on both.
check-fixes: setup
	@status=0; for fix in $$($(PAGETOLL) fix list | awk '$$1 ~ /@/ { print $$1 }'); do \
		echo "fix check $$fix"; $(PAGETOLL) fix check $$fix || status=$$?; \
	done; exit $$status

fuzz: toolchain
	BYTES=$(BYTES) fuzz/run $(READER)

kills: tests
	KILLS=$(or $(N),1000) FAULTS=0 SEED=$(SEED) cargo test --workspace --test harm

faults: tests
	KILLS=0 FAULTS=$(or $(N),1000) SEED=$(SEED) cargo test --workspace --test harm

signals: tests
	WITHIN_MS=1000 cargo test --workspace --test signals -- --nocapture

power-cuts: tests
	POWER_CUTS=$(or $(N),100) SEED=$(SEED) cargo test --workspace --test power_cut -- --nocapture

# Asks the simulated and the real Xen the same, case by case.
conformance: setup
	$(PAGETOLL) conformance $(ARGS)

# The program itself knows what the lab needs, and installs it where it may.
setup: prerequisites build
	@$(PAGETOLL) doctor --install > /dev/null || { $(PAGETOLL) doctor; exit 3; }

# In the first second, and not after a build.
prerequisites:
	@packaging/prerequisites

build: toolchain
	cargo build --release -p pagetoll

# What is needed before the program can name the rest.
toolchain:
	@command -v cargo > /dev/null || { \
		echo "cargo is not installed: get Rust 1.88 or later from https://rustup.rs" >&2; exit 3; }
	@command -v cc > /dev/null || { \
		if [ "$$(id -u)" = 0 ]; then apt-get update && apt-get install --yes gcc libc6-dev; \
		elif sudo -n true 2> /dev/null; then sudo apt-get update && sudo apt-get install --yes gcc libc6-dev; \
		else echo "no C compiler: run sudo apt-get install gcc libc6-dev" >&2; exit 3; fi; }

toolchain-arm64: toolchain
	@test -d "$$(rustc --print target-libdir --target $(ARM64))" || { \
		if command -v rustup > /dev/null; then rustup target add $(ARM64); \
		else echo "no Rust for $(ARM64): get it from https://rustup.rs and run rustup target add $(ARM64)" >&2; exit 3; fi; }
	@command -v qemu-aarch64 > /dev/null && command -v aarch64-linux-gnu-gcc > /dev/null \
		&& test -e /usr/aarch64-linux-gnu/lib/libc.a || { \
		if [ "$$(id -u)" = 0 ]; then apt-get update && apt-get install --yes $(ARM64_PACKAGES); \
		elif sudo -n true 2> /dev/null; then sudo apt-get update && sudo apt-get install --yes $(ARM64_PACKAGES); \
		else echo "no emulator or compiler of arm64: run sudo apt-get install $(ARM64_PACKAGES)" >&2; exit 3; fi; }

check: toolchain
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo test --workspace --lib

deny: toolchain
	@command -v cargo-deny > /dev/null || cargo install cargo-deny --locked
	cargo deny check bans licenses sources

check-oldest: toolchain
	version=$$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml) && rustup toolchain install --profile minimal "$$version" \
		&& cargo "+$$version" check --workspace --target-dir target/oldest

check-publish: toolchain
	for library in $(LIBRARIES); do cargo publish --dry-run -p "$$library" || exit; done

lint: toolchain
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps

man: build
	mkdir -p dist
	$(PAGETOLL) man --folder dist
	$(PAGETOLL) completions bash > dist/pagetoll.bash
	$(PAGETOLL) completions zsh > dist/_pagetoll
	$(PAGETOLL) completions fish > dist/pagetoll.fish

deb: man
	@command -v cargo-deb > /dev/null || cargo install cargo-deb --locked
	cargo deb --no-build -p pagetoll --output dist/

# A target that is named is built apart from this machine's own programs, which build scripts are.
static: toolchain
	RUSTFLAGS='-C target-feature=+crt-static -C relocation-model=static' \
		cargo build --release -p pagetoll --target $(STATIC) --target-dir target/static
	mkdir -p dist
	cp target/static/$(STATIC)/release/pagetoll dist/pagetoll-$(STATIC)

wheel: python-venv
	$(VENV)/bin/pip install --quiet build
	$(VENV)/bin/python -m build --wheel --outdir dist python

# Without venvs or a package index there is nothing to test with: that is no failure of the package. Nor is a Python for
# which there is no Ray.
test-python:
	@install() { $(VENV)/bin/pip install --quiet --retries 1 --editable "python[$$1]"; }; \
	if ! { test -x $(VENV)/bin/pip || python3 -m venv $(VENV); } > /dev/null 2>&1; then \
		echo "skipped: make test-python: no Python venv can be made: run sudo apt-get install python3-venv" >&2; \
	elif { test -n "$(CLUSTER)" && install test,ray; } || install test; then \
		cd python && $(VENV)/bin/ruff check && $(VENV)/bin/ruff format --check && $(VENV)/bin/mypy \
			&& $(VENV)/bin/pytest -m "$(MARKS_$(CLUSTER))" $(ARGS); \
	else echo "skipped: make test-python: its tools cannot be installed, see above" >&2; fi

# What pytest selects.
MARKS_ = not cluster
MARKS_smoke = not cluster or smoke
MARKS_all =

python-venv:
	@test -x $(VENV)/bin/pip || python3 -m venv $(VENV) || { \
		echo "no Python venv: run sudo apt-get install python3-venv" >&2; exit 3; }

# Bills that are in the store already are not made again.
atlas: setup
	for route in pin demand unmap; do $(PAGETOLL) sweep atlas/$$route.toml --store atlas/store || exit; done
	mkdir -p dist
	$(PAGETOLL) report --over kernel --tolerance 1 --output dist/atlas.html atlas/store

pictures: build
	$(PAGETOLL) report --format svg docs/bill.json > docs/bill.svg
	$(PAGETOLL) report --format svg --over vcpus docs/demand.json > docs/demand.svg

bench-engine: toolchain
	cargo bench -p pagetoll-engine --bench ev3
	cargo run --release --manifest-path crates/engine/bench-peers/Cargo.toml

clean:
	cargo clean
	rm -rf dist
