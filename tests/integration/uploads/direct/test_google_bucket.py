"""A bucket of Google's kind: who signs, what is asked, and what happens when it goes wrong."""

import asyncio
import hashlib
import json
import traceback
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from urllib.parse import parse_qsl, urlsplit

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from tests.standins.google_cloud import EMAIL, GoogleCloud, key
from tests.support.shelf import CONTENT, md5_of

from penstock.kernel import error_codes
from penstock.kernel.clock import SystemClock
from penstock.kernel.errors import PenstockError
from penstock.kernel.settings import SettingsError
from penstock.uploads.direct.adapters import open_bucket
from penstock.uploads.direct.adapters.signers import KeySigner
from penstock.uploads.direct.ports import ObjectFacts
from penstock.uploads.direct.settings import DirectSettings

NAME = "videos/5a0c7f6e-1111-4222-8333-444455556666/0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
async def shared_cloud():
    async with GoogleCloud().running() as served:
        yield served


@pytest.fixture
def cloud(shared_cloud):
    shared_cloud.forget()
    return shared_cloud


@pytest.fixture(scope="module")
async def shared_bucket(shared_cloud, tmp_path_factory):
    path = shared_cloud.account_file(tmp_path_factory.mktemp("account"))
    settings = DirectSettings(bucket_url="gs://bucket", endpoint=shared_cloud.url, service_account_file=path)
    opened = open_bucket(settings, SystemClock())
    yield opened
    await opened.close()


@pytest.fixture
def bucket(shared_bucket, cloud):
    return shared_bucket


