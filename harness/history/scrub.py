"""The last net under the rule that no secret reaches a report: texts lose what looks like one.

Values of variables that are named like secrets, private keys, credentials in URLs and bearer tokens are replaced. What
is kept of a run should not have had them in the first place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

MASK = "[masked]"
SHORTEST = 8  # characters of a value that is masked; GitLab masks from the same length on
NAMED = re.compile(r"(TOKEN|PASSWORD|PASSWD|SECRET|PRIVATE_KEY|_PAT|JWT)($|_)", re.IGNORECASE)
PATTERNS = (
    (re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(-----END \1-----|\Z)", re.DOTALL), MASK),
    (re.compile(r"(?<=://)[^/\s:@]{1,200}:[^/\s@]{1,500}(?=@)"), MASK),
    (re.compile(r"(?i)(?<=bearer )[-\w.~+/]{8,}=*"), MASK),
    (re.compile(r"\b(glpat|gldt|glcbt|glrt|glptt)-[-\w.]{8,}"), MASK),
    (re.compile(r"\beyJ[-\w]{8,}\.[-\w]{8,}\.[-\w]*"), MASK),
    (re.compile(r"(?m)((?:client-key|token|client-certificate)(?:-data)?: )[-\w.+/]{20,}=*"), rf"\g<1>{MASK}"),
)


def scrubber(environment: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that masks in a text what must not be kept, and what JSON cannot hold."""
    values = {v for n, v in environment.items() if NAMED.search(n) and len(v) >= SHORTEST}
    known = re.compile("|".join(re.escape(v) for v in sorted(values, key=len, reverse=True))) if values else None

    def scrub(text: str) -> str:
        text = text.encode("utf-8", "replace").decode()
        text = known.sub(MASK, text) if known is not None else text
        for pattern, by in PATTERNS:
            text = pattern.sub(by, text)
        return text

    return scrub
