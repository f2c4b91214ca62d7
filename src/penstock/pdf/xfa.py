"""Scripts in XFA, the XML that a form may carry beside its fields.

The XML is parsed, and elements are judged by their names without the prefix. XML that cannot be parsed could hide
anything, and is refused; so is XML that declares entities. Nothing is ever fetched or expanded.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, product
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

MayBe = Callable[[Value], list[Value]]


class _CannotParse(Exception):
    """Not XML, or XML that could hide elements."""


def scripts_in_xfa(packets: Sequence[Sequence[Stream]], may_be: MayBe) -> Iterator[tuple[str, str]]:
    """What speaks against a form; for each packet, the streams that readers may take for it.

    Packets may cut the XML anywhere, so they are read as one, in every combination.
    """
    elements: set[str] = set()
    problem = ""
    decoded = [[ways for each in streams for ways in _decodings(each, may_be)] for streams in packets]
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
    for filters, parameters in islice(product(lists, given), _MOST_WAYS):
        names = [str(one) for each in filters for one in may_be(each) if isinstance(one, Name)]
        yield names[:9], [_numbers(each, may_be) for each in parameters]


def _listed(value: Value) -> list[Value]:
    return value if isinstance(value, list) else [value]


def _numbers(value: Value, may_be: MayBe) -> dict[str, int]:
    for held in may_be(value):
        if isinstance(held, dict):
            numbers = {key: [one for one in may_be(each) if isinstance(one, int)] for key, each in held.items()}
            return {key: each[0] for key, each in numbers.items() if each}
    return {}
