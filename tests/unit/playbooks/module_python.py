"""Python that runs a module of Ansible's from its input, with what nearly every module imports loaded beforehand.

A module brings all that it imports, as sources that are compiled each time: half of what it takes. Here that comes from
the Ansible of the tests, which Python has compiled.
"""

from __future__ import annotations

import sys
from importlib import import_module

LIBRARY = ("basic", "common.arg_spec", "common.parameters")

sys.path.append(sys.argv[1])  # the folder of the package `ansible`
for name in LIBRARY:
    import_module(f"ansible.module_utils.{name}")
sys.path.pop()
sys.argv = [""]  # as where Python itself reads its input
del sys.modules["ansible"]  # the module brings its own, with the module itself
exec(compile(sys.stdin.buffer.read(), "<stdin>", "exec"), {"__name__": "__main__"})  # noqa: S102 - Ansible's own program
