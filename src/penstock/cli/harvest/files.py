"""The source files on this machine, and the database that they are applied to."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.places import need_database
from penstock.cli.screen import Refusal, be_quiet
from penstock.harvest.settings import HarvestSettings
from penstock.kernel.settings import SettingsFile

if TYPE_CHECKING:
    from penstock.harvest.registry.document import SourceDocument
    from penstock.kernel.db import Database
    from penstock.kernel.yaml_text import Problem


@dataclass(frozen=True, slots=True)
class Read:
    """What is in files: documents by file, and all that is wrong with them."""

    documents: "dict[str, SourceDocument]"
    problems: "list[Problem]"


def sources_directory() -> Path:
    return SettingsFile.find().load(HarvestSettings).sources


def files_in(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob("*.y*ml") if path.suffix in {".yaml", ".yml"} and path.is_file())


def read_files(paths: Sequence[Path]) -> Read:
    """Each source in one file only."""
    from penstock.harvest.registry.document import read_source_file
    from penstock.kernel.yaml_text import Problem

    read = Read({}, [])
    first: dict[str, str] = {}
    for path in dict.fromkeys(paths):
        try:
            document, problems = read_source_file(path, _shown(path))
        except OSError as wrong:
            said = wrong.strerror or str(wrong)
            raise Refusal(f"{path} cannot be read: {said}.", f"无法读取 {path}：{said}。") from wrong
        read.problems.extend(problems)
        if document is None:
            continue
        if other := first.get(document.source):
            zh, en = f"{other} 也描述了数据源 {document.source}", f"{other} describes the source {document.source} too"
            read.problems.append(Problem(str(path), 1, 1, "source", "source.twice", zh, en))
        first.setdefault(document.source, str(path))
        read.documents[str(path)] = document
    return read


def _shown(path: Path) -> str:
    """As short as it can be: origins are kept, and people read them."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_absolute() and path.is_relative_to(here) else path)


@asynccontextmanager
async def open_database(data: Path | None) -> "AsyncIterator[Database]":
    from penstock.kernel.db import Database

    be_quiet()
    database = Database(need_database(data), name="cli", size=1)
    await database.open()
    try:
        yield database
    finally:
        await database.close()
