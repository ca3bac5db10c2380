# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a VM of a fleet costs to make and to start, side by side with a script that does it as the brief did: full copies by virt-clone, one by one,
and a second between starts. On real libvirt in a namespace of this machine. The master's disk holds data,
as real ones do, and no system, since booting costs both the same. Needs root and virt-clone (Debian's virtinst).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "tools" / "lab.py"
IMAGES = "/var/lib/libvirt/images"
MASTER = f"""<domain type='qemu'><name>master</name><memory unit='MiB'>64</memory><vcpu>1</vcpu><os><type arch='x86_64' machine='q35'>hvm</type></os>
<devices><disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='{IMAGES}/master.qcow2'/>
<target dev='vda' bus='virtio'/></disk></devices></domain>"""
AS_THE_BRIEF_DID = f"""set -e
for i in $(seq "$1"); do virt-clone --quiet --original master --name "copy-$i" --file "{IMAGES}/copy-$i.qcow2" >/dev/null; done
for i in $(seq "$1"); do virsh --quiet start "copy-$i"; sleep 1; done
"""


def run(*words: str, environment: dict[str, str], text: str | None = None) -> str:
    done = subprocess.run(
        words, env=environment, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vms", type=int, default=20)
    parser.add_argument("--gigabytes", type=float, default=2, help="data in the master's disk")
    options = parser.parse_args()
    path = Path(tempfile.mkdtemp(prefix="memstretch-bench-", dir="/var/tmp"))
    path.chmod(0o755)
    environment = {**os.environ, "LAB_DIRECTORY": str(path / "lab"), "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}

    def inside(*words: str, text: str | None = None) -> str:
        return run(sys.executable, str(LAB), "exec", "bench", *words, environment=environment, text=text)

    try:
        run(sys.executable, str(LAB), "up", "bench", environment=environment)
        inside(
            "sh",
            "-ec",
            f"head -c {int(options.gigabytes * 1e9)} /dev/urandom > {IMAGES}/data.raw; "
            f"qemu-img convert -O qcow2 {IMAGES}/data.raw {IMAGES}/master.qcow2; rm {IMAGES}/data.raw",
        )
        inside("virsh", "--quiet", "define", "/dev/stdin", text=MASTER)
        names = [f"bench-{number:03d}" for number in range(1, options.vms + 1)]
        ours = {
            "fleet": "bench",
            "vms": dict(zip(names, range(1, options.vms + 1))),
            "master": "master",
            "directory": f"{IMAGES}/fleet-bench",
            "accelerator": "qemu",
            "network": {"type": "user"},
            "disk_growth": "1M",
        }

        def module(**asked: object) -> None:
            run(
                str(Path(sys.executable).parent / "ansible"),
                "bench",
                "-i",
                "bench,",
                "-m",
                "memstretch.density.vm_fleet",
                "-a",
                json.dumps({**ours, **asked}),
                "-e",
                json.dumps(
                    {
                        "ansible_ssh_common_args": f"-F {path}/lab/ssh_config",
                        "ansible_python_interpreter": "/usr/bin/python3",
                    }
                ),
                environment=environment,
            )

        started = time.monotonic()
        module()
        ours_s = time.monotonic() - started
        disk = (
            sum(int(word) for word in inside("sh", "-c", f"du -B1 {IMAGES}/fleet-bench/*.qcow2 | cut -f1").split())
            / options.vms
        )
        module(state="absent", vms={}, master=None)
        started = time.monotonic()
        inside("bash", "-c", AS_THE_BRIEF_DID, "brief", str(options.vms))
        brief_s = time.monotonic() - started
        load = os.getloadavg()[0]
        print(
            f"{options.vms} VMs, a master with {options.gigabytes:g} GB of data, {os.cpu_count()} CPUs, load {load:.1f}"
        )
        print(f"as the brief did: {brief_s:.1f} s, {brief_s / options.vms:.2f} s a VM")
        print(
            f"vm_fleet:         {ours_s:.1f} s, {ours_s / options.vms:.2f} s a VM (with Ansible and ssh), {disk / 1e6:.1f} MB of disk a VM"
        )
        print(f"ratio:            {brief_s / ours_s:.1f}")
    finally:
        run(sys.executable, str(LAB), "down", environment=environment)
        shutil.rmtree(path)


if __name__ == "__main__":
    main()
