"""Each shipped source, compiled, asked and read by the real code against its stand-in: what comes is what is there."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from tests.standins import Library, Standin, overrides, standin

from penstock.harvest.calling.render import Context, PageVars, for_count, render
from penstock.harvest.compiling.compile import check_source, compile_spec
from penstock.harvest.page import FaultKind, Page
from penstock.harvest.reading import Reader
from penstock.harvest.registry.document import read_source
from penstock.harvest.registry.source import RegisteredSource
from penstock.harvest.slices import Span
from penstock.harvest.spec import Operation, PageType, Sections, Spec

FILES = sorted((Path(__file__).parents[4] / "sources").glob("*.yaml"))
MISSING = {  # well formed, and not there; None: the service answers 404
    "arxiv": "2601.99999",
    "crossref": "10.5555/standin.9999999",
    "doaj": None,
    "europepmc": "AGR:1",
    "oai_pmh": "oai:standin.example:999999",
    "openalex": "https://openalex.org/W4499999999",
    "pubmed": "1",
}
each_source = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def registered(path: Path) -> RegisteredSource:
    document = read_source(path.read_bytes(), path.name)
    return RegisteredSource.of(document.canonical(), version=1, origins=document.origins)


def compiled(path: Path, operation: Operation, url: str) -> Spec:
    source = registered(path)
    endpoint = next(name for name, each in source.endpoints.items() if each.is_default)
    detail = operation is Operation.UPDATE or path.stem == "pubmed"
    return compile_spec(source, endpoint, operation, overrides(path.stem, url, detail=detail)).spec


class Asking:
    """A loop that a person would write: no retries, no limits, no store."""

    def __init__(self, spec: Spec, api: Standin, client: httpx.AsyncClient) -> None:
        self.spec, self.api, self.client = spec, api, client

    async def send(self, sections: Sections, span: Span, page: PageVars = PageVars(), ids: tuple = ()) -> bytes:  # noqa: B008
        context = Context(now=self.api.library.now, span=span, page=page, ids=ids, params=sections.params)
        asked = render(sections, context)
        answer = await self.client.request(
            asked.method, asked.url, params=list(asked.query), headers=asked.headers, data=asked.form
        )
        assert answer.status_code == 200, answer.text[:300]
        return answer.content

    def page(self, number: int, token: str | None) -> PageVars:
        size = self.spec.pagination.page_size
        return PageVars(no=number, offset=number * size, size=size, token=token)

    async def pages(self, span: Span) -> list[Page]:
        pagination = self.spec.pagination
        reader = Reader(self.spec, ids_only=self.spec.batching.two_phase.enabled)
        token, pages = pagination.initial_token, []
        while True:
            body = await self.send(self.spec, span, self.page(len(pages), token))
            pages.append(reader.read(body, span=span))
            is_short = pages[-1].served < pagination.page_size
            following = pages[-1].next_token
            if pagination.type is not PageType.TOKEN:
                if is_short:
                    return pages
            elif not following or following == token or (is_short and pagination.short_page_ends):
                return pages
            token = following

    async def details(self, ids: list[str], span: Span) -> list[Page]:
        assert self.spec.detail is not None
        reader, size = Reader(self.spec.detail), self.spec.batching.id_batch_size
        parts = [tuple(ids[start : start + size]) for start in range(0, len(ids), size)]
        return [reader.read(await self.send(self.spec.detail, span, ids=part), span=span, asked=part) for part in parts]


def windows(library: Library, width: timedelta) -> Iterator[Span]:
    start = library.start
    while start < library.end:
        yield Span(start, start + width)
        start += width


@each_source
class TestEachSource:
    def test_it_compiles_for_every_operation(self, path: Path):
        assert check_source(registered(path)) == []
        for operation in Operation:
            assert compiled(path, operation, "http://127.0.0.1:1").operation is operation

    async def test_its_windows_give_every_record_once_with_its_stamp(self, path: Path):
        library = Library(600, days=6, seed=11)
        async with (
            standin(path.stem, library, enforce_rate=False) as api,
            httpx.AsyncClient(trust_env=False, verify=False) as client,
        ):
            asking = Asking(compiled(path, Operation.HARVEST, api.url), api, client)
            found: dict = {}
            for span in windows(library, timedelta(days=1)):
                pages = await asking.pages(span)
                if asking.spec.detail is not None:
                    pages = await asking.details([one for page in pages for one in page.ids], span)
                for page in pages:
                    assert page.faults == []
                    assert not found.keys() & set(page.ids)
                    found |= dict(zip(page.ids, page.updated, strict=True))
            truth = api.records_at(library.now)
            assert found.keys() == truth.keys()
            if asking.spec.response.updated_at_from == "ITEM":
                assert found == {one: shown.updated for one, shown in truth.items()}

    async def test_its_count_is_the_number_of_records_in_the_window(self, path: Path):
        library = Library(300, days=3, seed=5)
        async with (
            standin(path.stem, library, enforce_rate=False) as api,
            httpx.AsyncClient(trust_env=False, verify=False) as client,
        ):
            asking = Asking(compiled(path, Operation.HARVEST, api.url), api, client)
            if asking.spec.count is None:
                pytest.skip("this source cannot be asked for a number alone")
            span = Span(library.start, library.start + timedelta(days=1))
            first = asking.page(0, asking.spec.pagination.initial_token)
            reader = Reader(asking.spec, ids_only=asking.spec.batching.two_phase.enabled)
            counted = reader.count(await asking.send(for_count(asking.spec), span, first))
            assert counted == sum(len(page.ids) for page in await asking.pages(span)) > 0

    async def test_records_are_fetched_again_by_id_and_missing_ones_are_named(self, path: Path):
        library = Library(120, days=3, seed=5)
        async with (
            standin(path.stem, library, enforce_rate=False) as api,
            httpx.AsyncClient(trust_env=False, verify=False) as client,
        ):
            asking = Asking(compiled(path, Operation.UPDATE, api.url), api, client)
            ids, missing = sorted(api.records_at(library.now))[:60], MISSING[path.stem]
            pages = await asking.details(ids, Span(library.start, library.end))
            assert sorted(one for page in pages for one in page.ids) == ids
            assert [page.faults for page in pages if page.faults] == []
            if missing is not None:
                (page,) = await asking.details([missing], Span(library.start, library.end))
                assert [(fault.kind, fault.provider_id) for fault in page.faults] == [(FaultKind.NO_DETAIL, missing)]
