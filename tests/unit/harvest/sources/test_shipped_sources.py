"""The sources that ship: each is whole, names only what it has, and can be pointed at its stand-in."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.standins import NAMES, overrides

from penstock.harvest.spec import Operation, Sections

FOLDER = Path(__file__).parents[4] / "sources"
FILES = sorted(FOLDER.glob("*.yaml"))
ABOUT = {"role", "default", "linkedEndpoint", "defaults"}


def read(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())


def laid_over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = laid_over(merged[key], value) if both else value
    return merged


def sections(source: dict[str, Any], endpoint: dict[str, Any], run: dict[str, Any] | None = None) -> Sections:
    own = {key: value for key, value in endpoint.items() if key not in ABOUT}
    return Sections.model_validate(laid_over(laid_over(source["defaults"], own), run or {}))


def test_seven_sources_ship():
    assert [path.stem for path in FILES] == ["arxiv", "crossref", "doaj", "europepmc", "oai_pmh", "openalex", "pubmed"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
class TestEachSource:
    def test_it_is_named_as_its_file_and_begins_with_what_one_should_know(self, path: Path):
        assert read(path)["source"] == path.stem
        assert path.read_text().startswith("# ")
        assert len(path.read_text().splitlines()) <= 80

    def test_every_endpoint_is_made_of_known_sections(self, path: Path):
        source = read(path)
        for endpoint in source["endpoints"].values():
            merged = sections(source, endpoint)
            assert merged.http.base_url.startswith("https://")
            assert merged.response.items_path
            assert merged.response.id_path

    def test_one_search_is_the_default_and_its_details_can_be_fetched_by_id(self, path: Path):
        source = read(path)
        (search,) = [one for one in source["endpoints"].values() if one.get("default")]
        assert search["role"] == "SEARCH"
        assert source["endpoints"][search["linkedEndpoint"]]["role"] == "DETAIL"
        assert "ids" in str(source["endpoints"][search["linkedEndpoint"]]["http"])

    def test_a_harvest_has_a_window_that_fits_its_steps(self, path: Path):
        source = read(path)
        (search,) = [one for one in source["endpoints"].values() if one.get("default")]
        window = sections(source, search).window
        assert window.min_window >= window.granularity
        assert window.max_window >= window.min_window
        assert window.bounds == "INCLUSIVE"

    def test_it_promises_no_more_than_the_provider_allows(self, path: Path):
        source = read(path)
        for endpoint in source["endpoints"].values():
            rate = sections(source, endpoint).rate_limit
            assert rate.provider_qps is None or rate.qps <= rate.provider_qps

    def test_credentials_and_schedules_name_what_is_there(self, path: Path):
        source = read(path)
        for endpoint in source["endpoints"].values():
            wanted = sections(source, endpoint).auth.credential_ref
            assert wanted is None or set(source["credentials"][wanted]["secret"]) == {"env"}
        harvests = [one for one in source["schedules"] if Operation(one["operation"]) is Operation.HARVEST]
        assert harvests
        assert all(one["endpoint"] in source["endpoints"] for one in source["schedules"])

    def test_it_can_be_pointed_at_its_stand_in_without_a_credential(self, path: Path):
        source = read(path)
        run = overrides(path.stem, "http://127.0.0.1:1", detail=False)
        for endpoint in source["endpoints"].values():
            merged = sections(source, endpoint, run)
            assert merged.http.base_url.startswith("http://127.0.0.1:1")
            assert merged.http.allow_http
            assert merged.auth.credential_ref is None


def test_every_source_has_a_stand_in():
    assert {path.stem.removesuffix("_pmh") for path in FILES} == set(NAMES) - {"generic"}
