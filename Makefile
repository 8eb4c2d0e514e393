# One set of commands for people and for CI. `make demo` and `make test` are all a newcomer needs.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help deps deps-test deps-bench deps-hw build static demo test test-hw test-turn test-all cold lint fmt bench clean

SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
USECT := target/release/usect
PROMETHEUS := target/prometheus/usr/bin/prometheus
MEMCACHED := target/memcached/usr/bin/memcached
OVS := target/openvswitch/usr/sbin/ovs-vswitchd
SSHD := target/openssh/usr/sbin/sshd
# Debian and Ubuntu packages, by the file that tells whether they are there.
NEEDED := clang:/usr/bin/clang iproute2:/usr/share/doc/iproute2 ethtool:/usr/share/doc/ethtool \
	pkg-config:/usr/bin/pkg-config make:/usr/bin/make gcc:/usr/bin/gcc binutils:/usr/bin/ld libelf-dev:/usr/include/gelf.h \
	zlib1g-dev:/usr/include/zlib.h libdpdk-dev:/usr/include/dpdk/rte_eal.h linux-libc-dev:/usr/include/linux/bpf.h util-linux:/usr/bin/setpriv

help: ## What there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /|/' | column -t -s '|'

deps: ## Install what is missing, by package name
	@missing=""; for need in $(NEEDED); do [ -e "$${need#*:}" ] || missing="$$missing $${need%%:*}"; done; \
	if [ -n "$$missing" ]; then echo "installing$$missing"; \
	  $(SUDO) apt-get update -q && $(SUDO) apt-get install -q -y --no-install-recommends $$missing; fi
	@command -v cargo >/dev/null || { echo "install a Rust toolchain first (rustup, or your distribution)"; exit 2; }

# systemd-analyze, which a test of the unit needs; a container may lack it. Debian's iperf3 asks whether it is to serve: it isn't.
deps-test: deps $(PROMETHEUS) $(MEMCACHED) $(OVS) $(SSHD)
	@command -v iperf3 >/dev/null && command -v ping >/dev/null && command -v ssh >/dev/null || { \
	  $(SUDO) apt-get update -q && \
	  $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends iperf3 iputils-ping openssh-client; }
	@command -v systemd-analyze >/dev/null || $(SUDO) apt-get install -q -y --no-install-recommends systemd || true

deps-bench: deps $(MEMCACHED)
	@command -v sockperf >/dev/null && command -v dpdk-testpmd >/dev/null || \
	  $(SUDO) apt-get install -q -y --no-install-recommends sockperf dpdk-dev

build: deps ## Build the usect binary
	cargo build --release --locked -p usect-cli

# With a target named, what runs while it builds stays dynamic. DPDK's drivers are loaded at run time, and so need a dynamic program.
static: export RUSTFLAGS := -C target-feature=+crt-static
static: export USECT_WITHOUT_DPDK := 1
static: deps ## Build a usect that needs nothing of a host but its kernel, for carrying to others; without DPDK
	cargo build --release --locked -p usect-cli --target x86_64-unknown-linux-gnu --target-dir target/static --config profile.release.strip=true

demo: build ## Measure the forwarder with every client, print the table, write the report
	$(SUDO) $(USECT) compare scenarios/forwarder.toml --quick

# Unpacked and not installed: the packages would start services. Lists that are missing or old are fetched. Without
# them, the tests that need them say so.
define unpacked
	@rm -rf target/$(1) target/$(1).part; mkdir -p target/$(1).part; cd target/$(1).part && \
	get() { apt-get download -q -o APT::Sandbox::User=root $(2); } && \
	{ get || { $(SUDO) apt-get update -q && get; }; } && for package in *.deb; do dpkg-deb -x "$$package" .; done && rm *.deb && \
	mv ../$(1).part ../$(1) || echo "$(1) could not be downloaded"
endef

$(PROMETHEUS):
	$(call unpacked,prometheus,prometheus)

# With its libraries, whatever this release calls them.
$(MEMCACHED):
	$(call unpacked,memcached,memcached $$(apt-cache depends memcached | awk '/ Depends: lib(event|sasl)/ {print $$2}'))

