"""The buckets that direct uploads can use. Client libraries are slow to import: each is, when first asked for."""

from penstock.kernel import error_codes
from penstock.kernel.clock import Clock
from penstock.kernel.errors import PenstockError
from penstock.kernel.settings import SettingsError
from penstock.uploads.direct.ports import Bucket
from penstock.uploads.direct.settings import DirectSettings


def open_bucket(settings: DirectSettings, clock: Clock) -> Bucket | None:
    """None while no bucket is named; SettingsError when the settings could never work. Nothing is asked of anybody."""
    if not settings.bucket_url:
        return None
    _check_endpoint(settings)
    if settings.scheme == "gs":
        from penstock.uploads.direct.adapters.gcs import GcsBucket
        from penstock.uploads.direct.adapters.signers import signer_for

        return GcsBucket(settings, clock, signer_for(settings))
    if bool(settings.s3_access_key.get_secret_value()) != bool(settings.s3_secret_key.get_secret_value()):
        raise SettingsError("DIRECT_S3_ACCESS_KEY and DIRECT_S3_SECRET_KEY belong together: set both or neither")
    from penstock.uploads.direct.adapters.s3 import S3Bucket

    return S3Bucket(settings, clock)


def open_other(settings: DirectSettings, clock: Clock, name: str) -> Bucket:
    """One of the same kind, at the same service and with the same credentials: perhaps in use before."""
    bucket = open_bucket(settings.model_copy(update={"bucket_url": f"{settings.scheme}://{name}"}), clock)
    if bucket is None:
        raise PenstockError(error_codes.DIRECT_UPLOADS_OFF)
    return bucket


def _check_endpoint(settings: DirectSettings) -> None:
    scheme, _, host = settings.endpoint.rstrip("/").partition("://")
    if settings.endpoint and (scheme not in ("http", "https") or not host or "/" in host or "@" in host):
        raise SettingsError("DIRECT_ENDPOINT must be http://host[:port] or https://host[:port], and nothing more")
