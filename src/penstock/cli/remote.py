"""A running server, as commands talk to it: every trouble is an `Away` or a `Refused`, which say what to do.

Patience is for trouble that passes: a server that is killed and started again, a network that drops. It is
bounded, and begins anew whenever something has gone well.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urljoin

import httpx

from penstock.cli.screen import Refusal, language, text
from penstock.kernel import json
from penstock.kernel.backoff import exponential
from penstock.kernel.error_codes import REGISTRY
from penstock.kernel.errors import Language, Sentence

_PASSING = frozenset({408, 423, 425, 429, 460, 500, 502, 503, 504})  # where no code says more
_LONGEST_WAIT = 5.0
_TIMEOUT = httpx.Timeout(30.0, connect=10.0)
T = TypeVar("T")


class Away(Refusal):
    """The server does not answer."""

    who = Sentence(en="the server", zh="服务器")

    def __init__(self, address: str, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"{address} does not answer ({reason}). Is `penstock up` running here? If the server is elsewhere, name it"
            " with --server or PENSTOCK_SERVER.",
            f"{address} 没有应答（{reason}）。本机是否已运行 penstock up？若服务在别处，"
            "请用 --server 或 PENSTOCK_SERVER 指定。",
        )


class NotOurs(Refusal):
    """Something answers, but not as Penstock does."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"{address} does not answer as Penstock does. Is it the right address?",
            f"{address} 的应答不像 Penstock 的。地址是否正确？",
        )


class Refused(Refusal):
    """The server answered, and the answer is no."""

    def __init__(self, status: int, body: Mapping[str, Any], retry_after: float = 0.0) -> None:
        self.status = status
        self.code = str(body.get("code") or "")
        self.details: Mapping[str, Any] = body.get("details") or {}
        self.message = str(body.get("message") or text(f"The server answered {status}", f"服务器返回 {status}"))
        self.remedy = str(body.get("remedy") or "")
        self.retry_after = retry_after
        row = REGISTRY.get(self.code)
        self.passes = row.retryable if row else status in _PASSING
        named = f" ({self.code}{_shown(self.details)})" if self.code else ""
        said = f"{self.message}{named}. {self.remedy}".rstrip(". ") + text(".", "。")
        super().__init__(said, said)


@dataclass(frozen=True, slots=True)
class Token:
    """Who we are. `current` is called for every request, as a long upload outlives its first token."""

    current: Callable[[], str]
    made_here: bool

    def refused(self, refused: Refused) -> Refused:
        """Whose fault it is depends on where the token came from."""
        refused.sentence = Sentence(
            en=f"The server does not take the token ({refused.code or 401}): it has expired, or is meant for another"
            " server. Name a new one with --token-file or PENSTOCK_TOKEN.",
            zh=f"服务器不接受该令牌（{refused.code or 401}）：已过期，或属于其他服务器。"
            "请用 --token-file 或 PENSTOCK_TOKEN 指定新令牌。",
        )
        if self.made_here:
            refused.sentence = Sentence(
                en=f"The server does not take a token made here ({refused.code or 401}): it has another secret. Name"
                " its data directory with --data, or a token with --token-file.",
                zh=f"服务器不接受本机生成的令牌（{refused.code or 401}）：两者密钥不同。"
                "请用 --data 指定其数据目录，或用 --token-file 指定令牌。",
            )
        return refused


