"""Refusals of admission webhooks, worded as virt-api and cdi-apiserver word them.

KubeVirt joins its causes with ", " and sets the reason Invalid; CDI puts a blank before each cause and sets no reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.kube.admission import BAD_REQUEST, UNPROCESSABLE, AdmissionResponse, StatusCause


def kubevirt_refusal(causes: Sequence[StatusCause]) -> AdmissionResponse:
    """Refuse the way virt-api does."""
    message = ", ".join(cause.message for cause in causes)
    return AdmissionResponse(False, code=UNPROCESSABLE, reason="Invalid", message=message, causes=tuple(causes))


def cdi_refusal(causes: Sequence[StatusCause]) -> AdmissionResponse:
    """Refuse the way cdi-apiserver does."""
    message = "".join(f" {cause.message}" for cause in causes)
    return AdmissionResponse(False, code=UNPROCESSABLE, message=message, causes=tuple(causes))


def failure(message: str) -> AdmissionResponse:
    """Refuse because the request could not be judged (both projects answer 400 without a reason)."""
    return AdmissionResponse(False, code=BAD_REQUEST, message=message)
