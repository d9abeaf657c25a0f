"""A phase that is a program, run: its output, its end, its time, and the way to its machines."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.cell.life import Life
from harness.cell.product import command
from harness.cell.product.command import (
    LARGEST,
    CommandEnd,
    CommandResult,
    ended_with,
    error_line,
    last_lines,
    read_result,
    task_in,
    verdict,
)
from harness.cell.product.kinds import kind_of
from harness.cell.provision import Attempt
from harness.cell.site import Site
from harness.cell.steps import Steps
from harness.errors import BadInput, InfraError, InfraRetriable, ProductError
from harness.events import Recorder
from harness.machines.reach.portforward import Tunnels, note
from harness.model import Environment, Mirror
from harness.paths import project_dir
from harness.proc import Completed
from harness.spec import load_spec
from harness.spec.models import Product
from tests.unit.cell.product.phases import Phased
from tests.unit.cell.product.test_command_guard import STUBBORN, marked, runs
from tests.unit.cell.test_life import KUBECONFIG
from tests.unit.shipped_timeouts import TIMEOUTS


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give programs half a second to end."""
    monkeypatch.setattr(command, "GRACE_SECONDS", 0.5)


def test_output_is_logged_and_tasks_are_told_as_they_come(phased: Phased) -> None:
    phased.script('echo "TASK [join $1]"; echo err >&2; pwd')
    outcome = phased.run()
    assert (outcome.what, outcome.touched) == ("run.sh", None)
    assert phased.told == ["join a b"]
    _, *lines = phased.environment().files.log("deploy").read_text(encoding="utf-8").splitlines()
    assert sorted(lines) == sorted(["TASK [join a b]", "err", str(phased.folder / "deploy")])


def test_output_is_there_while_the_program_runs(phased: Phased) -> None:
    log = phased.environment().files.log("deploy")
    phased.script(f"echo first; until grep -q first {log}; do sleep 0.05; done; echo second")
    phased.run()
    assert log.read_text(encoding="utf-8").splitlines()[1:] == ["first", "second"]


def test_a_programs_failure_is_the_products(phased: Phased) -> None:
    phased.script('echo "TASK [join w-0]"; echo "error: no route"; exit 3')
    with pytest.raises(ProductError) as failed:
        phased.run()
    assert failed.value.summary == "run.sh ended with status 3 in task [join w-0]: error: no route"
    assert failed.value.paths == (phased.environment().files.log("deploy"),)


def test_a_result_file_decides(phased: Phased) -> None:
    phased.script('echo "{\\"blame\\": \\"infra\\", \\"summary\\": \\"no quota\\"}" > "$VMATRIX_RESULT"; exit 1')
    with pytest.raises(InfraError, match=r"run\.sh ended with status 1: no quota"):
        phased.run()


def test_an_earlier_runs_result_is_not_this_ones(phased: Phased) -> None:
    file = phased.environment().files.result("deploy")
    file.parent.mkdir(parents=True)
    file.write_text("no JSON", encoding="utf-8")
    phased.script("exit 0")
    phased.run()
    assert not file.exists()


def test_a_program_that_does_not_start_is_the_products_failure(phased: Phased) -> None:
    file = phased.script("")
    file.write_text("#!/nowhere/bash\n", encoding="utf-8")
    with pytest.raises(ProductError, match="could not be started: No such file"):
        phased.run()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("stubborn", [False, True])
