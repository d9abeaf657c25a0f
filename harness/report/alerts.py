"""Alerts: what happened in the last night, told once to a webhook and by e-mail.

A receiver that hangs or refuses changes nothing but a sentence in the report; what it did not take is told next time.
"""

from __future__ import annotations

import hashlib
import json
import os
import smtplib
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harness.errors import BadInput
from harness.files import read_text, write_atomically
from harness.http_client import NoAnswer, WebRequest, ask, reason
from harness.report.analysis.analyse import Analysis
from harness.report.analysis.nights import Night
from harness.report.markup import URL, line_of, mattermost, slack
from harness.report.suspects import Key, of_night
from harness.report.words import plural
from harness.spec.settings import Settings

SECONDS = 10.0  # for one answer of a receiver
SHOWN = 8  # cells and checks of an event
REMEMBERED = 2000  # events, of which each is told once
MOST_UNSENT = 20  # alerts that wait for a receiver
RECENT_DAYS = 7  # a night that was missing longer ago is not news
LEDGER = "alerts.json"
PASSWORD = "MATRIX_ALERT_PASSWORD"  # noqa: S105 - a variable's name
NEW, FIXED, MISSING, INFRA = "new-failure", "fixed", "night-missing", "infra-failures"
KINDS = {
    NEW: "a check or step fails that did not fail the night before",
    FIXED: "what failed passes again",
    MISSING: "a night that was due did not run",
    INFRA: "more cells than usual failed by the infrastructure",
}


@dataclass(frozen=True)
class Alert:
    """One event.

    id: the same whenever the same event is looked at, also where further cells have failed so in the meantime.
    suspect: what may explain it, "" if unknown.
    """

    id: str
    kind: str
    title: str
    cells: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    suspect: str = ""
    night: str = ""
    url: str = ""

    @property
    def lines(self) -> list[str]:
        """Return what is said below the title."""
        texts = [f"suspect: {self.suspect}"] if self.suspect else []
        texts += [_few("checks", self.checks), _few("cells", self.cells)]
        return [*filter(None, texts), *([self.url] if self.url else [])]


