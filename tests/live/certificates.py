"""Certificates for tests, made by openssl: an authority, two servers' that it signed, another authority."""

import shutil
import subprocess
from pathlib import Path

import pytest


def make_certificates(folder: Path, host: str = "localhost") -> None:
    """``ca.pem``, ``other.pem``; for ``host`` ``head`` and ``relay``: ``.pem`` with its authority, ``.key``.

    Skips the test where there is no openssl.
    """
    if shutil.which("openssl") is None:
        pytest.skip("no certificates: there is no openssl")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    for name in ("ca", "other"):
        made = f"req -x509 -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.pem -days 2"
        openssl(*made.split(), "-subj", f"/CN=authority {name}")
    (folder / "names").write_text(f"subjectAltName=DNS:{host}\n")
    for name in ("head", "relay"):
        asked = f"req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr"
        openssl(*asked.split(), "-subj", f"/CN={host}")
        signed = f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2"
        openssl(*signed.split(), "-extfile", "names", "-out", "leaf.pem")
        chain = (folder / "leaf.pem").read_text() + (folder / "ca.pem").read_text()
        (folder / f"{name}.pem").write_text(chain)
