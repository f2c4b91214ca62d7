"""Rule 9: no secret in what is written down, no plain http by accident, no template beyond what is allowed."""

import re
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from penstock.harvest.compiling.problems import Case, Complaint, Found, Part, Rule
from penstock.harvest.compiling.templates import expressions, in_sections
from penstock.harvest.spec import Sections

_SECRET = re.compile(
    r"(?i)(^|[-_.])(api[-_]?key|apikey|(access|auth|api|secret|plus[-_]api|refresh|bearer)[-_]?token|secret|client[-_]?secret"
    r"|password|passwd|authorization|proxy-authorization|x-els-apikey|signature|private[-_]?key)$"
)


def _check(case: Case) -> Found:
    for part in case.parts:
        sections = part.sections
        for complaint in (*_addresses(sections), *_secrets(sections), *_templates(case, part)):
            yield part, complaint
        auth = sections.auth
        if auth.type == "CUSTOM" and not auth.signing_hook:
            yield part, Complaint("auth.signingHook", "CUSTOM 需要签名钩子", "CUSTOM needs the name of a signing hook")
        if auth.credential_ref and auth.credential_ref not in case.source.credentials:
            yield (
                part,
                Complaint(
                    "auth.credentialRef",
                    f"没有凭据 {auth.credential_ref}",
                    f"the source has no credential {auth.credential_ref}",
                ),
            )


def _addresses(sections: Sections) -> Iterator[Complaint]:
    http, oauth2 = sections.http, sections.auth.oauth2
    for key, address in (
        ("http.baseUrl", http.base_url),
        ("auth.oauth2.tokenUrl", oauth2.token_url if oauth2 else ""),
        ("pagination.initialUrl", sections.pagination.initial_url or ""),
        ("http.proxy", http.proxy or ""),
    ):
        if key != "http.proxy" and address.lower().startswith("http:") and not http.allow_http:
            yield Complaint(
                key, "必须使用 https（或写 http.allowHttp: true）", "must be https, unless http.allowHttp is set"
            )
        if _has_password(address):
            yield Complaint(key, "地址中不能有用户名或密码", "an address must not hold a name or password")


def _has_password(address: str) -> bool:
    try:
        return "@" in urlsplit(address).netloc
    except ValueError:
        return False  # not an address at all: said elsewhere


def _secrets(sections: Sections) -> Iterator[Complaint]:
    for key, name in _names(sections):
        if _SECRET.search(name):
            yield Complaint(
                key,
                "密钥只能通过 auth 与凭据提供，不能写在模板、参数或地址中",
                "a secret comes from a credential through auth, never from a template, parameter or address",
            )
    for key, text in in_sections(sections):
        if re.search(r"(?<![\w.])(credentials?|secrets?)\s*[.\[]", " ".join(_parts(text))):
            yield Complaint(key, "模板不能使用凭据", "a template cannot see credentials")


def _names(sections: Sections) -> Iterator[tuple[str, str]]:
    yield from ((key, key.rpartition("Template.")[2]) for key, _ in in_sections(sections) if "Template." in key)
    yield from ((f"params.{name}", name) for name in sections.params)
    yield from ((f"mapping.requestParams.{param.name}", param.name) for param in sections.mapping.request_params)
    for key, address in (
        ("http.baseUrl", sections.http.base_url),
        ("http.pathTemplate", sections.http.path_template),
        ("pagination.initialUrl", sections.pagination.initial_url or ""),
    ):
        yield from ((key, name) for name in re.findall(r"[?&]([^=&?]+)=", address))


def _parts(text: str) -> Sequence[str]:
    try:
        return expressions(text)
    except ValueError:
        return []  # said by _templates


def _templates(case: Case, part: Part) -> Iterator[Complaint]:
    allowed = part.sections.expr.allowed_functions
    for name in allowed:
        if name not in case.terms.functions:
            yield Complaint("expr.allowedFunctions", f"没有函数 {name}", f"there is no function {name}")
    for key, text in in_sections(part.sections):
        wrong = case.terms.check_template(text, allowed)
        if wrong is not None:
            yield Complaint(key, f"模板无效：{wrong}", f"the template is not valid: {wrong}")


SAFETY = Rule(9, "safety", "签名、凭据与模板安全", "secrets, addresses and templates are safe", _check)
