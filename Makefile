# memstretch.density: see "make help".
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
COLLECTION := .ansible/collections/ansible_collections/memstretch/density
PROFILE ?= dram
STRETCHED_PROFILES ?= dram,swap_2018,swap,zram
DENSITY_PROFILES ?= dram,zram
INVENTORY ?= inventories/local/hosts.yml
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
# pip must neither check for a newer version nor ask questions.
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
# Programs that the tests need are there, and not in the path of an ordinary user.
export PATH := $(PATH):/usr/sbin:/sbin
# Root must not leave byte code next to the sources of a user's checkout.
export PYTHONDONTWRITEBYTECODE := 1

# Debian packages: what the main job needs, and what the tests need in addition.
PACKAGES := python3 python3-venv gcc libc6-dev libhiredis-dev libnuma-dev libssl-dev redis-server
TEST_PACKAGES := $(PACKAGES) git make clang iproute2 openssh-client openssl valgrind shellcheck
# clang's sanitizers and libFuzzer; Debian 12 and 13 have them under this name.
TEST_PACKAGES += libclang-rt-dev
# Real file systems, LVM and encryption, so that the role swap_space can refuse disks that hold them.
TEST_PACKAGES += btrfs-progs cryptsetup-bin dmsetup e2fsprogs fdisk lvm2 qemu-utils udev util-linux xfsprogs
# A file system without symbolic links, for results.
TEST_PACKAGES += exfat-fuse exfatprogs
# Programs that ours are compared with.
BENCH_PACKAGES := gcc likwid mbw sysbench virtinst
# For the role writeback_benchmark.
TEST_PACKAGES += fio
# For hosts whose sudo asks for a password. Root may have none.
TEST_PACKAGES += sudo
# A master whose clones get a TPM each.
FLEET_PACKAGES := swtpm swtpm-tools
# Ramps of containers. Debian's crun refuses control groups of version 1 beside some of version 2, runc does not.
CONTAINER_PACKAGES := podman runc
# For the role kernel_cmdline: the real grub-mkconfig, which generates menus in a directory.
TEST_PACKAGES += grub-common
REPORT_PACKAGES := chromium chromium-driver fonts-dejavu-core
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
# For tests that make namespaces; what they leave in the checkout must not belong to root.
AS_ROOT := $(if $(SUDO),sudo env PYTHONDONTWRITEBYTECODE=1)

# Molecule looks for Ansible's commands on the path.
MOLECULE := PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/molecule test --scenario-name

# The lab: hypervisors inside this machine, with emulated VMs.
LAB := $(BIN)/python tools/lab.py
LAB_PROFILE ?= swap
LAB_PROFILES ?= dram,swap
LAB_ROUNDS ?= 1
GOLDEN_IMAGE := .cache/golden/debian.qcow2
CLOUD_INIT_IMAGE := .cache/golden/cloud-init.qcow2

# The long lanes go deeper (pytest's marker long), check what only a release needs, boot machines, or install everything in bare systems. CONTRIBUTING.md
# lists how long each lane takes.
LANES := lint unit client membw report local-user fleet systemd molecule local-root
LONG_LANES := local-long fleet-long unit-long client-long release guests host redis trixie demo
# Only by their names: sanity is the part of release that is quick enough after each step; noble needs an archive of Ubuntu, which UBUNTU_ARCHIVE names.
OTHER_LANES := sanity noble

.PHONY: help setup setup-test lock docs demo restore stretched headline headline-page pictures lab lab-site test test-long test-local lint bench clean \
	$(addprefix test-,$(LANES) $(LONG_LANES) $(OTHER_LANES)) $(addprefix lane-,$(LANES) $(LONG_LANES) $(OTHER_LANES))

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  make test-LANE    One lane of the tests alone: $(LANES) $(LONG_LANES) $(OTHER_LANES); local is local-user and local-root"

