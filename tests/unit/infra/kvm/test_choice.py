"""Whether KVM is used: by the setting, else by the verdict; what cannot be judged is emulated."""

from __future__ import annotations

import pytest

from harness.infra.kvm.choice import Kvm, choose, findings
from harness.infra.kvm.trial import KvmState, Verdict

ALL = {state: Verdict(state, f"is {state}") for state in KvmState}


def never() -> Verdict:
    raise AssertionError("nobody asked for a trial")


@pytest.mark.parametrize("state", KvmState)
def test_only_what_is_known_to_work_is_used_by_itself(state: KvmState) -> None:
    found = choose("auto", lambda: ALL[state])

    assert found.used is (state is KvmState.WORKS)
    assert found.why.startswith(f"/dev/kvm is {state}")
    assert ("hidden" in found.why) is (state in (KvmState.BROKEN, KvmState.UNKNOWN))


def test_the_setting_forces_either_without_a_trial() -> None:
    assert choose("use", never).used
    assert not choose("hide", never).used
    assert findings("hide", never) == []


@pytest.mark.parametrize(
    ("setting", "state", "expected"),
    [
        ("auto", KvmState.WORKS, []),
        ("auto", KvmState.BROKEN, [False]),
        ("auto", KvmState.UNKNOWN, [False]),
        ("auto", KvmState.ABSENT, [False]),
        ("use", KvmState.WORKS, []),
        ("use", KvmState.BROKEN, [False]),
        ("use", KvmState.ABSENT, [True]),
    ],
)
def test_a_person_is_told_before_an_instance_is_made(setting: Kvm, state: KvmState, expected: list[bool]) -> None:
    found = findings(setting, lambda: ALL[state])

    assert [finding.fatal for finding in found] == expected
    assert all(finding.what == f"/dev/kvm is {state}" for finding in found)
