"""One request, one whole answer: or an error that says why, and nothing that was secret."""

import asyncio
import gzip
import ipaddress
import socket
import ssl
import zlib
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.integration.harvest.calling.conftest import spec_for
from tests.support.misbehaving import misbehaving, said

import penstock
from penstock.harvest.calling.request import Request
from penstock.harvest.calling.transport import Additions
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.telemetry import continued

SECRET = Additions(headers={"Authorization": "Bearer hushMARKED"}, query={"api_key": "hushMARKED"})


async def send(calling, source, http=None, request=None, additions=None):
    spec = spec_for(source.address, http=http or {})
    request = request or Request("GET", source.address + "/works", (("q", "ä b"),))
    return await calling.transport.send(spec, request, correlation_id="ing-1-2", additions=additions)


async def refusal(calling, source, **more):
    with pytest.raises(PenstockError) as caught:
        await send(calling, source, **more)
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    assert "hush" not in str(caught.value)
    return caught.value.code, caught.value.details.get("reason")


class TestSending:
    async def test_an_answer_comes_whole(self, calling):
        async with misbehaving(said(200, {"a": 1}, x_one="1")) as source:
            answer = await send(calling, source, additions=SECRET)
            again = await send(calling, source)
        assert (answer.status, answer.body, answer.headers["x-one"]) == (200, b'{"a": 1}', "1")
        assert answer.content_type == "application/json"
        assert again.body == answer.body
        asked = source.asked[0]
        assert asked.query == {"q": "ä b", "api_key": "hushMARKED"}
        assert asked.headers["authorization"] == "Bearer hushMARKED"
        assert asked.headers["user-agent"] == f"Penstock/{penstock.__version__}"
        assert asked.headers["x-ingest-correlation-id"] == "ing-1-2"
        assert source.connections == 1  # kept alive

    async def test_the_source_may_name_its_own_agent_but_not_the_encodings(self, calling):
        async with misbehaving(said()) as source:
            headers = {"user-agent": "Library (mailto:a@example.org)", "Accept-Encoding": "br"}
            await send(calling, source, request=Request("GET", source.address + "/", headers=headers))
        assert source.asked[0].headers["user-agent"] == "Library (mailto:a@example.org)"
        assert source.asked[0].headers["accept-encoding"] == "gzip, deflate"

    async def test_a_path_goes_out_as_it_was_rendered(self, calling):
        async with misbehaving(said()) as source:
            await send(calling, source, request=Request("GET", source.address + "/a%2Fb%3Fc/%5Bd%5D"))
        assert source.asked[0].target == "/a%2Fb%3Fc/%5Bd%5D"

    async def test_a_key_may_stand_in_the_body(self, calling):
        async with misbehaving(said()) as source:
            more = Additions(fields={"api_key": "k&="})
            await send(calling, source, request=Request("POST", source.address + "/", form={"id": "1"}), additions=more)
            await send(calling, source, request=Request("POST", source.address + "/", json={"n": 1}), additions=more)
        assert [asked.body for asked in source.asked] == [b"id=1&api_key=k%26%3D", b'{"n":1,"api_key":"k&="}']

    async def test_a_trace_goes_on_at_the_source(self, calling):
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        async with misbehaving(said()) as source:
            with continued(trace, "harvest.page"):
                await send(calling, source)
            await send(calling, source)
        assert source.asked[0].headers["traceparent"].split("-")[1] == trace.split("-")[1]
        assert "traceparent" not in source.asked[1].headers

    async def test_cookies_are_not_kept(self, calling):
        async with misbehaving(said(set_cookie="session=1; Path=/")) as source:
            answer = await send(calling, source)
            await send(calling, source)
        assert "cookie" not in source.asked[1].headers
        assert "set-cookie" not in answer.headers