# $(call install,PACKAGES): apt packages that are not there yet. Two lanes may do this at the same time, and apt may not. Nobody but root can hold the lock.
define install
	@missing="$$(dpkg-query -W -f '$${Package} $${db:Status-Status}\n' $(1) 2>/dev/null \
		| awk '$$2 == "installed" {print $$1}' | sort -u | comm -13 - <(printf '%s\n' $(1) | sort -u) | xargs)"; \
	if [ -n "$$missing" ]; then \
		command -v apt-get >/dev/null || { echo "Install what Debian calls: $$missing" >&2; exit 1; }; \
		echo "Installing Debian packages: $$missing"; \
		$(SUDO) install -d -m 0700 /run/memstretch-0 \
		&& $(SUDO) env DEBIAN_FRONTEND=noninteractive flock --timeout 600 --conflict-exit-code 75 /run/memstretch-0/apt.lock \
			sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends "$$@" >/dev/null' sh $$missing \
		|| { status=$$?; [ $$status != 75 ] || echo "Another make has been installing packages for 10 minutes" >&2; exit $$status; }; \
	fi
endef

setup: $(VENV)/.run $(COLLECTION) ## Install what the playbooks need (apt packages, Python packages into .venv)

setup-test: $(VENV)/.test $(COLLECTION) ## Install what the tests need in addition

# $(call owned,COMMANDS): what root makes in a user's checkout belongs to that user, also if a command fails.
owned = $(if $(SUDO),@$(1),$(call as_root,$(1)))

# Only wheels: what builds a source package would be downloaded without a hash. Of the collections that come with Ansible the playbooks use a few files, and
# byte code of all 15,000 would take four times as long as the rest.
locked = $(VENV)/bin/pip install -q --no-compile --require-hashes --only-binary :all: -r $(1) && $(VENV)/bin/python -m compileall -q -x /ansible_collections/ $(VENV)/lib

$(VENV)/.run: requirements.lock
	$(call install,$(PACKAGES))
	@echo "Installing Python packages into $(VENV): $$(grep -v -e '^[-#]' requirements.txt | xargs)"
	$(call owned,{ test -x $(VENV)/bin/pip || python3 -m venv $(VENV); } \
		&& $(call locked,requirements.lock) && touch $@)

$(VENV)/.test: requirements-test.lock $(VENV)/.run
	$(call install,$(TEST_PACKAGES))
	@echo "Installing Python packages into $(VENV): $$(grep -v -e '^[-#]' requirements-test.txt | xargs)"
	$(call owned,$(call locked,requirements-test.lock) && touch $@)

$(VENV)/.docs: requirements-docs.lock $(VENV)/.run
	@echo "Installing Python packages into $(VENV): $$(grep -v -e '^[-#]' requirements-docs.txt | xargs)"
	$(call owned,$(call locked,requirements-docs.lock) && touch $@)

# Ansible finds a collection only by the path of its name; the checkout may be called anything.
$(COLLECTION):
	$(call owned,mkdir -p $(@D) && ln -sfn ../../../.. $@)

# For example LOCK=--upgrade.
lock: $(VENV)/.test ## Write requirements*.lock, the Python packages that are installed, from requirements*.txt and constraints.txt
	@more=; for name in requirements-test requirements requirements-docs; do \
		$(VENV)/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-emit-index-url --no-emit-find-links \
			--custom-compile-command "make lock" $(LOCK) -o $$name.lock $$name.txt $$more || exit 1; \
		more="-c requirements-test.lock"; done

docs: $(VENV)/.docs $(COLLECTION) ## Build the documentation site in .build/docs/html
	@VENV=$(VENV) docs/docsite/build.sh

# What root created in a user's checkout goes back to that user.
GIVE_BACK = for made in results .build .ansible .cache .venv; do if [ -e $$made ]; then chown -hR --reference=Makefile $$made || status=1; fi; done

# Run a command as root, then give the files back, also after Ctrl-C, which sets stopped.
define as_root
	@stopped=; trap 'stopped=1' INT TERM; status=0; $(1) || status=$$?; $(GIVE_BACK); exit $$status
endef

# Root finds out how far this machine stretches its DRAM. An ordinary user measures an untouched machine. The last line names the page to open, so the
# teardown shows failures only. DEMO has more options, for example DEMO='-e density_rounds=3'.
# As many of the servers of inventories/local as there are CPUs: more would wait for CPUs, and not for memory.
DEMO_FLEET = $(if $(filter inventories/local/%,$(INVENTORY)),-e fleet_size=$(shell n=$$(nproc); echo $$((n < 4 ? n : 4))))
ifeq ($(SUDO),)
demo: setup ## As root: how many more Redis fit into this DRAM; otherwise: the main job on an untouched machine (4 to 7 minutes)
	$(call as_root,$(BIN)/ansible-playbook -i inventories/demo/hosts.yml playbooks/demo.yml $(DEMO))

