"""Where a playbook's time goes, by when its tasks began and by its log."""

from __future__ import annotations

import pytest

from tests.bench.profile import TaskClock, TimedTask, as_json, by_play_and_role, by_role, by_task, longest_first

LOG = """\
PLAY [Prepare all machines] ****
TASK [preinstall : Load modules] ****
ok: [cp-0]
TASK [Gather facts] ****
PLAY [Make the control plane] ****
TASK [control_plane : Run kubeadm init] ****
changed: [cp-0]
RUNNING HANDLER [preinstall : Load modules] ****
PLAY RECAP ****
"""
BEGAN = [
    ("preinstall : Load modules", 12.0),
    ("Gather facts", 13.0),
    ("control_plane : Run kubeadm init", 14.5),
    ("preinstall : Load modules", 23.5),
]


def profile(log: str = LOG) -> tuple[TimedTask, ...]:
    return TaskClock(began=10.0, tasks=list(BEGAN)).profile(log, 24.0)


def test_a_task_lasts_until_the_next_one_begins_and_has_its_play() -> None:
    assert profile() == (
        TimedTask("", "", "ansible-playbook starts", 2.0),
        TimedTask("Prepare all machines", "preinstall", "Load modules", 1.0),
        TimedTask("Prepare all machines", "", "Gather facts", 1.5),
        TimedTask("Make the control plane", "control_plane", "Run kubeadm init", 9.0),
        TimedTask("Make the control plane", "preinstall", "Load modules", 0.5),
    )


def test_nothing_of_the_time_is_lost_however_it_is_summed_up() -> None:
    for summed in (by_task, by_role, by_play_and_role):
        assert sum(summed(profile()).values()) == 14.0
    assert by_role(profile())["preinstall"] == 1.5
    assert by_play_and_role(profile())["Prepare all machines: tasks of the play"] == 1.5


def test_a_log_of_another_playbook_is_refused() -> None:
    with pytest.raises(ValueError, match="4 tasks began, and the log has 3"):
        profile(LOG.replace("TASK [Gather facts]", "ok: [cp-0]"))
    with pytest.raises(ValueError, match="may be others"):
        profile(LOG.replace("Gather facts", "Look around"))


def test_the_longest_by_its_median_comes_first_in_every_sample() -> None:
    ordered = longest_first([{"a": 1.0, "b": 5.0}, {"a": 2.0, "b": 1.0, "c": 9.0}, {"a": 2.5, "b": 1.0}])
    assert [list(sample) for sample in ordered] == [["a", "b"] if "c" not in s else ["c", "a", "b"] for s in ordered]


def test_the_file_of_figures_has_each_task_with_its_play_and_role() -> None:
    found = as_json([profile(), profile()])
    first = {"play": "Make the control plane", "role": "control_plane", "task": "Run kubeadm init", "seconds": 9.0}
    assert found[0] == first
    assert [row["seconds"] for row in found] == sorted((row["seconds"] for row in found), reverse=True)
