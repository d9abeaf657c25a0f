"""No wait of the playbooks is left out: each one is stretched by the one factor, or named here with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.playbook_files import ENTRIES, PLAYBOOKS, ROLES, TASK_FILES, load, module, tasks

SCALE = "cluster_timeout_scale"
# In tasks and plays: every number of seconds or tries under one of these keys.
KEYS = re.compile(r"^(retries|delay|timeout|\w+_timeout|async|poll|seconds|wait_timeout)$")
# Modules that wait for so long by themselves where no number is given.
MUST_SAY = {"versioned_binaries": "timeout", "wait_for": "timeout"}
MUST_SAY |= {"wait_for_connection": "timeout"}
# What is handed to tasks that stretch it themselves, by their own factor.
HANDED_OVER = {"static_pods_timeout", "checkpoint_healthy_timeout"}
# In scripts, units and configurations: what precedes a number that is a wait, or a number of tries.
WAITS = re.compile(
    r"(?:--[a-z-]*timeout[ =]|flock --wait |timeout=|timeout [a-z]+ +|timeout [a-z-]+ |^timeout |TimeoutSt\w+Sec="
    r"|%s\) [+] |deadline=|-ge |seq |attempt in |6443\), |--wait |max-time |ConnectTimeout=|retries |hard-stop-after )"
    r"(\"?\$?\{?\{?[ \w.]+)",
    re.M,
)
KEPT = {
    ("api_endpoint", "timeout client 10m"): "a limit on silence, which is longer than any client's silence",
    ("api_endpoint", "timeout server 10m"): "the same",
    ("api_endpoint", "retries 3"): "tries of a connection, each of which has its time",
    ("api_endpoint", "hard-stop-after 10s"): "open connections of an old process, which nothing waits for",
}
# Numbers of seconds in Python that runs on machines or on the controller.
CONSTANTS = {
    "library/urls_served.py:SECONDS": "the controller asks the mirror; no machine is involved",
    "library/firewall_leftovers.py:SECONDS": "against hanging: the kernel answers at once",
    "library/etcd_keys.py:STOP_SECONDS": "of an etcd that is thrown away: whatever it still writes is of no use",
    "roles/network_plugin/files/pod_routes.py:PAUSE_SECONDS": "pacing",
    "roles/network_plugin/files/pod_routes.py:WATCH_SECONDS": "a watch that is opened again whenever it ends",
}


def stretched(value: Any, role: str) -> bool:
    """Tell whether a value is made from the role's factor."""
    return f"stretched({role}_timeout_scale)" in str(value)


