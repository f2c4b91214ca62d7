"""A plain JSON source with every kind of pagination and every kind of sign-in, chosen by the address.

    /{who}/{kind}           who: none header query body bearer oauth2 signed
                            kind: offset page0 page1 token url time
    /{who}/ids/{kind}       the same, as a list of ids
    /{who}/details          by ids: ?ids=a,b, a form field or {"ids": [...]}
    /{who}/items/{id}       one

`from` and `to` bound `updated`, half open; `limit` is the page size, 1,000 at the most.
"""

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Sequence
from datetime import datetime, timedelta

from tests.standins.library import Entry
from tests.standins.limits import Stretch
from tests.standins.standin import KEY, Standin
from tests.standins.times import FOREVER, NoDate, reach
from tests.standins.tokens import DeadToken, Tokens
from tests.standins.wire import Request, Response, as_json

CLIENT_ID, CLIENT_SECRET = "standin-client", "standin-secret"
MAX_SIZE = 1000
SIGNED_FOR = 300


class Refused(Exception):
    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status


def signature(secret: str, method: str, target: str, timestamp: str) -> str:
    """What a signed request carries in X-Signature; X-Timestamp holds the seconds since 1970."""
    return hmac.new(secret.encode(), f"{method}\n{target}\n{timestamp}".encode(), hashlib.sha256).hexdigest()


