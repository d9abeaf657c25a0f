"""Two applications as they lie in a repository; each answers with the text of its file `answer.txt`."""

from __future__ import annotations

import io
import zipfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import proc

PORT = 8080
STATIC = f"""\
FROM scratch
COPY answer /answer
COPY answer.txt /answer.txt
USER 65534:65534
ENTRYPOINT ["/answer", "{PORT}", "/answer.txt"]
"""
PYTHON = f"""\
ARG BASE
FROM $BASE
USER 0:0
COPY answering-1-py3-none-any.whl /wheels/
RUN python3 -m zipfile -e /wheels/answering-1-py3-none-any.whl /srv/app
COPY answer.txt /srv/answer.txt
USER 65534:65534
WORKDIR /srv/app
ENTRYPOINT ["python3", "-m", "answering", "{PORT}", "/srv/answer.txt"]
"""
MODULE = """\
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        content = open(sys.argv[2], "rb").read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


ThreadingHTTPServer(("", int(sys.argv[1])), Answer).serve_forever()
"""
COMPILE_SECONDS = 60.0


@cache
def program() -> bytes:
    """Return the static program."""
    with TemporaryDirectory() as folder:
        source, made = Path(__file__).with_name("answer.c"), Path(folder) / "answer"
        proc.run(["gcc", "-static", "-Os", "-s", "-o", made, source], timeout=COMPILE_SECONDS)
        return made.read_bytes()


def static(answer: str) -> dict[str, bytes | None]:
    """Return the files of a static binary."""
    return {"Dockerfile": STATIC.encode(), "answer": program(), "answer.txt": answer.encode()}


def python(answer: str) -> dict[str, bytes | None]:
    """Return the files of one of Python, with a wheel."""
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("answering.py", MODULE)
        archive.writestr("answering-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: answering\nVersion: 1\n")
        archive.writestr(
            "answering-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
    files = {"Dockerfile": PYTHON.encode(), "answering-1-py3-none-any.whl": wheel.getvalue()}
    return {**files, "answer.txt": answer.encode()}