restore: setup ## Restore the machine after a demo that was killed
	$(call as_root,$(BIN)/ansible-playbook -i inventories/demo/hosts.yml playbooks/restore.yml)
else
demo: setup
	@status=0; $(BIN)/ansible-playbook -i $(INVENTORY) playbooks/site.yml -e site_check=true -e profile=$(PROFILE) $(DEMO_FLEET) $(DEMO) || status=$$?; \
	[ $$status = 0 ] || echo "== The demo has failed or was interrupted: its Redis servers are removed now (playbooks/teardown.yml, about half a minute)" >&2; \
	ANSIBLE_DISPLAY_FAILED_STDERR=true $(BIN)/ansible-playbook -i $(INVENTORY) playbooks/teardown.yml >/dev/null || status=1; exit $$status

restore:
	@echo "restore: only root can restore what a demo of root has changed; run it with sudo" >&2; exit 1
endif

stretched: setup ## Compare profiles on this machine under a DRAM budget and find its density; needs root, leaves it as it was
	@test "$$(id -u)" = 0 || { echo "stretched: tuning this machine needs root; run it with sudo" >&2; exit 1; }
	$(call as_root,$(BIN)/ansible-playbook -i inventories/stretched/hosts.yml playbooks/study.yml -e profiles=$(STRETCHED_PROFILES) || status=$$?; \
	[ -n "$$stopped" ] || $(BIN)/ansible-playbook -i inventories/ramp/hosts.yml playbooks/density.yml -e profiles=$(DENSITY_PROFILES))

# For example HEADLINE='--minutes 600 --only 3to1-influence25'.
headline: setup ## Measure how far this machine stretches its DRAM: the first rows of docs/headline.md, in 2 hours; needs root, restores the machine
	@test "$$(id -u)" = 0 || { echo "headline: tuning this machine needs root; run it with sudo" >&2; exit 1; }
	$(call as_root,$(BIN)/python tools/headline.py measure $(HEADLINE))

headline-page: setup ## Write the tables of docs/headline.md from the results
	@$(BIN)/python tools/headline.py page $(HEADLINE)

# After "make headline-page", and after a change of how charts look.
pictures: setup-test ## Draw the pictures of README and docs again, from the kept results
	$(call install,$(REPORT_PACKAGES))
	@$(BIN)/python tools/pictures.py

# Built once; needs root.
$(CLOUD_INIT_IMAGE): IMAGE_OPTIONS := --cloud-init
$(GOLDEN_IMAGE) $(CLOUD_INIT_IMAGE):
	$(call install,$$(cd playbooks/files && python3 -c 'import debian_image; print(*debian_image.PACKAGES_HERE)'))
	@mkdir -p $(@D)
	@$(AS_ROOT) python3 playbooks/files/debian_image.py $(IMAGE_OPTIONS) $@

lab: ## A study on emulated VMs of two hypervisors inside this machine; needs root, leaves it as it was
lab: LAB_HYPERVISORS := lab1 lab2
lab: LAB_INVENTORY := inventories/lab/study.yml
lab: LAB_PLAYBOOK = playbooks/study.yml -e profiles=$(LAB_PROFILES) -e study_rounds=$(LAB_ROUNDS)
lab: LAB_CHECK = $(LAB) pressure results $(LAB_HYPERVISORS)

lab-site: ## One run of site.yml on emulated VMs of one hypervisor inside this machine; needs root, leaves it as it was
lab-site: LAB_HYPERVISORS := lab1
lab-site: LAB_INVENTORY := inventories/lab/hosts.yml
lab-site: LAB_PLAYBOOK = site.yml -e profile=$(LAB_PROFILE)
lab-site: LAB_CHECK := true

