"""Snapshots in a bucket of S3: PREFIX/CLUSTER/NAME.db, and PREFIX/CLUSTER/NAME.db.json, which is written last.

A snapshot goes there in parts, and is not an object before all of them are there. Then it is read back: ETags are
digests of the content with some encryptions and not with others, and a server may say "stored" too early. Only then is
it described. What has no description is not a backup, whoever finds it.

Locked objects (https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-lock.html) are versions of an object: a
plain deletion would only hide them. So each version is deleted, and those that are locked are named with their time.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import BadInput, Blame, InfraRetriable, VmatrixError
from harness.files import sha256_of
from harness.kube.objects import dig, stamp
from harness.operator.api.etcd import S3Destination
from harness.operator.execute.encryption import EncryptedSnapshot

ACCESS_KEY, SECRET_KEY, SESSION_TOKEN = "accessKeyId", "secretAccessKey", "sessionToken"  # keys of the Secret
CREDENTIALS, CA_FILE, KEY_FILE = "credentials", "ca.crt", "encryption.key"  # in the folder of a store's secrets
CONNECT_SECONDS, READ_SECONDS = 10, 60
ATTEMPTS = 3  # of each request, by the client; the operation is tried again besides
PART_BYTES = 16 * 2**20  # so 10,000 parts, which is all that S3 takes, hold 156 GiB
CHUNK = 1 << 20
NO_HEADER = re.compile(r"[^a-z0-9]+")  # in the name of one


class StoreTrouble(VmatrixError):
    """An object store does not do what it is asked for. reason: the kind of it, as a condition names it."""

    reason = ""


class StoreMistake(StoreTrouble, BadInput):
    """Somebody has to correct the destination, its Secrets, or the bucket."""


class StoreDown(StoreTrouble, InfraRetriable):
    """The same may succeed later, when nobody has corrected anything."""


@dataclass(frozen=True)
class StoreFailure:
    """One kind of failure.

    codes: of the server, or names of the client's errors.  blame: who has to do something; it decides whether the
    operation is tried again by itself, as every operation is whose infrastructure failed.
    """

    reason: str
    blame: Blame
    codes: frozenset[str]
    message: str
    hint: str


def _kind(reason: str, blame: Blame, codes: str, message: str, hint: str) -> StoreFailure:
    return StoreFailure(reason, blame, frozenset(codes.split()), message, hint)


# https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html, and the client's own errors by their class.
FAILURES = (
    _kind(
        "BucketNotFound",
        Blame.USER,
        "NoSuchBucket InvalidBucketName",
        "there is no bucket {bucket}",
        "create it, or correct s3.bucket and s3.pathStyle",
    ),
    _kind(
        "WrongCredentials",
        Blame.USER,
        "InvalidAccessKeyId SignatureDoesNotMatch InvalidToken ExpiredToken InvalidSecurity RequestTimeTooSkewed "
        "XAdminUserNotFound",
        "the server does not know the access key, or it was signed with another secret",
        "correct accessKeyId and secretAccessKey in Secret {secret}",
    ),
    _kind(
        "AccessDenied",
        Blame.USER,
        "AccessDenied AllAccessDisabled AccountProblem 401 403",
        "the access key may not do that in bucket {bucket}",
        "permit it to list, read, write and delete objects and their versions below {prefix}",
    ),
    _kind(
        "WrongRegion",
        Blame.USER,
        "PermanentRedirect TemporaryRedirect AuthorizationHeaderMalformed IllegalLocationConstraintException 301 307",
        "bucket {bucket} is in another region",
        "correct s3.region",
    ),
    _kind(
        "StoreFull",
        Blame.INFRA,
        "QuotaExceeded XMinioStorageFull XMinioAdminBucketQuotaExceeded InsufficientStorage EntityTooLarge "
        "StorageFull NoSpaceLeft 413 507",
        "bucket {bucket} has no room",
        "make room or raise its quota, or lower spec.etcd.backup.keep",
    ),
    _kind(
        "StoreSlow",
        Blame.INFRA,
        "SlowDown SlowDownRead SlowDownWrite ServiceUnavailable RequestTimeout RequestLimitExceeded TooManyRequests "
        "ThrottlingException InternalError OperationAborted ReadTimeoutError ResponseStreamingError "
        "IncompleteReadError "
        "429 500 502 503 504",
        "the server is too slow or too busy",
        "see the server's load",
    ),
    _kind(
        "EndpointDown",
        Blame.INFRA,
        "EndpointConnectionError ConnectTimeoutError ConnectionClosedError ConnectionError ProxyConnectionError "
        "HTTPClientError",
        "nobody answers at {endpoint}",
        "see whether the server runs, and whether executors' pods reach it; or correct s3.endpoint",
    ),
    _kind(
        "CertificateRefused",
        Blame.USER,
        "SSLError",
        "the certificate of {endpoint} is not trusted",
        "name the authority that signed it in s3.caSecretRef, or correct s3.endpoint",
    ),
    _kind(
        "NotOffered",
        Blame.USER,
        "NotImplemented InvalidRequest InvalidArgument InvalidEncryptionAlgorithmError KMS.NotFoundException "
        "KMS.DisabledException ServerSideEncryptionConfigurationNotFoundError 400 405 501",
        "the server does not do what it is asked for",
        "remove s3.serverSideEncryption if it is set, or see what the server offers",
    ),
    _kind(
        "ObjectNotFound",
        Blame.USER,
        "NoSuchKey NoSuchVersion NotFound 404",
        "there is no such object in bucket {bucket}",
        "name another EtcdBackup",
    ),
)
UNKNOWN = StoreFailure("StoreFailed", Blame.INFRA, frozenset(), "the server refuses it", "see the server's log")


def kind_of(code: str) -> StoreFailure:
    """Return the kind of a failure by its code, or the name of its class."""
    return next((kind for kind in FAILURES if code in kind.codes), UNKNOWN)


def _told_by(error: Any) -> tuple[str, str]:
    """Return the code and the words of a server's answer; its status, where the code is of no kind that is known."""
    told = error.response.get("Error", {})
    code, status = str(told.get("Code", "")), str(dig(error.response, "ResponseMetadata", "HTTPStatusCode") or "")
    known = kind_of(code) is UNKNOWN and kind_of(status) is not UNKNOWN
    return status if known else code, str(told.get("Message", ""))