def _few(what: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{what}: {', '.join(names[:SHOWN])}{more}" if names else ""


def alerts_of(analysis: Analysis, *, infra_rate: float, url: str = "", only_missing: bool = False) -> list[Alert]:
    """Return the events of the last night, and the nights that were due of late and did not run.

    Args:
        infra_rate: the share of cells that fail by the infrastructure, above which that is an event.
        url: of the published report.
    """
    night = analysis.last
    dates = [d for d in analysis.freshness.missing if (analysis.now.date() - d).days <= RECENT_DAYS]
    what = " ".join(filter(None, (MISSING, analysis.selection.tier, analysis.selection.infra)))
    alerts = [Alert(f"{what} {d}", MISSING, f"the night of {d} did not run", url=url) for d in dates]
    if night is None or only_missing:
        return alerts
    day, page = night.start.date().isoformat(), url or night.where.pipeline_url
    by_infra = [c for c, r in night.cells.items() if r.outcome == "failed" and r.blame == "infra"]
    if len(by_infra) > infra_rate * len(night.cells):
        title = f"{plural(len(by_infra), 'cell')} of {len(night.cells)} failed by the infrastructure"
        alerts.append(Alert(f"{INFRA} {night.key}", INFRA, title, tuple(by_infra), night=day, url=page))
    if night.outage:
        return alerts
    opened, closed = _changes([night for night in analysis.nights if not night.outage])
    suspects = {key: explained for explained in analysis.suspects for key in explained.keys}
    for cells, keys in _by_cells(opened).items():
        named = next(
            (suspect.named for key in keys if (suspect := suspects.get(key)) is not None and suspect.named), None
        )
        titles = tuple(dict.fromkeys(title for title, _ in keys))
        title = f"new failure in {plural(len(cells), 'cell')}: {titles[0]}"
        cause = f"{named.said} ({named.evidence})" if named is not None else ""
        alerts.append(Alert(_id(NEW, night, keys[0]), NEW, title, cells, titles, cause, day, page))
    for cells, keys in _by_cells(closed).items():
        titles = tuple(dict.fromkeys(title for title, _ in keys))
        alerts.append(
            Alert(_id(FIXED, night, keys[0]), FIXED, f"fixed: {titles[0]}", cells, titles, night=day, url=page)
        )
    return alerts


def _id(kind: str, night: Night, key: Key) -> str:
    """Name an event by what fails, not by its cells: those change when failed cells run again in the same night."""
    return f"{kind} {night.key} {key[0]} {hashlib.sha256(key[1].encode()).hexdigest()[:8]}"


def _changes(nights: Sequence[Night]) -> tuple[dict[Key, tuple[str, ...]], dict[Key, tuple[str, ...]]]:
    """Return what began to fail in the last night, and what ended failing in it, with the cells that failed.

    Cells differ from night to night, so that a failure ends in a night in which its check or step passed somewhere and
    failed so in no cell.
    """
    known: dict[Key, tuple[str, ...]] = {}
    opened: dict[Key, tuple[str, ...]] = {}
    closed: dict[Key, tuple[str, ...]] = {}
    for night in nights:
        failing: dict[Key, list[str]] = {}
        passed: set[str] = set()
        for observation in of_night(night):
            passed |= observation.passed
            for key in observation.failed:
                failing.setdefault(key, []).append(observation.cell)
        opened = {key: tuple(sorted(cells)) for key, cells in failing.items() if key not in known}
        closed = {key: cells for key, cells in known.items() if key not in failing and key[0] in passed}
        known = {key: cells for key, cells in {**known, **opened}.items() if key not in closed}
    return opened, closed


def _by_cells(keys: Mapping[Key, tuple[str, ...]]) -> dict[tuple[str, ...], list[Key]]:
    """Put what failed in the same cells together: one event."""
    groups: dict[tuple[str, ...], list[Key]] = {}
    for key, cells in sorted(keys.items()):
        groups.setdefault(cells, []).append(key)
    return groups


def _slack(alert: Alert) -> dict[str, Any]:
    return {"text": "\n".join((f"*{slack(alert.title)}*", *(f"• {slack(line)}" for line in alert.lines)))}


def _mattermost(alert: Alert) -> dict[str, Any]:
    lines = (f"- {line if URL.fullmatch(line) else mattermost(line)}" for line in alert.lines)
    return {"username": "vmatrix", "text": "\n".join((f"**{mattermost(alert.title)}**", *lines))}


# https://docs.slack.dev/messaging/formatting-message-text, https://developers.mattermost.com/integrate/webhooks/incoming
FORMS: Mapping[str, Callable[[Alert], dict[str, Any]]] = {"json": asdict, "slack": _slack, "mattermost": _mattermost}


def tell(alerts: Sequence[Alert], settings: Settings) -> list[str]:
    """Tell each receiver of the settings what it was not told yet; return a sentence for each that did not take it.

    Nothing that is wrong here keeps a report from being written: it is a sentence, too.
    """
    problems: list[str] = []
    receivers: dict[str, Callable[[Alert], None]] = {}
    if settings.alert_webhook is not None:
        receivers["webhook"] = lambda alert: _post(alert, settings)
    if settings.alert_mail_to is not None:
        if settings.alert_smtp is None or settings.alert_mail_from is None:
            problems.append("no alert goes by mail: alert_mail_to needs alert_smtp and alert_mail_from; set all three")
        else:
            receivers["mail"] = lambda alert: _mail(alert, settings)
    ledger = Ledger(settings.runs / LEDGER)
    try:
        ledger = _read(ledger.file) if receivers else ledger
    except BadInput as error:  # a GitLab job keeps it in a cache, where nobody can mend it
        problems.append(f"{error.summary}: it is begun anew, so that alerts may be sent twice")
    due = {alert.id: alert for alert in (*ledger.unsent, *alerts)} if receivers else {}
    try:
        for name, send in receivers.items():
            problems += _send(name, send, due, ledger)
        ledger.keep([alert for alert in due.values() if any(not ledger.has(name, alert) for name in receivers)])
    except LedgerUnwritten as error:
        problems.append(f"{error}; the next report sends alerts twice")
    return problems


def _send(name: str, send: Callable[[Alert], None], due: Mapping[str, Alert], ledger: Ledger) -> Iterator[str]:
    """Send a receiver what it did not take before, up to the first that it does not take: then yield a sentence."""
    left = [alert for alert in due.values() if not ledger.has(name, alert)]
    for number, alert in enumerate(left):
        try:
            send(alert)
        except (OSError, ValueError, smtplib.SMTPException) as error:  # ValueError: an address that is none
            count = plural(len(left) - number, "alert")
            yield f"{count} not sent by {name}: {_why(error)}; the next report tries again"
            return
        ledger.add(name, alert)


class LedgerUnwritten(Exception):
    """The list of alerts that were sent could not be written."""


@dataclass
class Ledger:
    """The file with what each receiver was told, and with the alerts of earlier nights that some did not take."""

    file: Path
    told: list[str] = field(default_factory=list)
    unsent: list[Alert] = field(default_factory=list)

    def has(self, receiver: str, alert: Alert) -> bool:
        """Tell whether a receiver took an alert."""
        return f"{receiver} {alert.id}" in self.told

    def add(self, receiver: str, alert: Alert) -> None:
        """Write down at once that a receiver took an alert."""
        self.told.append(f"{receiver} {alert.id}")
        self._write()

    def keep(self, unsent: Sequence[Alert]) -> None:
        """Write down what is left for the next report, the newest ones; nothing where that is what the file says."""
        kept = [*unsent[-MOST_UNSENT:]]
        if kept != self.unsent:
            self.unsent = kept
            self._write()

    def _write(self) -> None:
        content = {"told": self.told[-REMEMBERED:], "unsent": [asdict(alert) for alert in self.unsent]}
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.file, json.dumps(content, indent=1) + "\n")
        except OSError as error:
            raise LedgerUnwritten(f"{self.file} cannot be written: {error.strerror}") from error