@pytest.fixture
async def keyless(cloud, tmp_path, monkeypatch):
    """Credentials come from the surroundings; IAM signs."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(cloud.account_file(tmp_path)))
    settings = DirectSettings(
        bucket_url="gs://bucket", endpoint=cloud.url, signer_service_account=EMAIL, iam_endpoint=cloud.url
    )
    opened = open_bucket(settings, SystemClock())
    yield opened
    await opened.close()


def _verify(start):
    """The signature, from the address and the headers alone; raises if it is not right."""
    parts = urlsplit(start.url)
    query = dict(parse_qsl(parts.query, strict_parsing=True))
    signature = bytes.fromhex(query.pop("X-Goog-Signature"))
    sent = {name.lower(): value for name, value in start.headers.items()} | {"host": parts.netloc}
    names = query["X-Goog-SignedHeaders"].split(";")
    assert set(names) == set(sent)
    canonical = "\n".join(
        ["POST", parts.path, parts.query.rpartition("&")[0], *(f"{name}:{sent[name]}" for name in names), "",
         query["X-Goog-SignedHeaders"], "UNSIGNED-PAYLOAD"]
    )  # fmt: skip
    scope = query["X-Goog-Credential"].partition("/")[2]
    text = "\n".join([query["X-Goog-Algorithm"], query["X-Goog-Date"], scope, _sha256(canonical)])
    key().public_key().verify(signature, text.encode(), padding.PKCS1v15(), hashes.SHA256())
    return query


def _sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


class TestSigning:
    async def test_the_headers_are_what_was_signed(self, bucket, cloud):
        start = await bucket.sign_start(NAME, "video/mp4", 1000)
        assert start.headers == {
            "x-goog-resumable": "start",
            "x-goog-if-generation-match": "0",
            "content-type": "video/mp4",
            "x-upload-content-type": "video/mp4",
            "x-goog-content-length-range": "0,1000",
        }
        assert start.url.startswith(f"{cloud.url}/bucket/{NAME}?")
        assert _verify(start)["X-Goog-Expires"] == "900"
        assert abs(start.expires_at - datetime.now(UTC) - timedelta(minutes=15)) < timedelta(minutes=1)
        assert cloud.seen == []

    async def test_many_at_once_do_not_mix(self, bucket):
        types = [f"video/x-{number}" for number in range(40)]
        starts = await asyncio.gather(*(bucket.sign_start(f"videos/{each}", each, 1000) for each in types))
        for each, start in zip(types, starts, strict=True):
            assert start.headers["content-type"] == each
            _verify(start)

    async def test_the_address_is_not_shown(self, bucket):
        assert "X-Goog-Signature" not in repr(await bucket.sign_start(NAME, "video/mp4", 1000))


class TestSigningWithoutAKey:
    async def test_iam_signs_in_the_name_of_the_account(self, keyless, cloud):
        query = _verify(await keyless.sign_start(NAME, "video/mp4", 1000))
        assert query["X-Goog-Credential"].startswith(f"{EMAIL}/")
        assert [request.path for request in cloud.asked("sign")] == [f"/v1/projects/-/serviceAccounts/{EMAIL}:signBlob"]

    @pytest.mark.parametrize("kind", ["sign", "token"])
    @pytest.mark.parametrize("status", [403, 0])
    async def test_trouble_is_an_unavailable_store(self, keyless, cloud, kind, status):
        cloud.faults[kind] = [status] * 10
        with pytest.raises(PenstockError) as refused:
            await keyless.sign_start(NAME, "video/mp4", 1000)
        assert refused.value.code is error_codes.STORE_UNAVAILABLE
        _shows_no_secret(refused.value)

    async def test_it_goes_on_when_iam_is_back(self, keyless, cloud):
        cloud.faults["sign"] = [503]
        with pytest.raises(PenstockError):
            await keyless.sign_start(NAME, "video/mp4", 1000)
        _verify(await keyless.sign_start(NAME, "video/mp4", 1000))

    async def test_without_credentials_the_store_is_unavailable(self, cloud, tmp_path, monkeypatch):
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "absent.json"))
        settings = DirectSettings(bucket_url="gs://bucket", endpoint=cloud.url, signer_service_account=EMAIL)
        bucket = open_bucket(settings, SystemClock())
        with pytest.raises(PenstockError) as refused:
            await bucket.sign_start(NAME, "video/mp4", 1000)
        assert refused.value.code is error_codes.STORE_UNAVAILABLE
        await bucket.close()


class TestLooking:
    async def test_an_object_is_found_with_its_generation_and_md5(self, bucket, cloud):
        generation = cloud.put(NAME, CONTENT)
        found = await bucket.find(NAME)
        assert found == ObjectFacts(
            "bucket", NAME, generation, len(CONTENT), "video/mp4", md5_of(CONTENT), "AAAAAA==", "CAE=",
            datetime(2026, 11, 15, 10, 0, 0, 123000, tzinfo=UTC),
        )  # fmt: skip
        assert cloud.asked("bucket") == []

    async def test_what_is_not_there_is_none(self, bucket):
        assert await bucket.find(NAME) is None

    async def test_an_object_without_md5_says_so(self, bucket, cloud):
        cloud.put(NAME, CONTENT, has_md5=False)
        assert (await bucket.find(NAME)).md5_hex is None

    async def test_a_short_trouble_is_sat_out(self, bucket, cloud):
        cloud.put(NAME, CONTENT)
        cloud.faults["find"] = [503]
        assert await bucket.find(NAME) is not None

    @pytest.mark.parametrize("status", [403, 400])
    async def test_a_refusal_is_an_unavailable_store_and_shows_no_address(self, bucket, cloud, status):
        cloud.faults["find"] = [status]
        with pytest.raises(PenstockError) as refused:
            await bucket.find(NAME)
        assert refused.value.code is error_codes.STORE_UNAVAILABLE
        _shows_no_secret(refused.value)


class TestFetching:
    async def test_the_bytes_come_whole(self, bucket, cloud, tmp_path):
        cloud.put(NAME, CONTENT)
        await bucket.fetch(await bucket.find(NAME), tmp_path / "film")
        assert (tmp_path / "film").read_bytes() == CONTENT

    async def test_a_generation_that_is_gone_is_not_found(self, bucket, cloud, tmp_path):
        cloud.put(NAME, CONTENT)
        found = await bucket.find(NAME)
        cloud.put(NAME, b"another")
        with pytest.raises(PenstockError) as refused:
            await bucket.fetch(found, tmp_path / "film")
        assert refused.value.code is error_codes.NOT_FOUND
        assert not (tmp_path / "film").exists()
        assert list(tmp_path.glob("*.part")) == []


class TestMovingAside:
    async def test_it_is_kept_under_another_name(self, bucket, cloud):
        generation = cloud.put(NAME, CONTENT)
        cloud.rewrite_calls = 3
        await bucket.move_aside(NAME, generation, "quarantine/u/1")
        assert {name: each.content for name, each in cloud.objects.items()} == {"quarantine/u/1": CONTENT}
        assert len(cloud.asked("rewrite")) == 3

    async def test_a_repeat_does_nothing(self, bucket, cloud):
        generation = cloud.put(NAME, CONTENT)
        await bucket.move_aside(NAME, generation, "quarantine/u/1")
        before = dict(cloud.objects)
        await bucket.move_aside(NAME, generation, "quarantine/u/1")
        assert cloud.objects == before

    async def test_one_that_was_copied_and_not_deleted_is_deleted(self, bucket, cloud):
        generation = cloud.put(NAME, CONTENT)
        cloud.faults["delete"] = [403]
        with pytest.raises(PenstockError):
            await bucket.move_aside(NAME, generation, "quarantine/u/1")
        assert set(cloud.objects) == {NAME, "quarantine/u/1"}
        await bucket.move_aside(NAME, generation, "quarantine/u/1")
        assert set(cloud.objects) == {"quarantine/u/1"}

    async def test_another_generation_is_left_alone(self, bucket, cloud):
        old = cloud.put(NAME, b"wrong")
        cloud.faults["delete"] = [403]
        with pytest.raises(PenstockError):
            await bucket.move_aside(NAME, old, "quarantine/u/1")
        cloud.put(NAME, CONTENT)
        await bucket.move_aside(NAME, old, "quarantine/u/1")
        assert cloud.objects[NAME].content == CONTENT
        assert cloud.objects["quarantine/u/1"].content == b"wrong"

    async def test_many_at_once_end_the_same(self, bucket, cloud):
        generation = cloud.put(NAME, CONTENT)
        await asyncio.gather(*(bucket.move_aside(NAME, generation, "quarantine/u/1") for _ in range(6)))
        assert {name: each.content for name, each in cloud.objects.items()} == {"quarantine/u/1": CONTENT}


class TestSettings:
    def test_no_bucket_is_none(self):
        assert open_bucket(DirectSettings(), SystemClock()) is None

    @pytest.mark.parametrize(
        ("changes", "named"),
        [
            ({}, "DIRECT_SERVICE_ACCOUNT_FILE"),
            ({"signer_service_account": "nobody"}, "DIRECT_SIGNER_SERVICE_ACCOUNT"),
            ({"signer_service_account": "a@b/../c"}, "DIRECT_SIGNER_SERVICE_ACCOUNT"),
            ({"signer_service_account": EMAIL, "endpoint": "localhost:8002"}, "DIRECT_ENDPOINT"),
            ({"signer_service_account": EMAIL, "endpoint": "http://host/path"}, "DIRECT_ENDPOINT"),
        ],
    )
    def test_what_could_never_work_is_refused(self, changes, named):
        with pytest.raises(SettingsError, match=named):
            open_bucket(DirectSettings(bucket_url="gs://bucket", **changes), SystemClock())

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            (None, "cannot be read"),
            ("{", "not JSON"),
            ("[]", "not the key file"),
            ('{"client_email": "a@b", "token_uri": "http://x", "private_key": "no key"}', "not an RSA key"),
        ],
    )
    def test_a_key_file_that_is_none_is_refused(self, tmp_path, text, sentence):
        path = tmp_path / "account.json"
        if text is not None:
            path.write_text(text)
        with pytest.raises(SettingsError, match=sentence):
            open_bucket(DirectSettings(bucket_url="gs://bucket", service_account_file=path), SystemClock())


def _shows_no_secret(failure):
    shown = "".join(traceback.format_exception(failure)) + repr(failure.details)
    for secret in ("http://", "https://", "s3cr3t", "token-1", "X-Goog-Signature"):
        assert secret not in shown


class TestWhoIsAsked:
    @pytest.mark.parametrize(
        ("tokens", "asked_of"),
        [
            ("http://127.0.0.1:8002/token", ["127.0.0.1"]),
            ("https://oauth2.googleapis.com/token", ["oauth2.googleapis.com", "iamcredentials.googleapis.com"]),
        ],
    )
    def test_google_hears_nothing_of_an_account_that_is_not_its_own(self, cloud, tmp_path, tokens, asked_of):
        """Its library asks where an account may be used, and shows its token with the question."""
        path = cloud.account_file(tmp_path)
        path.write_text(json.dumps(json.loads(path.read_text()) | {"token_uri": tokens}))
        credentials = KeySigner(path).credentials()
        credentials._set_blocking_regional_access_boundary_lookup()
        asked = []

        def answer(url, **_):
            asked.append(urlsplit(url).hostname)
            granted = {"access_token": "t", "expires_in": 3600, "locations": [], "encodedLocations": "0x0"}
            return SimpleNamespace(status=200, headers={}, data=json.dumps(granted).encode())

        credentials.before_request(answer, "GET", "http://127.0.0.1:8002/storage/v1/b/bucket", {})
        assert asked == asked_of
