"""The same files through the real reader and the check that `apply` makes, with real templates."""

import json
import re
from pathlib import Path

import pytest

from penstock.harvest.compiling.compile import compile_spec
from penstock.harvest.desk import check, terms_of
from penstock.harvest.registry.dictionaries import DICTIONARIES
from penstock.harvest.registry.document import read_source
from penstock.harvest.registry.source import RegisteredSource
from penstock.harvest.spec import Operation
from penstock.kernel.errors import PenstockError

CODES = {each.code: frozenset(item.code for item in each.items) for each in DICTIONARIES}
FILES = sorted((Path(__file__).parent / "failing").glob("*.yaml"))


def head(path: Path, word: str) -> list[str]:
    return re.findall(rf"^# {word}: (.+)$", path.read_text(), re.MULTILINE)


def problems_of(path: Path) -> list[dict]:
    """Of the reader, else of the check; of a run where the file's fault is in what a run says."""
    try:
        document = read_source(path.read_bytes(), path.name)
    except PenstockError as failure:
        return [dict(problem) for problem in failure.details["problems"]]
    source = RegisteredSource.of(document.canonical(), version=1, origins=document.origins, codes=CODES)
    operation = Operation(next(iter(head(path, "operation")), "HARVEST"))
    run = json.loads(next(iter(head(path, "run")), "{}"))
    if not run and (found := check(source)):
        return found
    with pytest.raises(PenstockError) as failure:
        compile_spec(source, "works", operation, run, terms_of(source))
    return failure.value.details["problems"]


class TestAsRead:
    @pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
    def test_the_refusal_names_file_line_key_and_rule(self, path: Path):
        problems = problems_of(path)
        assert any("file" in problem or problem["number"] == int(path.name[:2]) for problem in problems)
        for problem in problems:
            assert problem["key"]
            assert problem["rule"]
            if "file" in problem:  # already the reader refuses it
                assert (problem["file"], problem["line"] > 1) == (path.name, True)
                continue
            assert problem["key"] in problem["message_en"]
            if not head(path, "run"):
                assert re.match(rf"{re.escape(path.name)}:\d+ ", problem["origin"])
            else:
                assert problem["origin"] == "this run" or problem["origin"].startswith(path.name)

    def test_what_the_reader_knows_by_itself_it_refuses_before_the_rules_are_asked(self):
        by_reader = [path.stem for path in FILES if any("file" in problem for problem in problems_of(path))]
        assert by_reader == [
            "02-size-is-no-number", "03-negative-lag", "04-unknown-detail-endpoint", "05-two-fields-of-one-name",
            "07-key-not-known", "07-method-not-known", "07-pagination-not-known", "09-key-in-a-header",
            "09-key-in-the-address", "09-key-in-the-params", "09-key-in-the-query", "09-password-in-the-address",
            "09-password-of-the-proxy",
        ]  # fmt: skip


class TestOrigins:
    SHIPPED = sorted((Path(__file__).parents[4] / "sources").glob("*.yaml"))

    @pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
    @pytest.mark.parametrize("operation", list(Operation))
    def test_the_line_that_a_value_comes_from_is_one_that_says_its_key(self, path: Path, operation: Operation):
        document = read_source(path.read_bytes(), path.name)
        source = RegisteredSource.of(document.canonical(), version=1, origins=document.origins, codes=CODES)
        compiled = compile_spec(source, source.default_endpoint, operation, {}, terms_of(source))
        written = {key: origin for key, origin in compiled.origins.items() if origin.level != "platform"}
        assert len(written) > 20
        lines = path.read_text().splitlines()
        for key, origin in written.items():
            line = int(origin.origin.split(":")[1].split()[0])
            assert key.rpartition(".")[2] in lines[line - 1], (key, origin.origin)
