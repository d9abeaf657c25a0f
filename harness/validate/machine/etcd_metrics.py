"""Prints the samples of a few metrics of this machine's etcd; nothing where none runs.

etcd answers /metrics at its own metrics URLs without credentials, else at its client URLs with a client's certificate,
for which its own serves (kubeadm and vmatrix's playbooks make it for both uses).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from harness.validate.machine.library import effective, fetch, of_loopback, processes, read_of, trusting


def main(argv: Sequence[str]) -> None:
    """Print {"lines", "error"}, or null where no etcd runs.

    Args:
        argv: one JSON object: `names` of metrics, as their lines begin.
    """
    names = tuple(json.loads(argv[0])["names"])
    process = next(iter(processes("etcd")), None)
    print(json.dumps(None if process is None else look(process, names)))  # noqa: T201 - its only output, read by the harness


def look(process: dict[str, object], names: tuple[str, ...]) -> dict[str, object]:
    """Return the lines of these metrics, or why there are none."""
    urls = effective(process, "listen-metrics-urls") or effective(process, "listen-client-urls")
    every = [url.strip() for url in urls.split(",")]
    base = of_loopback(every)
    context = None
    if base.startswith("https"):
        try:
            context = trusting(cadata=read_of(int(str(process["pid"])), effective(process, "trusted-ca-file")) or "")
            context.load_cert_chain(effective(process, "cert-file"), effective(process, "key-file"))
        except (OSError, ValueError) as error:
            return {"lines": [], "error": str(error)}
    answer = fetch(base + "/metrics", None, context)
    if answer["status"] != 200:
        return {"lines": [], "error": f"{base}/metrics: {answer['status']} {answer['body'][:200]}"}
    return {"lines": [line for line in answer["body"].splitlines() if line.startswith(names)], "error": ""}


if __name__ == "__main__":
    main(sys.argv[1:])