def trouble(where: S3Destination, code: str, message: str) -> StoreTrouble:
    """Return a failure of a bucket as an error of ours."""
    kind = kind_of(code)
    names = {
        "bucket": where.bucket,
        "endpoint": where.endpoint or f"S3 in {where.region}",
        "prefix": where.prefix or "it",
        "secret": where.secret_ref.name,
    }
    made = StoreMistake if kind.blame is Blame.USER else StoreDown
    error = made(f"{where.url}: {kind.message.format(**names)} ({code}: {message})", hint=kind.hint.format(**names))
    error.reason = kind.reason
    return error


@contextmanager
def telling(where: S3Destination) -> Iterator[None]:
    """Raise what the client raises as an error of ours.

    Raises:
        StoreTrouble: see `FAILURES`.
    """
    from boto3.exceptions import Boto3Error  # which commands that ask no bucket do not need
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        raise trouble(where, *_told_by(error)) from error
    except (BotoCoreError, Boto3Error) as error:
        cause = error.__cause__ or error.__context__
        if isinstance(error, Boto3Error) and isinstance(cause, ClientError):
            raise trouble(where, *_told_by(cause)) from error
        names = [error_class.__name__ for error_class in type(error).__mro__]
        code = next((name for name in names if kind_of(name) is not UNKNOWN), type(error).__name__)
        raise trouble(where, code, str(error)) from error


def secret_files(where: S3Destination) -> list[tuple[str, str, str]]:
    """Return what `connect` and the key of snapshots read: the Secret, its key, and the file below the folder of both.

    The session token may be missing.
    """
    named = [(where.secret_ref.name, key, f"{CREDENTIALS}/{key}") for key in (ACCESS_KEY, SECRET_KEY, SESSION_TOKEN)]
    for reference, path in ((where.ca_secret_ref, CA_FILE), (where.encryption_key_ref, KEY_FILE)):
        named += [(reference.name, reference.key, path)] if reference is not None else []
    return named


