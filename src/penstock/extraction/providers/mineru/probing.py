"""Which of MinerU's contracts a server speaks. The hosted service is known by its address; others are asked."""

from urllib.parse import urlsplit

from penstock.extraction.providers.mineru.families.hosted import Hosted
from penstock.extraction.providers.mineru.families.v2 import Version2
from penstock.extraction.providers.mineru.families.v3 import Version3
from penstock.extraction.providers.mineru.families.v4 import Version4
from penstock.extraction.providers.mineru.family import Family
from penstock.extraction.providers.mineru.refusals import not_let_in, not_understood, unavailable
from penstock.extraction.providers.mineru.settings import MineruSettings
from penstock.extraction.providers.mineru.web import Answer, Web

_PROTOCOL = 2
_ABSENT = {"detail": "Not Found"}  # what these servers say of an address they do not have


def is_hosted(settings: MineruSettings) -> bool:
    return "/api/v4" in urlsplit(settings.base_url).path


async def probe(web: Web, settings: MineruSettings) -> Family:
    """OCR_UNAVAILABLE while the server is not up; OCR_ANSWER_INVALID when it is something else."""
    if is_hosted(settings):
        return Hosted(web, settings)
    root = settings.base_url.removesuffix("/v1")
    newest = await web.ask("GET", f"{root}/v1/health")
    _raise_if_away(newest)
    if newest.status == 200 and newest["status"] == "ok" and isinstance(newest["version"], str):
        return Version4(web, settings, root, web.hushed(newest["version"]))
    newer = await web.ask("GET", f"{root}/health")
    _raise_if_away(newer)
    if newer.status == 200 and newer["protocol_version"] is not None:
        if newer["protocol_version"] != _PROTOCOL:
            raise not_understood("PROTOCOL_UNKNOWN", protocol_version=web.hushed(newer["protocol_version"]))
        return Version3(web, settings, root, web.hushed(newer["version"]))
    if newest.body == newer.body == _ABSENT:
        return Version2(web, settings, root)
    raise not_understood("NOT_MINERU", upstream_code=newer.status)


def _raise_if_away(answer: Answer) -> None:
    if answer.status in {401, 403}:
        raise not_let_in(answer.status)
    if answer.status == 429 or answer.status >= 500:
        raise unavailable("NOT_READY", upstream_code=answer.status)
