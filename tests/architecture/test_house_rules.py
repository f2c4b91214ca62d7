"""House rules that a tool can check: sizes, names, who may write a status, words that do not belong."""

import ast
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GENERATED = re.compile(r"_pb2(_grpc)?\.py$")  # by the proto compiler: its style is its own
SOURCES = sorted(path for path in (ROOT / "src").rglob("*.py") if not GENERATED.search(path.name))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
MAX_FUNCTION = 50
MAX_FILE = 400
MAX_PARAMETERS = 5

# Longer than the rule, for a reason: "path::function" or "path".
ALLOWED_LONG: set[str] = set()
BAD_NAME = re.compile(r"(Manager|Helper|Util|Utils|Base|Impl|Service)$")
LOG_EVENT = re.compile(r"[a-z][a-z0-9]*\.[a-z][a-z0-9_]*")
LOGGING = {f"log.{level}" for level in ("debug", "info", "warning", "error", "exception")}
BUCKETS = {"utils.py", "helpers.py", "service.py", "models.py", "common.py", "misc.py", "base.py"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


class TestSizes:
    @pytest.mark.parametrize("path", SOURCES, ids=name_of)
    def test_a_file_and_its_functions_stay_small(self, path: Path):
        lines = len(path.read_text().splitlines())
        too_long = [f"{lines} lines"] if lines > MAX_FILE and name_of(path) not in ALLOWED_LONG else []
        for function in functions(path):
            length = (function.end_lineno or 0) - function.lineno + 1
            where = f"{name_of(path)}::{function.name}"
            if length > MAX_FUNCTION and where not in ALLOWED_LONG:
                too_long.append(f"{where}: {length} lines")
        assert too_long == []

    def test_a_file_of_tests_stays_small_too(self):
        lengths = {name_of(path): len(path.read_text().splitlines()) for path in TESTS}
        assert {name: lines for name, lines in lengths.items() if lines > MAX_FILE} == {}

    def test_the_allow_list_names_only_what_exists_and_needs_it(self):
        for entry in ALLOWED_LONG:
            assert (ROOT / entry.split("::")[0]).exists(), entry
        assert len(ALLOWED_LONG) <= 5


class TestNames:
    def test_classes_are_named_by_the_domain_not_by_a_pattern(self):
        wrong = [
            f"{name_of(path)}: {node.name}"
            for path in SOURCES
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ClassDef) and BAD_NAME.search(node.name)
        ]
        assert wrong == []

    def test_there_are_no_bucket_files(self):
        assert [name_of(path) for path in SOURCES if path.name in BUCKETS] == []

    def test_every_module_says_what_it_is_for(self):
        silent = [name_of(path) for path in SOURCES if not ast.get_docstring(ast.parse(path.read_text()))]
        assert silent == []


class TestLogLines:
    """One grammar for what is logged, `subject.what_happened`, as for domain events; the values are keywords."""

    def test_every_event_is_a_subject_and_what_happened(self):
        wrong = [
            f"{name_of(path)}:{node.lineno}: {said.value}"
            for path in SOURCES
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call) and ast.unparse(node.func) in LOGGING
            for said in ast.walk(node.args[0])
            if isinstance(said, ast.Constant) and not LOG_EVENT.fullmatch(said.value)
        ]
        assert wrong == []

    def test_there_is_one_way_to_get_a_logger(self):
        got = {
            line
            for path in SOURCES
            for line in path.read_text().splitlines()
            if re.match(r"\w+ = (structlog\.get_logger|logging\.getLogger)", line)
        }
        assert got == {"log = structlog.get_logger(__name__)"}


class TestStatusColumns:
    """Only the state machine writes a status."""

    def test_no_other_sql_sets_a_status(self):
        wrong = []
        for path in SOURCES:
            if path.name == "statemachine.py":
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    text = node.value.lower()
                    if re.search(r"\bset\b((?!\bwhere\b)[^;])*\bstatus(_code)?\s*=", text) and "update" in text:
                        wrong.append(f"{name_of(path)}:{node.lineno}")
        assert wrong == []


class TestDecisions:
    @pytest.mark.parametrize("path", sorted((ROOT / "docs" / "adr").glob("*.md")), ids=lambda path: path.stem)
    def test_a_decision_is_numbered_and_says_why_what_and_what_follows(self, path: Path):
        text = path.read_text()
        assert text.startswith(f"# {int(path.name[:4])}. ")
        sections = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert sections[:3] == ["Context", "Decision", "Consequences"]
        assert set(sections[3:]) <= {"Figures", "Not chosen"}


class TestWords:
    def test_the_kernel_has_no_business_words(self):
        words = re.compile(r"\b(sku|catalogue|invoice|pubmed|crossref)\b", re.IGNORECASE)
        wrong = [
            f"{name_of(path)}:{number}"
            for path in SOURCES
            if "kernel" in path.parts and "error_codes" not in path.parts
            for number, line in enumerate(path.read_text().splitlines(), 1)
            if words.search(line)
        ]
        assert wrong == []

    def test_secrets_and_hosts_of_registries_are_not_in_the_tree(self):
        pinned = [(ROOT / "requirements" / name).read_text() for name in ("run.txt", "dev.txt")]
        assert not any("://" in text or "index-url" in text for text in pinned)
        assert not (ROOT / "uv.lock").exists()

    def test_the_lock_of_foreign_clients_names_no_registry(self):
        lock = json.loads((ROOT / "tests" / "browser" / "package-lock.json").read_text())
        assert [name for name, package in lock["packages"].items() if "resolved" in package] == []
        assert all("integrity" in package for name, package in lock["packages"].items() if name)