def connect(where: S3Destination, secrets: Path) -> Any:
    """Return a client of a bucket's server.

    Args:
        secrets: the folder with `credentials/`, and the other files of the destination if it names them.

    Raises:
        StoreMistake: a key is missing.
    """
    import boto3
    from botocore.config import Config

    keys = {name: _secret(secrets / CREDENTIALS / name, where.secret_ref.name) for name in (ACCESS_KEY, SECRET_KEY)}
    token = secrets / CREDENTIALS / SESSION_TOKEN
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        s3={"addressing_style": "path" if where.path_style else "virtual"},
        signature_version="s3v4",
        # Servers other than AWS's know no checksums at the end of a body. What was stored is read back here.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    session = boto3.session.Session(
        aws_access_key_id=keys[ACCESS_KEY],
        aws_secret_access_key=keys[SECRET_KEY],
        aws_session_token=_secret(token, where.secret_ref.name) if token.is_file() else None,
        region_name=where.region,
    )
    ca = str(secrets / CA_FILE) if where.ca_secret_ref is not None else None
    with telling(where):
        return session.client("s3", endpoint_url=where.endpoint, verify=ca, config=config)


def _secret(path: Path, name: str) -> str:
    try:
        key = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        key = ""
    if not key:
        error = StoreMistake(f"Secret {name} has no {path.name}", hint=f"add it: {ACCESS_KEY}, {SECRET_KEY}")
        error.reason = "WrongCredentials"
        raise error
    return key


