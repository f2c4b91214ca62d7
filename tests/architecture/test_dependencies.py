"""What the program imports is named in pyproject.toml: what only comes along with another package may stop coming."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def named(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0]).lower()


@cache
def owners() -> dict[str, str]:
    """The distribution of every module that is installed, by the module's dotted name."""
    found = {}
    for distribution in distributions():
        for line in (distribution.read_text("RECORD") or "").splitlines():  # `files` would parse every sum in it
            path, _, rest = line.partition(",")[0].partition(".")
            if rest == "py" or rest.endswith("so"):
                found[path.replace("/", ".").removesuffix(".__init__")] = named(distribution.name)
    return found


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def owner(name: str) -> str | None:
    """Of the longest part of the name that is a module: several distributions share the first one."""
    while name:
        if name in owners():
            return owners()[name]
        name = name.rpartition(".")[0]
    return None


class TestDependencies:
    def test_every_package_that_is_imported_is_named(self):
        wanted = {}
        for path in sorted((ROOT / "src").rglob("*.py")):
            for name in imported(path):
                if name.partition(".")[0] not in {*sys.stdlib_module_names, "penstock"}:
                    wanted.setdefault(owner(name) or f"nobody's {name}", path.relative_to(ROOT).as_posix())
        assert len(wanted) > 20
        declared = {named(each) for each in PROJECT["dependencies"]}
        assert {who: where for who, where in wanted.items() if who not in declared} == {}

    def test_every_package_that_is_named_is_pinned(self):
        pinned = {named(line) for line in (ROOT / "requirements/run.txt").read_text().splitlines() if "==" in line}
        assert {named(each) for each in PROJECT["dependencies"]} - pinned == set()
