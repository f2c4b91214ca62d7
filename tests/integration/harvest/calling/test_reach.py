"""Where sources may lead: those that were applied over the API stay in the public internet, whenever we connect."""

import pytest
from tests.integration.harvest.calling.conftest import SECRET, spec_for
from tests.support.misbehaving import Misbehaving, misbehaving, said
from tests.support.names import Names

from penstock.harvest.calling.credentials import Credentials
from penstock.harvest.calling.fetch import Fetcher
from penstock.harvest.calling.request import Request
from penstock.harvest.calling.transport import Transport, Transports
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

PUBLIC = "93.184.216.34"
NAME = "source.test"


@pytest.fixture
def names(monkeypatch):
    return Names(monkeypatch)


@pytest.fixture
async def strict():
    transport = Transport()
    yield transport
    await transport.close()


def named(source: Misbehaving, host: str = NAME) -> str:
    return f"http://{host}:{source.port}"


async def reason_of(sending) -> str:
    with pytest.raises(PenstockError) as caught:
        await sending
    assert caught.value.code is error_codes.SOURCE_REFUSED
    return caught.value.details["reason"]


def send(transport: Transport, address: str, **http: object):
    return transport.send(spec_for(address, http=http), Request("GET", address + "/"), correlation_id="ing-1")


class TestSourcesOfTheApi:
    async def test_a_name_that_leads_inside_since_it_was_applied_is_not_followed(self, strict, names):
        async with misbehaving(said()) as source:
            names.told[NAME] = [["127.0.0.1"]]
            assert await reason_of(send(strict, named(source))) == "ADDRESS_PRIVATE"
        assert source.connections == 0

    async def test_a_name_that_is_looked_up_twice_is_judged_by_the_answer_that_is_used(self, strict, names):
        """Public for whoever judges, loopback for whoever connects."""
        async with misbehaving(said()) as source:
            names.told[NAME] = [[PUBLIC, "127.0.0.1"], ["127.0.0.1"]]
            assert await reason_of(send(strict, named(source))) == "ADDRESS_PRIVATE"
        assert (source.connections, names.asked) == (0, [NAME])

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1"])
    async def test_no_spelling_of_an_address_inside_is_followed(self, strict, host):
        async with misbehaving(said()) as source:
            assert await reason_of(send(strict, named(source, host))) == "ADDRESS_PRIVATE"
        assert source.connections == 0

    async def test_a_proxy_inside_is_not_used(self, strict):
        async with misbehaving(said()) as proxy:
            found = await reason_of(send(strict, f"http://{PUBLIC}", proxy=proxy.address))
        assert (found, proxy.connections) == ("ADDRESS_PRIVATE", 0)

    async def test_tokens_are_not_fetched_from_inside(self, calling, names, monkeypatch):
        async with misbehaving(said(200, {"access_token": "t"})) as source:
            names.told[NAME] = [["127.0.0.1"]]
            monkeypatch.setenv("TOKEN_CLIENT", f"me:{SECRET}")
            oauth2 = {"tokenUrl": named(source) + "/token"}
            auth = {"type": "OAUTH2", "credentialRef": "client", "required": True, "oauth2": oauth2}
            transports = Transports()

            async def lookup(_source: str, _code: str) -> object:
                return {"secret": {"env": "TOKEN_CLIENT"}}

            calling.fetcher = Fetcher(transports, Credentials(lookup), calling.pacer)
            assert await reason_of(calling.fetch(spec_for(f"http://{PUBLIC}", auth=auth))) == "ADDRESS_PRIVATE"
            await transports.close()
        assert source.connections == 0


class TestSourcesOfTheOperator:
    async def test_they_may_be_inside_beside_others_that_may_not(self, names):
        transports = Transports()
        async with misbehaving(said(200, b"here")) as source:
            names.told[NAME] = [["127.0.0.1"]]
            own = spec_for(named(source)).model_copy(update={"allows_private": True})
            request = Request("GET", named(source) + "/")
            answer = await transports.of(own).send(own, request, correlation_id="ing-1")
            assert answer.body == b"here"
            stranger = spec_for(named(source))
            found = await reason_of(transports.of(stranger).send(stranger, request, correlation_id="ing-1"))
        assert (found, source.connections) == ("ADDRESS_PRIVATE", 1)
        await transports.close()

    async def test_the_setting_lets_all_of_them(self):
        transports = Transports(allow_private=True)
        async with misbehaving(said(200, b"here")) as source:
            spec = spec_for(source.address)
            request = Request("GET", source.address + "/")
            assert (await transports.of(spec).send(spec, request, correlation_id="ing-1")).body == b"here"
        await transports.close()

    async def test_a_redirect_inside_is_followed_where_the_source_is_inside_itself(self, calling, names):
        async with misbehaving(said(200, b"there")) as other, misbehaving() as source:
            names.told[NAME] = [["127.0.0.1"]]
            source.script.append(said(302, location=named(other) + "/"))
            assert (await send(calling.transport, source.address, followRedirects=True)).body == b"there"
