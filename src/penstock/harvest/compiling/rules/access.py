"""Rule 1: a request says who we are in the way that the endpoint wants, and can be sent at all."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from penstock.harvest.compiling.problems import Case, Complaint, Found, Rule
from penstock.harvest.spec import Auth, Http, Sections


def _check(case: Case) -> Found:
    for part in case.parts:
        for complaint in (*_auth(part.sections.auth, part.sections.http.method), *_http(part.sections)):
            yield part, complaint
        credential = case.source.credentials.get(part.sections.auth.credential_ref or "")
        kind = getattr(credential, "type", None)
        if kind is not None and kind != part.sections.auth.type:
            yield (
                part,
                Complaint(
                    "auth.credentialRef",
                    f"凭据类型是 {kind}，而鉴权类型是 {part.sections.auth.type}",
                    f"the credential is for {kind}, the endpoint asks for {part.sections.auth.type}",
                ),
            )


def _auth(auth: Auth, method: str) -> Iterator[Complaint]:
    if auth.required and auth.type == "NONE":
        yield Complaint("auth.type", "端点要求鉴权，不能匿名访问", "the endpoint does not answer to strangers")
    if auth.type in {"API_KEY", "BEARER", "OAUTH2"} and not auth.credential_ref:
        yield Complaint("auth.credentialRef", f"{auth.type} 需要凭据引用", f"{auth.type} needs a credential")
    if auth.type == "API_KEY" and not auth.name:
        yield Complaint(
            "auth.name", "API_KEY 需要参数或请求头的名称", "API_KEY needs the name of its header or parameter"
        )
    if auth.type == "OAUTH2" and (auth.oauth2 is None or not auth.oauth2.token_url):
        yield Complaint("auth.oauth2.tokenUrl", "OAUTH2 需要 tokenUrl", "OAUTH2 needs tokenUrl")
    if auth.type != "NONE" and auth.location == "BODY" and method == "GET":
        yield Complaint("auth.location", "GET 请求没有请求体可放凭据", "a GET has no body to put the credential in")


def _http(sections: Sections) -> Iterator[Complaint]:
    http = sections.http
    yield from _address(http)
    if http.method == "GET" and http.body_template:
        yield Complaint("http.bodyTemplate", "GET 请求不能有请求体", "a GET has no body")
    if http.method != "GET" and http.follow_redirects:
        yield Complaint("http.followRedirects", "只有 GET 可以跟随重定向", "only a GET may follow redirects")
    for param in sections.mapping.request_params:
        if param.location == "BODY" and http.method == "GET":
            yield Complaint(
                f"mapping.requestParams.{param.name}",
                "GET 请求不能有请求体参数",
                "a GET has no body for this parameter",
            )


def _address(http: Http) -> Iterator[Complaint]:
    if not http.base_url:
        yield Complaint("http.baseUrl", "缺少基础地址", "an address is needed")
    elif not _is_whole(http.base_url):
        yield Complaint("http.baseUrl", "不是完整的 https 地址", "not a whole address such as https://api.example.org")
    elif "${" in http.base_url or "#" in http.base_url:
        yield Complaint(
            "http.baseUrl",
            "按原样发送，不能有 ${…} 或 #：请用 pathTemplate 或 queryTemplate",
            "is sent as it is, without ${…} and #: use pathTemplate or queryTemplate",
        )
    if http.proxy is not None and not _is_whole(http.proxy):
        yield Complaint(
            "http.proxy", "不是完整的代理地址", "not a whole address of a proxy such as http://proxy.example.org:3128"
        )


def _is_whole(address: str) -> bool:
    if any(letter <= " " or letter == "\x7f" for letter in address):
        return False
    try:
        parts = urlsplit(address)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


ACCESS = Rule(
    1, "access", "鉴权类型与端点要求一致", "the endpoint gets the credentials and the request it wants", _check
)
