"""All commands of `vmatrix`, loaded and put together: for tests, for the reference, for whoever looks at them all."""

from __future__ import annotations

from importlib import import_module

from harness.cli.front import SAID, name_project
from harness.cli.later import GROUPS, MODULES
from harness.cli.plain import CommandSet

app = CommandSet(**SAID)
app.callback()(name_project)
for name in GROUPS:
    app.add_typer(import_module(f"harness.cli.{name}").app, name=name)
for module in dict.fromkeys(MODULES[name] for name in MODULES if name not in GROUPS):
    import_module(f"harness.cli.{module}").register(app)
