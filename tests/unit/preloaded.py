"""What the server of `tests.unit.programs` loads: the commands, the plugin, what checks import, and the matrix once."""

from __future__ import annotations

import gc
import pkgutil
from importlib import import_module

import harness.validate
from harness.paths import MATRIX, packaged_dir
from harness.spec import load_spec

for name in ("pytest", "unittest", "xdist.plugin", "harness.checks", "harness.cli.root", "harness.plugin.__main__"):
    import_module(name)
for module in pkgutil.walk_packages(harness.validate.__path__, f"{harness.validate.__name__}."):
    if ".machine" not in module.name:  # programs for machines
        import_module(module.name)
load_spec(packaged_dir() / MATRIX)  # pydantic makes its validators when they are used
gc.freeze()  # children share what is loaded
