"""How CDI's importer words failures (v1.66.0, cmd/cdi-importer, pkg/importer), and Go's library those of networks."""

from __future__ import annotations

import socket
import ssl

CONNECT_SECONDS = 15.0  # policy: a server that accepts no connection by then is down; CDI retries
STALL_SECONDS = 600.0  # CDI's importer gives up on a body that brings nothing for ten minutes
UNCONNECTED = "Unable to connect to http data source"
UNPROCESSED = "Unable to process data"
UNTRANSFERRED = f"{UNPROCESSED}: Unable to transfer source data to scratch space"
UNCONVERTED = f"{UNPROCESSED}: Unable to convert source data to target format"
UNTRUSTED = frozenset({18, 19, 20, 21})  # OpenSSL's X509_V_ERR_* of a chain that ends at nobody's who is trusted


def why(error: Exception) -> str:
    """Return what went wrong on the network."""
    if isinstance(error, TimeoutError):
        return f"no data within {STALL_SECONDS:.0f} s or no connection within {CONNECT_SECONDS:.0f} s (i/o timeout)"
    if isinstance(error, ssl.SSLCertVerificationError):
        unknown = error.verify_code in UNTRUSTED
        reason = "certificate signed by unknown authority" if unknown else error.verify_message
        return f"tls: failed to verify certificate: x509: {reason}"
    if isinstance(error, socket.gaierror):
        return "dial tcp: lookup: no such host"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
