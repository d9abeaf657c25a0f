"""A step of defragmentation does what its members need, and nothing while one of them is down or corrupt."""

from __future__ import annotations

import json
import re
import threading
from collections import defaultdict
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from tests.unit.playbooks.playbook_files import check_refusal, run_here
from tests.unit.validate.machine.test_hardening import certificate

MEBI = 1 << 20
NOSPACE, CORRUPT = ({"memberID": "7", "alarm": alarm} for alarm in ("NOSPACE", "CORRUPT"))
DEFRAGMENT, DISARM = "/maintenance/defragment", "/maintenance/alarm DEACTIVATE"
COMPACT = "/kv/compaction 42"
# By a machine's name: the step, its file and what of it is in use and its quota in MiB, the alarms, what is done, and
# what a refusal says. The first machine of a step acts for all.
ROWS: dict[str, tuple[str, tuple[int, int, int], list[dict[str, str]], list[str], str]] = {
    "defragment": ("defragment", (400, 200, 2048), [], [DEFRAGMENT], ""),
    "defragment-few-percent": ("defragment", (1000, 800, 2048), [], [], ""),
    "defragment-few-bytes": ("defragment", (100, 10, 2048), [], [], ""),
    "defragment-alarm": ("defragment", (100, 90, 100), [NOSPACE], [DEFRAGMENT], ""),
    "defragment-corrupt": ("defragment", (400, 200, 2048), [CORRUPT], [], "Remove the machine of such a member"),
    "defragment-down": ("defragment", (400, 200, 2048), [], [], "have no leader or do not answer"),
    "finish-alarm": ("finish", (100, 90, 2048), [NOSPACE], [DISARM], ""),
    "finish-full": ("finish", (100, 98, 100), [NOSPACE], [], "so the alarm NOSPACE stays: delete objects"),
    "prepare-compacted": ("prepare", (100, 90, 100), [NOSPACE], [COMPACT], ""),
}


class Gateway(BaseHTTPRequestHandler):
    """etcd's gateway of every row, at /ROW/v3; notes what changes something."""

    base = ""
    calls: ClassVar[dict[str, list[str]]] = defaultdict(list)

    def do_POST(self) -> None:
        """Answer as the row's members do."""
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        row, _, path = self.path.removeprefix("/").partition("/v3")
        row, _, other = row.partition("+")
        status, answer = self.answer(row, other, path, given)
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer(self, row: str, other: str, path: str, given: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return status and content."""
        _, (size, used, quota), alarms, _, _ = ROWS[row]
        if other and row.endswith("-down"):
            return 503, {"message": "etcdserver: request timed out"}
        if path == "/cluster/member/list":
            own = f"{self.base}/{row}"
            return 200, {"members": [{"ID": "7", "clientURLs": [own]}, {"ID": "8", "clientURLs": [f"{own}+other"]}]}
        if path == "/maintenance/status":
            state = {"header": {"member_id": "7", "revision": "42"}, "leader": "7", "dbSize": str(size * MEBI)}
            state |= {"dbSizeInUse": str(used * MEBI)} | ({"dbSizeQuota": str(quota * MEBI)} if quota else {})
            return 200, state
        if path == "/maintenance/alarm" and given["action"] == "GET":
            return 200, {"alarms": alarms} if alarms else {}
        said = given.get("action") or given.get("revision") or ""
        self.calls[row].append(f"{path} {said}".strip())
        if row.endswith("-compacted"):
            return 400, {"code": 11, "message": "etcdserver: mvcc: required revision has been compacted"}
        return 200, {}

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Say nothing."""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return what Ansible said of all rows."""
    place = tmp_path_factory.mktemp("etcd")
    (place / "pki" / "etcd").mkdir(parents=True)
    pair = certificate(place)
    for name, path in {"ca.crt": pair[0], "healthcheck-client.crt": pair[0], "healthcheck-client.key": pair[1]}.items():
        (place / "pki" / "etcd" / name).symlink_to(path)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Gateway)
    Gateway.base = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    given = {
        "etcd_defragmentation_api": f"{Gateway.base}/{{{{ inventory_hostname }}}}/v3",
        "etcd_defragmentation_first": True,
        "etcd_defragmentation_certificates": f"{place}/pki",
    }
    hosts = {row: {"etcd_defragmentation_step": step} for row, (step, *_) in ROWS.items()}
    play = {"tasks": [{"ansible.builtin.include_role": {"name": "etcd_defragmentation"}, "vars": given}]}
    try:
        yield run_here(place, [play], {}, **hosts)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("row", ROWS)
def test_a_step_does_what_its_members_need_or_names_the_remedy(row: str, said: str) -> None:
    *_, calls, remedy = ROWS[row]
    check_refusal(said, row, remedy)
    assert Gateway.calls[row] == calls


def test_what_is_worth_nothing_changes_nothing(said: str) -> None:
    changed = set(re.findall(r"^changed: \[([\w-]+)\]", said, re.M))
    assert changed == {row for row, (*_, calls, _) in ROWS.items() if calls} - {"prepare-compacted"}
