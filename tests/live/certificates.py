"""Certificates for tests, made by openssl: an authority, a server's that it signed, another authority."""

import shutil
import subprocess
from pathlib import Path

import pytest


def make_certificates(folder: Path, host: str = "localhost") -> None:
    """``ca.pem``, ``head.pem`` with its authority and ``head.key`` for ``host``, ``other.pem``.

    Skips the test where there is no openssl.
    """
    if shutil.which("openssl") is None:
        pytest.skip("no certificates: there is no openssl")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    for name in ("ca", "other"):
        made = f"req -x509 -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.pem -days 2"
        openssl(*made.split(), "-subj", f"/CN=authority {name}")
    asked = "req -newkey rsa:2048 -nodes -keyout head.key -out head.csr"
    openssl(*asked.split(), "-subj", f"/CN={host}")
    (folder / "names").write_text(f"subjectAltName=DNS:{host}\n")
    signed = "x509 -req -in head.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2"
    openssl(*signed.split(), "-extfile", "names", "-out", "leaf.pem")
    chain = (folder / "leaf.pem").read_text() + (folder / "ca.pem").read_text()
    (folder / "head.pem").write_text(chain)
