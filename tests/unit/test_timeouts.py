"""matrix/timeouts.yml has every wait that a slow site would raise, and each of them takes effect, also when scaled."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from harness import providers
from harness.artifacts.recipe import ArtifactLimits
from harness.embedded import STRETCH
from harness.errors import BadInput
from harness.infra.host.program import kubevirt
from harness.infra.kind.cluster import KindLimits
from harness.kube.api import HASTY, PATIENT, Patience
from harness.providers import Opening
from harness.providers.embedded import EmbeddedProvider
from harness.providers.kind import KindProvider
from harness.spec.models import Timeouts
from harness.spec.project import timeouts_of
from harness.spec.settings import Settings
from harness.validate.conformance.ginkgo import Tools, ginkgo_command
from harness.validate.hosts import LIBRARY, remote_command
from tests.unit.shipped_timeouts import FILE, TIMEOUTS

ROOT = Path(__file__).parents[2]
A_WAIT = re.compile("SECONDS|TIMEOUT|GRACE")
SLOW = TIMEOUTS.scaled(10)


def modules(*folders: str, words: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path below the project, and the text, of each Python file that has one of some words (a pattern)."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if re.search(words, text):
                yield str(path.relative_to(ROOT)), text


def test_every_key_is_used() -> None:
    used = {
        node.attr
        for _, text in modules("harness", "tests/cells", words="timeouts|limits")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).split(".")[-1] in {"timeouts", "limits"}
    }
    assert [key for key in Timeouts.model_fields if key not in used] == []


def test_the_shipped_file_has_every_key_and_the_defaults_of_those_that_have_one() -> None:
    shipped = yaml.safe_load(FILE.read_text(encoding="utf-8"))["timeouts"]
    assert set(shipped) == set(Timeouts.model_fields)
    defaults = {key: field.default for key, field in Timeouts.model_fields.items() if not field.is_required()}
    assert defaults
    assert {key: shipped[key] for key in defaults} == defaults


def test_a_file_without_keys_that_have_a_default_is_still_valid() -> None:
    required = {key: seconds for key, seconds in TIMEOUTS if Timeouts.model_fields[key].is_required()}
    assert Timeouts(**required) == TIMEOUTS


def test_a_scale_stretches_what_a_program_on_a_machine_gets(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from harness.validate.machine.library import COMMAND_SECONDS, DNS_SECONDS, HTTP_SECONDS\n"
        "print(COMMAND_SECONDS, HTTP_SECONDS, DNS_SECONDS)\n",
        encoding="utf-8",
    )

    def told(timeouts: Timeouts) -> tuple[str, list[float]]:
        command = remote_command(program, timeouts=timeouts)
        done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60, check=True)
        return command[: len("timeout 600 ")].strip(), [float(word) for word in done.stdout.split()]

    assert told(TIMEOUTS) == ("timeout 60 p", [20, 5, 2])
    assert told(SLOW) == ("timeout 600", [200, 50, 20])
    assert remote_command(program, timeouts=SLOW, seconds=7).startswith("timeout 7 ")


def test_what_the_library_waits_by_itself_is_the_default() -> None:
    constants = dict(re.findall(r"^([A-Z]+_SECONDS) = ([\d.]+)$", LIBRARY.read_text(encoding="utf-8"), re.MULTILINE))
    fields = {"COMMAND_SECONDS": "machine_command", "HTTP_SECONDS": "machine_request", "DNS_SECONDS": "machine_dns"}
    assert {name: float(seconds) for name, seconds in constants.items()} == {
        name: Timeouts.model_fields[key].default for name, key in fields.items()
    }


def test_a_scale_stretches_ginkgo_and_what_the_specs_wait() -> None:
    tools = Tools(Path("/t/e2e.test"), Path("/t/ginkgo"), Path("/t/kubectl"))

    def waits(timeouts: Timeouts) -> list[str]:
        command = ginkgo_command(tools, ["a"], kubeconfig=Path("/k"), report_dir=Path("/r"), timeouts=timeouts)
        return [word for word in command if re.search("timeout|grace", word)]

    assert waits(TIMEOUTS) == [
        "--timeout=240s",
        "--grace-period=20s",
        "--node-schedulable-timeout=60s",
        "--system-pods-startup-timeout=60s",
        "--system-daemonsets-startup-timeout=60s",
    ]
    assert waits(SLOW) == [re.sub(r"(\d+)s$", r"\g<1>0s", word) for word in waits(TIMEOUTS)]


def test_a_scale_stretches_the_patience_with_an_api() -> None:
    assert Patience.of(TIMEOUTS) == PATIENT
    assert Patience.of(TIMEOUTS).once() == HASTY
    slow = Patience.of(SLOW)
    assert (slow.connect_seconds, slow.read_seconds, slow.again_seconds) == (50, 300, 300)


def test_a_scale_stretches_the_start_of_an_instance_and_the_making_of_artifacts() -> None:
    assert KindLimits.of(TIMEOUTS) == KindLimits()
    assert ArtifactLimits.of(TIMEOUTS) == ArtifactLimits()
    assert asdict(KindLimits.of(SLOW)) == {name: 10 * seconds for name, seconds in asdict(KindLimits()).items()}
    assert asdict(ArtifactLimits.of(SLOW)) == {name: 10 * seconds for name, seconds in asdict(ArtifactLimits()).items()}
    settings = Settings(infra_name="slow")
    for name in ("embedded", "kind"):
        instance = providers.named(name).instance
        given, usual = (instance(Opening(settings, timeouts=timeouts)) for timeouts in (SLOW, None))
        assert isinstance(given, EmbeddedProvider | KindProvider)
        assert isinstance(usual, EmbeddedProvider | KindProvider)
        assert given.host.config.up_seconds == 10 * usual.host.config.up_seconds == 10 * TIMEOUTS.instance_up
        if isinstance(given, KindProvider):
            assert given.kind.limits == KindLimits.of(SLOW)


def test_a_scale_stretches_what_the_embedded_kubevirt_waits_for() -> None:
    provider = providers.named("embedded").instance(Opening(Settings(infra_name="slow"), timeouts=SLOW))
    assert isinstance(provider, EmbeddedProvider)
    started = kubevirt(provider.host.config, 0).command()
    assert started.env[STRETCH] == "10.0"
    waits = [found for _, text in modules("harness/embedded") for found in re.findall(r"Deadline.after\((.*?)\)", text)]
    assert waits
    assert [wait for wait in waits if "stretch" not in wait] == []


def test_timeouts_are_read_whatever_is_wrong_with_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = tmp_path / "matrix"
    matrix.mkdir()
    (matrix / "axes.yml").write_text("axes: 1", encoding="utf-8")
    (matrix / "timeouts.yml").write_text(FILE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setenv("VMATRIX_PROJECT", str(tmp_path))
    assert timeouts_of(Settings(timeout_scale=10)) == SLOW
    (matrix / "timeouts.yml").write_text("timeouts: {ssh: -1, golden: 2}", encoding="utf-8")
    with pytest.raises(BadInput, match=r"timeouts\.yml:1: timeouts\.ssh: "):
        timeouts_of(Settings())


def constants(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each module-level number of seconds, and whether a comment gives its reason."""
    lines = text.splitlines()
    for node in ast.parse(text).body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ) if A_WAIT.search(name) and is_number(value):
                above = node.lineno - 2  # constants one below the other may share a comment
                while above >= 0 and re.match(r"[A-Z_]+(: [\w\[\]]+)? = [^#]*$", lines[above]):
                    above -= 1
                beside = "  # " in lines[node.lineno - 1]
                yield name, beside or (above >= 0 and lines[above].startswith("# "))