lab lab-site: setup $(GOLDEN_IMAGE)
	$(call install,$$(python3 tools/lab.py packages))
	@trap 'exit 130' INT TERM; \
	trap 'status=$$?; $(BIN)/ansible-playbook -i $(LAB_INVENTORY) playbooks/teardown.yml || status=1; \
		if $(BIN)/ansible-playbook -i $(LAB_INVENTORY) playbooks/restore.yml; then $(LAB) down || status=1; \
		else status=1; echo "The lab stays, because its record of this machine is needed to restore it: see the error above, then run the same command again" >&2; fi; \
		$(GIVE_BACK); \
		[ ! -e results/index.html ] || echo "Open $(CURDIR)/results/index.html"; exit $$status' EXIT; \
	$(LAB) up $(LAB_HYPERVISORS) && $(BIN)/ansible-playbook -i $(LAB_INVENTORY) $(LAB_PLAYBOOK) && $(LAB_CHECK)

# Three lanes at a time, one of each queue. The first queue needs CPUs. The lanes of the others wait for servers much of their time. Those of the last one
# change this machine (swap, control groups, loop devices), so no two of them may run at once.
cpu_LANES := lint unit report
server_LANES := fleet client membw local-user
machine_LANES := $(filter-out $(cpu_LANES) $(server_LANES),$(LANES))
test: setup-test ## Run a test of each path, and list the lanes that failed; no machine boots
	@rm -rf $(LANE_STATUS)
	-@$(MAKE) --no-print-directory -k -j 3 --output-sync=target UNIT_WORKERS=0 queue-machine queue-cpu queue-server
	@$(call sum_up,$(LANES))
	@$(call check_owner)

queue-cpu queue-server queue-machine: queue-%:
	@for lane in $($*_LANES); do $(MAKE) --no-print-directory test-$$lane || true; done

test-long: setup-test ## Run the other tests: deeper ones, and those that boot machines (2 hours on two quiet CPUs, much longer on busy ones)
	@rm -rf $(LANE_STATUS)
	-@$(MAKE) --no-print-directory -k $(addprefix test-,$(LONG_LANES))
	@$(call sum_up,$(LONG_LANES))

# $(call sum_up,LANES): one line for each lane, and a status that says whether all of them passed. A lane that left no line did not run.
# make --dry-run runs the lines of lanes, too, since they call make; it leaves what is known of real lanes alone.
LANE_STATUS := .build/$(if $(findstring n,$(firstword -$(MAKEFLAGS))),dry-run,lanes)
define sum_up
for lane in $(1); do cat $(LANE_STATUS)/$$lane 2>/dev/null || echo "FAILED $$lane: did not run"; done \
	| awk '{print} $$1 == "passed" {passed++} $$1 == "FAILED" {failed++} END {printf "%d passed, %d failed\n", passed, failed; exit failed > 0}'
endef

# What lanes of root leave next to the sources cannot be removed by the user of the checkout.
define check_owner
foreign="$$(find . \( -name .git -o -name .cache -o -name .build \) -prune -o ! -user "$$(id -un)" -print | head -n 5 | xargs)"; \
[ -z "$$foreign" ] || { echo "FAILED: the lanes have left files of somebody else in this checkout: $$foreign" >&2; exit 1; }
endef

lint: test-lint ## Check style and practice of everything

# The lanes start thousands of Pythons, which need not compile the same sources again. The byte code is not kept next to
# the sources: a lane that runs as root would leave files there that the user cannot remove.
BYTECODE_LANES := $(addprefix lane-,$(LANES) local-long fleet-long unit-long client-long release sanity)
$(BYTECODE_LANES): export PYTHONDONTWRITEBYTECODE :=
$(BYTECODE_LANES): export PYTHONPYCACHEPREFIX := $(CURDIR)/.cache/bytecode

# Each lane says how it ended and how long it took.
$(addprefix test-,$(LANES) $(LONG_LANES) $(OTHER_LANES)): test-%: setup-test
	@SECONDS=0; status=0; $(MAKE) --no-print-directory lane-$* || status=$$?; mkdir -p $(LANE_STATUS); \
	printf '%s %s: %d min %02d s\n' "$$([ $$status = 0 ] && echo passed || echo FAILED)" $* $$((SECONDS / 60)) $$((SECONDS % 60)) \
		| tee $(LANE_STATUS)/$*; exit $$status

# $(call pytest,ARGUMENTS,MARK): as root all tests with the mark; otherwise those that need root in a second run, with sudo. Both run, whatever the first finds.
define pytest
$(if $(SUDO),status=0; $(BIN)/python -m pytest $(1) -m "not root and $(2)" || status=1; $(AS_ROOT) $(BIN)/python -m pytest $(1) -m "root and $(2)" && exit $$status,$(BIN)/python -m pytest $(1) -m "$(2)")
endef

