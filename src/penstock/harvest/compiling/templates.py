"""The `${…}` in templates, found; whether one can be compiled is asked of CEL."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from penstock.harvest import cel, cel_tokens
from penstock.harvest.spec import Sections

TemplateCheck = Callable[[str, Sequence[str]], str | None]  # text, allowed functions -> what is wrong with it


@lru_cache(maxsize=4096)  # several rules ask, of each endpoint
def expressions(text: str) -> tuple[str, ...]:
    """What stands between `${` and its own `}`. ValueError when one is not closed, or holds what no template may."""
    found = []
    text = text.replace("$${", "   ")  # how to write `${` itself
    start = text.find("${")
    while start >= 0:
        try:
            _, end = cel_tokens.read(text, start + 2)
        except cel_tokens.Unfit as unfit:
            raise ValueError(str(unfit)) from None
        found.append(text[start + 2 : end])
        start = text.find("${", end)
    return tuple(found)


def compiles(text: str, _allowed: Sequence[str]) -> str | None:
    """The least that can be asked of a template."""
    try:
        for expression in expressions(text):
            cel.compile(expression)
    except ValueError as wrong:
        return str(wrong).splitlines()[0].partition(" expecting {")[0]  # CEL lists every token there is
    return None


def in_sections(sections: Sections) -> Iterator[tuple[str, str]]:
    """Every template, with the key that it stands at."""
    http = sections.http
    yield "http.pathTemplate", http.path_template
    for name, template in (
        ("http.headersTemplate", http.headers_template),
        ("http.queryTemplate", http.query_template),
        ("http.bodyTemplate", http.body_template),
        ("count.queryTemplate", sections.count.query_template if sections.count else {}),
    ):
        yield from ((f"{name}.{key}", text) for key, text in template.items())
    for param in sections.mapping.request_params:
        if param.expr is not None:
            yield f"mapping.requestParams.{param.name}", param.expr


def mention(sections: Sections, *names: str) -> bool:
    """Does any template speak of one of these variables?"""
    word = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, names))})(?!\w)")
    return any(word.search(part) for _, text in in_sections(sections) for part in _readable(text))


def _readable(text: str) -> Sequence[str]:
    try:
        return expressions(text)
    except ValueError:
        return [text]
