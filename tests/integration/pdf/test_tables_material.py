"""The table finder on the public set with ground truth, and on catalogues: found well, and not where there is none."""

from pathlib import Path

import pytest
from bench.pdf_tables import load_scorer, read, score, tables_of
from tests.support.pdfs import material

DATA = material()
pytestmark = pytest.mark.skipif(
    DATA is None or not (DATA / "tables").is_dir(),
    reason="the shared test material is not here (PENSTOCK_TEST_DATA)",
)


@pytest.fixture(scope="module")
def drafts():
    assert DATA is not None
    return {path: read(path) for path in sorted((DATA / "tables").glob("*.pdf"))}


def f1(scorer, total) -> float:
    return scorer.prf(total["c_tp"], total["c_gt"], total["c_pr"])[2]


class TestTheSetWithGroundTruth:
    def test_cells_are_found_as_they_were_marked(self, drafts):
        scorer = load_scorer(DATA / "tables")
        assert f1(scorer, score(scorer, list(drafts), lambda path: tables_of(drafts[path]))) >= 0.97

    def test_cells_are_found_by_their_words_alone(self, drafts):
        scorer = load_scorer(DATA / "tables")
        found = score(scorer, list(drafts), lambda path: tables_of(drafts[path], with_rulings=False))
        assert f1(scorer, found) >= 0.92

    def test_pages_without_a_table_have_none(self, drafts):
        scorer = load_scorer(DATA / "tables")
        empty = wrong = 0
        for path, pages in drafts.items():
            marked = scorer.load_gt(path.with_name(f"{path.stem}-str.xml"))
            for number, tables in tables_of(pages).items():
                if number not in marked:
                    empty += 1
                    wrong += bool(tables)
        assert wrong <= 0.05 * empty


class TestCatalogues:
    def test_covers_pictures_and_prose_are_no_tables(self):
        found = {}
        for name in ("Kaizen-BMS__product-catalogue", "bestechcookware__catalog", "henrriy141__catalog"):
            found |= {name: sum(map(len, tables_of(read(DATA / "catalogues" / f"{name}.pdf")).values()))}
        assert set(found.values()) == {0}

    def test_a_ruled_parts_list_is_a_table_on_every_page(self):
        pages = tables_of(read(Path(DATA / "catalogues" / "anibalpropio__catalogo.pdf")))
        assert {len(tables) for tables in pages.values()} == {1}
        assert all(len(tables[0][0]) == 5 for tables in pages.values())
