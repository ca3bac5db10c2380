#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Runs the experiment of inventories/stretched under one profile after another, compares them, and leaves the machine as it was, also
# when it is interrupted. Usage: BIN=.venv/bin stretched.sh PROFILE...
set -euo pipefail
BIN=${BIN:-.venv/bin}
inventory=inventories/stretched/hosts.yml
study=stretched-$(date -u +%Y%m%dT%H%M%SZ)
status=0
runs=()

play() {
	"$BIN/ansible-playbook" -i "$inventory" "$@"
}

if [ "$(id -u)" != 0 ]; then
	echo "stretched: tuning this machine needs root; run it with sudo" >&2
	exit 1
fi
trap 'exit 130' INT TERM
trap 'status=$?; echo "Leaving the machine as it was"; play playbooks/teardown.yml || status=1; play playbooks/restore.yml || status=1; exit "$status"' EXIT

for profile in "$@"; do
	runs+=("$study-$profile")
	# An invalid run is shown as invalid; the others are measured all the same.
	play site.yml -e "profile=$profile" -e "run_id=$study-$profile" || status=1
	play playbooks/teardown.yml
done
play playbooks/compare.yml -e "runs=$(IFS=,; echo "${runs[*]}")" -e "comparison=$study" || status=1
exit "$status"
