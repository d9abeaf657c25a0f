"""Why a server's certificate is not believed, in words: another authority, another name, or a time that is over."""

from __future__ import annotations

import contextlib
import socket
import ssl
from datetime import datetime
from urllib.parse import urlsplit

LOOK_SECONDS = 5.0  # for one more handshake, to read the dates that the failed one does not tell
# https://docs.openssl.org/3.0/man3/X509_STORE_CTX_get_error/#error-codes
NOT_YET, EXPIRED = 9, 10
OTHER_NAME = frozenset({62, 64})  # host name, address
SELF_SIGNED = frozenset({18, 19})


def mistrust(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    """Return what is wrong with a certificate among an error and its causes, None when it is something else."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, ssl.SSLCertVerificationError):
            return error
        reason = error.args[0] if error.args and isinstance(error.args[0], BaseException) else None
        error = reason or error.__cause__ or error.__context__
    return None


def explained(error: ssl.SSLCertVerificationError, server: str) -> tuple[str, str]:
    """Return what is wrong with a server's certificate, and what to do about it."""
    code = error.verify_code
    host = urlsplit(server).hostname or server
    if code in (EXPIRED, NOT_YET):
        return _out_of_time(server, expired=code == EXPIRED)
    if code in OTHER_NAME:
        return (
            f"its certificate is not for {host}",
            "use one of the certificate's names as `server` in the kubeconfig, or set `tls-server-name` to one: "
            f"openssl s_client -connect {_address(server)} </dev/null | openssl x509 -noout -ext subjectAltName",
        )
    if code in SELF_SIGNED:
        return (
            "its certificate is signed by an authority that is not the kubeconfig's",
            "put that authority into the kubeconfig as `certificate-authority-data`; the cluster's owner has it",
        )
    return (
        f"its certificate is not believed: {error.verify_message or error.reason}",
        "the kubeconfig's certificate authority did not sign the certificate of this address: get a kubeconfig of this "
        "cluster",
    )


def _out_of_time(server: str, *, expired: bool) -> tuple[str, str]:
    dates = _dates(server)
    since, until = (f"{moment:%Y-%m-%d %H:%M} UTC" for moment in dates) if dates else ("", "")
    if expired:
        valid = f"; it was valid until {until}" if until else ""
        renew = "renew the API server's certificate (kubeadm: `kubeadm certs renew apiserver`)"
        return f"its certificate, or one that it rests on, has expired{valid}", f"{renew}, or set this host's clock"
    valid = f"; it is valid from {since}" if since else ""
    return f"its certificate is not valid yet{valid}", "set the clock of this host, or of who made the certificate"


def _dates(server: str) -> tuple[datetime, datetime] | None:
    """Return since when and until when the server's own certificate is valid; None when it cannot be read."""
    from cryptography import x509  # each SSH connection through the API starts a process with this module

    parts = urlsplit(server)
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent; only the certificate is looked at
    with contextlib.suppress(OSError, ValueError):
        address = (parts.hostname or "", parts.port or 443)
        with (
            socket.create_connection(address, timeout=LOOK_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=parts.hostname) as secured,
        ):
            found = x509.load_der_x509_certificate(secured.getpeercert(binary_form=True) or b"")
        return found.not_valid_before_utc, found.not_valid_after_utc
    return None


def _address(server: str) -> str:
    parts = urlsplit(server)
    return f"{parts.hostname}:{parts.port or 443}"
