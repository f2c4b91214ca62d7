"""Where the servers are: named by settings, or brought by a `penstock up` that runs on the data directory."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.cli.screen import Refusal
from penstock.embedded import EmbeddedPostgres, EmbeddedRedis, Holder, Home
from penstock.kernel.identity import IdentitySettings
from penstock.kernel.runtime import RuntimeSettings
from penstock.kernel.settings import SettingsFile, SettingsGroup

_OURS = ("runtime", "identity")  # groups that the command line completes


@dataclass(frozen=True, slots=True)
class Servers:
    """Addresses a command can use; an empty one is not known."""

    home: Home
    holder: Holder | None
    settings: RuntimeSettings
    database_url: str
    redis_url: str
    store_url: str


def runtime_settings(data: Path | None = None, **given: Any) -> RuntimeSettings:
    """The command line wins over the environment, that over the file."""
    named = {key: value for key, value in {"home": data, **given}.items() if value is not None}
    return SettingsFile.find().load(RuntimeSettings, **named)


def find_servers(data: Path | None = None) -> Servers:
    settings = runtime_settings(data)
    home = Home(settings.home)
    holder = home.holder()
    database, redis, store = (
        settings.database_url.get_secret_value(), settings.redis_url.get_secret_value(), settings.store_url,
    )  # fmt: skip
    if holder is not None:
        database = database or EmbeddedPostgres(home.path).url
        redis = redis or EmbeddedRedis(home.path).url
        store = store or home.store.as_uri()
    return Servers(home, holder, settings, database, redis, store)


def need_database(data: Path | None) -> str:
    servers = find_servers(data)
    if not servers.database_url:
        raise Refusal(
            f"No database is known: set PENSTOCK_DATABASE_URL, or start `penstock up` (nothing runs on"
            f" {servers.home.path}).",
            f"没有可用的数据库：请设置 PENSTOCK_DATABASE_URL，或先启动 penstock up（{servers.home.path} 上没有运行）。",
        )
    return servers.database_url


def all_settings(data: Path | None = None, **given: Any) -> dict[str, SettingsGroup]:
    """Every group of settings, by name; a wrong value or a misspelt name raises a sentence."""
    from penstock.bootstrap import GROUPS

    source = SettingsFile.find()
    source.refuse_unknown(tuple(GROUPS.values()))
    loaded: dict[str, SettingsGroup] = {name: source.load(group) for name, group in GROUPS.items() if name not in _OURS}
    mine = {"runtime": runtime_settings(data, **given), "identity": identity_settings(data, must_exist=False)}
    return {name: mine[name] if name in _OURS else loaded[name] for name in GROUPS}


def identity_settings(data: Path | None, *, must_exist: bool = True) -> IdentitySettings:
    """How tokens are checked; the secret is the one the settings name, or the one `penstock up` made."""
    source = SettingsFile.find()
    named = {**source.values, **os.environ}
    if named.get("PENSTOCK_JWT_SECRET") or named.get("PENSTOCK_JWT_JWKS_URL"):
        return source.load(IdentitySettings)
    home = Home(runtime_settings(data).home)
    if home.has_secret():
        return source.load(IdentitySettings, secret=home.secret())
    if not must_exist:  # the first `penstock up` makes one
        return source.load(IdentitySettings)
    raise Refusal(
        f"There is no secret to sign with: run `penstock up` on {home.path} once, name its directory with --data,"
        " or set PENSTOCK_JWT_SECRET.",
        f"没有可用于签名的密钥：请先在 {home.path} 上运行一次 penstock up，用 --data 指定其目录，"
        "或设置 PENSTOCK_JWT_SECRET。",
    )
