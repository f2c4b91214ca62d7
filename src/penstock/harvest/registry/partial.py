"""Models of which only the given keys count: what one level says, checked with the types of the whole.

Made from the models of `spec.py`, so that a new key there is at once a key of files, tables and the JSON Schema.
Elements of lists are whole things: of them nothing may be missing. In maps with free keys (templates, params) a null
takes away what a weaker level says.
"""

import types
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo


class Given(BaseModel):
    """Keys in camelCase and no others. Numbers may stand where text is wanted (`rows: 100`)."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=False,
        validate_by_alias=True,
        coerce_numbers_to_str=True,
        allow_inf_nan=False,
    )


@cache
def partial_of(model: type[BaseModel], *, whole: bool = False) -> type[Given]:
    """The same keys with the same types, each of which may be left out; `whole`: what is required stays so."""
    fields: dict[str, Any] = {
        name: (_typed(info), _optional(info, whole=whole)) for name, info in model.model_fields.items()
    }
    made: type[Given] = create_model(model.__name__, __base__=Given, __doc__=model.__doc__, **fields)
    return made


def _typed(info: FieldInfo) -> Any:
    kind = _replaced(info.annotation)
    return Annotated[kind, *info.metadata] if info.metadata else kind


def _optional(info: FieldInfo, *, whole: bool) -> Any:
    kept: dict[str, Any] = {"description": info.description}
    if info.alias_priority == 2:  # written out, not made by the generator
        kept["alias"] = info.alias
    if whole and info.is_required():
        return Field(**kept)
    if info.default_factory is not None:
        return Field(default_factory=info.default_factory, **kept)
    plain = not info.is_required() and not isinstance(info.default, BaseModel)
    return Field(info.default if plain else None, **kept)


def _replaced(kind: Any) -> Any:
    """Models inside become partial ones."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return partial_of(kind)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple and isinstance(inner[0], type) and issubclass(inner[0], BaseModel):
        return tuple[partial_of(inner[0], whole=True), ...]  # type: ignore[misc]
    if origin is dict:
        return dict[inner[0], inner[1] | None]  # type: ignore[valid-type]
    if origin in (Union, types.UnionType):
        return reduce(or_, (_replaced(each) for each in inner))
    return kind