class TestPackedBodies:
    @pytest.mark.parametrize(
        ("encoding", "packed"),
        [
            ("gzip", gzip.compress(b"hello " * 1000)),
            ("gzip", gzip.compress(b"hello " * 400) + gzip.compress(b"hello " * 600)),
            ("deflate", zlib.compress(b"hello " * 1000)),
            ("deflate", zlib.compress(b"hello " * 1000, wbits=-15)),
        ],
        ids=["gzip", "gzip in two streams", "deflate", "deflate without its frame"],
    )
    async def test_they_are_unpacked(self, calling, encoding, packed):
        async with misbehaving(said(200, packed, content_encoding=encoding)) as source:
            assert (await send(calling, source)).body == b"hello " * 1000

    async def test_a_bomb_stops_at_the_limit(self, calling):
        bomb = gzip.compress(gzip.compress(b"\0" * 50_000_000))
        inner = gzip.compress(b"\0" * 50_000_000)
        assert len(inner) < 100_000
        async with misbehaving(said(200, inner, content_encoding="gzip")) as source:
            code, reason = await refusal(calling, source, http={"maxBodyBytes": 1_000_000})
        assert (code, reason) == (error_codes.SOURCE_ANSWER_INVALID, "TOO_LARGE")
        async with misbehaving(said(200, bomb, content_encoding="gzip, gzip")) as source:
            assert await refusal(calling, source) == (error_codes.SOURCE_ANSWER_INVALID, "UNKNOWN_ENCODING")

    @pytest.mark.parametrize(
        ("body", "reason"),
        [(gzip.compress(b"x" * 9999)[:-9], "BODY_TRUNCATED"), (b"no gzip", "BODY_UNREADABLE")],
        ids=["cut", "no gzip"],
    )
    async def test_a_torn_one_is_an_error(self, calling, body, reason):
        async with misbehaving(said(200, body, content_encoding="gzip")) as source:
            assert await refusal(calling, source) == (error_codes.SOURCE_UNAVAILABLE, reason)


class TestTornAnswers:
    async def test_fewer_bytes_than_announced(self, calling):
        async def cut(asked, writer):
            writer.write(said(200, b"half", content_length="1000"))
            await writer.drain()

        async with misbehaving(cut) as source:
            assert await refusal(calling, source, additions=SECRET) == (
                error_codes.SOURCE_UNAVAILABLE,
                "PROTOCOL_BROKEN",
            )

    async def test_chunks_without_an_end(self, calling):
        async def cut(asked, writer):
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            await writer.drain()

        async with misbehaving(cut) as source:
            assert (await refusal(calling, source))[0] is error_codes.SOURCE_UNAVAILABLE

    async def test_no_answer_at_all(self, calling):
        async def hang_up(asked, writer):
            return None

        async with misbehaving(hang_up) as source:
            assert (await refusal(calling, source))[0] is error_codes.SOURCE_UNAVAILABLE

    async def test_something_that_is_not_http(self, calling):
        async with misbehaving(b"SSH-2.0-OpenSSH\r\n\r\n") as source:
            assert (await refusal(calling, source))[0] is error_codes.SOURCE_UNAVAILABLE

    async def test_nobody_listens(self, calling):
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            request = Request("GET", f"http://127.0.0.1:{held.getsockname()[1]}/")
            async with misbehaving(said()) as source:
                found = await refusal(calling, source, request=request)
        assert found == (error_codes.SOURCE_UNAVAILABLE, "CONNECT_FAILED")

    async def test_a_body_beyond_the_limit_is_not_read(self, calling):
        async with misbehaving(said(200, b"", content_length="999999999")) as source:
            assert (await refusal(calling, source))[1] == "TOO_LARGE"


class TestSlowAnswers:
    async def test_silence_is_a_read_timeout(self, calling):
        async def silent(asked, writer):
            await asyncio.sleep(60)

        async with misbehaving(silent) as source:
            assert await refusal(calling, source, http={"readTimeout": "100ms"}) == (
                error_codes.SOURCE_UNAVAILABLE,
                "READ_TIMEOUT",
            )

    async def test_a_body_that_drips_for_ever_ends_at_the_deadline(self, calling):
        async def drip(asked, writer):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while True:
                writer.write(b".")
                await writer.drain()
                await asyncio.sleep(0.02)

        async with misbehaving(drip) as source:
            http = {"readTimeout": "200ms", "connectTimeout": "100ms"}
            found = await refusal(calling, source, http=http)
        assert found == (error_codes.SOURCE_UNAVAILABLE, "TOO_SLOW")


