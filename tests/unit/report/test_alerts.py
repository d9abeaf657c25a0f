"""Alerts: over three nights each event is told exactly once, to a played webhook and to a played SMTP server."""

from __future__ import annotations

import json
import smtplib
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from email import message_from_string
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from harness.history.record import Record, StepRecord
from harness.report import alerts
from harness.report.alerts import FIXED, FORMS, INFRA, KINDS, MISSING, NEW, Alert, alerts_of, tell
from harness.report.analysis.analyse import Analysis, RecordFilter, analyse
from harness.report.analysis.planned import Planned
from harness.spec.settings import Settings
from tests.unit.history.make import checked, record
from tests.unit.history.synthetic import NOW

DNS, READY = "network: test_dns", "nodes: test_ready"
CELLS = ("one", "two", "three", "four")


@dataclass
class Receiver:
    """What a played receiver got; status: what it answers."""

    got: list[dict[str, Any]] = field(default_factory=list)
    mails: list[str] = field(default_factory=list)
    logins: list[bytes] = field(default_factory=list)
    status: int = 200


class Hook(BaseHTTPRequestHandler):
    """A webhook's receiver."""

    receiver: ClassVar[Receiver]

    def do_POST(self) -> None:
        """Take a message."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.receiver.status == 200:
            self.receiver.got.append(body)
        self.send_response(self.receiver.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class Smtp(socketserver.StreamRequestHandler):
    """An SMTP server that takes every message."""

    receiver: ClassVar[Receiver]

    def handle(self) -> None:
        """Talk as RFC 5321 has it, as far as a message needs it."""
        self.wfile.write(b"220 played\r\n")
        while line := self.rfile.readline():
            word = line.strip().upper().split(b" ")[0]
            if word == b"AUTH":
                self.receiver.logins.append(line)
            if word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                lines = list(iter(self.rfile.readline, b".\r\n"))
                self.receiver.mails.append(b"".join(lines).decode())
            self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 fine\r\n")
            if word == b"QUIT":
                return


@contextmanager
def serving(server: socketserver.TCPServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def settings(receiver: Receiver, tmp_path: Path) -> Iterator[Settings]:
    """Settings that lead to both receivers."""
    hook, smtp = type("H", (Hook,), {"receiver": receiver}), type("S", (Smtp,), {"receiver": receiver})
    web = ThreadingHTTPServer(("127.0.0.1", 0), hook)
    mail = socketserver.ThreadingTCPServer(("127.0.0.1", 0), smtp)
    mail.daemon_threads = True
    with serving(web) as port, serving(mail) as mail_port:
        yield Settings(
            runs=tmp_path,
            alert_webhook=f"http://127.0.0.1:{port}/secret-part",
            alert_mail_to="team@example.org",
            alert_mail_from="vmatrix@example.org",
            alert_smtp=f"127.0.0.1:{mail_port}",
        )


def night(number: int, *failing: str, of: int = 3, infra: int = 0, check: str = DNS) -> list[Record]:
    """Return a night in which a check fails in some cells."""
    made = []
    for place, cell in enumerate(CELLS):
        if place < infra:
            steps = (StepRecord("provision", "failed", 9.0, blame="infra", message="no room"),)
            made.append(record(number, cell, of=of, outcome="failed", blame="infra", steps=steps))
            continue
        bad = cell in failing
        base = record(number, cell, of=of, outcome="failed" if bad else "passed", axes={"cell": cell})
        made.append(checked(base, {READY: "p", check: "f" if bad else "p"}))
    return made


def judged(*nights: list[Record], hours: float = 0.0) -> Analysis:
    records = [one for night in nights for one in night]
    last = max((one.start for one in records), default=NOW)
    return analyse(records, Planned(every_hours=24.0), RecordFilter(), last + timedelta(hours=8 + hours))


def told(analysis: Analysis, settings: Settings) -> list[str]:
    return tell(alerts_of(analysis, infra_rate=0.2), settings)


def test_each_event_of_three_nights_is_told_once(receiver: Receiver, settings: Settings) -> None:
    first, second, third = night(0), night(1, "one", "two"), night(2)
    for nights in ([first], [first, second], [first, second], [first, second, third], [first, second, third]):
        assert told(judged(*nights), settings) == []
    assert [one["kind"] for one in receiver.got] == [NEW, FIXED]
    assert receiver.got[0]["checks"] == [DNS]
    assert receiver.got[0]["cells"] == ["one", "two"]
    mails = [message_from_string(one) for one in receiver.mails]
    assert [one["Subject"] for one in mails] == [
        "vmatrix: new failure in 2 cells: network: test_dns",
        "vmatrix: fixed: network: test_dns",
    ]
    assert {one["To"] for one in mails} == {"team@example.org"}


def test_what_goes_on_failing_in_other_cells_is_told_once(receiver: Receiver, settings: Settings) -> None:
    nights = [night(0, "one"), night(1, "two"), night(2, "three")]
    for number in (1, 2, 3):
        told(judged(*nights[:number]), settings)
    assert [one["kind"] for one in receiver.got] == [NEW]


def test_a_night_that_did_not_run_is_told_once(receiver: Receiver, settings: Settings) -> None:
    late = judged(night(0), hours=36)
    assert told(late, settings) == told(late, settings) == []
    assert told(judged(night(0), night(2)), settings) == []
    assert [one["kind"] for one in receiver.got] == [MISSING]


def test_failures_of_the_infrastructure_are_told_above_the_rate(receiver: Receiver, settings: Settings) -> None:
    told(judged(night(2, infra=0)), settings)
    assert receiver.got == []
    told(judged(night(2, infra=1)), settings)
    assert [(one["kind"], one["title"]) for one in receiver.got] == [
        (INFRA, "1 cell of 4 failed by the infrastructure")
    ]


def test_a_receiver_that_refuses_is_said_and_told_next_time(receiver: Receiver, settings: Settings) -> None:
    found = judged(night(0), night(1, "one"))
    receiver.status = 500
    (said,) = told(found, settings)
    assert said == "1 alert not sent by webhook: 127.0.0.1 answered 500; the next report tries again"
    assert "secret-part" not in said
    assert len(receiver.mails) == 1
    receiver.status = 200
    assert told(found, settings) == []
    assert (len(receiver.got), len(receiver.mails)) == (1, 1)


def test_what_a_receiver_did_not_take_is_told_after_the_next_night(receiver: Receiver, settings: Settings) -> None:
    nights = night(0), night(1, "one"), night(2, "one"), night(3, "one")
    receiver.status = 500
    for number in (2, 3):
        (said,) = told(judged(*nights[:number]), settings)
        assert said.startswith("1 alert not sent by webhook: ")
    receiver.status = 200
    assert told(judged(*nights), settings) == told(judged(*nights), settings) == []
    assert [(one["kind"], one["cells"]) for one in receiver.got] == [(NEW, ["one"])]
    assert len(receiver.mails) == 1


def test_a_receiver_that_hangs_is_given_up(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "SECONDS", 0.1)
    silent = socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler)  # takes nobody on
    with silent:
        port = silent.server_address[1]
        hangs = settings.model_copy(
            update={"alert_webhook": f"http://127.0.0.1:{port}/", "alert_smtp": f"127.0.0.1:{port}"}
        )
        said = told(judged(night(0), night(1, "one")), hangs)
    assert [line.partition(":")[0] for line in said] == ["1 alert not sent by webhook", "1 alert not sent by mail"]


def test_cells_that_run_again_tell_nothing_twice(receiver: Receiver, settings: Settings) -> None:
    told(judged(night(0), night(1, "one", "two")), settings)
    told(judged(night(0), night(1, "two")), settings)  # cell one passed in its next attempt
    assert [one["cells"] for one in receiver.got] == [["one", "two"]]


def test_no_password_goes_to_a_server_without_tls(
    receiver: Receiver, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MATRIX_ALERT_PASSWORD", "pass-w0rd")
    user = settings.model_copy(update={"alert_webhook": None, "alert_smtp_user": "team"})
    (said,) = told(judged(night(0), night(1, "one")), user)
    assert said.startswith("1 alert not sent by mail: 127.0.0.1 offers no TLS, so that the password was not sent")
    assert (receiver.mails, receiver.logins) == ([], [])


@pytest.mark.parametrize("port", [465, 587])
def test_the_certificate_of_a_mail_server_is_verified(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    contexts: list[ssl.SSLContext] = []

    class Server(smtplib.SMTP_SSL):
        """Takes what would verify the server and connects nowhere."""

        def __init__(self, *_: Any, context: ssl.SSLContext, **__: Any) -> None:
            contexts.append(context)
            raise ConnectionRefusedError("played")

    class Plain(smtplib.SMTP):
        """Offers STARTTLS."""

        def __init__(self, *_: Any, **__: Any) -> None:
            self.esmtp_features = {"starttls": ""}
            self.does_esmtp = True

        def ehlo(self, name: str = "") -> tuple[int, bytes]:
            return 250, name.encode()

        def starttls(self, *_: Any, context: ssl.SSLContext | None = None, **__: Any) -> tuple[int, bytes]:
            assert context is not None
            return Server(context=context).noop()

        def __exit__(self, *_: object) -> None:
            """Leave."""

    monkeypatch.setattr(smtplib, "SMTP_SSL", Server)
    monkeypatch.setattr(smtplib, "SMTP", Plain)
    mail = Settings(alert_mail_to="a@example.org", alert_mail_from="b@example.org", alert_smtp=f"mail.invalid:{port}")
    with pytest.raises(ConnectionRefusedError):
        alerts._mail(Alert("i", NEW, "x"), mail)
    assert [(one.verify_mode, one.check_hostname) for one in contexts] == [(ssl.CERT_REQUIRED, True)]


@pytest.mark.parametrize("to", ["team@example.org\nBcc: all@example.org", "\u00e9quipe@example.org"])
def test_an_address_that_is_none_is_said(to: str, receiver: Receiver, settings: Settings) -> None:
    wrong = settings.model_copy(update={"alert_webhook": None, "alert_mail_to": to})
    (said,) = told(judged(night(0), night(1, "one")), wrong)
    assert said.startswith("1 alert not sent by mail: ")
    assert receiver.mails == []


def test_a_ledger_that_cannot_be_written_is_said(receiver: Receiver, settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    (said,) = told(judged(night(0), night(1, "one")), settings.model_copy(update={"runs": tmp_path / "file"}))
    assert said.endswith("cannot be written: File exists; the next report sends alerts twice")
    assert len(receiver.got) == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[]", "is not the list of alerts that were sent"),
        (b"{", "is not the list of alerts that were sent"),
        (b'{"told": 4}', "is not the list of alerts that were sent"),
        (b'{"told": [], "unsent": [{"id": "x", "kind": "other", "title": "y"}]}', "is not the list of alerts"),
        (b'{"told": [], "unsent": [4]}', "is not the list of alerts"),
        (b"\xff", "is not UTF-8 text"),
    ],
)
def test_a_ledger_that_is_none_is_said_and_begun_anew(
    content: bytes, says: str, receiver: Receiver, settings: Settings
) -> None:
    (settings.runs / "alerts.json").write_bytes(content)
    nights = judged(night(0), night(1, "one"))
    (said,) = told(nights, settings)
    assert says in said
    assert said.endswith(": it is begun anew, so that alerts may be sent twice")
    assert told(nights, settings) == []
    assert len(receiver.got) == len(receiver.mails) == 1


@pytest.mark.parametrize("name", ["alert_smtp", "alert_mail_from"])
def test_mail_without_a_server_or_a_sender_is_said_and_the_webhook_told(
    name: str, receiver: Receiver, settings: Settings
) -> None:
    (said,) = told(judged(night(0), night(1, "one")), settings.model_copy(update={name: None}))
    assert said == "no alert goes by mail: alert_mail_to needs alert_smtp and alert_mail_from; set all three"
    assert (len(receiver.got), receiver.mails) == (1, [])


def test_nobody_is_told_without_settings(tmp_path: Path) -> None:
    assert told(judged(night(0), night(1, "one")), Settings(runs=tmp_path / "none")) == []
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_form_says_title_and_evidence(form: str, kind: str) -> None:
    alert = Alert("i", kind, "a <b> & c", ("cell",), ("check",), "ip dual", "2026-11-20", "https://x.invalid/")
    text = json.dumps(FORMS[form](alert))
    title = "a &lt;b&gt; &amp; c" if form == "slack" else "a <b> & c"
    assert title in text
    assert {"ip dual", "cell", "check", "https://x.invalid/"} <= {w for w in alert_words(alert) if w in text}


def alert_words(alert: Alert) -> list[str]:
    return [alert.suspect, *alert.cells, *alert.checks, alert.url]


def test_a_named_suspect_is_told(receiver: Receiver, settings: Settings) -> None:
    many = [
        checked(
            record(n, f"c{i}", of=2, axes={"ip": ip, "os": os}, outcome="failed" if bad else "passed"),
            {DNS: "f" if bad else "p"},
        )
        for n in range(2)
        for i, (ip, os) in enumerate((ip, os) for ip in ("v4", "dual") for os in ("a", "b", "c", "d"))
        for bad in [n == 1 and ip == "dual"]
    ]
    told(judged(many), settings)
    assert receiver.got[0]["suspect"].startswith("ip dual (4 of 4 cells with it failed, 0 of 4 others)")
