"""No secret in a source file: files are shared, versioned and shown. What looks like one is refused, never repeated.

Looked at: the places where credentials say where their secret is, templates and parameters with a name that is known
to carry secrets, and addresses with a password or such a parameter in them.
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from penstock.harvest.registry.walking import Path, all_sections, entries, groups
from penstock.kernel.errors import Sentence
from penstock.kernel.yaml_text import Text

_NAMES = frozenset({
    "apikey", "xapikey", "authorization", "proxyauthorization", "accesstoken", "authtoken", "xauthtoken", "bearertoken",
    "refreshtoken", "secret", "clientsecret", "secretkey", "privatekey", "password", "passwd", "cookie", "xelsapikey",
    "subscriptionkey", "ocpapimsubscriptionkey",
})  # fmt: skip
_TEMPLATES = (("http", "headersTemplate"), ("http", "queryTemplate"), ("http", "bodyTemplate"),
              ("count", "queryTemplate"), ("params",))  # fmt: skip
_ADDRESSES = (("http", "baseUrl"), ("http", "pathTemplate"), ("http", "proxy"), ("pagination", "initialUrl"))

_IN_CREDENTIAL = Sentence(
    "密钥不得写在文件里：请写 secret: {env: 变量名}、{file: 路径} 或 {store: 名称}",
    "a secret must not be in the file: write secret: {env: NAME}, {file: PATH} or {store: NAME}",
)
_IN_TEMPLATE = Sentence(
    "这里像是直接写了密钥：请在 credentials 中登记其所在之处，并用 auth.credentialRef、auth.location 与 auth.name 发送",
    "this looks like a secret: say under credentials where it is kept, and let auth.credentialRef, auth.location and"
    " auth.name send it",
)
_IN_ADDRESS = Sentence(
    "地址中不得含有密码或密钥：请在 credentials 中登记，并由 auth 发送",
    "an address must not hold a password or a key: name it under credentials and let auth send it",
)


def check(text: Text) -> None:
    for path, credential in groups(text.values, "credentials"):
        for key in ("secret", "clientId"):
            if isinstance(credential.get(key), str | int | float):
                text.report((*path, key), "secret.literal", _IN_CREDENTIAL)
    for path, sections in all_sections(text.values):
        for where in _literals(sections):
            text.report((*path, *where), "secret.literal", _IN_TEMPLATE)
        for where, address in _addresses(sections):
            if _holds_secret(address):
                text.report((*path, *where), "secret.address", _IN_ADDRESS)


def _literals(sections: dict[str, Any]) -> Iterator[Path]:
    for place in _TEMPLATES:
        for where, value in entries(sections, *place):
            if is_secret_name(str(where[-1])) and _is_literal(value):
                yield where
    for where, param in groups(sections, "mapping", "requestParams"):
        for key in ("default", "expr"):
            if is_secret_name(str(param.get("name"))) and _is_literal(param.get(key)):
                yield (*where, key)


def _addresses(sections: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    for section, key in _ADDRESSES:
        for where, value in entries(sections, section):
            if where[-1] == key and isinstance(value, str):
                yield where, value
    for where, value in entries(sections, "auth", "oauth2"):
        if where[-1] == "tokenUrl" and isinstance(value, str):
            yield where, value


def is_secret_name(name: str) -> bool:
    return name.replace("-", "").replace("_", "").lower() in _NAMES


def _is_literal(value: Any) -> bool:
    return isinstance(value, str | int | float) and value != "" and "${" not in str(value)


def _holds_secret(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    named = any(is_secret_name(name) and _is_literal(value) for name, value in parse_qsl(parts.query))
    is_bare = not parts.netloc and re.match(r"[^/?#]*:[^/?#]*@", address) is not None  # user:password@host
    return parts.password is not None or is_bare or named
