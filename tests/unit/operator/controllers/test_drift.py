"""Files as an operation left them, and what was changed since."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from harness.machines.inspection_program import OWNED
from harness.operator.controllers.drift import PUT_BACK, as_applied, last_writer, put_back, settled

Json = dict[str, Any]
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
API, PROXY = "/etc/kubernetes/manifests/kube-apiserver.yaml", "/etc/api-endpoint/haproxy.cfg"
FILES = {API: "a1", PROXY: "b1"}
DEPLOYED = settled(None, FILES, ("1-1", "deploy"))


def said(settings: Json) -> tuple[str, str, str]:
    found = as_applied(settings, NOW)
    return found["status"], found["reason"], found["message"]


def changed(before: Json = DEPLOYED, writer: tuple[str, str] = ("1-1", "deploy"), **files: Any) -> Json:
    """Look again; `api` and `proxy` are files' new digests, "" for one that is gone."""
    names = {"api": API, "proxy": PROXY, "new": "/etc/systemd/system/kubelet.service.d/own.conf"}
    found = {**FILES, **{names[name]: digest for name, digest in files.items()}}
    return settled(before, {path: digest for path, digest in found.items() if digest}, writer)


def test_what_an_operation_left_is_as_applied() -> None:
    assert {"operation": "1-1", "files": [f"b1 {PROXY}", f"a1 {API}"], "changed": []} == DEPLOYED
    assert said(DEPLOYED)[:2] == ("True", "AsApplied")
    assert settled(DEPLOYED, FILES, ("1-1", "deploy")) == DEPLOYED


@pytest.mark.parametrize(
    ("files", "reason", "words"),
    [
        ({"api": "a2"}, "Changed", f"{API} was changed"),
        ({"api": ""}, "Changed", f"{API} is gone"),
        ({"proxy": "b2"}, "NotPutBack", f"{PROXY} was changed; no operation puts this back: do it by hand"),
        ({"new": "c1"}, "NotPutBack", "own.conf was added; no operation"),
        ({"api": "a2", "proxy": "b2"}, "Changed", f"{PROXY} was changed, {API} was changed"),
    ],
)
def test_a_file_that_was_changed_is_named(files: Json, reason: str, words: str) -> None:
    found = said(changed(**files))
    assert found[:2] == ("False", reason)
    assert found[2].startswith("seen at 2026-11-23T12:00:00Z: ")
    assert words in found[2]


def test_a_file_that_somebody_put_back_is_as_applied_again() -> None:
    assert settled(changed(api="a2"), FILES, ("1-1", "deploy")) == DEPLOYED


def test_an_operation_writes_new_files_and_nothing_of_that_is_a_change() -> None:
    found = changed(writer=("2-1", "upgrade"), api="a2", proxy="b2", new="c1")
    assert found["changed"] == []
    assert said(found)[0] == "True"


def test_what_reconfigure_puts_back_is_right_after_it() -> None:
    assert changed(changed(api="a2"), ("2-1", "reconfigure"), api="a2")["changed"] == []
    assert changed(changed(api="a2"), ("2-1", "reconfigure"))["changed"] == []


def test_an_operation_that_passes_a_change_by_has_not_made_it_right() -> None:
    before = changed(api="a2", proxy="b2")
    scaled = changed(before, ("2-1", "scale"), api="a2", proxy="b2")
    assert scaled["operation"] == "2-1"
    assert scaled["changed"] == [f"b2 {PROXY}", f"a2 {API}"]
    again = changed(scaled, ("3-1", "reconfigure"), proxy="b2")
    assert again["changed"] == [f"b2 {PROXY}"]
    assert said(again)[:2] == ("False", "NotPutBack")
    assert settled(again, FILES, ("3-1", "reconfigure"))["changed"] == []


def test_a_file_that_an_operation_wrote_anew_counts_as_written() -> None:
    assert changed(changed(proxy="b2"), ("2-1", "scale"), proxy="b3")["changed"] == []


def test_a_file_that_is_gone_stays_missed() -> None:
    found = changed(changed(proxy=""), ("2-1", "reconfigure"), proxy="")
    assert found["changed"] == [f"- {PROXY}"]


def test_many_files_are_counted() -> None:
    files = {f"/etc/kubernetes/patches/{n}.yaml": "a" for n in range(8)}
    found = settled(settled(None, {}, ("1-1", "deploy")), files, ("1-1", "deploy"))
    assert said(found)[2].endswith("and 3 more")


def past(operation: str, outcome: str = "succeeded", sequence: int = 1) -> Json:
    return {"sequence": sequence, "attempt": 2, "operation": operation, "outcome": outcome}


def test_the_last_writer_is_the_last_success_that_wrote_settings() -> None:
    history = [past("backup", sequence=4), past("upgrade", "failed", 3), past("scale", sequence=2), past("deploy")]
    assert last_writer({"status": {"history": history}}) == ("2-2", "scale")
    assert last_writer({"status": {}}) is None


def test_without_a_history_what_is_known_stays() -> None:
    assert settled(DEPLOYED, {**FILES, API: "a2"}, None)["changed"] == [f"a2 {API}"]
    assert settled(None, FILES, None)["operation"] == ""


def test_only_files_that_are_looked_at_are_put_back() -> None:
    of_roles = [path for path in OWNED if put_back(path)]
    assert "/var/lib/kubelet/config.yaml" in of_roles
    assert "/etc/systemd/system/kubelet.service" not in of_roles
    assert len(of_roles) >= len(PUT_BACK) - 4  # the four manifests are one pattern there
    assert not put_back("/etc/kubernetes/manifests/own.yaml")
