"""Scripts in XFA, the XML that a form may carry beside its fields.

The XML is parsed, and elements are judged by their names without the prefix. XML that cannot be parsed could hide
anything, and is refused; so is XML that declares entities. Nothing is ever fetched or expanded.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, product
from typing import TypeVar
from xml.parsers import expat

from penstock.pdf import codes
from penstock.pdf.inflating import decodings_of
from penstock.pdf.syntax import Name, Stream, Value

_READ_AT_MOST = 64 << 20
_MOST_WAYS = 16
_SCRIPT = "script"
_SUBMIT = "submit"
_CONNECTIONS = {"wsdlconnection", "xmlconnection", "xsdconnection"}
_ELEMENT = re.compile(
    r"<\s*(?:[^\s<>/:]*:)*(script|submit|wsdlconnection|xmlconnection|xsdconnection)\b", re.IGNORECASE
)
_ENCODING = re.compile(rb"encoding\s*=\s*[\"']([^\"']*)")
_ORDINARY_ENCODINGS = {b"utf-8", b"us-ascii", b"iso-8859-1", b"windows-1252"}

_Choice = TypeVar("_Choice")

_MOST_FILTERS = 8
_TOO_MANY_WAYS = "a stream that readers may decode in too many ways"
# What all readers take alike; predictors that there are not are passed over.
_PARAMETERS: dict[str, Callable[[int], bool]] = {
    "Predictor": lambda given: 0 <= given <= 15,
    "Columns": lambda given: 0 < given < 1 << 20,
    "Colors": lambda given: 0 < given <= 32,
    "BitsPerComponent": lambda given: given == 8,
    "EarlyChange": lambda given: given in (0, 1),
}

MayBe = Callable[[Value], list[Value]]


class UnclearFilters(Exception):
    """Readers may decode a stream in ways that we cannot all follow."""


class _CannotParse(Exception):
    """Not XML, or XML that could hide elements."""


def scripts_in_xfa(packets: Sequence[Sequence[Stream]], may_be: MayBe) -> Iterator[tuple[str, str]]:
    """What speaks against a form; for each packet, the streams that readers may take for it.

    Packets may cut the XML anywhere, so they are read as one, in every combination.
    """
    elements: set[str] = set()
    problem = ""
    try:
        decoded = [[ways for each in streams for ways in _decodings(each, may_be)] for streams in packets]
    except UnclearFilters as failure:
        yield codes.JAVASCRIPT, f"an XFA form that could hide scripts: {failure}"
        return
    decoded = [each for each in decoded if each]
    for index, parts in enumerate(islice(product(*decoded), _MOST_WAYS + 1)):
        if index == _MOST_WAYS:
            problem = problem or "an XFA form that readers read in too many ways"
            break
        found, trouble = _looked_through([ways[0] for ways in parts])
        elements |= found
        problem = problem or trouble
        for other in _others(parts):
            elements |= _named_in(other)
    if _SCRIPT in elements:
        yield codes.JAVASCRIPT, "a script in an XFA form"
    elif problem:
        yield codes.JAVASCRIPT, problem
    if _SUBMIT in elements:
        yield codes.SUBMIT, "an XFA form that sends its data"
    if elements & _CONNECTIONS:
        yield codes.REMOTE, "an XFA form that calls a server"


def _others(parts: Sequence[list[bytes]]) -> Iterator[bytes]:
    """The form with its packets decoded in the less likely ways, all at once."""
    for way in range(1, max((len(each) for each in parts), default=0)):
        yield b"".join(each[min(way, len(each) - 1)] for each in parts)


def _looked_through(packets: list[bytes]) -> tuple[set[str], str]:
    """The elements, and what is wrong with it as XML. Some forms are not one document but one in each packet."""
    whole = b"".join(packets)
    if len(whole) >= _READ_AT_MOST:
        return _named_in(whole), "an XFA form too large to be searched for scripts"
    if not whole.strip(b"\x00\t\n\x0c\r "):
        return set(), ""
    bare = _named_in(whole) if _is_odd(packets) else set()  # readers may differ in the letters themselves
    try:
        return _elements([whole]) | bare, ""
    except _CannotParse:
        pass
    try:
        return _elements(packets) | _named_in(whole), ""
    except _CannotParse as failure:
        return _named_in(whole), f"an XFA form that could hide scripts: {failure}"


def _is_odd(packets: list[bytes]) -> bool:
    """Whether it is written otherwise than letter by letter, or says so."""
    return any(
        b"\x00" in each
        or each.startswith((b"\xff\xfe", b"\xfe\xff"))
        or any(said.lower() not in _ORDINARY_ENCODINGS for said in _ENCODING.findall(each))
        for each in packets
    )


def _elements(documents: list[bytes]) -> set[str]:
    found: set[str] = set()
    for document in documents:
        parser = expat.ParserCreate()
        parser.StartElementHandler = lambda name, _: found.add(name.rpartition(":")[2].casefold())
        parser.EntityDeclHandler = parser.UnparsedEntityDeclHandler = _refuse_entities
        parser.ExternalEntityRefHandler = parser.StartDoctypeDeclHandler = _refuse_entities
        try:
            parser.Parse(document, True)
        except (expat.ExpatError, ValueError, LookupError) as failure:
            raise _CannotParse(str(failure)) from failure
    return found


def _refuse_entities(*_: object) -> int:
    raise _CannotParse("it declares a document type")


def _named_in(data: bytes) -> set[str]:
    """Elements by their bare words, where it is no XML: in UTF-16 plain words are their letters and zeros."""
    text = data.replace(b"\x00", b"").decode("latin-1")
    return {each.casefold() for each in _ELEMENT.findall(text)}


def _decodings(stream: Stream, may_be: MayBe) -> list[list[bytes]]:
    """For each stretch of bytes that may be the data, and each way to read its dictionary, the ways to decode it."""
    made = []
    for filters, parameters in filters_of(stream.held, may_be):
        for raw in stream.contents():
            ways = decodings_of(raw, filters, parameters, _READ_AT_MOST)
            if ways not in made:
                made.append(ways)
    return made


def filters_of(held: dict[str, Value], may_be: MayBe) -> Iterator[tuple[list[str], list[dict[str, int]]]]:
    """The filters of a stream with their parameters, in each way that a dictionary can be read."""
    lists = [_listed(each) for key in ("Filter", "F") for each in may_be(held.get(key))] or [[]]
    given = [_listed(each) for key in ("DecodeParms", "DP") for each in may_be(held.get(key))] or [[]]
    named = [way for each in lists for way in _ways([_names(one, may_be) for one in each])]
    stated = [way for each in given for way in _ways([_parameters(one, may_be) for one in each])]
    if len(named) * len(stated) > _MOST_WAYS:
        raise UnclearFilters(_TOO_MANY_WAYS)
    for filters, parameters in product(named, stated):
        names = [each for each in filters if each]
        if len(names) > _MOST_FILTERS:
            raise UnclearFilters("a stream with more filters than are undone")
        yield names, list(parameters)


def _ways(choices: list[list[_Choice]]) -> list[tuple[_Choice, ...]]:
    found = list(islice(product(*choices), _MOST_WAYS + 1))
    if len(found) > _MOST_WAYS:
        raise UnclearFilters(_TOO_MANY_WAYS)
    return found


def _listed(value: Value) -> list[Value]:
    return value if isinstance(value, list) else [value]


def _names(value: Value, may_be: MayBe) -> list[str]:
    return [str(each) for each in may_be(value) if isinstance(each, Name)] or [""]


def _parameters(value: Value, may_be: MayBe) -> list[dict[str, int]]:
    """Those of one filter; each way, where some are given twice."""
    made: list[dict[str, int]] = []
    for each in may_be(value):
        held = each.held if isinstance(each, Stream) else each
        if isinstance(held, dict):
            keys = [key for key in _PARAMETERS if key in held]
            made += [
                dict(zip(keys, way, strict=True)) for way in _ways([_numbers(held[key], key, may_be) for key in keys])
            ]
    return made or [{}]


def _numbers(value: Value, key: str, may_be: MayBe) -> list[int]:
    found = list(dict.fromkeys(each for each in may_be(value) if isinstance(each, int)))
    if len(found) < len(set(map(repr, may_be(value)))) or not all(map(_PARAMETERS[key], found)) or not found:
        raise UnclearFilters(f"a stream whose /{key} readers may take differently")
    return found
