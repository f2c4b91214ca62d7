"""Plain HTTP to a bucket, for whichever way its bytes go. Addresses open what they name to whoever has them: no error,
and nothing that is shown, tells more of one than its host.
"""

from collections.abc import Mapping

import httpx

from penstock.cli.remote import Away, Refused
from penstock.cli.screen import Refusal
from penstock.kernel.errors import Sentence

_TIMEOUT = httpx.Timeout(60.0, connect=10.0)
_PASSING = frozenset({408, 429, 500, 502, 503, 504})


class SessionGone(Exception):
    """The bucket knows the session no longer: a new one must be begun."""


class BucketAway(Away):
    """The bucket does not answer; Penstock may."""

    who = Sentence(en="the bucket", zh="存储桶")

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(host, reason)
        self.sentence = Sentence(
            en=f"The bucket at {host} does not answer ({reason}).", zh=f"存储桶 {host} 没有应答（{reason}）。"
        )


class BucketWire:
    """What passes by itself is an `Away` or a `Refused`; any other answer is for the caller to read."""

    def __init__(self, *, here: bool) -> None:
        self._client = httpx.Client(timeout=_TIMEOUT, trust_env=not here, follow_redirects=False)

    def close(self) -> None:
        self._client.close()

    def ask(self, method: str, address: str, headers: Mapping[str, str], content: bytes = b"") -> httpx.Response:
        try:
            answer = self._client.request(method, address, headers=dict(headers), content=content)
        except httpx.TransportError as failure:
            raise BucketAway(_host(address), type(failure).__name__) from None
        if answer.status_code in _PASSING:
            raise Refused(answer.status_code, {})
        return answer


def refusal(status: int) -> Refusal:
    return Refusal(f"The bucket refuses the file ({status}).", f"存储桶拒绝了该文件（{status}）。")


def standstill(status: int | None) -> Refusal:
    return Refusal(
        f"The bucket takes nothing more of the file (it answers {status}).",
        f"存储桶不再接收该文件的数据（应答 {status}）。",
    )


def shorter() -> Refusal:
    return Refusal("The file has become shorter while it was sent.", "文件在上传过程中变短了。")


def _host(address: str) -> str:
    """The rest of the address is a secret."""
    url = httpx.URL(address)
    return f"{url.scheme}://{url.netloc.decode()}"
