"""Exchanges of a runner with the server: kept as they came, so that they can be sent again without a runner."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from aiohttp import web

KEPT = ("Content-Type", "Content-Range", "JOB-TOKEN", "PRIVATE-TOKEN")  # headers that decide an answer


@dataclass(frozen=True)
class Exchange:
    """A request, and of the answer its status and what it told of the job; `body` as base64 where it is not text."""

    method: str
    address: str
    headers: dict[str, str]
    body: str
    encoded: bool
    status: int
    told: str

    @property
    def content(self) -> bytes:
        """Return the request's body."""
        return base64.b64decode(self.body) if self.encoded else self.body.encode()


@dataclass
class Recorder:
    """Remembers what was asked and answered, the oldest first."""

    exchanges: list[Exchange] = field(default_factory=list)

    def keep(self, request: web.Request, body: bytes, answer: web.StreamResponse) -> None:
        """Remember one exchange."""
        headers = {name: request.headers[name] for name in KEPT if name in request.headers}
        try:
            text, encoded = body.decode(), False
        except UnicodeDecodeError:
            text, encoded = base64.b64encode(body).decode(), True
        told = answer.headers.get("Job-Status", "")
        self.exchanges.append(Exchange(request.method, request.path_qs, headers, text, encoded, answer.status, told))

    def write(self, file: Path) -> None:
        """Write all exchanges, one in a line."""
        file.write_text("".join(json.dumps(asdict(one)) + "\n" for one in self.exchanges), encoding="utf-8")


def recorded(file: Path) -> list[Exchange]:
    """Return the exchanges of a file."""
    return [Exchange(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
