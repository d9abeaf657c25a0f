"""The log of an operation after its Job is gone: compressed, in a ConfigMap, without what must not be kept."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping
from dataclasses import dataclass

from harness.kube.client import Cluster
from harness.kube.failures import Json
from harness.kube.resources import CONFIG_MAP
from harness.operator.execute.inputs import log_name
from harness.operator.execute.termination import Termination

FILE, END = "log.gz", "termination"
MOST_BYTES = 900 * 1024  # an object of the API has at most 1.5 MiB, and base64 makes a third more of this
CUT = "\n[... {} characters of the log were left out here ...]\n"


@dataclass(frozen=True)
class KeptLog:
    """What is kept of an operation. termination: None where its executor could not say how it ended."""

    text: str
    termination: Termination | None


def packed(text: str, most: int = MOST_BYTES) -> bytes:
    """Return a log compressed to at most so many bytes; where it is too long, the middle is left out."""
    keep = len(text)
    while True:
        kept = text if keep >= len(text) else text[: keep // 2] + CUT.format(len(text) - keep) + text[-(keep // 2) :]
        made = gzip.compress(kept.encode("utf-8", "replace"), mtime=0)
        if len(made) <= most or keep < 2:
            return made
        keep = min(keep - 1, keep * most // len(made) * 9 // 10)


def write(cluster: Cluster, namespace: str, job: str, text: str, end: Termination) -> None:
    """Keep a log and the end that it explains; the ConfigMap is there already."""
    found = cluster.get(CONFIG_MAP, log_name(job), namespace)
    if found is not None:
        content = {"binaryData": {FILE: base64.b64encode(packed(text)).decode()}, "data": {END: end.to_text()}}
        cluster.replace(CONFIG_MAP, {**found, **content})


def read(cluster: Cluster, namespace: str, job: str) -> KeptLog | None:
    """Return what is kept of a Job's operation; None where nothing is: it has not ended, or was killed."""
    found = cluster.get(CONFIG_MAP, log_name(job), namespace)
    return kept_in(found) if found is not None else None


def kept_in(found: Json) -> KeptLog | None:
    """Return what a log's ConfigMap has; None where nothing was written into it."""
    data: Mapping[str, str] = found.get("binaryData") or {}
    if FILE not in data:
        return None
    text = gzip.decompress(base64.b64decode(data[FILE])).decode("utf-8", "replace")
    return KeptLog(text, Termination.parse((found.get("data") or {}).get(END, "")))