def _why(error: Exception) -> str:
    """Return why an alert was not taken, without what the error quotes: a password that has a letter beyond ASCII."""
    if isinstance(error, UnicodeError):
        return "a user, password or address has a character beyond ASCII"
    if isinstance(error, ssl.SSLError):
        return reason(error)
    return " ".join(str(error).split())


def _read(file: Path) -> Ledger:
    if not file.is_file():
        return Ledger(file)
    try:
        content = json.loads(read_text(file))
        return Ledger(file, [str(alert_id) for alert_id in content["told"]], [*map(_alert, content.get("unsent", ()))])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"{file} is not the list of alerts that were sent") from error


def _alert(content: Mapping[str, Any]) -> Alert:
    values: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in content.items()}
    made = Alert(**values)
    if made.kind not in KINDS:
        raise ValueError(made.kind)
    return made


def _post(alert: Alert, settings: Settings) -> None:
    url = settings.alert_webhook or ""
    content = json.dumps(FORMS[settings.alert_form](alert)).encode()
    headers = {"Content-Type": "application/json"}
    reply = ask(WebRequest(url, "POST", headers=headers, content=content, redirects=False), SECONDS)
    if not reply.ok:  # only the host is named: the rest of the address is what Slack knows its callers by
        raise NoAnswer(f"{urlsplit(url).hostname} answered {reply.status}")


def _mail(alert: Alert, settings: Settings) -> None:
    host, _, port = (settings.alert_smtp or "").rpartition(":")
    message = EmailMessage()
    title = line_of(alert.title)
    message["Subject"] = f"vmatrix: {title}"
    message["From"], message["To"] = settings.alert_mail_from, settings.alert_mail_to
    message.set_content("\n".join((KINDS[alert.kind] + ":", "", title, *map(line_of, alert.lines))) + "\n")
    host, trust = host.strip("[]"), ssl.create_default_context()  # smtplib's own context trusts every certificate
    with _connected(host, int(port), trust) as server:
        server.ehlo()
        if not isinstance(server, smtplib.SMTP_SSL) and server.has_extn("starttls"):
            server.starttls(context=trust)
            server.ehlo()
        if settings.alert_smtp_user is not None:
            if not isinstance(server.sock, ssl.SSLSocket):
                raise NoAnswer(f"{host} offers no TLS, so that the password was not sent; use port 465 or STARTTLS")
            server.login(settings.alert_smtp_user, os.environ.get(PASSWORD, ""))
        server.send_message(message)


def _connected(host: str, port: int, trust: ssl.SSLContext) -> smtplib.SMTP:
    if port == smtplib.SMTP_SSL_PORT:
        return smtplib.SMTP_SSL(host, port, timeout=SECONDS, context=trust)
    return smtplib.SMTP(host, port, timeout=SECONDS)
