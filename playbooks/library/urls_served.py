#!/usr/bin/python
"""Ansible module: ask at once whether many addresses are served, and change nothing.

`uri` asks for one address at a time, which takes longer than a whole second run of the playbooks for all that machines
are going to fetch; and it compares no checksum.
"""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: urls_served
short_description: Ask whether many addresses are served
description: [Never fails; returns `missing`, what is not served as asked for, and `silent`, what does not answer.]
options:
  addresses: {description: Addresses of HTTP., type: list, elements: str, required: true}
  checksums: {description: SHA-256 of what some of them serve, by address., type: dict, default: {}}
author: [vmatrix]
"""
KINDS = ("oci.image.manifest.v1", "oci.image.index.v1", "docker.distribution.manifest.v2")
HEADERS = {"Accept": ", ".join(f"application/vnd.{kind}+json" for kind in KINDS)}
SECONDS = 5.0  # for one answer
CHUNK = 1 << 20  # bytes


def ask(url: str, sha256: str) -> tuple[str, str]:
    """Return what is wrong with an address, and which server does not answer; "" where nothing is."""
    request = urllib.request.Request(url, method="GET" if sha256 else "HEAD", headers=HEADERS)  # noqa: S310
    digest = hashlib.sha256()
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310 - the mirror that the caller gave
            while sha256 and (chunk := answer.read(CHUNK)):
                digest.update(chunk)
    except urllib.error.HTTPError as error:
        with error:  # it holds the connection
            return f"{url}: {error.code} {error.reason}", ""
    except OSError as error:
        return "", f"{'/'.join(url.split('/')[:3])}: {getattr(error, 'reason', error)}"
    same = not sha256 or digest.hexdigest() == sha256
    return "" if same else f"{url}: checksum {digest.hexdigest()}, but cluster_checksums has {sha256}", ""


def main() -> None:
    """Run as an Ansible module."""
    spec: dict[str, Any] = {"addresses": {"type": "list", "elements": "str", "required": True}}
    spec["checksums"] = {"type": "dict", "default": {}}
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    urls, checksums = module.params["addresses"], module.params["checksums"]
    with ThreadPoolExecutor(max_workers=8) as pool:
        answers = list(pool.map(lambda url: ask(url, checksums.get(url, "")), urls))
    missing, silent = ([each[place] for each in answers if each[place]] for place in (0, 1))
    module.exit_json(changed=False, missing=missing, silent=sorted(set(silent)))


if __name__ == "__main__":
    main()
