"""Every limit of the contract tests is stretched by --timeout-scale: the ones that they set, and the ones they take."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.artifacts.recipe import ArtifactLimits
from harness.until import Deadline
from tests.contract import limits

FOLDER = Path(limits.__file__).parent
STRETCHED = frozenset({"lasting", "within", "timeouts", "patience", "artifacts"})  # what limits.py gives
LIMIT = re.compile(r"seconds|timeout|timeouts|patience|limits|deadline")  # names of parameters that limit a wait
# Calls that wait and are no functions of a module: what they are called with is the limit.
WAITS = frozenset({"wait", "join", "sleep", "acquire", "communicate", "settimeout"})
COMMAND = re.compile(r"\btimeout (-\S+ )*\d")  # a shell's
# What waits on purpose, and for how long is part of what is tested.
PACE = frozenset({("images.py", "pause"), ("walk.py", "given.seconds")})


def stretched(value: ast.expr) -> bool:
    """Tell whether an argument is made by limits.py, or sets no limit at all."""
    if isinstance(value, ast.Constant):
        return value.value is None or value.value == 0
    name = ast.unparse(value.func).removeprefix("limits.") if isinstance(value, ast.Call) else ""
    return name in STRETCHED


def called(call: ast.Call, module: Any) -> Any:
    """Return the function that a call names by way of its module's globals, None for anything else."""
    words = ast.unparse(call.func).split(".")
    found: Any = getattr(module, words[0], None)
    for word in words[1:]:
        found = getattr(found, word, None)
    return found if callable(found) else None


def own(function: Any) -> bool:
    """Tell whether a function is one of the contract's, which stretches what it is given itself."""
    return str(getattr(function, "__module__", "")).startswith("tests.contract")


def limits_of(call: ast.Call, function: Any) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the name and the argument of each limit that a function takes; None where its default is left to it."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    keywords = {word.arg: word.value for word in call.keywords}
    if None in keywords or any(isinstance(argument, ast.Starred) for argument in call.args):
        return
    for number, parameter in enumerate(parameters):
        if LIMIT.fullmatch(parameter.name):
            given = call.args[number] if number < len(call.args) else keywords.get(parameter.name)
            yield parameter.name, given


def unstretched(text: str, module: Any, file: str = "test.py") -> Iterator[str]:
    """Yield line and name of each limit that keeps its length whatever the scale is."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and COMMAND.search(node.value):
            yield f"{node.lineno}: {node.value}"
        if not isinstance(node, ast.Call):
            continue
        function = called(node, module)
        if function is None:
            method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            words = [w.value for w in node.keywords if LIMIT.fullmatch(w.arg or "") and method not in _OWN_METHODS]
            given = [*(node.args if method in WAITS and not _is_text(node.func) else []), *words]
            yield from (f"{node.lineno}: {method}" for v in given if not stretched(v) and not _pace(file, v))
        elif not own(function):
            for name, value in limits_of(node, function):
                if value is None or not (stretched(value) or (name == "deadline" and isinstance(value, ast.Name))):
                    yield f"{node.lineno}: {ast.unparse(node.func)}({name})"


def _methods() -> frozenset[str]:
    """Return the methods of the contract's own classes: they stretch what they are given."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.py"))
    classes = (node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    return frozenset(part.name for one in classes for part in one.body if isinstance(part, ast.FunctionDef))


_OWN_METHODS = _methods()


def _is_text(function: ast.expr) -> bool:
    """Tell whether a method is a string's: `", ".join(...)`."""
    return isinstance(function, ast.Attribute) and isinstance(function.value, ast.Constant | ast.JoinedStr)


def _pace(file: str, value: ast.expr) -> bool:
    return (file, ast.unparse(value)) in PACE


# scan.py runs in guests, without the harness: it is told how long a connection may take.
FILES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in {"limits", "scan", "__init__"})


@pytest.mark.parametrize("name", FILES)
def test_no_limit_is_left_out(name: str) -> None:
    module = importlib.import_module(f"tests.contract.{name}")
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert list(unstretched(text, module, f"{name}.py")) == []


BARE = """
until(probe, deadline=Deadline.after(20), what="x")
until(probe, deadline=within(20), what="x")
until(probe, deadline=deadline, what="x")
admin = Cluster.from_kubeconfig(path)
admin = Cluster.from_kubeconfig(path, patience=patience())
wait_for_login(m, key, deadline=within(1), seconds=20.0, control=c)
wait_phase(cluster, namespace, name, "Succeeded", seconds=SECONDS)
event.wait(SECONDS)
event.wait(timeout=lasting(SECONDS))
thread.join(20)
", ".join(words)
machines.run(one, "timeout 3 true")
machines.run(one, f"timeout {lasting(3):g} true")
open_stream(admin, path)
"""


def test_a_limit_that_is_left_out_is_found() -> None:
    module = importlib.import_module("tests.contract.test_subresources")
    known = vars(importlib.import_module("tests.contract.machines")) | vars(module)
    known |= {"Cluster": module.Cluster, "Deadline": Deadline}
    found = list(unstretched(BARE, type("Known", (), {**known, "__module__": "x"})))
    assert sorted({int(line.partition(":")[0]) for line in found}) == [2, 5, 7, 9, 11, 13, 15], found


def test_a_scale_stretches_what_the_contract_waits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    usual, before = limits.patience(), limits.timeouts()
    monkeypatch.setenv(limits.VARIABLE, "3")
    assert limits.lasting(20) == 60
    assert 59 < limits.within(20).remaining() <= 60
    assert limits.patience().read_seconds == 3 * usual.read_seconds
    assert limits.timeouts() == before.scaled(3)
    assert limits.artifacts().build == 3 * ArtifactLimits.of(before).build


OPTION = """
from tests.contract import limits

def pytest_configure(config):
    limits.configure(config)
"""


@pytest.mark.parametrize(("scale", "said"), [("4", "1 passed"), ("0", "--timeout-scale: Input should be greater")])
def test_the_option_is_the_settings_value(scale: str, said: str, tmp_path: Path) -> None:
    """A pytest of its own: the option changes the environment of its process."""
    (tmp_path / "conftest.py").write_text(OPTION, encoding="utf-8")
    (tmp_path / "test_it.py").write_text(
        "from tests.contract import limits\n\ndef test_it():\n    assert limits.lasting(2) == 8\n", encoding="utf-8"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        "--timeout-scale",
        scale,
    ]
    root = FOLDER.parents[1]
    done = subprocess.run([*command, str(tmp_path)], cwd=root, capture_output=True, text=True, timeout=120, check=False)
    assert said in done.stdout + done.stderr
    assert done.returncode == (0 if "passed" in said else 4)
