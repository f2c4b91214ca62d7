"""Struct types made from simple paths: only what the paths name is decoded, in one pass and in C.

Invariant: a path that leads nowhere gives None; a value of another kind than asked for makes the decoder refuse.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal

import msgspec

from penstock.harvest.reading.paths import walk

Kind = Literal["text", "moment", "raw", "slices"]
_TYPES: dict[Kind, Any] = {
    "text": str | int | None,
    "moment": str | int | float | list[Any] | None,
    "raw": msgspec.Raw,
    "slices": list[msgspec.Raw] | None,
}
_DECODERS = {kind: msgspec.json.Decoder(type_) for kind, type_ in _TYPES.items()}
Steps = tuple[str | int, ...]
Getter = Callable[[Any], Any]


@dataclass(slots=True)
class Shape:
    """Collects what is asked for; `build` then gives the decoder and one getter for each question, in order."""

    asked: list[tuple[Steps, Kind]] = field(default_factory=list)

    def ask(self, steps: Steps, kind: Kind) -> None:
        self.asked.append((steps, kind))

    def build(self) -> tuple[Callable[[Any], Any], list[Getter]] | None:
        """None when somebody asks for the whole and somebody for a part of it."""
        ends = self._ends()
        if () in ends:
            if len(self.asked) > 1:
                return None
            return _DECODERS[self.asked[0][1]].decode, [_itself]
        kinds = {end: self._kind(end, ends) for end in ends}
        names: dict[Steps, str] = {}
        root = _struct(kinds, (), names, "")
        getters = [self._getter(steps, kind, ends, kinds, names) for steps, kind in self.asked]
        return msgspec.json.Decoder(root).decode, getters

    def _ends(self) -> set[Steps]:
        """Where decoding stops: before an index, and at a value of which another path asks for a part."""
        heads = {_before_index(steps) for steps, _ in self.asked}
        return {head for head in heads if not any(head[:size] in heads for size in range(len(head)))}

    def _kind(self, end: Steps, ends: set[Steps]) -> Kind:
        kinds = {kind if steps == end else "raw" for steps, kind in self.asked if _end_of(steps, ends) == end}
        return kinds.pop() if len(kinds) == 1 else "raw"

    @staticmethod
    def _getter(
        steps: Steps, kind: Kind, ends: set[Steps], kinds: dict[Steps, Kind], names: dict[Steps, str]
    ) -> Getter:
        end = _end_of(steps, ends)
        get = attrgetter(names[end])
        if kinds[end] == kind and end == steps:
            return get
        rest, decode = steps[len(end) :], _DECODERS[kind].decode

        def get_from_raw(item: Any) -> Any:
            raw = get(item)
            if raw is not None and rest:
                raw = walk(raw, rest)
            return raw if raw is None or kind == "raw" else decode(raw)

        return get_from_raw


def _itself(item: Any) -> Any:
    return item


def _before_index(steps: Steps) -> Steps:
    return next((steps[:no] for no, step in enumerate(steps) if isinstance(step, int)), steps)


def _end_of(steps: Steps, ends: set[Steps]) -> Steps:
    return next(steps[:size] for size in range(len(steps) + 1) if steps[:size] in ends)


def _struct(kinds: dict[Steps, Kind], at: Steps, names: dict[Steps, str], prefix: str) -> type[msgspec.Struct]:
    keys = dict.fromkeys(end[len(at)] for end in kinds if end[: len(at)] == at)
    fields: list[tuple[str, Any, Any]] = []
    for no, key in enumerate(keys):
        here, name = (*at, key), f"f{no}"
        if here in kinds:
            names[here] = prefix + name
            fields.append((name, _TYPES[kinds[here]], None))
        else:
            inner = _struct(kinds, here, names, f"{prefix}{name}.")
            fields.append((name, inner | None, inner()))
    rename = {f"f{no}": str(key) for no, key in enumerate(keys)}
    return msgspec.defstruct("Part", fields, rename=rename, gc=False, frozen=True)