def test_a_program_whose_time_is_up_ends_with_all_that_it_started(
    stubborn: bool, phased: Phased, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUARDED", f"time-{os.getpid()}-{stubborn}")
    phased.script(f"echo 'TASK [wait]'; setsid sleep 65 & {STUBBORN if stubborn else 'sleep 66'}")
    began = time.monotonic()
    with pytest.raises(ProductError) as failed:
        phased.run(seconds=4.0)  # a busy host starts the program late
    assert failed.value.summary == "run.sh did not end within 4 s in task [wait]"
    assert time.monotonic() - began < 60  # before the program ends by itself
    assert marked(f"GUARDED=time-{os.getpid()}-{stubborn}") == []


@pytest.mark.usefixtures("impatient")
def test_a_program_may_say_at_its_end_why_it_took_so_long(phased: Phased) -> None:
    said = json.dumps({"blame": "infra", "retry": True, "summary": "the image does not come"})
    phased.script(f"trap 'echo '\"'\"'{said}'\"'\"' > \"$VMATRIX_RESULT\"; exit 1' TERM; sleep 67 & wait")
    with pytest.raises(InfraRetriable, match="did not end within 4 s: the image does not come"):
        phased.run(seconds=4.0)  # a busy host sets the trap late


def test_what_a_program_leaves_running_does_not_keep_the_phase(phased: Phased) -> None:
    phased.script(f"sleep 68 & {runs('!', 'sleep')}")
    began = time.monotonic()
    phased.run()
    assert time.monotonic() - began < 60  # before what it left ends by itself
    assert "left running, which is ended now: sleep" in phased.environment().files.log("deploy").read_text()


@pytest.mark.parametrize(
    ("machine", "said", "kind"),
    [
        ("w-0", {}, InfraRetriable),
        ("w-0", {"machines": ["w-0"]}, InfraRetriable),
        ("w-0", {"blame": "user"}, InfraRetriable),
        ("w-0", {"machines": ["cp-0"]}, ProductError),
    ],
)
def test_a_lost_connection_to_a_machine_that_failed_is_the_infrastructures(
    machine: str, said: dict[str, object], kind: type, phased: Phased, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = phased.environment()
    log, ways = whole.files.tunnels_log, whole.files.tunnels
    log.parent.mkdir(parents=True)
    Tunnels(Path("kubeconfig"), None, "ns", {}, log).save(ways)
    monkeypatch.setattr(Environment, "tunnels", property(lambda _: ways))
    address = next(m.address for m in whole.machines if m.name == machine)
    note(log, address, 22, "long ago")
    lines = log.read_text(encoding="utf-8")
    log.write_text(json.dumps({**json.loads(lines), "at": 0.0}) + "\n", encoding="utf-8")
    lost = json.dumps({"at": time.time() + 60, "address": address, "port": 22, "why": "cut"})
    phased.script(f"echo '{lost}' >> {log}; echo '{json.dumps(said)}' > \"$VMATRIX_RESULT\"; exit 1")
    with pytest.raises((ProductError, InfraRetriable)) as failed:
        phased.run()
    assert type(failed.value) is kind
    if kind is InfraRetriable:
        assert "the connection to w-0 was lost 1 times during the phase: cut" in failed.value.summary


@pytest.mark.parametrize(
    ("line", "task"),
    [
        ("TASK [join w-0]", "join w-0"),
        ("TASK [join w-0] ***********", "join w-0"),
        ("\x1b[1mTASK [join]\x1b[0m", "join"),
        ("  TASK [join]", None),
        ("TASK []", None),
        ("TASK [ ]", None),
        ("task [join]", None),
        ("", None),
    ],
)
def test_a_line_may_name_the_task(line: str, task: str | None) -> None:
    assert task_in(line) == task


def test_the_line_that_says_most_is_the_last_one_about_an_error() -> None:
    assert error_line("error: a\nfatal: b\nclean-up\n") == "fatal: b"
    assert error_line("one\ntwo\n\n") == "two"
    assert error_line("") == ""
    assert len(error_line("error " + "x" * 5000)) == 400


def test_of_much_output_the_end_is_kept() -> None:
    assert last_lines("\n".join(map(str, range(100)))).splitlines() == [str(n) for n in range(60, 100)]


def test_how_it_ended() -> None:
    assert (ended_with(3), ended_with(-15), ended_with(-63)) == (
        "ended with status 3",
        "was killed by SIGTERM",
        "was killed by signal 63",
    )


MACHINES = ("cp-0", "w-0")


def ended(status: int | None, said: str = "", task: str = "") -> CommandEnd:
    """Return how a program ended; None when its time was up."""
    done = Completed(("run.sh",), status, said, "", 1.0) if status is not None else None
    return CommandEnd("run.sh", done, said, task, Path("deploy.log"), MACHINES, 1800.0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the result is."""
    return tmp_path / "result.json"


def write(file: Path, **said: Any) -> None:
    """Write a result."""
    file.write_text(json.dumps(said), encoding="utf-8")


@pytest.mark.parametrize(
    ("said", "kind", "code"),
    [
        ({}, ProductError, 1),
        ({"blame": "product"}, ProductError, 1),
        ({"blame": "user"}, BadInput, 2),
        ({"blame": "infra"}, InfraError, 3),
        ({"blame": "infra", "retry": True}, InfraRetriable, 75),
    ],
)
def test_the_program_says_who_is_to_blame(said: dict[str, Any], kind: type, code: int, file: Path) -> None:
    write(file, **said, summary="no quota", hint="ask for more", machines=["w-0"], task="create")
    error, machines = verdict(ended(4), file)
    assert type(error) is kind
    assert error is not None
    assert (error.exit_code, error.hint, machines) == (code, "ask for more", ("w-0",))
    assert error.summary == "run.sh ended with status 4 in task [create] on w-0: no quota"


def test_the_page_names_every_key() -> None:
    page = (Path(__file__).parents[4] / "docs" / "command.md").read_text(encoding="utf-8")
    table = page.split("## The result file")[1].split("```")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(CommandResult.model_fields)


def test_without_a_result_the_output_says_why(file: Path) -> None:
    error, machines = verdict(ended(1, "one\n\x1b[31mError: the API is away\x1b[0m\nbye\n", "join"), file)
    assert isinstance(error, ProductError)
    assert error.summary == "run.sh ended with status 1 in task [join]: Error: the API is away"
    assert error.detail == "one\nError: the API is away\nbye"
    assert machines == ()


def test_a_line_that_only_names_a_task_is_not_why(file: Path) -> None:
    error, _ = verdict(ended(1, "started\nTASK [failed machines]\n", "failed machines"), file)
    assert str(error) == "run.sh ended with status 1 in task [failed machines]: started"


def test_time_that_was_up_is_said_with_the_task(file: Path) -> None:
    assert str(verdict(ended(None, "", "join"), file)[0]) == "run.sh did not end within 1800 s in task [join]"
    write(file, blame="infra", summary="the image does not come")
    error, _ = verdict(ended(None), file)
    assert isinstance(error, InfraError)


def test_a_program_that_was_killed_says_nothing_of_the_product(file: Path) -> None:
    error, _ = verdict(ended(-9), file)
    assert isinstance(error, InfraRetriable)
    assert "was killed by SIGKILL" in error.summary
    assert type(verdict(ended(-11), file)[0]) is ProductError


def test_a_success_needs_no_result(file: Path) -> None:
    assert verdict(ended(0), file) == (None, ())
    write(file, summary="3 machines")
    assert verdict(ended(0), file) == (None, ())


def test_a_success_that_blames_somebody_contradicts_itself(file: Path) -> None:
    write(file, blame="infra", summary="no quota")
    error, _ = verdict(ended(0), file)
    assert isinstance(error, ProductError)
    assert error.summary == "run.sh succeeded, but its result file blames infra: no quota"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "result.json: empty"),
        ('{"blame":\n "infra"', "result.json:2: not JSON: "),
        ('{\n"blame": "me"}', "result.json:2: blame: Input should be 'product', 'user' or 'infra', got 'me'"),
        ('{\n"blam": "infra"}', "result.json:2: blam: unknown key; did you mean blame?"),
        ('{"machines":\n ["w-7"]}', "result.json:2: machines[0]: unknown machine 'w-7'; "),
        ('{"machines": "w-0"}', "result.json:1: machines: expected a list, got 'w-0'"),
        ('{"retry": true}', "result.json:1: retry: only a failure of the infrastructure can be retried"),
        ('{"summary": 7}', "result.json:1: summary: expected a string"),
        ("[]", "expected a mapping"),
        ('{"summary": "' + "x" * LARGEST + '"}', f"larger than {LARGEST} bytes"),
        ("[" * 100_000, "result.json"),
    ],
)
@pytest.mark.parametrize("status", [0, 5, None])
def test_a_result_file_that_is_wrong_is_said(text: str, message: str, status: int | None, file: Path) -> None:
    file.write_text(text, encoding="utf-8")
    error, machines = verdict(ended(status, task="join"), file)
    assert isinstance(error, ProductError)
    assert message in error.summary
    how = {0: "succeeded", 5: "ended with status 5 in task [join]", None: "did not end within 1800 s in task [join]"}
    assert error.summary.startswith(f"run.sh {how[status]}, and its result file is wrong: ")
    assert file in error.paths
    assert machines == ()


@pytest.mark.parametrize("kind", ["folder", "pipe", "dangling", "bytes"])
def test_what_is_no_text_is_no_result(kind: str, file: Path) -> None:
    make: dict[str, Callable[[], object]] = {
        "folder": file.mkdir,
        "pipe": lambda: os.mkfifo(file),
        "dangling": lambda: file.symlink_to("nowhere"),
        "bytes": lambda: file.write_bytes(b'{"summary": "\xff"}'),
    }
    make[kind]()
    _, wrong = read_result(file, MACHINES)
    assert len(wrong) == 1


def test_characters_beyond_the_first_plane_are_read(file: Path) -> None:
    write(file, summary="\U0001f525 all is on fire")
    assert read_result(file, MACHINES)[0].summary == "\U0001f525 all is on fire"


LEAVES_ONE = f"cat > \"$VMATRIX_GUEST_KUBECONFIG\" <<'END'\n{KUBECONFIG}END"


@pytest.fixture
def life(phased: Phased, monkeypatch: pytest.MonkeyPatch) -> Life:
    """The life of a cell whose machines are there."""
    monkeypatch.setattr(Life, "machines_changed", lambda _self, _names: "")
    nobody: Any = None
    site = Site(
        cluster=nobody,
        spec=load_spec(project_dir() / "matrix").model_copy(update={"product": phased.product}),
        timeouts=TIMEOUTS,
        mirror=Mirror("http://m", "r:5000"),
        guest_vars={},
        image=nobody,
        storage_class=None,
        project=phased.folder,
        expiry_hours=1,
    )
    environment = phased.environment()
    steps = Steps(Recorder(phased.folder), "one", 1)
    return Life(site, Attempt("run111", environment.cell, 1, environment.directory), steps, environment=environment)


def test_a_program_that_leaves_a_kubeconfig_has_deployed(life: Life, phased: Phased) -> None:
    phased.script(LEAVES_ONE)
    guest = life.apply(1)
    assert guest.kubeconfig.read_text(encoding="utf-8") == KUBECONFIG
    assert [machine.name for machine in guest.environment.machines] == ["cp-0", "w-0", "w-1"]


def test_a_program_that_leaves_no_kubeconfig_is_told_which_variable_names_it(life: Life, phased: Phased) -> None:
    phased.script("exit 0")
    with pytest.raises(
        ProductError, match=r"^run\.sh succeeded but left no kubeconfig at .*/one/kubeconfig$"
    ) as failed:
        life.apply(0)
    assert "VMATRIX_GUEST_KUBECONFIG" in failed.value.hint


def test_a_changed_machine_counts_whatever_the_program_says(
    life: Life, phased: Phased, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = iter(("", "w-0 was replaced"))
    monkeypatch.setattr(Life, "machines_changed", lambda _self, _names: next(said))
    phased.script('echo \'{"blame": "user", "summary": "no licence"}\' >"$VMATRIX_RESULT"; exit 1')
    with pytest.raises(InfraError, match="changed machines during the phase deploy: w-0 was replaced") as failed:
        life.apply(0)
    assert "no licence" in failed.value.detail


def test_a_product_of_programs_needs_no_preparation_and_says_how_it_is_run(life: Life, phased: Phased) -> None:
    kind = life.site.kind_of(life.cell)
    kind.prepare(lambda _: pytest.fail("nothing takes a while"), TIMEOUTS)
    folder = phased.folder / "deploy"
    variables = Path(phased.folder / "one" / "inventory" / "phase.env")
    assert kind.command("reset", phased.environment()) == f". {variables} && cd {folder} && {folder}/run.sh 'a b'"


def test_a_program_and_its_arguments_may_lie_in_the_products_sources(phased: Phased) -> None:
    given = {
        **phased.product.model_dump(by_alias=True),
        "sources": {"path": "deploy"},
        "phases": {"deploy": {"command": ["{sources}/run.sh", "{sources}/x"], "environment": {"LIB": "{sources}/lib"}}},
    }
    product = Product.model_validate(given)
    phased.script(f'echo "$1 $LIB" > {phased.folder}/seen')
    kind_of(product, phased.folder).run(phased.wanted())
    folder = phased.folder / "deploy"
    assert (phased.folder / "seen").read_text(encoding="utf-8") == f"{folder}/x {folder}/lib\n"


def test_a_program_that_is_run_again_may_say_what_it_changed(life: Life, phased: Phased) -> None:
    phased.script(f'{LEAVES_ONE}\necho \'{{"changed": ["the kubelet was restarted"]}}\' > "$VMATRIX_RESULT"')
    life.apply(0)
    assert life.again(0).changed == ("the kubelet was restarted",)
