# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time to create and start a fleet of VMs: the module vm_fleet against a script that does what the brief did.

The script makes full copies with virt-clone, one after the other, and waits a second between starts. Both run on real
libvirt in a namespace of this machine. The master's disk holds data, as real ones do, but no system, since both would
spend the same time on booting it. Needs root and virt-clone (Debian package virtinst).
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
MASTER = f"""<domain type='qemu'><name>master</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='q35'>hvm</type></os>
<devices><disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='{IMAGES}/master.qcow2'/>
<target dev='vda' bus='virtio'/></disk></devices></domain>"""
BRIEF_SCRIPT = f"""set -e
for i in $(seq "$1"); do
  virt-clone --quiet --original master --name "copy-$i" --file "{IMAGES}/copy-$i.qcow2" >/dev/null
done
for i in $(seq "$1"); do virsh --quiet start "copy-$i"; sleep 1; done
"""


def run(*words: str, environment: dict[str, str], text: str | None = None) -> str:
    done = subprocess.run(
        words, env=environment, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)} ended with status {done.returncode}:\n{done.stdout}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vms", type=int, default=20)
    parser.add_argument("--gigabytes", type=float, default=2, help="data on the master's disk")
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
        fleet = {
            "fleet": "bench",
            "vms": dict(zip(names, range(1, options.vms + 1))),
            "master": "master",
            "directory": f"{IMAGES}/fleet-bench",
            "accelerator": "qemu",
            "network": {"type": "user"},
            "disk_growth": "1M",
        }

        connection = {
            "ansible_ssh_common_args": f"-F {path}/lab/ssh_config",
            "ansible_python_interpreter": "/usr/bin/python3",
        }

        def run_module(**changes: object) -> None:
            run(
                *(str(Path(sys.executable).parent / "ansible"), "bench", "-i", "bench,"),
                *("-m", "memstretch.density.vm_fleet", "-a", json.dumps({**fleet, **changes})),
                *("-e", json.dumps(connection)),
                environment=environment,
            )

        started = time.monotonic()
        run_module()
        module_s = time.monotonic() - started
        sizes = inside("sh", "-c", f"du -B1 {IMAGES}/fleet-bench/*.qcow2 | cut -f1").split()
        disk_mb = sum(map(int, sizes)) / options.vms / 1e6
        run_module(state="absent", vms={}, master=None)
        started = time.monotonic()
        inside("bash", "-c", BRIEF_SCRIPT, "brief", str(options.vms))
        brief_s = time.monotonic() - started
        print(f"{options.vms} VMs, a master with {options.gigabytes:g} GB of data")
        print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
        print(f"brief:    {brief_s:.1f} s, {brief_s / options.vms:.2f} s per VM")
        print(f"vm_fleet: {module_s:.1f} s, {module_s / options.vms:.2f} s per VM (with Ansible and ssh)")
        print(f"          {disk_mb:.1f} MB of disk per VM")
        print(f"ratio:    {brief_s / module_s:.1f}")
    finally:
        run(sys.executable, str(LAB), "down", environment=environment)
        shutil.rmtree(path)


if __name__ == "__main__":
    main()
