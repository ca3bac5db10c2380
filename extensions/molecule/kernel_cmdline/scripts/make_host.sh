#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Make a host in DIRECTORY/root: a root file system on a drive of its own, this machine's programs, two kernels, and a boot menu of the real GRUB.
set -eu
directory=$1
root=$directory/root

truncate --size=32M "$directory/drive"
mkfs.ext4 -q -m 0 "$directory/drive"
loop=$(losetup --find --show "$directory/drive")
# GRUB makes no entry for a root file system on a loop device, so it has another name here.
drive=/dev/molecule-kernel-cmdline
mknod "$drive" b "$((0x$(stat -c %t "$loop")))" "$((0x$(stat -c %T "$loop")))"
mkdir -p "$root"
mount "$drive" "$root"

cd "$root"
mkdir -p boot/grub dev etc/default proc root run sys tmp usr var/lib
echo root:x:0:0:root:/root:/bin/sh >etc/passwd
for name in bin lib lib64 sbin; do
	ln -s "usr/$name" "$name"
done
for name in usr proc sys; do
	mount --bind "/$name" "$name"
done
# GRUB has not booted this machine's kernel, but the host of this scenario boots with it.
echo "BOOT_IMAGE=/boot/vmlinuz $(cat /proc/cmdline)" >run/cmdline
mount --make-private proc
mount --bind run/cmdline proc/cmdline
mount -t tmpfs none dev
for node in /dev/null /dev/urandom "$drive"; do
	cp --archive "$node" dev
done
mkdir -p dev/disk/by-uuid
ln -s "$drive" "dev/disk/by-uuid/$(blkid --probe --match-tag UUID --output value "$drive")"

cp -r /etc/grub.d etc
printf 'GRUB_CMDLINE_LINUX_DEFAULT=quiet\nGRUB_CMDLINE_LINUX=console=ttyS0\n' >etc/default/grub
for version in 6.1.0-55-amd64 6.1.0-56-amd64; do
	echo "a kernel" >"boot/vmlinuz-$version"
	echo "its first file system" >"boot/initrd.img-$version"
done
chroot . grub-mkconfig -o /boot/grub/grub.cfg
find boot etc -type f -exec sha256sum {} + | sort >"$directory/before"
