"""Who we are, put onto each request: keys, bearer tokens, OAuth2 client credentials, signatures of a plug-in.

A source whose credential is refused is an error; nobody is asked anonymously instead. Only where a source says that it
answers strangers too (`required` is false), and the place its key is read from is empty, are we strangers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any

import structlog

from penstock.harvest.calling.credentials import Credentials, Secret
from penstock.harvest.calling.oauth import Tokens
from penstock.harvest.calling.request import Request
from penstock.harvest.calling.transport import Additions, Transport
from penstock.harvest.spec import Auth, Sections
from penstock.kernel import error_codes
from penstock.kernel.clock import Clock
from penstock.kernel.errors import PenstockError

SIGNING = "penstock.harvest.signing"
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What a signing hook sees of a request: exactly what will be sent, but for its own additions."""

    method: str
    url: str  # with its query
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a signing hook adds."""

    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)


SigningHook = Callable[[Outgoing, Callable[[str], str]], Signature]  # the second: a secret of the credential, by name


class Authenticator:
    """One per process."""

    def __init__(self, credentials: Credentials, transport: Transport, clock: Clock | None = None) -> None:
        self._credentials = credentials
        self._tokens = Tokens(transport, clock)
        self._hooks: dict[str, SigningHook] = {}
        self._strangers: dict[tuple[str, str], str] = {}  # where their secret should have been

    async def additions(self, source: str, sections: Sections, request: Request) -> Additions:
        """CREDENTIAL_MISSING, SOURCE_AUTH_FAILED; SOURCE_UNAVAILABLE when a token endpoint does not answer."""
        auth = sections.auth
        if auth.type == "NONE":
            return Additions()
        secret = await self._secret(source, auth)
        if secret is None:
            return Additions()
        if auth.type == "CUSTOM":
            return self._signed(auth, request, secret)
        if auth.type == "OAUTH2":
            token = await self._tokens.token(source, sections, secret)
            return _placed(auth, token, "Bearer ", (token, *secret.values()))
        return _placed(auth, secret.alone, "Bearer " if auth.type == "BEARER" else "", secret.values())

    async def ready(self, source: str, sections: Sections) -> None:
        """Secrets and tokens are fetched before a permit is asked for, so that the request follows it at once."""
        auth = sections.auth
        secret = None if auth.type == "NONE" else await self._secret(source, auth)
        if secret is not None and auth.type == "OAUTH2":
            await self._tokens.token(source, sections, secret)

    def refused(self, source: str, auth: Auth, used: Additions) -> bool:
        """After a 401: what we know is forgotten. True when another try can go better."""
        if auth.credential_ref is None or not used.secrets:
            return False
        self._credentials.forget(source, auth.credential_ref)
        self._tokens.forget(source, auth.credential_ref, used.secrets[0])
        return auth.oauth2 is None or auth.oauth2.refresh

    def missed(self, source: str, auth: Auth, used: Additions) -> str | None:
        """Where the secret should have been that a request went without."""
        if auth.type == "NONE" or auth.credential_ref is None or used.secrets:
            return None
        return self._strangers.get((source, auth.credential_ref))

    async def _secret(self, source: str, auth: Auth) -> Secret | None:
        may_go_without = not auth.required and auth.type in {"API_KEY", "BEARER"}
        if auth.credential_ref is None:
            if may_go_without:
                return None
            raise PenstockError(error_codes.CREDENTIAL_MISSING, reference="auth.credentialRef", reason="it is not set")
        try:
            return await self._credentials.secret(source, auth.credential_ref)
        except PenstockError as missing:
            if missing.code is not error_codes.CREDENTIAL_MISSING or not may_go_without:
                raise
            if (source, auth.credential_ref) not in self._strangers:
                reference = str(missing.details.get("reference"))
                self._strangers[source, auth.credential_ref] = reference
                log.warning("credential.not_set", source=source, reference=reference)
            return None

    def _signed(self, auth: Auth, request: Request, secret: Secret) -> Additions:
        hook = self._hook(auth.signing_hook or "")
        outgoing = Outgoing(request.method, request.address(), dict(request.headers), request.content()[0] or b"")
        try:
            signature = hook(outgoing, secret.__getitem__)
            headers = {str(name): str(value) for name, value in signature.headers.items()}
            query = {str(name): str(value) for name, value in signature.query.items()}
        except Exception as failure:  # noqa: BLE001  foreign code; its message may hold the secret
            raise _failed("SIGNING_FAILED", hook=auth.signing_hook, error=type(failure).__name__) from None
        for name, value in headers.items():
            _check_header(name, value)
        return Additions(headers, query, {}, (*secret.values(), *headers.values(), *query.values()))

    def _hook(self, name: str) -> SigningHook:
        if name not in self._hooks:
            found = tuple(entry_points(group=SIGNING, name=name))
            if not found:
                raise _failed("NO_SUCH_SIGNING_HOOK", hook=name)
            try:
                self._hooks[name] = found[0].load()
            except Exception as failure:  # noqa: BLE001  foreign code
                raise _failed("SIGNING_HOOK_BROKEN", hook=name, error=type(failure).__name__) from None
        return self._hooks[name]


def _placed(auth: Auth, value: str, prefix: str, secrets: tuple[str, ...]) -> Additions:
    shown = f"{auth.prefix or prefix}{value}"
    if auth.location == "QUERY":
        return Additions(query={auth.name or "api_key": shown}, secrets=secrets)
    if auth.location == "BODY":
        return Additions(fields={auth.name or "api_key": shown}, secrets=secrets)
    name = auth.name or ("X-Api-Key" if auth.type == "API_KEY" else "Authorization")
    _check_header(name, shown)
    return Additions(headers={name: shown}, secrets=secrets)


def _check_header(name: str, value: str) -> None:
    if not (name + value).isprintable() or not value.isascii():
        raise _failed("CREDENTIAL_NOT_SENDABLE", header=name if name.isprintable() else "?")


def _failed(reason: str, **details: Any) -> PenstockError:
    return PenstockError(error_codes.SOURCE_AUTH_FAILED, reason=reason, **details)
