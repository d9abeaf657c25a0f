"""What is refused before anything is made: with empty caches, nothing is built, started or written."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from harness import providers
from harness.artifacts.store import Store
from harness.errors import BadInput, NotUp, VmatrixError
from harness.session import refusals
from harness.session.plan import plan_run
from harness.session.refusals import CHECKS, Cost, Wish
from harness.session.run import Run
from harness.spec.options import RunRequest
from tests.unit.refusals.called import Refusal, Room
from tests.unit.refusals.lying import LIES, Liar, kubeconfig

MIRROR = {"VMATRIX_MIRROR_HTTP": "http://192.0.2.1", "VMATRIX_REGISTRY": "192.0.2.1:5000"}
SERVE = "artifacts serve"
ADDRESSES = {
    "nonsense": "it must be HOST:PORT",
    "": "it must be HOST:PORT",
    ":99999": "is not a port",
    ":8080": "it names no host",
    "127.0.0.1": "it must be HOST:PORT",
    "127.0.0.1:": "is not a port",
    "127.0.0.1:0": "is not a port",
    "127.0.0.1:-1": "is not a port",
    "127.0.0.1:65536": "is not a port",
    "127.0.0.1:http": "is not a port",
    "127.0.0.1:80:80": "stands in brackets",
    "http://127.0.0.1:8080": "stands in brackets",
    "::1:8080": "stands in brackets",
    "[::1]": "it must be HOST:PORT",
    "[::1:8080": "",
    "256.0.0.1:8080": "is not an address",
    "1.2.3:8080": "is not an address",
    "a/b:8080": "is not a host name",
    "a..b:8080": "is not a host name",
    "192.0.2.1:8080": "this host cannot listen there",
    "[2001:db8::1]:8080": "this host cannot listen there",
    "no-such-host.invalid:8080": "this host cannot listen there",
}


@pytest.fixture(autouse=True)
def _nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let whatever begins to obtain an artifact fail the test."""

    def obtain(*_: object) -> None:
        raise AssertionError("an artifact is obtained before the command is refused")

    monkeypatch.setattr(Store, "obtain", obtain)


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be a user without root."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


@pytest.fixture
def taken() -> Iterator[str]:
    """Yield an address at which somebody listens."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def starting(words: str, env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> VmatrixError:
    """Start a run as pytest's plugin does, and return why it was refused."""
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    given = dict(word.split("=") for word in words.split() if "=" in word)
    plan = plan_run(RunRequest.of({"tier": "smoke", **given}))
    run = Run(plan)
    with pytest.raises(VmatrixError) as refused:
        run.start()
    assert not run.started
    assert not plan.directory.exists()
    return refused.value


def test_the_cheapest_is_asked_first() -> None:
    costs = [check.cost for check in CHECKS]
    assert costs == sorted(costs)
    assert {name for check in CHECKS for name in check.commands} == {
        refusals.RUN,
        refusals.CELL,
        refusals.UP,
        refusals.SERVE,
    }


@pytest.mark.parametrize("option", ["--listen", "--registry"])
@pytest.mark.parametrize("address", [a for a in ADDRESSES if a])
def test_an_address_at_which_nothing_can_listen(room: Room, option: str, address: str) -> None:
    room.refuses(Refusal(f"{SERVE} {option} {address}", ADDRESSES[address]))


@pytest.mark.parametrize("option", ["--listen", "--registry"])
def test_an_address_that_is_taken(room: Room, taken: str, option: str) -> None:
    room.refuses(
        Refusal(f"{SERVE} {option} {taken}", f"{option} {taken}: this host cannot listen there: Address", "ss -ltnp")
    )


def test_one_address_for_both(room: Room) -> None:
    room.refuses(Refusal(f"{SERVE} --listen 127.0.0.1:5000", "--listen and --registry are the same address"))


@pytest.mark.parametrize(
    ("limit", "says"),
    [
        ("--max-machines 1", "the run would hold 2 machines, its limit is 1"),
        ("--max-memory-mib 100", "MiB of memory, its limit is 100"),
        ("--max-cpus 0.001", "CPUs, its limit is 0.001"),
    ],
)
def test_a_limit_that_no_cell_keeps(room: Room, limit: str, says: str) -> None:
    room.refuses(Refusal(f"run {limit}", says, "raise the limits"))


