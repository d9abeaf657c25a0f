"""Commands that pods of the operator run: each is put together alone, because what waits for it waits for its start.

All commands together take twice the processor time to load.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import typer

from harness.cli.plain import CommandSet

GROUP = "operator"
MODULES = {
    "run": "harness.cli.operator_run",
    "execute": "harness.cli.operator_execute",
    "manifests": "harness.cli.operator_manifests",
}


def program(words: Sequence[str]) -> typer.Typer | None:
    """Return a command line's own command, as it is among all others; None where it is none of these."""
    if words[:1] != [GROUP] or len(words) < 2 or words[1] not in MODULES:
        return None
    app, group = CommandSet(name="vmatrix", pretty_exceptions_enable=False), CommandSet()
    import_module(MODULES[words[1]]).register(group)
    group.callback()(lambda: None)
    app.add_typer(group, name=GROUP)
    app.info.context_settings = {"help_option_names": ["--help", "-h"]}
    app.callback()(lambda: None)
    return app
