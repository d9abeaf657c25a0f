"""What a playbook would change, as its output says it."""

from __future__ import annotations

from harness.operator.execute.adoption import changes

OUTPUT = """
PLAY [First] *******************************************************************

TASK [etcd : Write the configuration] ******************************************
ok: [cp-0]
changed: [cp-1]

TASK [Start] *******************************************************************
changed: [cp-0]
changed: [cp-0] => (item=a)

RUNNING HANDLER [Restart] ******************************************************
changed: [cp-1]

PLAY RECAP *********************************************************************
cp-0 : ok=2 changed=1 unreachable=0 failed=0
"""


def test_each_change_is_named_once_with_its_task_and_its_machine() -> None:
    named = changes(OUTPUT)
    assert named[:2] == ["[etcd : Write the configuration] on cp-1", "[Start] on cp-0"]
    assert len(named) == 3


def test_output_without_a_change_names_none() -> None:
    assert changes(OUTPUT.replace("changed:", "ok:")) == []
