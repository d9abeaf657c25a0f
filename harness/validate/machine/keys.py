"""Prints whether a machine's keys belong to its certificates, and what its kubeconfigs are for.

topics/certificates.py reads the output. Of keys, only a digest of what is public leaves the machine.
"""

from __future__ import annotations

import base64
import glob
import hashlib
import json
import os
import re
import ssl
import sys
from collections.abc import Sequence
from typing import Any

from harness.validate.machine.library import read, said

PATTERNS = ("/var/lib/kubelet/pki/*.crt", "/var/lib/kubelet/pki/kubelet-client-current.pem")
KUBECONFIGS = "/etc/kubernetes/*.conf"
PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
# what OpenSSL calls a key of another certificate (x509.h), and files that hold none
WRONG = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_START_LINE", "PEM lib")


def pairs(folder: str) -> dict[str, str]:
    """Return why a certificate and the key beside it do not belong together, "" where they do."""
    patterns = [*PATTERNS, *([f"{folder}/*.crt", f"{folder}/**/*.crt"] if folder else [])]
    found = {}
    for path in sorted({one for pattern in patterns for one in glob.glob(pattern, recursive=True)}):
        key = path if path.endswith(".pem") else path[: -len(".crt")] + ".key"
        if os.path.exists(key):
            found[path] = unfit(path, key)
    return found


def unfit(certificate: str, key: str) -> str:
    """Return why a key is not that of a certificate (files), "" where it is."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key, lambda: b"-")
    except ssl.SSLError as error:
        text = f"{error.reason or ''} {error}"
        return text.strip() if any(word in text for word in WRONG) else ""
    except OSError as error:
        return str(error)
    return ""


def held(text: str, name: str) -> str:
    """Return what a kubeconfig holds in base64 under a name."""
    match = re.search(rf"^\s*{name}-data:\s*[\"']?([A-Za-z0-9+/=]+)", text, re.MULTILINE)
    try:
        return base64.b64decode(match.group(1)).decode(errors="replace") if match else ""
    except ValueError:
        return ""


def kubeconfigs() -> dict[str, dict[str, str]]:
    """Return of each kubeconfig its server, the certificate of its CA, and its user's certificate."""
    found = {}
    for path in sorted(glob.glob(KUBECONFIGS)):
        text = read(path) or ""
        server = re.search(r"^\s*-?\s*server:\s*[\"']?([^\s\"']+)", text, re.MULTILINE)
        named = re.search(r"^\s*certificate-authority:\s*[\"']?([^\s\"']+)", text, re.MULTILINE)
        authority = PEM.search(held(text, "certificate-authority") or (read(named.group(1)) or "" if named else ""))
        certificate = PEM.search(held(text, "client-certificate"))
        found[path] = {
            "server": server.group(1) if server else "",
            "authority": authority.group(0) if authority else "",
            "certificate": certificate.group(0) if certificate else "",
        }
    return found


def account_keys(folder: str) -> dict[str, str]:
    """Return digests of the public halves of the keys that sign tokens of ServiceAccounts and check them."""
    private, public = f"{folder}/sa.key", f"{folder}/sa.pub"
    texts = {public: read(public) or "" if folder else ""}
    if folder and os.path.exists(private):
        texts[private] = said(["openssl", "pkey", "-in", private, "-pubout"]) or ""
    known = {path: text.strip() for path, text in texts.items() if "PUBLIC KEY" in text}
    return {path: hashlib.sha256(text.encode()).hexdigest() for path, text in known.items()}


def main(argv: Sequence[str]) -> None:
    """Print everything.

    Args:
        argv: one JSON object: the folder `certificates` ("" where the product does not say).
    """
    folder = json.loads(argv[0])["certificates"]
    files = glob.glob(f"{folder}/**/*.crt", recursive=True) if folder else []
    authority = PEM.search(read(f"{folder}/ca.crt") or "") if folder else None
    seen: dict[str, Any] = {
        "pairs": pairs(folder),
        "counts": {path: len(PEM.findall(read(path) or "")) for path in sorted(files)},
        "kubeconfigs": kubeconfigs(),
        "authority": authority.group(0) if authority else "",
        "accounts": account_keys(folder),
    }
    print(json.dumps(seen))  # noqa: T201 - its only output, read by the harness


if __name__ == "__main__":
    main(sys.argv[1:])