def keyed(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield every wait below a YAML node, by its key."""
    if isinstance(node, dict):
        for key, value in node.items():
            if KEYS.match(str(key)) and key not in HANDED_OVER and not isinstance(value, dict | list):
                yield key, value
            yield from keyed(value)
    elif isinstance(node, list):
        for item in node:
            yield from keyed(item)


@pytest.mark.parametrize("path", TASK_FILES, ids=lambda path: f"{path.parents[1].name}-{path.stem}")
def test_every_wait_of_a_task_is_stretched(path: Path) -> None:
    role = path.parents[1].name
    assert [(key, value) for key, value in keyed(load(path)) if not stretched(value, role)] == []
    for task in tasks(path):
        for action in MUST_SAY.keys() & {name.split(".")[-1] for name in task}:
            given = next(value for name, value in task.items() if name.split(".")[-1] == action)
            waits = given.get("state") != "absent"
            assert not waits or MUST_SAY[action] in given, f"{task['name']}: {action} waits as long as it likes"


def test_plays_wait_for_nothing_themselves() -> None:
    assert [found for path in ENTRIES for found in keyed(load(path))] == []


def waits(text: str) -> Iterator[tuple[str, str]]:
    """Yield each wait of a script or a configuration: its line, and the beginning of its value."""
    for line in text.splitlines():
        code = line if "{#" in line else re.sub(r"(^|\s)#\s.*", "", line)
        for found in WAITS.finditer(code.strip()):
            yield code.strip(), found[1].strip()


def written_out(role: Path) -> Iterator[tuple[str, str]]:
    """Yield the waits of a role's templates and files that are numbers, with their files."""
    for path in (path for path in sorted([*role.glob("templates/*"), *role.glob("files/*")]) if path.is_file()):
        if path.suffix != ".py":
            for line, value in waits(path.read_text(encoding="utf-8")):
                if re.match(r'"?\d', value) and (role.name, line) not in KEPT:
                    yield path.name, line


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_no_wait_of_a_script_or_a_configuration_is_a_number(role: Path) -> None:
    assert list(written_out(role)) == []


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_a_roles_own_waits_are_stretched_wherever_they_are_used(role: Path) -> None:
    handed = "".join(f'(?<!{name}: ")' for name in sorted(HANDED_OVER))
    own = re.compile(
        rf"{handed}\{{\{{ ({role.name}_(?:timeout|patience))\b(?! \| stretched\({role.name}_timeout_scale\))"
    )
    used = [
        path
        for folder in ("templates", "tasks", "files")
        for path in sorted(role.glob(f"{folder}/*"))
        if path.is_file()
    ]
    assert [(path.name, own.findall(path.read_text())) for path in used if own.search(path.read_text())] == []


@pytest.mark.parametrize("name", sorted(HANDED_OVER))
def test_what_is_handed_over_is_stretched_where_it_is_waited_for(name: str) -> None:
    files = [path for path in TASK_FILES if f"{name} | stretched(" in path.read_text(encoding="utf-8")]
    assert files


def test_what_is_kept_is_still_there() -> None:
    for role, line in KEPT:
        texts = [path.read_text() for path in (PLAYBOOKS / "roles" / role).glob("*/*") if path.is_file()]
        assert any(line in text for text in texts), line


def test_every_factor_is_the_one_that_the_caller_gives() -> None:
    given = load(PLAYBOOKS / "group_vars" / "all" / "main.yml")
    taken = {role.name for role in ROLES if f"{role.name}_timeout_scale" in str(load(role / "defaults" / "main.yml"))}
    assert len(taken) > 20
    assert {f"{role}_timeout_scale": given.get(f"{role}_timeout_scale") for role in taken} == {
        f"{role}_timeout_scale": f"{{{{ {SCALE} }}}}" for role in taken
    }
    assert given[SCALE] == 1


def test_numbers_of_seconds_in_modules_are_few_and_have_their_reason() -> None:
    found = {
        f"{path.relative_to(PLAYBOOKS)}:{name}"
        for path in PLAYBOOKS.rglob("*.py")
        for name in re.findall(r"^(\w*SECONDS\w*) = ", path.read_text(encoding="utf-8"), re.M)
    }
    assert found == set(CONSTANTS)


@pytest.mark.parametrize(
    "line",
    [
        "kubectl get nodes --request-timeout 5s",
        "flock --wait 600 9",
        "deadline=$(($(date +%s) + 180))",
        "timeout=60s",
        "TimeoutStartSec=120",
        "  timeout connect 2s",
        'if [ "$attempt" -ge 5 ]; then',
        "for attempt in 1 2 3; do",
    ],
)
def test_a_number_that_is_written_out_is_found(line: str) -> None:
    assert [value for _, value in waits(line) if re.match(r"\d", value)] != []


@pytest.mark.parametrize(
    ("given", "factor", "wanted"),
    [
        (180, 1, 180),
        (180, "1.0", 180),
        (10, 1.1, 11),
        (1, 0.2, 1),
        ("10m0s", 1, "10m0s"),
        ("1h1m1.5s", 2, "7323s"),
        ("500ms", 3, "2s"),
        ({"a": "1m0s", "b": 5}, 3, {"a": "180s", "b": 15}),
    ],
)
def test_a_wait_is_stretched_to_whole_seconds_and_stays_as_it_is_with_factor_one(
    given: Any, factor: Any, wanted: Any
) -> None:
    assert module("filter_plugins/values.py").stretched(given, factor) == wanted


@pytest.mark.parametrize(("given", "wanted"), [("10m0s", 600), ("1h1m1.5s", 3662), ("500ms", 1), (7, 7), ("7.2", 8)])
def test_a_wait_in_seconds_is_whole_and_rounded_up(given: Any, wanted: int) -> None:
    assert module("filter_plugins/values.py").in_seconds(given) == wanted


@pytest.mark.parametrize(
    ("given", "factor", "said"),
    [(5, 0, "cluster_timeout_scale is 0"), (5, "x", "a number above 0"), (5, -1, "above 0"), ("soon", 2, "1m30s")],
)
def test_what_is_no_wait_or_no_factor_is_refused(given: Any, factor: Any, said: str) -> None:
    filters = module("filter_plugins/values.py")
    with pytest.raises(filters.AnsibleFilterError, match=said):
        filters.stretched(given, factor)