class Remote:
    """One server, asked as one caller."""

    def __init__(self, address: str, token: Token, *, here: bool) -> None:
        self.address, self.is_here = address, here
        self._token = token
        # What is on this machine is never asked through a proxy.
        self._client = httpx.Client(timeout=_TIMEOUT, trust_env=not here, follow_redirects=False)

    def close(self) -> None:
        self._client.close()

    def get(self, path: str, **parameters: Any) -> Any:
        wanted = {name: value for name, value in parameters.items() if value not in (None, [], ())}
        return self._json(self.send("GET", path, params=wanted))

    def post(
        self, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None, seconds: float = 30
    ) -> Any:
        content = json.dump_bytes({} if body is None else body)
        given = {"Content-Type": "application/json", **(headers or {})}
        answer = self.send("POST", path, headers=given, content=content, timeout=httpx.Timeout(seconds, connect=10))
        return self._json(answer)

    def send(self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> httpx.Response:
        """The answer, if it is not a refusal. `path` may be a whole address that the server gave us."""
        try:
            answer = self._client.request(method, urljoin(self.address, path), headers=self._headers(headers), **more)
        except (httpx.TransportError, httpx.InvalidURL) as failure:
            raise self._away(failure) from failure
        if answer.status_code >= 300:
            raise self._refused(answer)
        return answer

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str], silence: float) -> Iterator[tuple[int, Iterable[bytes]]]:
        """Status and bytes of an answer that goes on; after `silence` seconds without any it is given up."""
        timeout = httpx.Timeout(_TIMEOUT.connect, read=silence)
        try:
            with self._client.stream(
                "GET", urljoin(self.address, path), headers=self._headers(headers), timeout=timeout
            ) as answer:
                if answer.status_code >= 300:
                    answer.read()
                    raise self._refused(answer)
                yield answer.status_code, answer.iter_bytes()
        except httpx.TransportError as failure:
            raise self._away(failure) from failure

    def _headers(self, more: Mapping[str, str] | None) -> dict[str, str]:
        spoken = "zh-CN" if language() is Language.ZH else "en"
        token = self._token.current()
        known = {"Authorization": f"Bearer {token}"} if token else {}
        return {"Accept-Language": spoken, **known, **(more or {})}

    def _json(self, answer: httpx.Response) -> Any:
        try:
            return json.loads(answer.content)
        except ValueError as strange:
            raise NotOurs(self.address) from strange

    def _refused(self, answer: httpx.Response) -> Refused:
        try:
            body = json.loads(answer.content)
        except ValueError:  # an answer to HEAD, or a proxy's page
            body = {}
        asked = answer.headers.get("retry-after", "")
        wait = float(asked) if asked.isdecimal() else 0.0
        refused = Refused(answer.status_code, body if isinstance(body, dict) else {}, wait)
        return self._token.refused(refused) if refused.status == 401 else refused

    def _away(self, failure: Exception) -> Away:
        return Away(self.address, str(failure) or type(failure).__name__)


class Patience:
    """Waits for what passes by itself, not longer than `seconds` after the last success; `tell` says what for."""

    def __init__(self, seconds: float, tell: Callable[[Refusal, float], None]) -> None:
        self._seconds = seconds
        self._tell = tell
        self.rest()

    def another(self) -> "Patience":
        """As long, for something that fails by itself."""
        return Patience(self._seconds, self._tell)

    def rest(self) -> None:
        """Something went well: whatever comes next is a new trouble."""
        self._attempt = 0
        self._until: float | None = None

    def wait(self, failure: Refusal) -> None:
        """Sleep before the next try; raise the failure when it does not pass, or has lasted too long."""
        passes = isinstance(failure, Away) or (isinstance(failure, Refused) and failure.passes)
        now = time.monotonic()
        self._until = self._until or now + self._seconds
        if not passes or now >= self._until:
            raise failure
        self._attempt += 1
        pause = exponential(self._attempt, first=0.25, most=_LONGEST_WAIT)
        if isinstance(failure, Refused):
            pause = max(pause, min(failure.retry_after, 60.0))
        self._tell(failure, self._until - now)
        time.sleep(max(0.0, min(pause, self._until - now)))

    def over(self, attempt: Callable[[], T]) -> T:
        """Try until it goes well."""
        while True:
            try:
                found = attempt()
            except (Away, Refused) as failure:
                self.wait(failure)
            else:
                self.rest()
                return found


def _shown(details: Mapping[str, Any]) -> str:
    plain = {key: value for key, value in details.items() if isinstance(value, str | int | float)}
    fields = details.get("fields")
    wrong = [f" {name}: {said}" for name, said in fields.items()] if isinstance(fields, dict) else []
    return "".join([*(f" {key}={value}" for key, value in plain.items()), *wrong])
