# SPDX-License-Identifier: GPL-3.0-or-later
"""What a clone does not share with its master, nor with another clone."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.vm.belongings import (
    SharedStateError,
    give_own,
    is_own,
    variables_of,
)

FIRST, SECOND = "11111111-2222-3333-4444-555555555551", "11111111-2222-3333-4444-555555555552"
MASTER = """<domain type='kvm'><name>master</name><genid>11111111-2222-3333-4444-555555555550</genid>
<os><type>hvm</type><loader readonly='yes' type='pflash'>/usr/share/CODE.fd</loader>
<nvram template='/usr/share/VARS.fd' type='file' format='raw'><source file='/m/nvram'/></nvram></os><devices>
<serial type='file'><source path='/m/serial'/><log file='/m/log0'/></serial>
<serial type='pty' tty='/dev/pts/3'><source path='/dev/pts/3'/><log file='/m/log1' append='on'/></serial>
<serial type='tcp'><source mode='bind' host='127.0.0.1' service='4000'/><protocol type='raw'/></serial>
<parallel type='unix'><source mode='bind' path='/m/parallel'/></parallel>
<console type='file'><source path='/m/serial'/><target type='serial' port='0'/></console>
<console type='file'><source path='/m/virtio'/><target type='virtio' port='1'/></console>
<channel type='unix'><source mode='bind' path='/m/agent'/><target type='virtio' name='agent.0'/></channel>
<channel type='spicevmc'><target type='virtio' name='com.redhat.spice.0'/></channel>
<channel type='tcp'><source mode='bind' host='127.0.0.1' service='4001'/><protocol type='raw'/></channel>
<graphics type='vnc' port='5901' websocket='5701'><listen type='address' address='127.0.0.1'/></graphics>
<graphics type='spice'><listen type='socket' socket='/m/spice'/></graphics>
<tpm model='tpm-crb'><backend type='emulator' version='2.0'><source type='dir' path='/m/tpm'/></backend></tpm>
<vsock model='virtio'><cid auto='no' address='42'/></vsock>
<pstore backend='acpi-erst'><path>/m/pstore</path><size unit='KiB'>8</size></pstore>
</devices></domain>"""


def clone(name, identity, master=MASTER):
    root = ET.fromstring(master)
    give_own(root, "/fleet", name, identity)
    return root


def places(root):
    """What a definition names on its host."""
    texts = [text for each in root.iter() for text in (*each.attrib.values(), (each.text or "").strip())]
    numbers = {"5901", "5701", "4000", "4001", "42"}
    found = {text for text in texts if text.startswith(("/m/", "/fleet/", "/dev/pts")) or text in numbers}
    return found | {root.findtext("genid")}


def test_two_clones_and_their_master_share_nothing():
    definitions = [ET.fromstring(MASTER), clone("a", FIRST), clone("b", SECOND)]
    for one, other in itertools.combinations(definitions, 2):
        assert not places(one) & places(other)
    files = sorted(place for place in places(definitions[1]) if place.startswith("/fleet"))
    assert len(files) == 6
    assert all(is_own(path[len("/fleet/") :], "a") and not is_own(path[len("/fleet/") :], "b") for path in files)
    assert ET.tostring(clone("a", FIRST)) == ET.tostring(clone("a", FIRST))


def test_what_remains_of_a_master():
    root = clone("a", FIRST)
    nvram = root.find("./os/nvram")
    assert (nvram.text, nvram.attrib, list(nvram)) == (
        "/fleet/clone-a.nvram",
        {"template": "/usr/share/VARS.fd", "format": "raw"},
        [],
    )
    assert [each.get("type") for each in root.iterfind("./devices/serial")] == ["file", "pty", "pty"]
    assert [each.get("type") for each in root.iterfind("./devices/channel")] == ["unix", "spicevmc", "unix"]
    assert root.find("./devices/vsock/cid").attrib == {"auto": "yes"}
    assert root.find("./devices/tpm/backend").attrib == {"type": "emulator", "version": "2.0"}


@pytest.mark.parametrize(
    "system, variables",
    [
        ("<nvram>/m/a</nvram>", "/m/a"),
        ("<nvram type='file'><source file='/m/b'/></nvram>", "/m/b"),
        ("<loader type='rom'>/rom</loader>", ""),
        ("<loader type='pflash' stateless='yes'>/code</loader>", ""),
    ],
)
def test_firmware_variables_of_a_master(system, variables):
    xml = f"<domain><name>master</name><os>{system}</os></domain>"
    assert variables_of(xml) == variables
    kept = clone("a", FIRST, xml).findtext("./os/nvram")
    assert kept == ("/fleet/clone-a.nvram" if variables else None)


def test_a_master_whose_firmware_libvirt_chooses_gives_each_clone_variables():
    xml = "<domain><name>never-booted</name><os firmware='efi'><type>hvm</type></os></domain>"
    assert variables_of(xml) == ""
    assert clone("a", FIRST, xml).findtext("./os/nvram") == "/fleet/clone-a.nvram"


@pytest.mark.parametrize(
    "device, reason",
    [
        ("<disk type='block' device='lun'><source dev='/dev/sdb'/></disk>", "disk of the kind lun"),
        ("<disk type='file' device='floppy'><source file='/m/floppy'/></disk>", "disk of the kind floppy"),
        ("<memory model='nvdimm'><source><path>/m/nvdimm</path></source></memory>", "memory in the file /m/nvdimm"),
        (
            "<tpm><backend type='passthrough'><device path='/dev/tpm0'/></backend></tpm>",
            "TPM is of the kind passthrough",
        ),
        ("<tpm><backend type='external'><source path='/m/sock'/></backend></tpm>", "TPM is of the kind external"),
    ],
)
def test_what_cannot_be_given_to_each_clone_is_refused(device, reason):
    with pytest.raises(SharedStateError, match=reason):
        clone("a", FIRST, f"<domain><name>master</name><devices>{device}</devices></domain>")


@pytest.mark.parametrize(
    "file, name, own",
    [
        ("clone-a.nvram", "a", True),
        ("clone-a.serial-12.log", "a", True),
        ("clone-a.qcow2", "a", False),
        ("clone-a.nvram.bak", "a", False),
        ("clone-ab.nvram", "a", False),
        ("clone-a.b.nvram", "a", False),
        ("clone-a.b.nvram", "a.b", True),
    ],
)
def test_files_are_recognised_by_the_whole_name(file, name, own):
    assert is_own(file, name) is own
