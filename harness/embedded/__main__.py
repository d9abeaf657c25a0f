"""Run the embedded KubeVirt and CDI part: `python -m harness.embedded --kubeconfig PATH ...`."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.embedded import STRETCH
from harness.embedded.process import Options, run
from harness.errors import EXIT_OK, VmatrixError

log = logging.getLogger("kubevirt")


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host, int(port)


def options_of(arguments: Sequence[str]) -> Options:
    """Read the command line; a wrong one ends the process with status 2."""
    parser = argparse.ArgumentParser(prog="python -m harness.embedded", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True, help="of the cluster to serve; an administrator's")
    parser.add_argument("--state", type=Path, required=True, help="the instance's state directory")
    parser.add_argument("--index", type=int, required=True, help="the instance's index: it owns 10.(213+index).0.0/16")
    parser.add_argument(
        "--node-name",
        required=True,
        action="append",
        help="name of the Node that stands for this host; of several, each stands for an equal share of it",
    )
    parser.add_argument("--webhook-address", type=_address, required=True, help="HOST:PORT to serve the webhooks on")
    parser.add_argument(
        "--subresources-address",
        type=_address,
        help="HOST:PORT to serve the subresources API on; by default the webhooks' host and the port after theirs",
    )
    parser.add_argument(
        "--namespaces",
        type=Path,
        metavar="KUBECONFIG",
        help="end the namespaces that are deleted, as its user: the controller manager does not",
    )
    parser.add_argument("--pki", type=Path, required=True, help="folder with ca.crt, webhook.crt and webhook.key")
    options = parser.parse_args(arguments)
    host, port = options.webhook_address
    return Options(
        options.kubeconfig,
        options.state.resolve(),
        options.index,
        tuple(options.node_name),
        host,
        port,
        options.pki,
        options.subresources_address or (host, port + 1),
        float(os.environ.get(STRETCH, "1")),
        options.namespaces,
    )


def main(arguments: Sequence[str]) -> int:
    """Serve until told to stop; return the exit status."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(levelname)s %(threadName)s %(message)s"
    )
    try:
        run(options_of(arguments))
    except VmatrixError as error:
        log.error("%s%s", error, f" ({error.hint})" if error.hint else "")
        return error.exit_code
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
