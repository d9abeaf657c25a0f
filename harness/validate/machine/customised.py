"""Prints what a control plane shows of a customised kubeadm: volumes of its programs, and the scheduler's settings.

topics/customised.py reads it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from harness.validate.machine.library import admins, age, fetch, flag, processes, read

OK = 200
CONFIGZ = "https://127.0.0.1:10259/configz"


def volume(pid: int, outside: str, inside: str) -> list[Any]:
    """Return [whether both paths are the same file or folder, whether it is read-only there, why nothing was seen]."""
    place = f"/proc/{pid}/root{inside}"
    try:
        here, there, rights = os.stat(outside), os.stat(place), os.statvfs(place)
    except OSError as error:
        return [False, False, str(error)]
    same = (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
    return [same, bool(rights.f_flag & os.ST_RDONLY), ""]


def volumes(
    running: Mapping[str, dict[str, Any]], asked: Mapping[str, Sequence[Sequence[str]]]
) -> dict[str, dict[str, list[Any]]]:
    """Return of each running program its volumes, by the path in its container."""
    return {
        program: {inside: volume(running[program]["pid"], outside, inside) for outside, inside in pairs}
        for program, pairs in asked.items()
        if program in running
    }


def scheduler(running: Mapping[str, dict[str, Any]]) -> dict[str, Any] | None:
    """Return the file that the scheduler reads, its age against the process, and what the scheduler has in effect."""
    if "kube-scheduler" not in running:
        return None
    process = running["kube-scheduler"]
    file = flag(process["argv"], "config")
    place = f"/proc/{process['pid']}/root{file}"  # what it sees, and not what the machine does
    answer = fetch(CONFIGZ, None, admins())
    try:
        told = json.loads(answer["body"])["componentconfig"] if answer["status"] == OK else {}
    except (ValueError, KeyError):
        told = {}
    newer = os.stat(place).st_mtime - time.time() + age(process["pid"]) if file and os.path.exists(place) else 0.0
    content = (read(place) or "") if file else ""
    return {"file": file, "content": content, "newer": newer, "status": answer["status"], "running": told}


def main(argv: Sequence[str]) -> None:
    """Print everything.

    Args:
        argv: one JSON object: `volumes`, by program [path on the machine, path in the container] of each.
    """
    options = json.loads(argv[0])
    running = {process["name"]: process for process in processes()}
    report = {"volumes": volumes(running, options["volumes"]), "scheduler": scheduler(running)}
    print(json.dumps(report))  # noqa: T201 - its only output, read by the harness


if __name__ == "__main__":
    main(sys.argv[1:])
