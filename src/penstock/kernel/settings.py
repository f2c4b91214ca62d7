"""Typed settings from the environment, then `penstock.toml`, then defaults; each knows where it came from.

Every mechanism and domain declares one frozen `SettingsGroup` beside its code; bootstrap composes them and
hands each to the part that needs it. There is no global. The file uses the same names as the environment:

    PENSTOCK_PORT = 8000
    GW_SSE_KEEPALIVE_SEC = 30
"""

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import SecretStr, TypeAdapter, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

Group = TypeVar("Group", bound="SettingsGroup")

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd]?)")
_UNIT_BY_NAME = {"ms": "ms", "min": "m", "minutes": "m", "hours": "h", "days": "d"}  # of a bare number; else seconds

_OURS = "PENSTOCK_"
_MISSPELT = 0.9  # likeness of two names
_NO_SETTINGS = {"PENSTOCK_CONFIG", "PENSTOCK_DEBUG", "PENSTOCK_FAILPOINT"}  # read elsewhere


class SettingsError(Exception):
    """A setting is wrong; the message says which, why and where it came from."""


class SettingsGroup(BaseSettings):
    """The settings of one part. Subclasses set `env_prefix` and fields with a description each."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", case_sensitive=False, env_ignore_empty=True)
    _file: ClassVar[Mapping[str, Any]] = {}
    without_effect: ClassVar[Mapping[str, str]] = {}  # names that people may know and that set nothing: what to do

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  signature is pydantic's
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, _FileSource(settings_cls, cls._file)

    @field_validator("*", mode="before")
    @classmethod
    def _read_duration(cls, value: Any, info: ValidationInfo) -> Any:
        """`30`, `1.5s`, `10m`, `6h` and `90d` are durations; a bare number has the unit in the setting's name."""
        field = cls.model_fields.get(info.field_name or "")
        if field is None or field.annotation is not timedelta or not isinstance(value, str | int | float):
            return value
        match = _DURATION.fullmatch(str(value).strip())
        if match is None:
            raise ValueError("should be a duration such as 30, 1.5s, 10m, 6h or 90d")
        unit = match[2] or _UNIT_BY_NAME.get((info.field_name or "").rpartition("_")[2], "s")
        return timedelta(seconds=float(match[1]) * _UNITS[unit])

    @classmethod
    def variable(cls, field: str) -> str:
        """The name of a field in the environment and in the file."""
        return f"{cls.model_config.get('env_prefix', '')}{field}".upper()


