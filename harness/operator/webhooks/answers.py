"""What the webhooks say no with: the words of the rules, as the API server's own refusals have them."""

from __future__ import annotations

from collections.abc import Sequence

from harness.kube.admission import FORBIDDEN, UNPROCESSABLE, AdmissionResponse, StatusCause
from harness.kube.kinds.form import SpecMistake


def refused(mistakes: Sequence[SpecMistake]) -> AdmissionResponse:
    """Refuse an object for what is wrong with it."""
    causes = tuple(StatusCause(f"{one.message}: {one.remedy}", one.field) for one in mistakes)
    message = "; ".join(one.text for one in mistakes)
    return AdmissionResponse(False, code=UNPROCESSABLE, reason="Invalid", message=message, causes=causes)


def forbidden(message: str) -> AdmissionResponse:
    """Refuse what somebody may not do."""
    return AdmissionResponse(False, code=FORBIDDEN, reason="Forbidden", message=message)
