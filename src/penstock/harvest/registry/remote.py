"""What a source that comes over the network must not say, though a file on our own machine may.

Whoever may apply sources over the API is trusted with the sources, not with the machine: an address may not lead into
our own network, where our servers trust each other, and a credential may not be any variable or file of our process,
or a source could be made to send it away. A name is looked up when the source is applied, so that most mistakes are
told at once; where it leads later is judged at each connection (`calling/transport.py`), because the registry and each
snapshot say that the source came over the API.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from penstock.harvest.registry.document import SourceDocument
from penstock.kernel.addresses import NameUnknown, is_public, look_up
from penstock.kernel.errors import Sentence

_ADDRESSES = frozenset({("http", "baseUrl"), ("http", "proxy"), ("oauth2", "tokenUrl"), ("pagination", "initialUrl")})
_LOOK_UP_SECONDS = 5.0
_PRIVATE = Sentence(
    zh="地址指向内部网络；如确有需要，请用命令行 apply，或设置 PENSTOCK_HARVEST_ALLOW_PRIVATE",
    en="leads into a private network: apply it with the command line, or set PENSTOCK_HARVEST_ALLOW_PRIVATE",
)
_TOO_SLOW = Sentence(zh="主机名解析超时，请重试", en="the host name could not be looked up in time: try again")
_CREDENTIAL = Sentence(
    zh="通过接口提交时，新凭据只能用 store；env 与 file 请用命令行 apply",
    en="over the API a new credential can only be kept in the store; use the command line for env and file",
)


async def address_problems(document: SourceDocument) -> list[dict[str, Any]]:
    """Addresses that lead into our own network, by IP or by name. Waits for names: outside of transactions."""
    found = dict(_addresses((), document.canonical()))
    hosts = {key: host for key, address in found.items() if (host := _host(address))}
    asked = sorted(set(hosts.values()))
    said = dict(zip(asked, await asyncio.gather(*map(_judge, asked)), strict=True))
    return [
        _problem(document, "address", key, wrong)
        for key, host in sorted(hosts.items())
        if (wrong := said[host]) is not None
    ]


def credential_problems(document: SourceDocument, before: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Places of secrets, other than the store, that the version in force does not have. `before`: its document."""
    known = {} if before is None else dict(_places(before))
    return [
        _problem(document, "credential", key, _CREDENTIAL)
        for key, place in _places(document.canonical())
        if "store" not in place and known.get(key) != place
    ]


def _addresses(path: tuple[str, ...], part: Any) -> Iterator[tuple[str, str]]:
    if isinstance(part, Mapping):
        for name, value in part.items():
            yield from _addresses((*path, name), value)
    elif path[-2:] in _ADDRESSES and isinstance(part, str):
        yield ".".join(path), part


def _host(address: str) -> str | None:
    """None: no address, which other checks refuse."""
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


async def _judge(host: str) -> Sentence | None:
    try:
        addresses: Sequence[str] = await look_up(host, 443, _LOOK_UP_SECONDS)
    except NameUnknown:
        return None
    except TimeoutError:
        return _TOO_SLOW
    return None if all(map(is_public, addresses)) else _PRIVATE


def _places(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, str]]]:
    for name, credential in document["credentials"].items():
        for part in ("secret", "clientId"):
            if place := credential.get(part):
                yield f"credentials.{name}.{part}", place


def _problem(document: SourceDocument, rule: str, key: str, said: Sentence) -> dict[str, Any]:
    origin = document.origins.get(key, "")
    return {"rule": rule, "key": key, "origin": origin, "message_zh": said.zh, "message_en": said.en}
