"""Prints whether a machine's keys belong to its certificates, what its kubeconfigs are for, and where secrets lie.

facts/keys.py reads the output. Of keys, only a digest of what is public leaves the machine.
"""

from __future__ import annotations

import base64
import bz2
import glob
import gzip
import hashlib
import json
import lzma
import os
import re
import ssl
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from harness.validate.machine.library import read, said

PATTERNS = ("/var/lib/kubelet/pki/*.crt", "/var/lib/kubelet/pki/kubelet-client-current.pem")
KUBECONFIGS = "/etc/kubernetes/*.conf"
PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
# Keys of a kubeconfig whose values are shown; of all others only that they are there.
SHOWN = re.compile(
    r"^(name|server|cluster|user|namespace|current-context|client-certificate|client-key|certificate-authority"
    r"|insecure-skip-tls-verify|tls-server-name|proxy-url|kind|apiVersion)$"
)
LINE = re.compile(r"^(?P<indent>\s*(?:-\s+)?)(?P<key>[A-Za-z][\w-]*):(?P<value>.*)$")
KUBELET_PAIR = "/var/lib/kubelet/pki/kubelet-client-current.pem"
# Where people put copies, and where they do not: what the runtime and pods keep, and the system's own programs.
# looked at, not written
PLACES: tuple[str, ...] = (
    "/etc",
    "/root",
    "/home",
    "/opt",
    "/var",
    "/srv",
    "/usr/local",
    "/mnt",
    "/media",
    "/boot",
    "/run",
)
PLACES += ("/tmp", "/dev/shm")  # noqa: S108
LEFT_OUT = re.compile(
    r"^(/var/lib/(containerd|containers|docker|dpkg|apt|rpm|snapd|flatpak|kubelet/pods|cloud/instances/[^/]+/sem)"
    r"|/var/log/journal|/run/(containerd|crio|udev|systemd|netns|credentials|user|containers)"
    r"|/usr/local/lib/(python|releases)[^/]*|/var/lib/etcd/member)(/|$)|/(site|dist)-packages(/|$)"
)
FILES_MOST, SECONDS_MOST = 60000, 6.0  # of one search: a machine of a cluster has about a thousand such files
READ_MOST, PACKED_MOST = 1 << 20, 4 << 20  # bytes of a file that are read, and of what is unpacked
KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+([A-Za-z0-9+/=\s]{64,}?)-----END")
HELD_KEY = re.compile(rb"client-key-data[\"']?:\s*[\"']?([A-Za-z0-9+/=]{64,})")
TOKEN = re.compile(rb"(?m)^\s*[\"']?token[\"']?:\s*[\"']?[A-Za-z0-9_.-]{16,}")
ENCRYPTION = re.compile(rb"(?s)EncryptionConfiguration.{1,4000}[\"']?secret[\"']?:\s*[\"']?[A-Za-z0-9+/=]{16,}")
ACCOUNT = re.compile(rb"\beyJhbGciOi[\w-]{20,}\.[\w-]{20,}\.[\w-]{20,}")  # a signed token: how a JWT begins
BOLT, BOLT_AT = b"\xed\xda\x0c\xed", 16  # the magic number of a bbolt file, behind the header of its first page
WAL = b"\x04\x00\x00\x00\x00\x00\x00\x84"  # how the first record of etcd's write-ahead log begins
OF_ETCD = re.compile(rb"consistent_index|/registry/[a-z]")  # what of bbolt files only etcd's have
UNPACKERS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
# One of these is in every text with a secret: to look for them takes a tenth of what the patterns take.
HINTS = (b"PRIVATE KEY-----", b"client-key-data", b"token", b"EncryptionConfiguration", b"eyJhbGciOi")
# what OpenSSL calls a key of another certificate (x509.h), and files that hold none
WRONG = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_START_LINE", "PEM lib")


def pairs(folder: str) -> dict[str, str]:
    """Return why a certificate and the key beside it do not belong together, "" where they do."""
    patterns = [*PATTERNS, *([f"{folder}/*.crt", f"{folder}/**/*.crt"] if folder else [])]
    why_by_path = {}
    for path in sorted({path for pattern in patterns for path in glob.glob(pattern, recursive=True)}):
        key = path if path.endswith(".pem") else path[: -len(".crt")] + ".key"
        if os.path.exists(key):
            why_by_path[path] = unfit(path, key)
    return why_by_path


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
    """Return of each kubeconfig its server, the certificates of all CAs that it trusts, and its user's certificate."""
    kubeconfigs_by_path = {}
    for path in sorted(glob.glob(KUBECONFIGS)):
        text = read(path) or ""
        server = re.search(r"^\s*-?\s*server:\s*[\"']?([^\s\"']+)", text, re.MULTILINE)
        named = re.search(r"^\s*certificate-authority:\s*[\"']?([^\s\"']+)", text, re.MULTILINE)
        authority = held(text, "certificate-authority") or (read(named.group(1)) or "" if named else "")
        certificate = PEM.search(held(text, "client-certificate"))
        kubeconfigs_by_path[path] = {
            "server": server.group(1) if server else "",
            "authority": "\n".join(PEM.findall(authority)),
            "certificate": certificate.group(0) if certificate else "",
            "form": form(text),
        }
    return kubeconfigs_by_path


