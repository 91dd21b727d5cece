# The only entry points a newcomer needs. Every target installs what it lacks (Debian 12, current Ubuntu).

SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

# Trace files that are not part of the project; tests that need them say so when they are not there.
ifneq ($(wildcard ../shared/data/oracle_10046),)
export DBTIME_TRACES ?= $(abspath ../shared/data/oracle_10046)
endif

# Where 'make install' puts things; DESTDIR is put before it, for packages.
PREFIX ?= /usr/local
DESTDIR ?=
# What it installs.
BINARY ?= target/release/dbtime
# Where 'make deb' puts the package.
PACKAGES ?= target

.PHONY: help build install deb demo test test-kernels bench bench-agreement bench-fleet bench-import fuzz lint deps clean

help:
	@echo "make demo    see dbtime at work on a throw-away PostgreSQL (asks for root through sudo)"
	@echo "make build   build target/release/dbtime"
	@echo "make install put it, its manual pages, completions of bash, zsh and fish, and the agent's systemd unit below PREFIX (/usr/local; DESTDIR for packages)"
	@echo "make deb     what was built, as target/dbtime_VERSION_ARCH.deb, with the agent's unit and /etc/dbtime/agent.toml"
	@echo "make test    all tests; those that need root are skipped, loudly, without it"
	@echo "make test-kernels   record and dive on Debian's own kernels in an emulated machine (needs root, Debian)"
	@echo "make bench   what recording costs the database, beside perf (needs root, an idle machine, half an hour)"
	@echo "make bench-agreement   the sampled tier held against the exact one (needs root, an idle machine)"
	@echo "make bench-fleet   what a store of many hosts takes, and what queries read of it (needs root, an hour, 15 GB in FLEET)"
	@echo "make fuzz    feed the importers with damaged files, a minute each (needs a nightly Rust); TIME=600 for longer"
	@echo "make lint    formatting, clippy, the page in web/, shell scripts"
	@echo "make deps    install everything the other targets need"

deps:
	scripts/deps.sh build demo test

build:
	scripts/deps.sh build
	cargo build --release --locked

# Builds nothing: 'make build && sudo make install' leaves no root-owned files among the sources.
install: root = $(DESTDIR)$(PREFIX)
install:
	@test -x "$(BINARY)" || { echo "$(BINARY) is not there: run 'make build' first" >&2; exit 1; }
	install -d "$(root)/bin" "$(root)/share/man/man1" "$(root)/share/bash-completion/completions" \
		"$(root)/share/zsh/site-functions" "$(root)/share/fish/vendor_completions.d" \
		"$(root)/share/doc/dbtime" "$(root)/lib/systemd/system"
	install -m 755 "$(BINARY)" "$(root)/bin/dbtime"
	"$(BINARY)" man "$(root)/share/man/man1"
	"$(BINARY)" completions bash | install -m 644 /dev/stdin "$(root)/share/bash-completion/completions/dbtime"
	"$(BINARY)" completions zsh | install -m 644 /dev/stdin "$(root)/share/zsh/site-functions/_dbtime"
	"$(BINARY)" completions fish | install -m 644 /dev/stdin "$(root)/share/fish/vendor_completions.d/dbtime.fish"
	install -m 644 systemd/agent.toml "$(root)/share/doc/dbtime/agent.toml"
	sed 's|/usr/local/bin|$(PREFIX)/bin|' systemd/dbtime-agent.service | \
		install -m 644 /dev/stdin "$(root)/lib/systemd/system/dbtime-agent.service"

# Builds nothing either: 'make build deb'.
deb:
	@scripts/deps.sh package
	@scripts/deb.sh "$(BINARY)" "$(PACKAGES)"

demo:
	scripts/deps.sh build demo
	cargo build --release --locked
	$(SUDO) target/release/dbtime demo

# Packages whose tests give the same result whatever else the machine does: as many run at once as there are CPUs. The tests of all others,
# including any new package, run one at a time: they measure time on a machine that they would otherwise share.
UNTIMED := dbtime-model dbtime-import dbtime-report dbtime-store dbtime-untimed-tests
TIMED := --workspace $(UNTIMED:%=--exclude %)
# Files of tests/tests that mostly wait, and compare nothing with a clock or with what the whole host does: four of their tests run at
# once.
WAITING := agent bad_input command_counts debuginfod demo duckdb fingerprint_texts first_minute hanging heavy_locks iolat \
	marks metrics open_waits privileges relations rotation safety server_statistics snap_counts statement_counts \
	throwaway top wait_events