lane-lint:
	@echo "== lint: Ansible, YAML, Python, C, spelling, changelog fragments, documentation"
	@$(BIN)/ansible-lint --offline --strict
	@$(BIN)/yamllint --strict .
	@$(BIN)/ruff format --check
	@$(BIN)/ruff check
	@$(BIN)/mypy -p ansible_collections.memstretch.density.plugins
	@$(BIN)/mypy tools playbooks/files
	@$(BIN)/clang-format --dry-run --Werror $$(git ls-files '*.c' '*.h')
	@$(BIN)/codespell
	@$(BIN)/antsibull-changelog lint
	@VENV=$(VENV) docs/docsite/build.sh

lane-release:
	@echo "== release: what Galaxy's importer, ansible-builder and all of ansible-test say about the collection"
	@VENV=$(VENV) tests/sanity/galaxy.sh
	@VENV=$(VENV) tests/sanity/run.sh

lane-sanity:
	@echo "== sanity: ansible-test, no ignores"
	@VENV=$(VENV) WITHOUT=tests tests/sanity/run.sh $(addprefix --skip-test ,$(LINTED))

# These look at what antsibull-changelog and ruff look at in the lane lint, and install their own programs for it.
LINTED := changelog pep8
UNIT_WORKERS ?= 2
lane-unit:
	@echo "== unit: modules, plugins and what they share"
	@$(call pytest,tests/unit -n $(UNIT_WORKERS),not long)

lane-unit-long:
	@echo "== unit-long: intervals that cover the truth as often as they say, in hundreds of experiments"
	@$(BIN)/python -m pytest tests/unit -n 2 -m long

lane-client:
	@echo "== client: solotest, its modules and its behaviour on real Redis servers"
	@$(MAKE) -C tests/programs/solotest test PYTHON=../../../$(BIN)/python

lane-client-long:
	@echo "== client-long: what goes deeper on real Redis servers, valgrind and fuzzing"
	@$(MAKE) -C tests/programs/solotest test-long PYTHON=../../../$(BIN)/python

lane-membw:
	@echo "== membw: its seams and what makes its figures believable"
	@$(MAKE) -C tests/programs/membw test PYTHON=../../../$(BIN)/python

test-local: setup-test
	@status=0; for lane in local-user local-root; do $(MAKE) --no-print-directory test-$$lane || status=1; done; exit $$status

# Two tests run at a time; those that change this machine run one after another, as root.
lane-local-user:
	@echo "== local-user: the playbooks on real Redis servers of this machine, without root"
	@$(BIN)/python -m pytest tests/local -n 2 --durations=30 -m "not root and not long"

lane-local-root:
	@echo "== local-root: the playbooks and roles that change this machine, and other tests that need root"
	@$(AS_ROOT) $(BIN)/python -m pytest tests/local -n 2 --durations=30 -m "root and not long"

lane-local-long:
	$(call install,$(CONTAINER_PACKAGES))
	@echo "== local-long: what goes deeper on real Redis servers of this machine"
	@$(call pytest,tests/local -n 2 --durations=30,long)

FLEET = $(AS_ROOT) $(BIN)/python -m pytest tests/fleet --ignore=tests/fleet/test_guests.py --durations=20
lane-fleet:
	$(call install,$$(python3 tools/lab.py packages) $(FLEET_PACKAGES))
	@echo "== fleet: VMs on real libvirt, in network namespaces of this machine"
	@$(FLEET) -n 2 --dist loadfile -m "not long"

lane-fleet-long:
	$(call install,$$(python3 tools/lab.py packages) $(FLEET_PACKAGES))
	@echo "== fleet-long: what goes deeper on real libvirt"
	@$(FLEET) -m long

lane-report:
	$(call install,$(REPORT_PACKAGES))
	@echo "== report: the pages in a headless Chromium"
	@$(BIN)/python -m pytest tests/report