def is_number(value: ast.expr) -> bool:
    """Tell whether an expression is a number, or an operation on numbers."""
    if isinstance(value, ast.BinOp):
        return is_number(value.left) and is_number(value.right)
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def test_every_number_of_seconds_in_code_has_its_reason() -> None:
    without = {
        f"{path}:{name}"
        for path, text in modules("harness", words=rf"(?m)^\w*({A_WAIT.pattern})\w*\b.* = ")
        for name, reasoned in constants(text)
        if not reasoned
    }
    assert without == set()


def test_a_number_without_a_reason_is_found() -> None:
    text = "A_SECONDS = 4 * 3.0\n\nB_SECONDS: float = 3.0  # why\n# why\nC_GRACE = 1\nD_TIMEOUT = 2\nE_SECONDS = 'x'\n"
    assert list(constants(text)) == [("A_SECONDS", False), ("B_SECONDS", True), ("C_GRACE", True), ("D_TIMEOUT", True)]


A_CALL = "(?i)timeout|seconds"  # in a keyword of a call that waits


def bare_waits(text: str) -> Iterator[int]:
    """Yield the line of each call inside a function that is told to wait a number of seconds which has no name."""
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for call in ast.walk(function):
                if isinstance(call, ast.Call):
                    given = [word.value for word in call.keywords if re.search(A_CALL, word.arg or "")]
                    given += call.args[:1] if ast.unparse(call.func).endswith("Deadline.after") else []
                    if any(isinstance(value, ast.Constant) and value.value for value in given):
                        yield call.lineno


def test_every_number_of_seconds_in_code_has_a_name() -> None:
    files = list(modules("harness", words=rf"{A_CALL}|Deadline"))
    assert len(files) > 100
    assert [f"{path}:{line}" for path, text in files for line in bare_waits(text)] == []


def test_a_number_without_a_name_is_found() -> None:
    text = "def f():\n    run(a, timeout=3)\n    run(timeout=LIMIT)\n    until(Deadline.after(2.0), seconds=0)\n"
    assert list(bare_waits(text)) == [2, 4]