def form(text: str) -> str:
    """Return a kubeconfig without its secrets: of values that are not SHOWN only that they are there."""
    lines = []
    for line in text.splitlines():
        match = LINE.match(line)
        if match is not None:
            value = match["value"].strip()
            shown = value if SHOWN.match(match["key"]) or value in ("", "{}", "[]", "null") else "given"
            lines.append(f"{match['indent']}{match['key']}: {shown}".rstrip())
    return "\n".join(lines)


def pair() -> dict[str, Any]:
    """Return where kubelet's client certificate leads, and whether a certificate and a key are there."""
    text = read(KUBELET_PAIR) or ""
    link = os.readlink(KUBELET_PAIR) if os.path.islink(KUBELET_PAIR) else ""
    return {"link": link, "certificate": bool(PEM.search(text)), "key": "PRIVATE KEY-----" in text}


def secrets_found() -> dict[str, Any]:
    """Return [path, what, permissions, owner, whether all read it, digests] of files with secrets; whether it is whole.

    A digest tells copies of one key; it is of 256 random bits and more.
    """
    until, count = time.monotonic() + SECONDS_MOST, 0
    secrets: list[list[Any]] = []
    for path in regular_files():
        count += 1
        if count > FILES_MOST or time.monotonic() > until:
            return {"files": secrets, "whole": False}
        try:
            status = os.lstat(path)
            kind, digests = content(path, status.st_size)
        except (OSError, EOFError, ValueError, lzma.LZMAError):
            continue
        if kind:
            mode = stat.S_IMODE(status.st_mode)
            secrets.append([path, kind, mode, status.st_uid, bool(mode & stat.S_IROTH) and reached(path), digests])
    return {"files": secrets, "whole": True}


def reached(path: str) -> bool:
    """Tell whether any user of the machine may go through all folders above a file."""
    folder = os.path.dirname(path)
    while folder != "/":
        if not os.stat(folder).st_mode & stat.S_IXOTH:
            return False
        folder = os.path.dirname(folder)
    return True


def regular_files() -> Iterator[str]:
    """Yield the regular files of PLACES, each once, without what is LEFT_OUT."""
    for place in PLACES:
        for folder, folders, names in os.walk(place):
            folders[:] = [name for name in folders if not LEFT_OUT.search(f"{folder}/{name}")]
            for name in names:
                path = f"{folder}/{name}"
                try:
                    regular = stat.S_ISREG(os.lstat(path).st_mode)
                except OSError:  # it is gone meanwhile
                    continue
                if regular:
                    yield path


def content(path: str, size: int) -> tuple[str, list[str]]:
    """Return what secret a file holds ("" for none), and the digests of the keys in it.

    What: key, kubeconfig, token, encryption (keys of Secrets) or etcd.
    """
    with open(path, "rb") as handle:
        head = handle.read(READ_MOST)
    opener = next((way for magic, way in UNPACKERS.items() if head.startswith(magic)), None)
    if opener is not None:
        with opener(path, "rb") as unpacked:
            head = unpacked.read(PACKED_MOST)
    if head[BOLT_AT : BOLT_AT + 4] == BOLT:
        with open(path, "rb") as handle:
            return ("etcd", []) if opener is not None or OF_ETCD.search(handle.read(PACKED_MOST)) else ("", [])
    if head.startswith(WAL):
        return "etcd", []
    if not any(hint in head for hint in HINTS):
        return ("key", []) if size < READ_MOST and binary_key(head) else ("", [])
    bodies = [re.sub(rb"\s", b"", body) for body in KEY.findall(head)]
    held_keys = [base64.b64decode(text) for text in HELD_KEY.findall(head)]
    bodies += [re.sub(rb"\s", b"", body) for text in held_keys for body in KEY.findall(text)]
    digests = sorted({hashlib.sha256(body).hexdigest()[:16] for body in bodies})
    if held_keys or (b"kind: Config" in head and TOKEN.search(head)):
        return "kubeconfig", digests
    if ENCRYPTION.search(head):
        return "encryption", digests
    if bodies or (size < READ_MOST and binary_key(head)):
        return "key", digests
    return ("token", []) if ACCOUNT.search(head) else ("", [])


def binary_key(head: bytes) -> bool:
    """Tell whether a file is a private key in DER (PKCS #1, #8, SEC 1) or a PKCS #12 archive."""
    if head[:2] != b"\x30\x82":
        return False
    numbers, rest = head[4:7], head[7:32]
    rsa, wrapped, curve = b"\x02\x82", b"\x30", b"\x04"  # what follows the version
    if numbers == b"\x02\x01\x00":
        return rest.startswith((rsa, wrapped))
    return (numbers == b"\x02\x01\x01" and rest.startswith(curve)) or numbers == b"\x02\x01\x03"


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
    report: dict[str, Any] = {
        "pairs": pairs(folder),
        "counts": {path: len(PEM.findall(read(path) or "")) for path in sorted(files)},
        "kubeconfigs": kubeconfigs(),
        "authority": authority.group(0) if authority else "",
        "accounts": account_keys(folder),
        "pair": pair(),
        "secrets": secrets_found(),
    }
    print(json.dumps(report))  # noqa: T201 - its only output, read by the harness


if __name__ == "__main__":
    main(sys.argv[1:])
