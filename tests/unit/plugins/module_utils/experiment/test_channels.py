# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory channels, from the listings of several boards' firmware."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.experiment import channels as memory_channels

MODULE = """Handle 0x{handle:04X}, DMI type 17, 92 bytes
Memory Device
\tTotal Width: 72 bits
\tData Width: 64 bits
\tSize: {size}
\tLocator: {locator}
\tBank Locator: {bank}
\tSpeed: 2933 MT/s
\tConfigured Memory Speed: {speed}
"""


def listing(*places, size="32 GB", speed="1066 MT/s"):
    return "# dmidecode 3.4\n\n" + "\n".join(
        MODULE.format(handle=number, size=size, locator=locator, bank=bank, speed=speed)
        for number, (locator, bank) in enumerate(places)
    )


@pytest.mark.parametrize(
    "places, sockets, channels",
    [
        ([("CPU1_DIMM_A1", "NODE 1"), ("CPU1_DIMM_B1", "NODE 1"), ("CPU2_DIMM_A1", "NODE 2")], 2, 3),
        (
            [
                ("P1-DIMMA1", "P0_Node0_Channel0_Dimm0"),
                ("P1-DIMMA2", "P0_Node0_Channel0_Dimm1"),
                ("P1-DIMMB1", "P0_Node0_Channel1_Dimm0"),
            ],
            1,
            2,
        ),
        ([("DIMM_A1", "BANK 0"), ("DIMM_B1", "BANK 1")], 1, 2),
    ],
)
def test_a_channel_counts_once_whatever_its_number_of_modules(places, sockets, channels):
    theory = memory_channels.theory(memory_channels.modules(listing(*places)), sockets)

    assert (theory["channels"], theory["reason"]) == (channels, None)
    assert theory["bytes_per_second"] == channels * 8_528_000_000  # the source: 8.53 GB/s per channel of DDR3-1066


def test_empty_slots_do_not_count():
    text = listing(("DIMM_A1", "")) + "\n" + listing(("DIMM_B1", ""), size="No Module Installed")

    assert len(memory_channels.modules(text)) == 1


def test_unknown_channels_must_be_given_by_the_user():
    found = memory_channels.modules(listing(("DIMM 0", "Bank 0")))

    assert memory_channels.theory(found, 1)["bytes_per_second"] is None
    assert "memory_bandwidth_channels" in memory_channels.theory(found, 1)["reason"]
    assert memory_channels.theory(found, 1, channels=4)["bytes_per_second"] == 4 * 8_528_000_000


def test_the_firmware_of_qemu_reports_no_speed():
    found = memory_channels.modules(
        listing(("DIMM 0", "Not Specified"), speed="Unknown").replace("Speed: 2933 MT/s", "Speed: Unknown")
    )

    assert len(found) == 1
    assert "speed and width" in memory_channels.theory(found, 1)["reason"]


def test_channels_of_two_sockets_need_the_names_of_the_sockets():
    """Otherwise channel A of both sockets would count as one."""
    assert (
        memory_channels.theory(memory_channels.modules(listing(("DIMM_A1", ""), ("DIMM_B1", ""))), 2)["channels"]
        is None
    )
