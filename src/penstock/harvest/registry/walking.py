"""Ways through a file's values that may be wrong in any way: what does not fit is passed over, others report it."""

from collections.abc import Iterator
from typing import Any

Path = tuple[str | int, ...]


def entries(values: Any, *path: str | int) -> Iterator[tuple[Path, Any]]:
    """The keys and values of a mapping, or the elements of a list, if there is one."""
    for step in path:
        values = values.get(step) if isinstance(values, dict) else None
    if isinstance(values, dict):
        for key, value in values.items():
            yield (*path, key), value
    elif isinstance(values, list):
        for index, value in enumerate(values):
            yield (*path, index), value


def groups(values: Any, *path: str | int) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Those of them that are mappings themselves."""
    for where, value in entries(values, *path):
        if isinstance(value, dict):
            yield where, value


def all_sections(values: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every place at which sections may be said."""
    if isinstance(values.get("defaults"), dict):
        yield ("defaults",), values["defaults"]
    for where, endpoint in groups(values, "endpoints"):
        yield where, endpoint
        if isinstance(endpoint.get("defaults"), dict):
            yield (*where, "defaults"), endpoint["defaults"]