@dataclass(frozen=True)
class Bucket:
    """Snapshots of a bucket below a prefix; `secrets` is the folder that `connect` reads."""

    where: S3Destination
    secrets: Path
    client: Any

    @staticmethod
    def open(where: S3Destination, secrets: Path) -> Bucket:
        """Return the bucket of a destination. Raises: see `connect`."""
        return Bucket(where, secrets, connect(where, secrets))

    def key(self, file: str) -> str:
        """Return the name of the object of a file."""
        return f"{self.where.prefix}/{file}".lstrip("/")

    def upload(self, source: Path, file: str, facts: Mapping[str, str]) -> None:
        """Have a file there as an object, whole or not at all, and read it back.

        Args:
            facts: metadata of the object.

        Raises:
            StoreTrouble: see `FAILURES`.  InfraError: what was read back is something else.
        """
        from boto3.s3.transfer import TransferConfig

        limits = TransferConfig(multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, max_concurrency=2)
        more = {"Metadata": metadata_of(facts), **self._encryption()}
        with self._sealed(source) as sealed:
            with telling(self.where):
                self.client.upload_file(str(sealed), self.where.bucket, self.key(file), ExtraArgs=more, Config=limits)
            sent, stored = (sha256_of(sealed), sealed.stat().st_size), _digest(self._content(file))
        if sent != stored:
            error = StoreDown(
                f"{self.where.url}/{file}: the server has {stored[1]} bytes that are not the {sent[1]} it was given",
                hint="see the server's disks; the operation is repeated",
            )
            error.reason = "StoreFailed"
            raise error

    def describe(self, file: str, text: str) -> None:
        """Have a small object there, such as a description."""
        with telling(self.where):
            self.client.put_object(
                Bucket=self.where.bucket,
                Key=self.key(file),
                Body=text.encode(),
                ContentType="application/json",
                **self._encryption(),
            )

    def text(self, file: str) -> str | None:
        """Return the content of a small object, None where there is none."""
        try:
            return b"".join(self._content(file)).decode("utf-8", "replace")
        except StoreTrouble as error:
            if error.reason == "ObjectNotFound":
                return None
            raise

    def download(self, file: str, target: Path) -> None:
        """Write an object to a file, as it was before it was encrypted.

        Raises:
            StoreTrouble: see `FAILURES`.  BadInput: it was encrypted with another key, or damaged.
        """
        with target.open("wb") as content:
            target.chmod(0o600)
            for chunk in self._opened(self._content(file)):
                content.write(chunk)
            os.fsync(content.fileno())

    def exists(self, file: str) -> bool:
        """Tell whether there is an object."""
        try:
            with telling(self.where):
                self.client.head_object(Bucket=self.where.bucket, Key=self.key(file))
        except StoreTrouble as error:
            if error.reason == "ObjectNotFound":
                return False
            raise
        return True

    def delete(self, file: str) -> str | None:
        """Delete an object with all of its versions; return until when one of them is locked, None where all are gone.

        Raises:
            StoreTrouble: see `FAILURES`.
        """
        until = [self._delete_version(self.key(file), version) for version in self._versions(self.key(file))]
        return max((moment for moment in until if moment is not None), default=None)

    def abort_uploads(self, folder: str) -> int:
        """Delete the parts of uploads below a folder that never ended; return how many uploads there were."""
        pages = self.client.get_paginator("list_multipart_uploads")
        with telling(self.where):
            uploads = [
                upload
                for page in pages.paginate(Bucket=self.where.bucket, Prefix=self.key(f"{folder}/"))
                for upload in page.get("Uploads") or ()
            ]
            for upload in uploads:
                self.client.abort_multipart_upload(
                    Bucket=self.where.bucket, Key=upload["Key"], UploadId=upload["UploadId"]
                )
        return len(uploads)

    def _versions(self, key: str) -> list[str | None]:
        """Return the versions of an object, those that only hide it included; None for the one of a plain bucket."""
        try:
            with telling(self.where):
                pages = self.client.get_paginator("list_object_versions").paginate(Bucket=self.where.bucket, Prefix=key)
                all_of = [
                    version
                    for page in pages
                    for kind in ("Versions", "DeleteMarkers")
                    for version in page.get(kind) or ()
                ]
        except StoreMistake as error:
            if error.reason != "NotOffered":
                raise
            return [None]  # a server without versions
        return [version["VersionId"] for version in all_of if version["Key"] == key]

    def _delete_version(self, key: str, version: str | None) -> str | None:
        which = {"Bucket": self.where.bucket, "Key": key, **({"VersionId": version} if version is not None else {})}
        try:
            with telling(self.where):
                self.client.delete_object(**which)
        except StoreTrouble as error:
            if error.reason == "ObjectNotFound":
                return None
            if (until := self._locked_until(which)) is None:
                raise
            return until
        return None

    def _locked_until(self, which: Mapping[str, str]) -> str | None:
        """Return until when a version is locked, None where it is not, or where nobody may know."""
        try:
            with telling(self.where):
                retention = self.client.get_object_retention(**which)["Retention"]
        except StoreTrouble:
            return None  # the deletion's own error is raised: it says more
        return stamp(retention["RetainUntilDate"])

    def _encryption(self) -> dict[str, str]:
        """Return what the server is told of its own encryption."""
        where = self.where
        made = {"ServerSideEncryption": where.server_side_encryption, "SSEKMSKeyId": where.kms_key_id}
        return {name: value for name, value in made.items() if value is not None}

    def _content(self, file: str) -> Iterator[bytes]:
        with telling(self.where):
            stored = self.client.get_object(Bucket=self.where.bucket, Key=self.key(file))
            yield from stored["Body"].iter_chunks(CHUNK)

    @contextmanager
    def _sealed(self, source: Path) -> Iterator[Path]:
        """Give a file as it leaves: encrypted, if the destination has a key."""
        if self.where.encryption_key_ref is None:
            yield source
            return
        made = source.with_name(f"{source.name}.sealed.part")
        try:
            self._key().seal(source, made)
            yield made
        finally:
            made.unlink(missing_ok=True)

    def _opened(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        return chunks if self.where.encryption_key_ref is None else self._key().opened(chunks)

    def _key(self) -> EncryptedSnapshot:
        return EncryptedSnapshot.of_file(self.secrets / KEY_FILE)


def metadata_of(facts: Mapping[str, str]) -> dict[str, str]:
    """Return facts as headers can carry them; the description has them as they are."""
    return {
        NO_HEADER.sub("-", name.lower()): value.encode("ascii", "replace").decode() for name, value in facts.items()
    }


def _digest(chunks: Iterator[bytes]) -> tuple[str, int]:
    """Return the SHA-256 of a content, and its size."""
    digest, size = hashlib.sha256(), 0
    for chunk in chunks:
        digest.update(chunk)
        size += len(chunk)
    return digest.hexdigest(), size
