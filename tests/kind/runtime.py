"""An OCI runtime in front of runc for hosts whose capability bounding set lacks CAP_SYS_RESOURCE.

There `docker run --privileged` fails: runc cannot give a container what this host has not got. So what asks for it is
taken out of the bundle before runc sees it: the capability, limits above the hard ones, an OOM score below 0.
Runs as a program of its own, many times a second: nothing but the standard library, and little of that.
"""

from __future__ import annotations

import json
import os
import resource
import sys

RUNC = "/usr/sbin/runc"
CAPABILITY = "CAP_SYS_RESOURCE"


def main(arguments: list[str]) -> None:
    """Mend what the arguments name, then become runc."""
    bundle, process = _value(arguments, "--bundle", "-b"), _value(arguments, "--process", "-p")
    if "create" in arguments or "run" in arguments:
        _rewrite(os.path.join(bundle or ".", "config.json"), _mend_spec)
    elif "exec" in arguments and process:
        _rewrite(process, mend_process)
    os.execv(RUNC, [RUNC, *arguments])  # noqa: S606 - becomes runc


def _value(arguments: list[str], long: str, short: str) -> str:
    for at, word in enumerate(arguments):
        if word in (long, short):
            return arguments[at + 1]
        if word.startswith(long + "="):
            return word.partition("=")[2]
    return ""


def _rewrite(path: str, mend) -> None:  # type: ignore[no-untyped-def]
    with open(path) as source:
        content = json.load(source)
    mend(content)
    temporary = path + ".mended"
    with open(temporary, "w") as target:
        json.dump(content, target)
    os.replace(temporary, path)


def _mend_spec(spec: dict) -> None:  # type: ignore[type-arg]
    mend_process(spec.get("process") or {})


def mend_process(process: dict) -> None:  # type: ignore[type-arg]
    """Take out of a container's process what this host cannot give it."""
    for kept in (process.get("capabilities") or {}).values():
        if CAPABILITY in kept:
            kept.remove(CAPABILITY)
    if (process.get("oomScoreAdj") or 0) < 0:
        process["oomScoreAdj"] = 0
    process["rlimits"] = [limit for limit in process.get("rlimits") or [] if _within(limit)]


def _within(limit: dict) -> bool:  # type: ignore[type-arg]
    number = getattr(resource, limit["type"], None)
    hard = resource.getrlimit(number)[1] if number is not None else None
    return hard is None or hard == resource.RLIM_INFINITY or bool(limit["hard"] <= hard)


if __name__ == "__main__":
    main(sys.argv[1:])
