"""Compare a live watch stream with the recordings, by hand.

    python -m tests.contract.walk record --kubeconfig K --namespace NS --out live.json --seconds 30
    python -m tests.contract.walk vm live.json NAME
    python -m tests.contract.walk dv live.json NAME --like good|blank|badsum|notfound|larger [--late]

`record` watches VirtualMachines, instances, pods, DataVolumes, claims and events of a namespace: start it before the
objects are created and let it run until they are gone. The others print the differences and end with status 1 when
there are any; `--show` prints the live transitions as well.
"""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path

from harness.kube.client import Cluster
from tests.contract.limits import patience
from tests.contract.streams import Streams, Watcher, load, save
from tests.contract.transitions import steps
from tests.contract.walks import DV_WALKS, VM_WALKS, compare_dv, compare_vm


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record")
    record.add_argument("--kubeconfig", type=Path, required=True)
    record.add_argument("--namespace", required=True)
    record.add_argument("--out", type=Path, required=True)
    record.add_argument("--seconds", type=float, required=True)
    for name in ("vm", "dv"):
        compare = commands.add_parser(name)
        compare.add_argument("stream", type=Path)
        compare.add_argument("name")
        compare.add_argument("--show", action="store_true")
        if name == "dv":
            compare.add_argument("--like", choices=sorted(DV_WALKS), required=True)
            compare.add_argument("--late", action="store_true", help="its class waits for a first consumer")
    return parser.parse_args()


def _show(live: Streams, command: str, name: str) -> None:
    for walk in VM_WALKS if command == "vm" else list(DV_WALKS.values())[:1]:
        for step in steps(live.of(walk.stream, walk.live_name(name)), walk.facets):
            sys.stdout.write(f"{step.revision:>8} {walk.stream:<4} {step.facet} = {step.value}\n")


def main() -> int:
    """Run one command; return the exit status."""
    given = _arguments()
    if given.command == "record":
        watcher = Watcher(Cluster.from_kubeconfig(given.kubeconfig, patience=patience()), given.namespace).start()
        threading.Event().wait(given.seconds)
        save(watcher.taken(), given.out)
        sys.stdout.write("".join(f"watch broke: {line}\n" for line in watcher.broken))
        return 1 if watcher.broken else 0
    live = load(given.stream)
    if given.show:
        _show(live, given.command, given.name)
    if given.command == "vm":
        found = compare_vm(live, given.name)
    else:
        found = compare_dv(live, given.like, given.name, late=given.late)
    sys.stdout.write("".join(f"{line}\n" for line in found) or "no difference\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
