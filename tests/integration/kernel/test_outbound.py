"""Connections to hosts that strangers name: judged when they are made, and made to the very address that was judged."""

import ssl
from collections.abc import Iterable

import httpcore
import httpx
import pytest
from tests.support.certificates import self_signed
from tests.support.misbehaving import misbehaving, said
from tests.support.names import Names

from penstock.kernel.outbound import AddressRefused, PinnedBackend, PinnedTransport, anywhere, public_only

PUBLIC, OTHER = "93.184.216.34", "93.184.216.35"
ANSWER = [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", b"ok"]


class Internet(httpcore.AsyncMockBackend):
    """The world outside; each address answers, except those that are down."""

    def __init__(self, down: Iterable[str] = ()) -> None:
        super().__init__(ANSWER)
        self.reached: list[str] = []
        self._down = set(down)

    async def connect_tcp(self, host: str, *args: object, **options: object) -> httpcore.AsyncNetworkStream:
        self.reached.append(host)
        if host in self._down:
            raise httpcore.ConnectError("down")
        return await super().connect_tcp(host, 80)


@pytest.fixture
def names(monkeypatch):
    return Names(monkeypatch)


async def get(internet: Internet, url: str) -> int:
    backend = PinnedBackend(public_only, internet)
    async with httpcore.AsyncConnectionPool(network_backend=backend) as pool:
        return (await pool.request("GET", url)).status


class TestJudging:
    async def test_the_address_that_was_judged_is_the_one_that_is_reached(self, names):
        """Asked a second time, the name would lead into our own network."""
        names.told["source.test"] = [[PUBLIC], ["127.0.0.1"]]
        internet = Internet()
        assert await get(internet, "http://source.test/") == 200
        assert (internet.reached, names.asked) == ([PUBLIC], ["source.test"])

    @pytest.mark.parametrize("found", [["127.0.0.1"], ["169.254.169.254"], [PUBLIC, "10.0.0.1"], ["0.0.0.0"]])
    async def test_a_name_that_leads_inside_is_refused_and_nothing_is_reached(self, names, found):
        names.told["source.test"] = [found]
        internet = Internet()
        with pytest.raises(AddressRefused):
            await get(internet, "http://source.test/")
        assert internet.reached == []

    async def test_the_next_address_is_tried_when_one_is_down(self, names):
        names.told["source.test"] = [[PUBLIC, OTHER]]
        internet = Internet(down=[PUBLIC])
        assert await get(internet, "http://source.test/") == 200
        assert internet.reached == [PUBLIC, OTHER]

    async def test_an_unknown_name_and_addresses_that_are_all_down_are_failures_to_connect(self, names):
        names.told["unknown.test"] = [[]]
        names.told["down.test"] = [[PUBLIC, OTHER]]
        for url in ("http://unknown.test/", "http://down.test/"):
            with pytest.raises(httpcore.ConnectError):
                await get(Internet(down=[PUBLIC, OTHER]), url)

    async def test_a_client_judges_the_address_of_its_proxy(self):
        async with misbehaving(said()) as proxy, httpx.AsyncClient(
            transport=PinnedTransport(public_only, proxy=proxy.address)
        ) as client:  # fmt: skip
            with pytest.raises(AddressRefused):
                await client.get(f"http://{PUBLIC}/")
        assert proxy.asked == []


class TestKeepingAlive:
    async def test_a_connection_made_for_one_name_is_not_lent_to_another(self, names, tmp_path):
        """Both lead to one server, which can prove one of the names only: the other's message must not go there."""
        proof = self_signed(tmp_path / "mine.pem", "mine.test")
        serving, calling = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=proof)
        serving.load_cert_chain(proof)
        names.told |= {"mine.test": [["127.0.0.1"]], "yours.test": [["127.0.0.1"]]}
        async with misbehaving(said(200), tls=serving) as server, httpx.AsyncClient(
            transport=PinnedTransport(anywhere, verify=calling)
        ) as client:  # fmt: skip
            port = server.address.rpartition(":")[2]
            assert (await client.get(f"https://mine.test:{port}/")).status_code == 200
            assert (await client.get(f"https://mine.test:{port}/")).status_code == 200
            with pytest.raises(httpx.ConnectError, match="certificate"):
                await client.get(f"https://yours.test:{port}/secret")
        assert len(server.asked) == 2
        assert names.asked == ["mine.test", "yours.test"]
