"""Taking over a cluster: the playbook is run with `--check` first, and what it would change is why it is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from harness.errors import BadInput
from harness.machines.runner.call import AnsibleCall
from harness.machines.runner.playbook_output import task_of

CHANGED = re.compile(r"^changed: \[([^\]]+)\]")
TOLD = 5  # tasks; the log has all of them


def compare(call: AnsibleCall, run: Callable[[AnsibleCall], object], output: Callable[[], str]) -> None:
    """Run a playbook that changes nothing; then let it store what is kept of the cluster.

    Args:
        call: how Ansible is called.  run: runs the playbook.  output: returns what it has printed.

    Raises:
        BadInput: it would have changed something.
    """
    run(replace(call, arguments=(*call.arguments, "--check")))
    would = changes(output())
    if would:
        more = f" and {len(would) - TOLD} more" if len(would) > TOLD else ""
        raise BadInput(
            f"what runs differs from the object: {', '.join(would[:TOLD])}{more} would change something",
            hint="correct the object; with --check --diff, cluster.yml shows each difference. Nothing was changed",
        )
    run(call)


def changes(output: str) -> list[str]:
    """Return the tasks that changed something, each with its machine, in their order."""
    found: dict[str, None] = {}
    task = ""
    for line in output.splitlines():
        task = task_of(line) or task
        if changed := CHANGED.match(line):
            found.setdefault(f"[{task}] on {changed[1]}")
    return list(found)