lane-host:
	$(call install,$$(python3 tests/vm/vm.py packages))
	@echo "== host: a host with NVMe drives, a boot loader and reboots is tuned, cut off and restored (Debian 12 and 13)"
	@$(BIN)/python -m pytest -q tests/vm --ignore=tests/vm/test_whole_demo.py
	@$(MAKE) --no-print-directory -j2 scenario-host scenario-host_trixie

# An emulated machine keeps about one CPU busy, so two scenarios run at the same time.
scenario-%:
	@set -o pipefail; $(SCENARIO_AS) $(MOLECULE) $* 2>&1 | sed -u 's/^/$*: /'

# $(call kept,VARIABLES): run a command with a place for what Ansible makes of its modules, see tests/bytecode_cache.
kept = sh -c 'cache=$$(mktemp -d) && trap "rm -rf $$cache" EXIT && mkdir $$cache/modules \
	&& env $(1) TEST_BYTECODE_CACHE=$$cache PYTHONPATH=$(CURDIR)/tests/bytecode_cache "$$@"' sh
scenario-default: SCENARIO_AS = $(call kept,)
# These make loop devices or namespaces of this machine, and boot nothing.
ROOT_SCENARIOS := swap_space kernel_cmdline vm_fleet
# Sudo drops the place of the byte code, which tests/conftest.py replaces for pytest.
$(addprefix scenario-,$(ROOT_SCENARIOS)): SCENARIO_AS = $(SUDO) $(call kept,$(if $(SUDO),PYTHONPYCACHEPREFIX=$$cache))

lane-molecule:
	$(call install,$$(python3 tools/lab.py packages))
	@echo "== molecule: scenarios that boot nothing: each role on this machine, and what it did seen from outside"
	@$(MAKE) --no-print-directory -j2 scenario-default $(addprefix scenario-,$(ROOT_SCENARIOS))

lane-systemd:
	$(call install,mmdebstrap git)
	@echo "== systemd: on a Debian 12 that its own systemd has booted, at native speed: roles, and a short demo by a user with a sudo password"
	@$(AS_ROOT) $(BIN)/python -m pytest tests/systemd --ignore=tests/systemd/test_whole_demo.py --ignore=tests/systemd/test_readme.py --durations=10

lane-redis:
	$(call install,$$(python3 tests/vm/vm.py packages))
	@echo "== redis: the role redis on a host that runs systemd"
	@$(MOLECULE) redis

lane-guests: $(GOLDEN_IMAGE) $(CLOUD_INIT_IMAGE)
	$(call install,$$(python3 tools/lab.py packages))
	@echo "== guests: emulated VMs that boot, on two hypervisors inside this machine"
	@$(AS_ROOT) $(BIN)/python -m pytest tests/fleet/test_guests.py

# Each demo has a bare system and a fresh clone of its own. A noisy machine must not fail the lane, so the site check has no bounds,
# and the objective is one that every machine meets.
NOISY_SITE := -e site_check_max_stolen=1 -e site_check_max_gap=1000000 \
	-e slo=absolute -e latency_benchmark_slo_avg_us=100000000 -e latency_benchmark_slo_p99_us=100000000
BARE = $(AS_ROOT) python3 tests/bare/bare.py

lane-demo:
	$(call install,mmdebstrap git $$(python3 tests/vm/vm.py packages))
	@echo "== demo: make demo in bare systems, as root and as a user: Debian 12 with the pinned Ansible, Debian 13 with the newest"
	@for suite in bookworm trixie; do \
		$(BARE) $$suite sh -c "make demo DEMO='$(NOISY_SITE)' && python3 tests/bare/after_demo.py" && $(BARE) --user $$suite make demo || exit 1; \
	done
	@echo "== demo: the whole one and the README's other commands, on a Debian 12 that its own systemd has booted"
	@$(AS_ROOT) $(BIN)/python -m pytest tests/systemd/test_whole_demo.py tests/systemd/test_readme.py
	@echo "== demo: the same, on a Debian 13 that is emulated, and the commands also on a Debian 12"
	@$(AS_ROOT) $(BIN)/python -m pytest tests/vm/test_whole_demo.py

# Then the client once more, on Valkey.
VALKEY := && apt-get install -y -qq valkey-server >/dev/null \
	&& REDIS_SERVER=valkey-server make -C tests/programs/solotest test-program PYTHON=../../../.venv/bin/python

