#!/usr/bin/python
"""Ansible module: have kubelets serve with certificates of the cluster. Runs on a control plane.

Without `approve` it waits until each machine's kubelet serves with such a certificate or has asked for one, and returns
the requests that are pending. With `approve` it approves these requests and waits until every kubelet serves. Whether a
request is right is not judged here: the filter `judged_requests` does it on the controller, which has what it takes to
read one. Covers kubelets that listen on port 10250 of the machine's address.
"""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: kubelet_certificates
short_description: Have kubelets serve with certificates of the cluster
description:
  - Without O(approve), waits until each kubelet serves with a certificate of the cluster or has asked for one.
  - With O(approve), approves these requests and waits until each kubelet serves with a certificate of the cluster.
  - A machine whose node has not reported for a while (Ready is Unknown) is not waited for.
  - Check mode neither waits nor approves.
options:
  machines:
    description: Machines with a kubelet, with name and address.
    type: list
    elements: dict
    required: true
  approve: {description: Names of requests to approve., type: list, elements: str}
  complaints:
    description: Why other requests are not approved; said if a kubelet does not serve.
    type: list
    elements: str
    default: []
  timeout: {description: Seconds., type: int, default: 180}
  kubeconfig: {description: Of an admin., type: path, default: /etc/kubernetes/admin.conf}
  ca: {description: The cluster's CA., type: path, default: /etc/kubernetes/pki/ca.crt}
author: [vmatrix]
"""

EXAMPLES = r"""
- name: Look for kubelets that ask for a certificate
  kubelet_certificates:
    machines: [{name: w-0, address: 192.0.2.3}]
"""

RETURN = r"""
requests: {description: Pending requests., returned: without approve, type: list, elements: dict}
approved: {description: Names of approved requests., returned: with approve, type: list, elements: str}
"""

PORT = 10250
SIGNER = "kubernetes.io/kubelet-serving"
ANSWER_SECONDS = 5
COMMAND_SECONDS = 30


class Trouble(Exception):
    """The API does not answer, or refuses."""


def kubectl(kubeconfig: str, *words: str) -> str:
    """Return what kubectl says. Raises Trouble."""
    argv = ["/usr/local/bin/kubectl", "--kubeconfig", kubeconfig, f"--request-timeout={COMMAND_SECONDS}s", *words]
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise Trouble((done.stderr.strip() or done.stdout.strip())[-500:])
    return done.stdout


def served(address: str, ca: str, port: int = PORT) -> bool:
    """Tell whether a certificate that the CA signed for this address is served."""
    context = ssl.create_default_context(cafile=ca)
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    try:
        with (
            socket.create_connection((address, port), timeout=ANSWER_SECONDS) as link,
            context.wrap_socket(link, server_hostname=address),
        ):
            return True
    except (OSError, ValueError):
        return False


def pending(kubeconfig: str) -> list[dict[str, Any]]:
    """Return the requests for serving certificates that nobody has decided on. Raises Trouble."""
    said = kubectl(
        kubeconfig, "get", "certificatesigningrequests", f"--field-selector=spec.signerName={SIGNER}", "--output=json"
    )
    fields = ("username", "groups", "usages", "request", "signerName")
    return [
        {"name": one["metadata"]["name"], **{key: one["spec"].get(key) for key in fields}}
        for one in json.loads(said)["items"]
        if not one.get("status", {}).get("conditions")
    ]


def silent(kubeconfig: str) -> set[str]:
    """Return the nodes that have not reported for a while. Raises Trouble."""
    nodes = json.loads(kubectl(kubeconfig, "get", "nodes", "--output=json"))["items"]
    return {
        node["metadata"]["name"]
        for node in nodes
        for condition in node.get("status", {}).get("conditions", [])
        if condition["type"] == "Ready" and condition["status"] == "Unknown"
    }


def wait(seconds: float, look: Callable[[], list[str]]) -> list[str]:
    """Look until nothing is left to wait for, or until the time is over; return what is left."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            left = look()
        except Trouble as trouble:
            left = [str(trouble)]
        if not left or time.monotonic() >= deadline:
            return left
        time.sleep(1)


def main() -> None:
    """Run as an Ansible module."""
    module = AnsibleModule(
        argument_spec={
            "machines": {"type": "list", "elements": "dict", "required": True},
            "approve": {"type": "list", "elements": "str"},
            "complaints": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "int", "default": 180},
            "kubeconfig": {"type": "path", "default": "/etc/kubernetes/admin.conf"},
            "ca": {"type": "path", "default": "/etc/kubernetes/pki/ca.crt"},
        },
        supports_check_mode=True,
    )
    given = module.params
    kubeconfig, approve = given["kubeconfig"], given["approve"]
    if module.check_mode:
        module.exit_json(changed=bool(approve), requests=[], approved=[])
    found: list[dict[str, Any]] = []

    def left() -> list[str]:
        gone = silent(kubeconfig)
        names = {one["name"]: one["address"] for one in given["machines"] if one["name"] not in gone}
        return [name for name, address in names.items() if not served(address, given["ca"])]

    def unheard() -> list[str]:
        found[:] = pending(kubeconfig)
        asking = {str(one["username"]).removeprefix("system:node:") for one in found}
        return [name for name in left() if name not in asking]

    if approve is None:
        waiting = wait(given["timeout"], unheard)
        if waiting:
            module.fail_json(
                msg=f"after {given['timeout']} s these kubelets have not asked for a certificate: {', '.join(waiting)};"
                " look at journalctl -u kubelet on them"
            )
        module.exit_json(changed=False, requests=found)
    try:
        if approve:
            kubectl(kubeconfig, "certificate", "approve", *approve)
    except Trouble as trouble:
        module.fail_json(msg=f"cannot approve {', '.join(approve)}: {trouble}")
    waiting = wait(given["timeout"] if approve else 0, left)
    if waiting:
        reasons = "; ".join(given["complaints"]) or "look at journalctl -u kubelet on them"
        module.fail_json(
            msg=f"these kubelets do not serve with a certificate of the cluster: {', '.join(waiting)}; {reasons}"
        )
    module.exit_json(changed=bool(approve), approved=approve)


if __name__ == "__main__":
    main()