class Generic(Standin):
    name = "generic"
    precision = timedelta(microseconds=1)
    token_ttl: float | None = None
    access_ttl = 3600.0
    names_total_once = False  # on the first page alone
    claims = 0  # so many more in every total than there are
    serves_at_most: int | None = None  # of one list, whatever its total says; nowhere written down

    def __init__(self, *args, **options) -> None:
        super().__init__(*args, **options)
        self.tokens = Tokens(self.token_ttl, self.moment)
        self.limit = Stretch(self.options.rate) if self.options.rate else None
        self.access: dict[str, float] = {}  # token → when it ends
        self.tokens_issued = 0

    def id_of(self, number: int) -> str:
        return f"r-{number:07d}"

    def number_of(self, provider_id: str) -> int | None:
        digits = provider_id.removeprefix("r-")
        return int(digits) if digits.isdigit() and digits != provider_id else None

    def admits(self, request: Request) -> bool:
        return self.limit is None or self.limit.admits(self.moment())

    def too_many(self, request: Request) -> Response:
        return as_json({"error": "too many requests"}, 429, **{"Retry-After": "1"})

    def decorate(self, request: Request, response: Response) -> None:
        if self.limit:
            response.headers["X-RateLimit-Limit"] = str(self.limit.limit)

    def revoke(self) -> None:
        """Access tokens given out so far are worth nothing any more."""
        self.access.clear()

    def answer(self, request: Request) -> Response:
        try:
            if request.path == "/oauth2/token":
                return self._grant(request)
            _, who, *rest = request.path.split("/")
            self._check(who, request)
            return self._routed(who, rest, request)
        except Refused as refusal:
            return as_json({"error": str(refusal)}, refusal.status)
        except NoDate as failure:
            return as_json({"error": f"{failure} is no date"}, 400)

    def _routed(self, who: str, rest: list[str], request: Request) -> Response:
        match rest:
            case ["items", ident]:
                if entry := self.held(ident):
                    return Response(200, self.encoded(entry))
                raise Refused(404, "no such record")
            case ["details"]:
                return self._details(request)
            case ["ids", kind]:
                return self._page(f"/{who}/ids/{kind}", kind, _fields(request), ids=True)
            case [kind]:
                return self._page(f"/{who}/{kind}", kind, _fields(request), ids=False)
        raise Refused(404, "no such address")

    def _page(self, path: str, kind: str, asked: dict[str, str], *, ids: bool) -> Response:
        entries = self._found(asked)
        size = _whole(asked, "limit", 100)
        if not 1 <= size <= MAX_SIZE:
            raise Refused(400, f"limit must be from 1 to {MAX_SIZE}")
        start = self._start(kind, asked, size, entries)
        cut = self.cut(entries[: self.serves_at_most], start, size)
        token = link = None
        more = cut.next_start < len(entries[: self.serves_at_most])
        if kind in ("token", "url") and more and cut.last:
            token = self.tokens.make(stamp=cut.last.updated, number=cut.last.number)
            bounds = "".join(f"&{name}={asked[name].replace('+', '%2B')}" for name in ("from", "to") if name in asked)
            link = f"{self.url}{path}?token={token}&limit={size}{bounds}"
        total = cut.total if self.serves_at_most is None else len(entries)
        answer = {"total": total + self.claims, "has_more": more}
        if self.names_total_once and start:
            del answer["total"]
        if kind == "token":
            answer["next"] = token
        elif kind == "url":
            answer["next_url"] = link
        items = b",".join(
            json.dumps(self.id_of(entry.number)).encode() if ids else self.encoded(entry) for entry in cut.items
        )
        body = json.dumps(answer)[:-1].encode() + b',"items":[' + items + b"]}"
        key = "|".join((path, asked.get("from", ""), asked.get("to", ""), str(start), str(size)))
        return Response(200, body, page_key=key)

    def _start(self, kind: str, asked: dict[str, str], size: int, entries: Sequence[Entry]) -> int:
        if kind == "offset":
            return _whole(asked, "offset", 0)
        if kind in ("page0", "page1"):
            base = int(kind[-1])
            number = _whole(asked, "page", base)
            if number < base:
                raise Refused(400, f"pages are counted from {base}")
            return (number - base) * size
        if kind in ("token", "url"):
            token = asked.get("token") or "*"
            try:
                state = None if token == "*" else self.tokens.read(token)
            except DeadToken:
                raise Refused(400, "the token is unknown or too old") from None
            return self.after(entries, datetime.fromisoformat(state["stamp"]), state["number"]) if state else 0
        if kind == "time":
            if not {"from", "to"} <= set(asked):
                raise Refused(400, "from and to are required")
            return 0
        raise Refused(404, f"there is no pagination {kind}")

    def _found(self, asked: dict[str, str]) -> Sequence[Entry]:
        first = reach(asked["from"])[0] if asked.get("from") else FOREVER[0]
        end = reach(asked["to"])[0] if asked.get("to") else FOREVER[1]
        return self.window("updated", first, end, asked.get("q", ""))

    def _details(self, request: Request) -> Response:
        named = _fields(request).get("ids", "")
        ids = named if isinstance(named, list) else [one for one in named.split(",") if one]
        found = [entry for one in dict.fromkeys(ids) if (entry := self.held(one))]
        body = b'{"items":[' + b",".join(map(self.encoded, found)) + b"]}"
        return Response(200, body, page_key=f"details|{ids[0] if ids else ''}|{len(ids)}")

    def _check(self, who: str, request: Request) -> None:
        carried = request.headers.get("authorization", "")
        if who == "none":
            return
        known = {
            "header": lambda: request.headers.get("x-api-key") == KEY,
            "query": lambda: request.query.get("api_key") == KEY,
            "body": lambda: request.method == "POST" and _fields(request, query=False).get("api_key") == KEY,
            "bearer": lambda: carried == f"Bearer {KEY}",
            "oauth2": lambda: self.access.get(carried.removeprefix("Bearer "), 0) > self.moment(),
            "signed": lambda: _is_signed(request),
        }
        if who not in known:
            raise Refused(404, "no such address")
        if not known[who]():
            raise Refused(401, "not signed in")

    def _grant(self, request: Request) -> Response:
        asked = request.form
        who = (asked.get("client_id"), asked.get("client_secret"))
        basic = request.headers.get("authorization", "")
        if basic.startswith("Basic "):
            ident, _, secret = base64.b64decode(basic.removeprefix("Basic ")).decode().partition(":")
            who = (ident, secret)
        if request.method != "POST" or asked.get("grant_type") != "client_credentials":
            return as_json({"error": "unsupported_grant_type"}, 400)
        if who != (CLIENT_ID, CLIENT_SECRET):
            return as_json({"error": "invalid_client"}, 401)
        token = secrets.token_urlsafe(16)
        self.access[token] = self.moment() + self.access_ttl
        self.tokens_issued += 1
        return as_json({"access_token": token, "token_type": "Bearer", "expires_in": int(self.access_ttl)})

    def encode(self, entry: Entry) -> bytes:
        record = {
            "id": self.id_of(entry.number),
            "updated": f"{entry.updated:%Y-%m-%dT%H:%M:%S.%fZ}",
            "created": f"{entry.created:%Y-%m-%dT%H:%M:%S.%fZ}",
            "version": entry.version,
            "deleted": entry.is_deleted,
            "subject": entry.subject,
            "title": f"Record {entry.number} <i>in vitro</i> & in print",
            "text": self.filler(entry),
        }
        return json.dumps(record, separators=(",", ":")).encode()


def _is_signed(request: Request) -> bool:
    stamp = request.headers.get("x-timestamp", "")
    if not stamp.isdigit() or abs(time.time() - int(stamp)) > SIGNED_FOR:
        return False
    wanted = signature(CLIENT_SECRET, request.method, request.target, stamp)
    return hmac.compare_digest(wanted, request.headers.get("x-signature", ""))


def _fields(request: Request, *, query: bool = True) -> dict:
    fields: dict = request.query if query else {}
    if request.method == "POST":
        if "json" in request.headers.get("content-type", ""):
            fields |= request.json() or {}
        else:
            form = request.form
            fields |= form if query else {name: form[name] for name in form if name not in request.query}
    return fields


def _whole(asked: dict[str, str], name: str, default: int) -> int:
    text = str(asked.get(name, default))
    if not text.isdigit():
        raise Refused(400, f"{name} must be a whole number")
    return int(text)
