# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates for tests: two authorities, a server, and a client. `python3 certificates.py DIRECTORY` makes them."""

from __future__ import annotations

import pathlib
import subprocess
import sys

NAME = "redis.example"
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def openssl(directory, *words):
    subprocess.run(["openssl", *words], cwd=directory, check=True, stderr=subprocess.DEVNULL)


def authority(directory, name):
    openssl(directory, "req", "-x509", *KEY, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")


def certificate(directory, name, names="", issuer="ca"):
    """Make NAME.pem and NAME.key."""
    openssl(directory, "req", *KEY, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
    (directory / f"{name}.ext").write_text(f"subjectAltName={names}\n" if names else "basicConstraints=CA:FALSE\n")
    signing = ("-CA", f"{issuer}.pem", "-CAkey", f"{issuer}.key", "-CAcreateserial", "-extfile", f"{name}.ext")
    openssl(directory, "x509", "-req", "-in", f"{name}.csr", *signing, "-days", "30", "-out", f"{name}.pem")


def make(directory):
    """Make ca, server (for NAME and the loopback addresses), client, and stranger, an authority that nobody trusts."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    authority(directory, "ca")
    authority(directory, "stranger")
    certificate(directory, "server", f"DNS:{NAME},IP:127.0.0.1,IP:::1")
    certificate(directory, "client")
    openssl(directory, "pkey", "-in", "client.key", "-aes128", "-passout", "pass:x", "-out", "encrypted.key")


if __name__ == "__main__":
    make(sys.argv[1])
