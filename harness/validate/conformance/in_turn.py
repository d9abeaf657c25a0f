"""Has the processes of e2e.test get ready one after another.

Before its first spec, each of them builds the tree of all upstream specs, 2 s of a processor. If all do that at the
same time, none has a spec until all are nearly ready. If some go first, their specs wait for pods while others build.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

BEHIND = 3  # how much less priority (nice(1)) each process has than the one before it
FURTHEST = 10  # the least priority: beside other work of the same session or container, a tenth of a processor is left
SCRIPT = """\
#!/bin/sh
# ginkgo numbers the processes that it starts from 1 on. The first {first} go first, and then one after another.
behind=0
for word; do
    case $word in --ginkgo.parallel.process=*) behind=$(((${{word#*=}} - {first}) * {step})) ;; esac
done
[ "$behind" -gt 0 ] || exec {program} "$@"
[ "$behind" -lt {furthest} ] || behind={furthest}
exec nice -n "$behind" {program} "$@"
"""


def in_turn(program: Path, folder: Path) -> Path:
    """Write a program that ginkgo can call in place of e2e.test, and return it.

    Where nothing in the folder can be executed, it is e2e.test itself, whose processes get ready together.
    """
    script = folder.resolve() / program.name  # ginkgo makes a relative path of it
    first = len(os.sched_getaffinity(0))
    text = SCRIPT.format(first=first, step=BEHIND, furthest=FURTHEST, program=shlex.quote(str(program)))
    script.write_text(text, encoding="utf-8")
    script.chmod(0o700)
    return script if os.access(script, os.X_OK) else program