# Files that compare with clocks and counters of the same moments, and give the same result while another test runs: two run at once. Files
# in neither list, such as new ones, run one at a time. No other file may end in one of these names: they match anywhere.
BESIDE := agreement comments doctor fingerprints hostile_files io_workers killed latches oracle_live other_layouts planted plans reads \
	replication session_states stacks statement_latencies statement_texts system_calls timeline upgrades

# All packages are built at once, and each selection below includes the tests' PostgreSQL client: without it a crate that serde is built
# with has other features, and every dependency would be compiled again. What else the tests use is fetched meanwhile.
test:
	scripts/deps.sh build demo test
	(scripts/postgres-builds.sh && scripts/python-env.sh && scripts/readers.sh) & fetched=$$!; \
	cargo build --workspace --all-targets --locked && wait $$fetched
	@failed=0; \
	run() { echo "$$*"; "$$@" || failed=1; }; \
	run cargo test --locked --no-fail-fast $(UNTIMED:%=--package %); \
	run cargo test --locked --no-fail-fast $(TIMED) --lib --bins -- --test-threads=1; \
	run cargo test --locked --no-fail-fast $(TIMED) --test timed -- --test-threads=4 $(WAITING:%=%::); \
	run cargo test --locked --no-fail-fast $(TIMED) --test timed -- --test-threads=2 $(BESIDE:%=%::); \
	run cargo test --locked --no-fail-fast $(TIMED) --test '*' -- --test-threads=1 $(WAITING:%=--skip %::) $(BESIDE:%=--skip %::); \
	exit $$failed

test-kernels:
	scripts/deps.sh build demo kernels
	cargo build --workspace --locked
	scripts/kernel-test.sh & release=$$!; scripts/kernel-test.sh backports; failed=$$?; wait $$release && exit $$failed
	scripts/kernel-dive-test.sh

# How fast SQL traces and traces of kernel functions are read, compared with grep and wc; and for FILES="perf.txt …", perf script compared
# with inferno-collapse-perf.
bench-import:
	scripts/deps.sh build
	cargo build --release --workspace --locked
	target/release/import_traces
	target/release/import_functions $(wildcard ../shared/data/ftrace/vm-6.1/pread_direct_ext4.fgraph)
	$(if $(FILES),target/release/import_stacks $(FILES))

bench:
	scripts/deps.sh build demo
	cargo build --release --workspace --locked
	$(SUDO) target/release/overhead $(BENCH)

# The sampled tier compared with the exact one, under many loads: a quarter of an hour for each server.
bench-agreement:
	scripts/deps.sh build demo
	cargo build --release --workspace --locked
	$(SUDO) target/release/agreement $(BENCH)

# A fleet made of real recordings: sizes with the agents' defaults, then the ready queries and reports on 24,000 smaller recordings.
FLEET ?= target/fleet
bench-fleet:
	scripts/deps.sh build demo test
	scripts/python-env.sh
	cargo build --release --workspace --locked
	mkdir "$(FLEET)"
	$(SUDO) target/release/fleet record --seconds 80 "$(FLEET)/shapes"
	$(SUDO) chown -R "$$(id -u)" "$(FLEET)"
	target/release/fleet make "$(FLEET)"/shapes/*.dbt --store "$(FLEET)/full" --hosts 10 --days 1
	target/release/fleet sizes "$(FLEET)/full"
	target/release/fleet make "$(FLEET)"/shapes/bank.dbt "$(FLEET)"/shapes/reads.dbt "$(FLEET)"/shapes/reports.dbt \
		--store "$(FLEET)/many" --hosts 100 --days 10 --resolution 300
	target/release/fleet sizes "$(FLEET)/many"
	target/venv/bin/python benches/src/bin/fleet/queries.py "$(FLEET)/many" target/release/dbtime
	rm -r "$(FLEET)"

fuzz:
	scripts/fuzz.sh $(or $(TIME),60)

lint:
	scripts/deps.sh build lint
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	scripts/web.sh
	shellcheck scripts/*.sh .ci/run packaging/p*

clean:
	cargo clean
