#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# What is tried on a bare Ubuntu, as root, in a clone: the code that runs on hosts, the client, playbooks, and what touches GRUB, packages and disks,
# where Ubuntu differs from Debian. The lane trixie runs all units with the newest Ansible.
set -euo pipefail
export ANSIBLE_CONFIG=$PWD/ansible.cfg
make setup-test
.venv/bin/python -m pytest tests/unit/plugins/module_utils tests/unit/plugins/modules -n 2 -m "not long"
make test-client test-local-user
# Swap files need a file system on a disk, which /tmp is not there.
.venv/bin/python -m pytest tests/local/test_boot_loader.py tests/local/test_packages.py tests/local/swap -n 2 -m "root and not long" --basetemp=/var/tmp/pytest

# A short run, whose role installs Ubuntu's Redis. A noisy machine must not fail it, so the objective is one that every machine meets.
apt-get purge -y -qq redis-server redis-tools >/dev/null
play=(.venv/bin/ansible-playbook -i inventories/local/hosts.yml)
"${play[@]}" playbooks/site.yml -e profile=dram -e fleet_size=2 -e '{"latency_benchmark_influences": [0], "latency_benchmark_read_mixes": [100]}' \
    -e latency_benchmark_iterations=1 -e latency_benchmark_slo_avg_us=100000000 -e latency_benchmark_slo_p99_us=100000000
"${play[@]}" playbooks/teardown.yml
"${play[@]}" playbooks/selftest.yml --check
