# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files definitions of libvirt name."""

from __future__ import annotations

from ansible_collections.memstretch.density.plugins.module_utils.vm.definitions import images_in, paths_in

DEFINITION = """<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
<os><nvram>/nvram/a_VARS.fd</nvram></os>
<devices>
<disk type='file'><driver type='qcow2'/><source file='/images/with space.qcow2'/>
<backingStore type='file'><source file='/images/below.qcow2'/></backingStore></disk>
<disk type='file'><driver type='raw'/><source file='/images/plain.raw'/></disk>
<disk type='volume'><source pool='p' volume='v'/></disk>
<disk type='block'><source dev='/dev/vg/lv'/></disk>
<serial type='file'><source path='/log/serial'/></serial>
</devices>
<qemu:commandline><qemu:arg value='-drive'/><qemu:arg value='file=/images/x.qcow2,if=none'/>
<qemu:arg value='{"driver":"file","filename":"/images/json.qcow2"}'/></qemu:commandline>
</domain>"""
SNAPSHOT = """<domainsnapshot>
<disks><disk snapshot='external'><driver type='qcow2'/><source file='/images/s.qcow2'/></disk></disks>
<domain><devices><disk><source file='/images/before.qcow2'/></disk></devices></domain></domainsnapshot>"""


def test_images_are_disks_what_is_below_them_and_what_qemu_is_given():
    assert images_in(DEFINITION, {("p", "v"): "/pool/v.qcow2"}) == {
        "/images/with space.qcow2",
        "/images/below.qcow2",
        "/pool/v.qcow2",
        "/dev/vg/lv",
        "/images/x.qcow2",
        "/images/json.qcow2",
    }
    assert images_in(SNAPSHOT, {}) == {"/images/s.qcow2", "/images/before.qcow2"}


def test_paths_are_all_that_a_definition_names():
    assert {"/nvram/a_VARS.fd", "/log/serial", "/images/plain.raw", "/images/with space.qcow2"} <= paths_in(DEFINITION)