@pytest.mark.usefixtures("stranger")
def test_a_run_of_a_user_without_root(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    before = room.seen()
    refused = starting("", {}, monkeypatch)
    assert isinstance(refused, BadInput)
    assert "this is user 1000, not root" in refused.summary
    assert room.seen() == before


@pytest.mark.usefixtures("stranger")
def test_an_infra_of_a_user_without_root(room: Room) -> None:
    ended = room.refuses(Refusal("infra up", "this is user 1000, not root", "sudo"))
    assert ended.stdout == ""


def test_a_run_without_an_infra_that_may_not_be_brought_up(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    before = room.seen()
    monkeypatch.setenv("VMATRIX_INFRA_UP", "false")
    refused = starting("", {}, monkeypatch)
    assert isinstance(refused, NotUp)
    assert refused.exit_code == 4
    assert room.seen() == before


def test_a_run_says_what_it_is_about_to_bring_up(room: Room) -> None:
    (said,) = providers.coming(Wish().settings)
    assert said == (
        "instance 'default' of provider embedded is not up: bringing it up; it stays until: "
        "vmatrix infra down --infra-name default"
    )


@pytest.mark.parametrize("lie", ["silent", "broken-closed", "portal-200", "says-object", "redirect-302", "unknown"])
def test_a_run_on_what_is_no_api(room: Room, liar: Liar, lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lie in LIES
    room.put({"kc": liar.kubeconfig(lie)})
    before = room.seen()
    refused = starting("provider=kubeconfig kubeconfig=kc", MIRROR, monkeypatch)
    assert isinstance(refused, BadInput)
    assert refused.hint
    assert room.seen() == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VMATRIX_MIRROR_HTTP", "mirror"),
        ("VMATRIX_MIRROR_HTTP", "ftp://mirror"),
        ("VMATRIX_MIRROR_HTTP", "http://"),
        ("VMATRIX_MIRROR_HTTP", "http://mirror:99999"),
        ("VMATRIX_REGISTRY", "http://mirror:5000"),
        ("VMATRIX_REGISTRY", "mirror:port"),
        ("VMATRIX_REGISTRY", "mi rror:5000"),
        ("VMATRIX_IMAGE_URL", "images"),
        ("VMATRIX_IMAGE_URL", "https://"),
    ],
)
@pytest.mark.parametrize("command", ["run --provider kubeconfig --kubeconfig kc", "config", "status", "list"])
def test_a_malformed_address_in_the_settings(room: Room, command: str, name: str, value: str) -> None:
    files = {"kc": kubeconfig({"server": "https://127.0.0.1:9"})}
    room.refuses(Refusal(command, name, "vmatrix config", files=files, env={**MIRROR, name: value}))


JOB = {
    "CI_JOB_ID": "1",
    "CI_PROJECT_DIR": "{WORK}",
    "CI_PIPELINE_ID": "2",
    "MATRIX_TIER": "smoke",
    "MATRIX_INFRA": "kubevirt",
    "MATRIX_ID_TOKEN": "t",
}


@pytest.mark.parametrize("server", ["nonsense", "ftp://a", "https://", "https://a:99999", " "])
def test_a_job_with_an_api_that_cannot_be_one(room: Room, server: str) -> None:
    env = {**JOB, "MATRIX_API_SERVER": server, **MIRROR}
    room.refuses(Refusal("gitlab cell", "MATRIX_API_SERVER", env=env))


@pytest.mark.parametrize(("server", "hint"), [("http", "kubectl"), ("https", "MATRIX_API_CA is not set")])
def test_a_job_whose_api_does_not_answer_keeps_no_token(room: Room, server: str, hint: str) -> None:
    ended = room.call("gitlab cell", {**JOB, "MATRIX_API_SERVER": f"{server}://127.0.0.1:9", **MIRROR})
    assert ended.code == 2, ended
    assert f"the API at {server}://127.0.0.1:9 does not answer" in ended.stderr
    assert hint in ended.stderr.partition("hint: ")[2]
    assert not [path for path in room.root.rglob("*") if path.is_file()]


def test_what_was_given_is_judged_without_asking_anybody(room: Room) -> None:
    refusals.refuse(refusals.RUN, Wish(), Cost.GIVEN)
    assert room.started == []


@pytest.mark.parametrize("words", ["--timeout-scale nan", "--timeout-scale 0", "--provider kind --kvm maybe"])
def test_a_wrong_option_is_refused_before_a_word_of_bringing_up(room: Room, words: str) -> None:
    ended = room.refuses(Refusal(f"infra up {words}", "Input should be", "vmatrix config"))
    assert ended.stdout == ""