class TestRedirects:
    async def test_they_are_not_followed_unless_the_source_says_so(self, calling):
        async with misbehaving(said(302, location="/elsewhere")) as source:
            assert (await send(calling, source)).status == 302

    async def test_three_are_followed_and_no_more(self, calling):
        async with misbehaving(*[said(302, location=f"/{n}?x=1") for n in range(3)], said(200, b"here")) as source:
            answer = await send(calling, source, http={"followRedirects": True}, additions=SECRET)
            assert answer.body == b"here"
        assert source.asked[3].query == {"x": "1", "api_key": "hushMARKED"}
        async with misbehaving(said(302, location="/again")) as source:
            found = await refusal(calling, source, http={"followRedirects": True})
            assert found == (error_codes.SOURCE_REFUSED, "TOO_MANY_REDIRECTS")
            assert len(source.asked) == 4

    async def test_another_origin_does_not_get_the_credentials(self, calling):
        async with misbehaving(said(200, b"there")) as other, misbehaving() as source:
            source.script.append(said(301, location=other.address + "/moved"))
            request = Request("GET", source.address + "/", headers={"X-Private": "hushMARKED", "Accept": "a/b"})
            http = {"followRedirects": True}
            assert (await send(calling, source, http=http, request=request, additions=SECRET)).body == b"there"
        assert source.asked[0].headers["x-private"] == "hushMARKED"
        assert "hushMARKED" not in repr(other.asked[0])
        assert other.asked[0].headers["accept"] == "a/b"

    @pytest.mark.parametrize(
        "inside", ["127.0.0.1:9", "169.254.169.254", "[::1]:9", "10.0.0.1", "2130706433", "localhost"]
    )
    async def test_a_public_source_does_not_send_us_into_our_own_network(self, calling, inside):
        async with misbehaving(said(302, location=f"http://{inside}/secrets")) as proxy:  # it stands for the world
            http = {"followRedirects": True, "proxy": proxy.address}
            request = Request("GET", "http://93.184.216.34/works")
            found = await refusal(calling, proxy, http=http, request=request)
        assert found == (error_codes.SOURCE_REFUSED, "REDIRECT_TO_PRIVATE")
        assert len(proxy.asked) == 1

    async def test_a_public_source_may_send_us_to_another(self, calling):
        async with misbehaving(said(302, location="http://93.184.216.35/"), said(200, b"there")) as proxy:
            http = {"followRedirects": True, "proxy": proxy.address}
            request = Request("GET", "http://93.184.216.34/works")
            assert (await send(calling, proxy, http=http, request=request)).body == b"there"

    async def test_a_post_is_not_redirected(self, calling):
        async with misbehaving(said(307, location="/x")) as source:
            request = Request("POST", source.address + "/", form={"a": "1"})
            assert (await send(calling, source, http={"followRedirects": True}, request=request)).status == 307


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Of 127.0.0.1, by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=1))
    made = builder.add_extension(alternative, critical=False).sign(key, hashes.SHA256())
    place = tmp_path_factory.mktemp("tls") / "both.pem"
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    place.write_bytes(key.private_bytes(*form) + made.public_bytes(serialization.Encoding.PEM))
    return place


@pytest.fixture
def tls(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


class TestHttps:
    async def test_a_certificate_that_nobody_vouches_for_is_refused(self, calling, tls):
        async with misbehaving(said(), tls=tls) as source:
            found = await refusal(calling, source, additions=SECRET)
        assert found == (error_codes.SOURCE_UNAVAILABLE, "TLS_FAILED")
        assert source.asked == []

    async def test_a_redirect_from_https_to_http_is_refused_whatever_is_allowed(
        self, calling, tls, certificate, monkeypatch
    ):
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        async with misbehaving(said()) as plain, misbehaving(tls=tls) as source:
            source.script.append(said(302, location=plain.address + "/"))
            found = await refusal(calling, source, http={"followRedirects": True}, additions=SECRET)
        assert found == (error_codes.SOURCE_REFUSED, "REDIRECT_TO_HTTP")
        assert len(source.asked) == 1
        assert plain.asked == []

    async def test_http_is_refused_unless_allowed(self, calling):
        async with misbehaving(said()) as source:
            found = await refusal(calling, source, http={"allowHttp": False}, additions=SECRET)
        assert found == (error_codes.SOURCE_REFUSED, "HTTP_NOT_ALLOWED")
        assert source.asked == []

    async def test_a_server_without_tls_is_unavailable_not_a_traceback(self, calling):
        async def babble(reader, writer):
            writer.write(b"220 mail.example.org ESMTP\r\n")
            writer.close()

        server = await asyncio.start_server(babble, "127.0.0.1", 0)
        async with server, misbehaving(said()) as source:
            request = Request("GET", f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
            found = await refusal(calling, source, request=request, additions=SECRET)
        assert found == (error_codes.SOURCE_UNAVAILABLE, "TLS_FAILED")
