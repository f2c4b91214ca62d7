"""The few pages the server itself shows. No script, one style sheet, nothing from elsewhere."""

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import penstock
from penstock.api.pages import words
from penstock.kernel.errors import Language
from penstock.kernel.health import ComponentStatus, HealthStatus, Report
from penstock.kernel.identity import Caller

_CLASS: dict[str, str] = {
    HealthStatus.HEALTHY: "ok",
    HealthStatus.DEGRADED: "warn",
    HealthStatus.UNHEALTHY: "bad",
    ComponentStatus.OK: "ok",
    ComponentStatus.DOWN: "bad",
    ComponentStatus.CIRCUIT_OPEN: "warn",
}


@dataclass(frozen=True, slots=True)
class Scene:
    """What the start page tells of."""

    language: Language
    report: Report
    caller: Caller | None
    address: str
    grpc_address: str


@cache
def read(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


@cache
def security_policy() -> str:
    """Our own style sheet, by its hash, and nothing else at all."""
    digest = base64.b64encode(hashlib.sha256(read("style.css").encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:;"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def landing(scene: Scene) -> str:
    say = words.of(scene.language)
    other = Language.EN if scene.language is Language.ZH else Language.ZH
    return Template(read("landing.html")).substitute(
        lang=scene.language.value,
        other_lang=other.value,
        other_name="English" if other is Language.EN else "中文",
        style=read("style.css"),
        version=penstock.__version__,
        health_class=_CLASS[scene.report.status],
        health_word=say[scene.report.status],
        components=_components(scene.report, say),
        links=_links(scene, say),
        session=_session(scene, say),
        **{name: say[name] for name in ("lead", "health_title", "look_title", "session_title")},
    )


def notice(language: Language, error: dict[str, Any]) -> str:
    """A refusal, for someone who followed a link."""
    shown = {name: escape(str(error[name])) for name in ("code", "message", "remedy", "request_id")}
    return Template(read("notice.html")).substitute(lang=language.value, style=read("style.css"), **shown)


def _components(report: Report, say: words.Words) -> str:
    rows = []
    for name, found in report.components.items():
        state = _CLASS.get(found.status, "warn")
        text = say[found.status] + (f" · {escape(found.reason)}" if found.reason else "")
        rows.append(f'<li><span>{say.get(name, escape(name))}</span><span class="{state}">{text}</span></li>')
    return "".join(rows)


def _links(scene: Scene, say: words.Words) -> str:
    rows = [
        f'<li><a href="{path}">{path}</a><span>{say[path]}</span></li>'
        for path in ("/docs", "/openapi.json", "/health", "/metrics")
    ]
    return "".join([*rows, f"<li><code>{escape(scene.grpc_address)}</code><span>gRPC</span></li>"])


def _session(scene: Scene, say: words.Words) -> str:
    if scene.caller is not None:
        who = scene.caller
        name, merchant = escape(who.user_id), escape(who.merchant_id)
        return f"<p>{say['signed_in'].format(user=name, merchant=merchant, role=say[who.role])}</p>"
    command = (
        "TOKEN=$(penstock token --role uploader --merchant m-1 --user alice)\n"
        f'curl -H "Authorization: Bearer $TOKEN" {scene.address}/api/v1/me'
    )
    return f'<p class="soft">{say["signed_out"]}</p><pre>{escape(command)}</pre>'