# Its own script makes that link, when it is installed.
$(OVS):
	$(call unpacked,openvswitch,openvswitch-switch openvswitch-common $$(apt-cache depends openvswitch-switch | awk '/ Depends: lib(bpf|cap-ng|numa|ssl|unbound|xdp)/ {print $$2}'))
	@[ ! -d target/openvswitch/usr/sbin ] || ln -sf ../lib/openvswitch-switch/ovs-vswitchd $@

# What its libraries need of others, too.
$(SSHD):
	$(call unpacked,openssh,openssh-server $$(apt-cache depends openssh-server libwrap0 libnsl2 | awk '/ Depends: lib(wrap|nsl|tirpc)/ {print $$2}'))

# A test that can't run here adds a line to the list; with USECT_NO_SKIP=1, as in CI, it fails instead. Every test runs, also after
# one has failed; what failed is said at the end.
test: export USECT_SKIPPED := $(CURDIR)/target/skipped.txt
test: export USECT_TIMES := $(CURDIR)/target/times.txt
test: deps-test ## Every test that needs no guest, of like cases one each; those in namespaces need root
	@mkdir -p target; $(SUDO) rm -f "$$USECT_SKIPPED" "$$USECT_TIMES"
	cargo test --workspace --locked --no-run
	@cargo test --workspace --locked --no-fail-fast \
	  $(if $(SUDO),--config 'target.x86_64-unknown-linux-gnu.runner="sudo -E"') 2>&1 | tee target/tests.txt; status=$${PIPESTATUS[0]}; \
	if [ -s "$$USECT_TIMES" ]; then echo "the longest, in seconds:"; sort -rn "$$USECT_TIMES" | head -n 15; fi; \
	if [ -s "$$USECT_SKIPPED" ]; then echo "not run here:"; cat "$$USECT_SKIPPED"; fi; \
	if [ $$status != 0 ]; then echo "failed:"; grep -hE '^test .* FAILED$$' target/tests.txt; fi; exit $$status

deps-hw: deps
	@missing=""; for need in kmod:/usr/share/doc/kmod xz-utils:/usr/bin/xz zstd:/usr/bin/zstd gcc-12:/usr/bin/gcc-12; do \
	  [ -e "$${need#*:}" ] || missing="$$missing $${need%%:*}"; done; \
	[ -z "$$missing" ] || $(SUDO) apt-get install -q -y --no-install-recommends $$missing

test-hw: deps-hw deps-test ## Tests with cards that stamp frames, in QEMU guests (Debian 12; 280 MB below /var/tmp/usect-hw)
	hw/test short

test-turn: deps-hw deps-test ## The same, and one of the long guests by turn
	hw/test short turn

test-all: export USECT_THOROUGH := 1
test-all: ## All there is: every case of every test, every guest; before a release
	@status=0; $(MAKE) test || status=1; $(MAKE) deps-hw && hw/test short long || status=1; exit $$status

# No operating system: compiled for a bare 32-bit processor, linked at a place of its own.
cold: deps ## The image that reads the counter without an operating system: target/cold/usect-cold.elf, for GRUB or QEMU
	@mkdir -p target/cold
	clang -target i386-unknown-none-elf -march=pentium -O2 -Wall -Wextra -Werror -Wno-main -ffreestanding -fno-pic -fno-stack-protector \
	  -mno-sse -mno-mmx -c cold/main.c -o target/cold/main.o
	clang -target i386-unknown-none-elf -c cold/start.S -o target/cold/start.o
	ld -m elf_i386 -T cold/link.ld -o target/cold/usect-cold.elf target/cold/start.o target/cold/main.o

lint: deps ## fmt, clippy and rustdoc, warnings denied
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked --document-private-items

fmt: ## Format the code
	cargo fmt --all

bench: build deps-bench ## Ratios against peers, measured in one run; writes bench.json
	cargo build --release --locked -p usect-bench
	$(SUDO) target/release/usect-bench $(USECT)

clean: ## Remove what was built
	cargo clean
