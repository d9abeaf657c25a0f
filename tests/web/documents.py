"""A report's document with one cell for everything that the page has to show, made by hand: tests know what is in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

Document = dict[str, Any]
NIGHTS = 40
AXES = [
    {"name": "kubernetes", "values": ["1.35.4", "1.36.3"]},
    {"name": "os", "values": ["debian-12", "debian-13"]},
    {"name": "topology", "values": ["all-in-one", "cp1-w2", "cp3-w2"]},
    {"name": "network", "values": ["flannel"]},
]
CHECKS = ["nodes: test_services_run", "network: test_dns_answers", "cluster: test_every_node_is_ready"]
MESSAGES = [
    "assert 2 == 3: nodes Ready\nE   expected cp-0, w-0, w-1\nE   seen     cp-0, w-0",
    "no route to 10.244.1.7 after 60 s\nE   last answer: timed out\nhint: look at the flannel pods",
    "VM w-1 did not get an address in 300 s",
    "the conformance suite is not part of this tier",
]
# What each cell is there for: the letters of its nights (the newest last) and whose the failures are.
PASSING, BROKEN, ALWAYS = "always-passes", "newly-broken", "always-fails"
SOMETIMES, INFRA, EXCUSED, SLOWER, ABSENT, MENDED = "sometimes", "infra-fails", "excused", "slower", "absent", "mended"
PAST: dict[str, tuple[str, str]] = {
    PASSING: ("p" * NIGHTS, " "),
    BROKEN: ("p" * (NIGHTS - 1) + "f", "p"),
    ALWAYS: ("p" * (NIGHTS - 6) + "f" * 6, "p"),
    SOMETIMES: (("pppf" * NIGHTS)[:NIGHTS], "p"),
    INFRA: ("p" * (NIGHTS - 1) + "f", "i"),
    EXCUSED: ("p" * (NIGHTS - 3) + "qqq", "p"),
    SLOWER: ("p" * NIGHTS, " "),
    ABSENT: ("p" * (NIGHTS - 9) + "." * 9, " "),
    MENDED: ("p" * (NIGHTS - 4) + "fffp", "h"),
}
HABITS = {ALWAYS: "always", SOMETIMES: "sometimes", BROKEN: "new", INFRA: "new"}
NEWS = {BROKEN: "new", ALWAYS: "known", INFRA: "new", SOMETIMES: "new", MENDED: "fixed"}


def document(hours_ago: float = 6.0) -> Document:
    """Return a document whose last run began so many hours before now."""
    started = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=hours_ago)
    nights = [_night(number, started - timedelta(days=NIGHTS - 1 - number)) for number in range(NIGHTS)]
    cells = [_cell(number, name) for number, name in enumerate(PAST)]
    return {
        "v": 1,
        "title": "vmatrix nightly",
        "generated": _time(started + timedelta(hours=2)),
        "selection": {"tier": "nightly", "branch": "main", "days": None, "infra": None},
        "freshness": {
            "last": _time(started),
            "hours_ago": hours_ago,
            "every_hours": 24,
            "stale_after_hours": 36,
            "stale": hours_ago > 36,
            "missing": [],
        },
        "axes": AXES,
        "nights": nights,
        "summary": _summary(cells),
        "cells": cells,
        "checks": CHECKS,
        "messages": MESSAGES,
        "clusters": [_cluster(cells)],
        "suspects": [_suspected()],
        "symptoms": {"seen": [_symptom()], "idle": ["kernel panic"]},
        "worse": [_worse()],
        "week": {"nights": 7, "cells": 40, "pairs": 30, "triples": 90, "possible": 40},
        "not_run": [{"cell": _number(ABSENT), "last": NIGHTS - 10, "why": "no record for 9 nights"}],
        "slower": [{"cell": _number(SLOWER), "step": "deploy", **_trend()}],
        "figures": _figures(),
        "quarantine": [_quarantine()],
        "coverage": _coverage(len(cells)),
        "history": {
            "records": 351,
            "duplicates": 0,
            "skipped": [{"source": "history.jsonl", "line": 7, "why": "not JSON"}],
            "skipped_total": 1,
            "sources": ["history.jsonl"],
            "forgotten": 0,
        },
    }


def replace_texts(value: Any, put: Callable[[str, str], str], key: str = "") -> Any:
    """Return a document with `put(key, text)` in place of every text, keys and the letters of nights left alone."""
    if isinstance(value, dict):
        return {name: replace_texts(one, put, name) for name, one in value.items()}
    if isinstance(value, list):
        return [replace_texts(one, put, key) for one in value]
    return put(key, value) if isinstance(value, str) else value


def _time(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _number(name: str) -> int:
    return list(PAST).index(name)


def _commit(night: int) -> str:
    return f"{night // 2:02x}" * 20


def _night(number: int, started: datetime) -> Document:
    letters = [past[0][number] for past in PAST.values()]
    words = {"p": "passed", "f": "failed", "q": "quarantined"}
    return {
        "date": f"{started:%Y-%m-%d}",
        "started": _time(started),
        "finished": _time(started + timedelta(hours=1)),
        "commit": _commit(number),
        "branch": "main",
        "pipeline": str(1000 + number),
        "url": f"https://gitlab.example/group/project/-/pipelines/{1000 + number}",
        "project_url": "https://gitlab.example/group/project",
        "run": f"run{number}",
        "counts": {word: letters.count(letter) for letter, word in words.items() if letter in letters},
        "infra_outage": False,
    }


def _rate(letters: str) -> Document:
    """Count as the analysis does: the streak that is not over says nothing, three in a row are no chance."""
    judged = "".join(letter for letter in letters if letter in "pf").rstrip("f")
    failed = judged.replace("fff", "").count("f")
    rate = failed / len(judged)
    return {
        "rate": rate,
        "low": rate / 2,
        "high": min(1.0, rate * 2),
        "failed": failed,
        "n": len(judged),
        "enough": True,
    }


def _figures() -> Document:
    kinds = [
        {"name": "pod_start_p99", "label": "Pod start, p99", "unit": "s", "higher": False, "slo": 5.0},
        {"name": "dns_rate", "label": "DNS answers", "unit": "/s", "higher": True, "slo": None},
    ]
    slow = "Pod start, p99 (w-0): 6.2 s, 2.10 times the usual 2.95 s (median of 20 runs; noise up to 1.31)"
    over = {"cell": _number(SLOWER), "said": "Pod start, p99 (w-0) 6.2 s", "slo": 5.0}
    return {
        "kinds": kinds,
        "slower": [{"cell": _number(SLOWER), "ratio": 2.1, "said": slow}],
        "over": [over],
        "compared": 4,
        "young": 1,
    }


def _trend() -> Document:
    return {"now": 240.0, "usual": 150.0, "mad": 4.0, "ratio": 1.6, "n": 20, "n_now": 3, "notable": True}


def _since(letters: str) -> Document | None:
    if letters[-1] != "f":
        return None
    good = letters.rindex("p")
    return {
        "good": good,
        "bad": good + 1,
        "good_commit": _commit(good),
        "bad_commit": _commit(good + 1),
        "url": f"https://gitlab.example/group/project/-/compare/{_commit(good)}...{_commit(good + 1)}",
        "between": 0,
    }


def _cell(number: int, name: str) -> Document:
    letters, blame = PAST[name]
    seconds = [None if one == "." else 300.0 + 3 * ((night * 7) % 11) for night, one in enumerate(letters)]
    deploy = [None if one is None else one / 2 for one in seconds]
    if name == SLOWER:
        deploy[-3:] = [240.0, 241.0, 240.0]
    streak = len(letters) - len(letters.rstrip("f"))
    failing = [night for night, one in enumerate(letters) if one in "fq"]
    blames = "".join(blame if one in "fq" else " " for one in letters)
    return {
        "id": f"k1363-d13-{name}-{number:06x}",
        "values": [number % 2, (number // 2) % 2, number % 3, 0],
        "planned": True,
        "outcomes": letters,
        "blames": blames,
        "seconds": seconds,
        "jobs": [str(7000 + night) for night in range(NIGHTS)],
        "steps": [
            {"name": "provision", "seconds": [None if one is None else 40.0 for one in seconds], "trend": None},
            {"name": "deploy", "seconds": deploy, "trend": _trend() if name == SLOWER else None},
            {"name": "checks", "seconds": [None if one is None else 61.5 for one in seconds], "trend": None},
        ],
        "trend": None,
        "figures": _series(name),
        "last": _last(letters, blames),
        "habit": HABITS.get(name, "never"),
        "news": NEWS.get(name, ""),
        "streak": streak,
        "since": _since(letters),
        "flaky": _rate(letters),
        "failures": [{"night": night, "items": _items(name, quarantined=letters[night] == "q")} for night in failing],
        "attempts": {str(NIGHTS - 1): _attempts(letters)} if name in (PASSING, INFRA) else {},
        "logs": {str(NIGHTS - 1): [{"label": "logs", "url": "", "path": f"runs/run{NIGHTS - 1}/{name}/logs"}]},
        "checks": [_check(letters)] if failing else [],
        "passed_checks": [2],
        "not_run_checks": [[0, 3]],
        "command": f"vmatrix run 'k1363-d13-{name}-{number:06x}' --tier nightly",
    }


def _series(name: str) -> list[Document]:
    if name not in (PASSING, SLOWER):
        return []
    starts = [2.5 + (night % 5) / 10 for night in range(NIGHTS)]
    starts[-3:] = [6.1, 6.3, 6.2] if name == SLOWER else starts[-3:]
    return [{"kind": 0, "values": starts}, {"kind": 1, "values": [*[None] * (NIGHTS - 1), 8123.0]}]


def _last(letters: str, blames: str) -> Document:
    night = len(letters.rstrip(".")) - 1
    outcome = {"p": "passed", "f": "failed", "q": "quarantined"}[letters[night]]
    blame = {"p": "product", "i": "infra", "h": "harness", " ": ""}[blames[night]]
    return {"night": night, "outcome": outcome, "blame": blame}


def _items(name: str, *, quarantined: bool) -> list[Document]:
    common: Document = {
        "stage": "deploy",
        "blame": {"i": "infra", "h": "harness"}.get(PAST[name][1], "product"),
        "cluster": -1,
        "news": "new",
        "quarantine": "https://gitlab.example/group/project/-/issues/12" if quarantined else "",
    }
    if name == INFRA:
        return [{**common, "check": -1, "step": "provision / machines", "message": 2, "cause": 2}]
    found = [{**common, "check": 1, "step": "", "message": 1, "cause": 1, "cluster": 0}]
    return [*found, {**common, "check": 2, "step": "", "message": 0, "cause": 0}] if name == BROKEN else found


def _attempts(letters: str) -> list[Document]:
    first = {"number": 1, "outcome": "failed", "blame": "infra"}
    again = {"number": 2, "outcome": "passed", "blame": ""} if letters[-1] == "p" else {**first, "number": 2}
    return [first, again]


def _check(letters: str) -> Document:
    return {
        "check": 1,
        "outcome": "passed" if letters[-1] in "p." else "failed",
        "habit": "sometimes",
        "news": "",
        "streak": 0,
        "since": None,
        "flaky": _rate(letters),
        "history": letters,
        "reason": -1,
    }


def _cluster(cells: list[Document]) -> Document:
    numbers = [
        number
        for number, cell in enumerate(cells)
        if any(i["cluster"] == 0 for f in cell["failures"] for i in f["items"])
    ]
    return {
        "signature": "no route to IP after N s",
        "message": 1,
        "blames": {"product": 18},
        "what": ["network: test_dns_answers"],
        "cells": numbers,
        "now": [number for number in numbers if cells[number]["outcomes"][-1] in "fq"],
        "runs": 18,
        "first": 3,
        "last": NIGHTS - 1,
    }


def _summary(cells: list[Document]) -> Document:
    last = [cell["outcomes"][-1] for cell in cells]
    failing = [cell for cell in cells if cell["outcomes"][-1] == "f"]
    blames = [{"p": "product", "i": "infra"}[cell["blames"][-1]] for cell in failing]
    return {
        "cells": len(cells),
        "ran": len(last) - last.count("."),
        "outcomes": {"passed": last.count("p"), "failed": last.count("f"), "quarantined": last.count("q")},
        "blames": {blame: blames.count(blame) for blame in sorted(set(blames))},
        "new": sum(cell["news"] == "new" for cell in failing),
        "known": sum(cell["news"] == "known" for cell in failing),
        "fixed": 1,
        "sometimes": 1,
        "slower": 1,
        "not_run": 1,
        "quarantined": 1,
    }


def _quarantine() -> Document:
    return {
        "cell": "*-excused-*",
        "check": "network: *",
        "issue": "https://gitlab.example/group/project/-/issues/12",
        "reason": "DNS is late after a reboot",
        "until": "2030-01-31",
        "days_left": 3,
        "cells": [_number(EXCUSED)],
        "failed": 3,
        "ran": 40,
        "stale": False,
    }


def _coverage(cells: int) -> Document:
    values = [{"value": value, "planned": cells // 2, "ran": cells // 2, "passed": 2} for value in ("1.35.4", "1.36.3")]
    pairs = {"planned": 20, "ran": 18, "passed": 12}
    axes = [{"name": "kubernetes", "values": values}]
    return {"planned": cells, "ran": cells - 1, "passed": 4, "pairs": pairs, "axes": axes}


def _suspected() -> Document:
    values = [{"axis": "os", "value": "debian-12"}, {"axis": "topology", "value": "cp1-w2"}]
    evidence = "1 of 1 cells with both failed, 0 of 7 others"
    return {
        "cells": [_number(BROKEN)],
        "what": [CHECKS[1]],
        "chance": 0.01,
        "since": {"date": "2026-11-20", "good": "a" * 40, "bad": "b" * 40, "url": ""},
        "culprit": None,
        "named": True,
        "by_chance": False,
        "suspects": [{"values": values, "share": 0.95, "evidence": evidence, "around": False}],
    }


def _symptom() -> Document:
    return {
        "name": "disk full",
        "means": "raise disk_gib",
        "cells": [_number(BROKEN)],
        "line": "No space left on device",
    }


def _worse() -> Document:
    counts = {"failed": 3, "judged": 4, "failed_before": 0, "judged_before": 120}
    return {"axis": "os", "value": "debian-12", "check": CHECKS[1], **counts, "p": 0.00002, "against": ""}
