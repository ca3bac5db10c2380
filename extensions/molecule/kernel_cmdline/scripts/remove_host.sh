#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Undo what make_host.sh has done, also if it has done only a part of it.
set -eu
directory=$1
if mountpoint --quiet "$directory/root"; then
	umount --recursive "$directory/root"
fi
for loop in $(losetup --noheadings --output NAME --associated "$directory/drive"); do
	losetup --detach "$loop"
done
rm -rf --one-file-system "$directory/root" "$directory/drive" "$directory/before" /dev/molecule-kernel-cmdline