class _FileSource(PydanticBaseSettingsSource):
    def __init__(self, settings_cls: type[BaseSettings], values: Mapping[str, Any]) -> None:
        super().__init__(settings_cls)
        self._values = values

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002
        group = self.settings_cls
        name = group.variable(field_name) if issubclass(group, SettingsGroup) else field_name
        return self._values.get(name), field_name, False

    def __call__(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, field in self.settings_cls.model_fields.items():
            value, key, _ = self.get_field_value(field, name)
            if value is not None:
                found[key] = value
        return found


@dataclass(frozen=True, slots=True)
class Shown:
    """One line of `penstock config`."""

    name: str
    value: str
    origin: str
    meaning: str


class SettingsFile:
    """The settings file of this process: read once, then asked by every group."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.values = self._read(path)

    @classmethod
    def find(cls, environ: Mapping[str, str] = os.environ) -> "SettingsFile":
        """`PENSTOCK_CONFIG`, or `penstock.toml` here, or none."""
        named = environ.get("PENSTOCK_CONFIG")
        if named:
            return cls(Path(named))
        here = Path("penstock.toml")
        return cls(here if here.exists() else None)

    def load(self, group: type[Group], **given: Any) -> Group:
        """Build a group; a wrong value raises a sentence."""
        bound = type(group.__name__, (group,), {"_file": self.values, "__module__": group.__module__})
        try:
            made: Group = bound(**given)
        except ValidationError as wrong:
            raise SettingsError(self._explain(group, wrong)) from None
        return made

    def refuse_unknown(self, groups: tuple[type[SettingsGroup], ...]) -> None:
        """A misspelt name in the file would be silently ignored: say so instead."""
        known = {group.variable(field) for group in groups for field in group.model_fields}
        reasons = reasons_without_effect(groups)
        for name in self.values:
            if name not in known:
                near = get_close_matches(name, known, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                hint = f": {reasons[name]}" if name in reasons else hint
                raise SettingsError(f"{self.path}: there is no setting {name}{hint}")

    def show(self, group: SettingsGroup) -> list[Shown]:
        """Every setting of a group with its value (secrets masked) and origin."""
        from_env = EnvSettingsSource(type(group))()
        rows = []
        for field, info in type(group).model_fields.items():
            name = group.variable(field)
            value = getattr(group, field)
            origin = "environment" if field in from_env else str(self.path) if name in self.values else "default"
            if field in group.model_fields_set and origin == "default":
                origin = "command line"
            rows.append(Shown(name, display(value), origin, info.description or ""))
        return rows

    def _read(self, path: Path | None) -> dict[str, Any]:
        if path is None:
            return {}
        try:
            return tomllib.loads(path.read_text())
        except FileNotFoundError:
            raise SettingsError(f"PENSTOCK_CONFIG names {path}, which does not exist") from None
        except (tomllib.TOMLDecodeError, OSError) as wrong:
            raise SettingsError(f"{path} cannot be read: {wrong}") from None

    def _explain(self, group: type[SettingsGroup], wrong: ValidationError) -> str:
        lines = []
        for error in wrong.errors(include_url=False):
            said = error["msg"].removeprefix("Value error, ")
            if not error["loc"]:  # of the group as a whole: the sentence names what to set
                lines.append(said)
                continue
            field = str(error["loc"][0])
            name = group.variable(field)
            origin = "the environment" if name in os.environ else str(self.path or "the command line")
            given = error.get("input")
            value = display(given) if isinstance(given, timedelta) else repr(given)
            value = "(hidden)" if _is_secret(group, field) else value
            lines.append(f"{name} from {origin} is {value}: {said}")
        return "\n".join(lines)


def _is_secret(group: type[SettingsGroup], field: str) -> bool:
    info = group.model_fields.get(field)
    return info is not None and "SecretStr" in str(info.annotation)


def reasons_without_effect(groups: Iterable[type[SettingsGroup]]) -> dict[str, str]:
    """Names that set nothing though people may know them, and what to do instead."""
    return {name: reason for group in groups for name, reason in group.without_effect.items()}


def unknown_variables(groups: Iterable[type[SettingsGroup]], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables that look like ours but set nothing (misspelt, or put there by the platform), with the reason if known.

    Prefixes such as ETL_ are not ours alone: of those only what is close to a name of ours.
    """
    groups = list(groups)
    known = {group.variable(field) for group in groups for field in group.model_fields} | _NO_SETTINGS
    shared = tuple({f"{name.partition('_')[0]}_" for name in known} - {_OURS})
    reasons = reasons_without_effect(groups)
    return {
        name: reasons.get(name, "")
        for name in sorted(environ)
        if name not in known
        and (
            name in reasons
            or name.startswith(_OURS)
            or (name.startswith(shared) and get_close_matches(name, known, 1, _MISSPELT))
        )
    }


def display(value: Any) -> str:
    """A value for people: secrets masked, durations in seconds."""
    if isinstance(value, SecretStr):
        return "********" if value.get_secret_value() else ""
    if value is None:
        return ""
    if isinstance(value, timedelta):
        return _duration(value.total_seconds())
    if isinstance(value, tuple):  # as it would be set
        return TypeAdapter(type(value)).dump_json(value).decode()
    return mask_url(str(value))


def _duration(seconds: float) -> str:
    """As people would write it: the largest unit that divides it."""
    for unit in ("d", "h", "m"):
        if seconds and seconds % _UNITS[unit] == 0:
            return f"{seconds / _UNITS[unit]:g}{unit}"
    return f"{seconds:g}s"


def mask_url(text: str) -> str:
    """Hide the password of a URL, keep the rest."""
    scheme, separator, rest = text.partition("://")
    if not separator or "@" not in rest:
        return text
    credentials, _, host = rest.rpartition("@")
    user, colon, _ = credentials.partition(":")
    return f"{scheme}://{user}{':********' if colon else ''}@{host}"
