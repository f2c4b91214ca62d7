"""Uppy on a page of another site, in a real browser."""

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.uploads.conftest import Place
from tests.support.browser import Browser, Page, content

MIDDLE = 500_000
SIZE = 1_200_000
CHUNK = 200_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as made:
        yield made


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    made = browser.open()
    yield made
    made.close()


@pytest.fixture
def file() -> dict[str, Any]:
    """One that the page makes itself; another seed, another name, so that pages do not take one for another."""
    seed = secrets.randbelow(1 << 20)
    return {"name": f"offer-{seed}.pdf", "size": SIZE, "seed": seed}


def begin(page: Page, place: Place, file: dict[str, Any], with_what: str = "uppy", **more: Any) -> None:
    page.call(with_what, key="it", endpoint=place.endpoint, token=place.token, file=file, **more)


def whole(place: Place, address: str, file: dict[str, Any]) -> bool:
    return place.is_whole(address, content(file["size"], file["seed"]))


class TestUploading:
    def test_a_file_arrives_whole(self, page: Page, place: Place, file: dict[str, Any]):
        begin(page, place, file)
        address = page.result("it")
        assert whole(place, address, file)
        assert place.gateway.row(address)["filename"] == file["name"]

    def test_parts_side_by_side_become_one_file(self, page: Page, place: Place, file: dict[str, Any]):
        begin(page, place, file, "tus", parallelUploads=3)
        assert whole(place, page.result("it"), file)
        assert len(place.uploads()) == 4

    def test_a_pause_ends_when_the_user_says_so(self, page: Page, place: Place, file: dict[str, Any]):
        place.network.stall_after(MIDDLE)
        begin(page, place, file)
        place.network.until_stopped()
        page.call("pause", key="it")
        place.network.mend()
        page.call("resume", key="it")
        assert whole(place, page.result("it"), file)
        assert len(place.uploads()) == 1

    def test_a_cancelled_one_is_gone(self, page: Page, place: Place, file: dict[str, Any]):
        place.network.stall_after(MIDDLE)
        begin(page, place, file, chunkSize=CHUNK)
        place.network.until_stopped()
        place.network.mend()
        page.call("cancel", key="it")
        [row] = place.uploads()
        deadline = 200
        while not place.is_gone(row["upload_id"]) and deadline:
            deadline -= 1
        assert place.is_gone(row["upload_id"])


class TestTrouble:
    def test_a_connection_that_drops_is_made_anew(self, page: Page, place: Place, file: dict[str, Any]):
        place.network.cut_after(MIDDLE)
        begin(page, place, file)
        assert whole(place, page.result("it"), file)
        assert place.network.cuts == 1
        assert len(place.uploads()) == 1

    @pytest.mark.parametrize("client", ["uppy", "tus"])
    def test_another_page_finds_it_and_goes_on(self, browser: Browser, place: Place, file: dict[str, Any], client: str):
        place.network.stall_after(MIDDLE)
        first = browser.open()
        begin(first, place, file, client)
        place.network.until_stopped()
        first.close()
        place.network.mend()
        second = browser.open()
        begin(second, place, file, client)
        assert whole(place, second.result("it"), file)
        second.close()
        assert len(place.uploads()) == 1

    def test_a_server_that_was_killed_goes_on_with_it(self, page: Page, place: Place, file: dict[str, Any]):
        place.network.stall_after(MIDDLE)
        begin(page, place, file, chunkSize=CHUNK)
        place.network.until_stopped()
        place.gateway.kill()
        place.network.cut()
        place.network.mend()
        place.gateway.start()
        assert whole(place, page.result("it"), file)
        assert len(place.uploads()) == 1
