"""Tokens that GitLab signs for a job, and the keys with which anyone may check them.

https://docs.gitlab.com/ci/secrets/id_token_authentication/
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from typing import Any, Protocol

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.gitlab.server.model import PipelineJob
from tests.gitlab.server.reading import limit_of

KEY_ID = "gitlab"
SKEW_SECONDS = 5  # how much earlier than now a token is valid


class Signs(Protocol):
    """What signs tokens."""

    def token(self, claims: Mapping[str, Any]) -> str:
        """Return a signed token."""
        ...


class Signing:
    """A key, and what is signed with it."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def keys(self) -> dict[str, Any]:
        """Return the key set, as `/oauth/discovery/keys` has it."""
        public = self.key.public_key().public_numbers()
        numbers = {"n": _number(public.n), "e": _number(public.e)}
        return {"keys": [{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": KEY_ID, **numbers}]}

    def token(self, claims: Mapping[str, Any]) -> str:
        """Return a signed token."""
        parts = [{"alg": "RS256", "typ": "JWT", "kid": KEY_ID}, dict(claims)]
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
        return f"{signed}.{_encoded(self.key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def claims(job: PipelineJob, issuer: str, audience: Any, lifetime: int | None = None) -> dict[str, Any]:
    """Return what GitLab says of a job; the token lives as long as the job may run, or `lifetime` seconds."""
    now, pipeline = int(time.time()), job.pipeline
    path = pipeline.project.path
    return {
        "iss": issuer,
        "aud": audience,
        "sub": f"project_path:{path}:ref_type:branch:ref:{pipeline.ref}",
        "iat": now,
        "nbf": now - SKEW_SECONDS,
        "exp": now + (limit_of(job) if lifetime is None else lifetime),
        "jti": f"{job.id}-{job.tries}",
        "namespace_path": path.rpartition("/")[0],
        "project_path": path,
        "project_id": str(pipeline.project.id),
        "pipeline_id": str(pipeline.id),
        "pipeline_source": pipeline.source,
        "job_id": str(job.id),
        "ref": pipeline.ref,
        "ref_type": "branch",
        "ref_protected": "true" if pipeline.ref == pipeline.project.default_branch else "false",
        "sha": pipeline.sha,
    }


def discovery(issuer: str) -> dict[str, Any]:
    """Return the discovery document."""
    return {
        "issuer": issuer,
        "jwks_uri": f"{issuer}/oauth/discovery/keys",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
    }


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _number(value: int) -> str:
    return _encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))
