"""An S3 server on loopback, and the same server speaking the part of Google's XML API that equals S3's.

Google Cloud Storage's XML API has S3's verbs; what differs for us is the precondition of a conditional put.
The stand-in translates that one header. It shows that our calls are the right ones for GCS; it does not show
what Google's servers do.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

BUCKET = "penstock"
_SIGNED = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"


@contextmanager
def s3_server() -> Iterator[str]:
    """The address of a server with one empty bucket."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = _google_precondition(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    client(endpoint).create_bucket(Bucket=BUCKET)
    yield endpoint
    server.shutdown()
    thread.join()
    server.server_close()


def client(endpoint: str) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )


def s3_options(endpoint: str) -> dict[str, Any]:
    return {
        "endpoint": endpoint,
        "region": "us-east-1",
        "access_key_id": "test",
        "secret_access_key": "test",
        "client_options": {"allow_http": True},
    }


def gs_options(endpoint: str) -> dict[str, Any]:
    return {"base_url": endpoint, "bearer_token": "test", "client_options": {"allow_http": True}}


def _google_precondition(app: Callable[..., Any]) -> Callable[..., Any]:
    def translated(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if environ.pop("HTTP_X_GOOG_IF_GENERATION_MATCH", None) == "0":
            environ["HTTP_IF_NONE_MATCH"] = "*"
        if environ.get("HTTP_AUTHORIZATION", "").startswith("Bearer "):
            environ["HTTP_AUTHORIZATION"] = _SIGNED  # the server tells services apart by it and checks no signature
        return app(environ, start_response)

    return translated


def signed(url: str, what: str) -> str:
    """What a signed address says of its signature: `SignedHeaders`, `Signature`."""
    return dict(parse_qsl(urlsplit(url).query))[f"X-Amz-{what}"]