lane-trixie:
	$(call install,mmdebstrap git)
	@echo "== trixie: a bare Debian 13 with the newest Ansible and Python 3.13: static checks, units, the client on Redis 8 and on Valkey"
	@$(BARE) trixie sh -c 'make test-lint test-sanity test-unit test-client $(VALKEY)'

ARCHIVE = env UBUNTU_ARCHIVE="$(UBUNTU_ARCHIVE)"
lane-noble:
	$(call install,mmdebstrap git)
	@echo "== noble: a bare Ubuntu 24.04 on the kernel of this machine: units of what runs on hosts, the client, playbooks on Redis servers, menus of GRUB, disks, the self-test"
	@$(AS_ROOT) $(ARCHIVE) python3 tests/bare/bare.py noble tests/bare/noble.sh
	@echo "== noble: roles over a boot of an Ubuntu 24.04 that its own systemd has booted"
	@$(AS_ROOT) $(ARCHIVE) $(BIN)/python -m pytest tests/systemd/test_roles.py --suite noble

bench: setup-test ## Measure speed claims and the claims of intervals; needs root (hours, with 1,000 simulated hosts)
	@$(MAKE) -s -C tests/programs/solotest build/solotest
	@$(AS_ROOT) $(BIN)/python tests/bench/client/run.py
	@$(AS_ROOT) $(BIN)/python tests/bench/bounds.py
	@$(BIN)/python tests/bench/arrivals.py
	@$(BIN)/python tests/bench/values.py
	@$(AS_ROOT) $(BIN)/python tests/bench/cpu_idle.py
	@$(AS_ROOT) $(BIN)/python tests/bench/charged_dram.py
	@$(AS_ROOT) $(BIN)/python tests/bench/ramp_causes.py
	@$(AS_ROOT) $(BIN)/python tests/bench/swap_settings.py
	@$(BIN)/python tests/bench/fleet.py
	@$(BIN)/python tests/bench/steady_state.py
	@$(BIN)/python tests/bench/aa_pairs.py --minutes 20
	@$(BIN)/python tests/bench/density.py
	@$(BIN)/python tests/bench/optimize_search.py
	$(call install,$(BENCH_PACKAGES) $$(python3 tools/lab.py packages))
	@$(BIN)/python tests/bench/memory_bandwidth.py
	@$(BIN)/python tests/bench/throughput.py
	@$(AS_ROOT) $(BIN)/python tests/bench/vm_fleet.py

# What this file, the programs that it starts and Python make in the checkout.
MADE_HERE := .ansible .build .cache .mypy_cache .pytest_cache .ruff_cache $(VENV) tests/output $(wildcard tests/programs/*/build memstretch-density-*.tar.gz)
# What is not in the checkout, or not ours to remove.
LEFT_HERE := results $(addprefix $(HOME)/,.local/lib/memstretch .local/share/memstretch .local/state/memstretch .cache/memstretch .cache/molecule)
LEFT_HERE += $(addprefix $(HOME)/,.ansible .cache/chromium-headless) /var/lib/memstretch
# The shell must expand this: anybody can make a file there whose name is a command.
LEFT_HERE += /var/tmp/memstretch*
PACKAGES_OF_MACHINES = $$(export PYTHONDONTWRITEBYTECODE=1; python3 tools/lab.py packages; python3 tests/vm/vm.py packages)

clean: $(COLLECTION) ## Stop the demo's Redis instances, remove what was made in this checkout, and list what is left
	@if [ -x $(BIN)/ansible-playbook ]; then $(BIN)/ansible-playbook -i inventories/local/hosts.yml playbooks/teardown.yml; fi
	@rm -rf $(MADE_HERE)
	@find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "Removed what was made in $(CURDIR). Left:"
	@for path in $(LEFT_HERE); do [ ! -e "$$path" ] || printf '  %q\n' "$$path"; done
	@echo "  packages that were installed and were not there before, of:" \
		$$(printf '%s\n' $(TEST_PACKAGES) $(FLEET_PACKAGES) $(CONTAINER_PACKAGES) $(BENCH_PACKAGES) $(REPORT_PACKAGES) $(PACKAGES_OF_MACHINES) | sort -u)
	@[ ! -e /var/lib/memstretch ] || echo "/var/lib/memstretch is the record of a machine that is tuned: restore it first (make restore, or playbooks/restore.yml)"
