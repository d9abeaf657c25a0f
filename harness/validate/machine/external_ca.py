"""Prints which files of a machine hold the key of a CA, and the certificates that the CAs should have signed.

topics/external_ca.py reads it. Keys are compared on the machine, and only paths of files leave it.
"""

from __future__ import annotations

import base64
import glob
import json
import os
import re
import ssl
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence

from harness.validate.machine.library import read

PLACES = ("/etc/kubernetes", "/var/lib/kubelet", "/root", "/etc/etcd", "/var/lib/host-configuration")
LEFT_OUT = ("/var/lib/kubelet/pods", "/var/lib/kubelet/plugins")  # volumes of pods, which may be whole file systems
LARGEST = 1 << 20  # bytes: no file with a key is larger
AUTHORITIES = ("ca.crt", "front-proxy-ca.crt", "etcd/ca.crt")
KUBELET = "/var/lib/kubelet/pki/kubelet-client-current.pem"
CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
KEY = re.compile(r"-----BEGIN ([A-Z ]*)PRIVATE KEY-----.+?-----END \1PRIVATE KEY-----", re.DOTALL)
ENCODED = re.compile(r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]+")  # "-----BEGIN " in base64
NAMED = re.compile(r"^\s*client-certificate:\s*[\"']?([^\s\"']+)", re.MULTILINE)
HELD = re.compile(r"^\s*client-certificate-data:\s*[\"']?([A-Za-z0-9+/=]+)", re.MULTILINE)


def files(places: Sequence[str]) -> Iterator[str]:
    """Yield the paths of regular files below folders that are small enough for a key."""
    for place in places:
        for folder, folders, names in os.walk(place):
            folders[:] = [folder_name for folder_name in folders if os.path.join(folder, folder_name) not in LEFT_OUT]
            for name in names:
                path = os.path.join(folder, name)
                try:
                    status = os.lstat(path)
                except OSError:  # gone meanwhile
                    continue
                if stat.S_ISREG(status.st_mode) and 0 < status.st_size <= LARGEST:
                    yield path


def decoded(text: str) -> str:
    """Return what is PEM in base64, "" for what is not."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4)).decode(errors="replace")
    except ValueError:
        return ""


def keys_in(text: str) -> list[str]:
    """Return the private keys of a text: as PEM, in JSON, or in base64 as kubeconfigs have them."""
    whole = [text.replace("\\n", "\n"), *(decoded(text_in_base64) for text_in_base64 in ENCODED.findall(text))]
    return list(dict.fromkeys(match.group(0) + "\n" for part in whole for match in KEY.finditer(part)))


def fitting(keys: Sequence[str], authorities: Sequence[str]) -> list[str]:
    """Return the paths of the CAs that one of the keys belongs to."""
    paths = []
    for key in keys:
        with tempfile.NamedTemporaryFile("w", dir="/dev/shm") as place:
            place.write(key)
            place.flush()
            for path in authorities:
                try:
                    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(path, place.name, lambda: b"-")
                except OSError:  # of another certificate, or none at all
                    continue
                paths.append(path)
    return sorted(set(paths))


def issued(folder: str) -> dict[str, str]:
    """Return certificates by where they are: files of the cluster, kubeconfigs, the kubelet's own."""
    texts = {}
    for path in sorted(glob.glob(f"{folder}/**/*.crt", recursive=True)):
        if os.path.relpath(path, folder) not in AUTHORITIES:
            texts[path] = read(path) or ""
    for path in sorted(glob.glob("/etc/kubernetes/*.conf")):
        text = read(path) or ""
        held, named = HELD.search(text), NAMED.search(text)
        texts[path] = decoded(held.group(1)) if held else (read(named.group(1)) or "") if named else ""
    if os.path.exists(KUBELET):
        texts[KUBELET] = read(KUBELET) or ""
    first = {path: CERTIFICATE.search(text) for path, text in texts.items()}
    return {path: match.group(0) if match else "" for path, match in first.items()}


def main(argv: Sequence[str]) -> None:
    """Print everything.

    Args:
        argv: one JSON object: the folder `certificates`, and the `places` to look for keys in, [] for the usual ones.
    """
    options = json.loads(argv[0])
    folder = options["certificates"]
    authorities = [path for path in (f"{folder}/{file}" for file in AUTHORITIES) if os.path.exists(path)]
    fits: dict[str, list[str]] = {}
    count = 0
    for path in files([*(options["places"] or PLACES), folder]):
        keys = keys_in(read(path) or "")
        count += len(keys)
        there = fitting(keys, authorities)
        if there:
            fits[path] = there
    texts = {path: CERTIFICATE.search(read(path) or "") for path in authorities}
    report = {
        "authorities": {path: match.group(0) if match else "" for path, match in texts.items()},
        "keys": count,
        "fits": fits,
        "issued": issued(folder),
    }
    print(json.dumps(report))  # noqa: T201 - its only output, read by the harness


if __name__ == "__main__":
    main(sys.argv[1:])
