"""Finds what a PDF may do beyond being read: scripts, actions that leave the file, files within the file.

Every object of the file is looked at, whether a page leads to it or not: readers disagree about which objects are
in use (updates, repairs), so what is unreachable for us may run elsewhere. A search over the text of an object picks
the few that are then parsed. Values are judged as the structures they are, so the word /JavaScript in a text, or as
the name of a font, is none. Where a reference may lead to several objects, because the file holds several of that
number, each of them counts: one that is bad is enough.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from penstock.pdf import codes
from penstock.pdf.syntax import Either, Name, Reference, Stream, Value
from penstock.pdf.xfa import scripts_in_xfa

# /URI followed by a name, an end or an ordinary address is the most common thing of all, and harmless.
_WORTH_A_LOOK = re.compile(
    rb"/(?:(?:JS|JavaScript|OnInstantiate|XFA|Launch|SubmitForm|ImportData|GoToR|GoToE|RichMediaExecute|OpenAction|AA|EF"
    rb"|EmbeddedFiles|Filespec|UF|FS|Ref|Win|CMD)(?![^\s/<>()\[\]])"
    rb"|S \d+ \d+ R|F (?:\(|<|\d+ \d+ R)|URI(?! /(?![^\s/<>()\[\]]*[:#\\])| >>| \((?:https?|mailto):))"
)
# Of two values of one key qpdf keeps the last, and never shows us the other.
DECISIVE_KEYS = {"/A", "/AA", "/AcroForm", "/Annots", "/EF", "/JS", "/Names", "/Next", "/OpenAction", "/S", "/XFA"}
_KEYS = {
    "S", "JS", "URI", "OpenAction", "AA", "EF", "EmbeddedFiles", "F", "UF", "FS", "Ref", "JavaScript",
    "OnInstantiate", "XFA",
}  # fmt: skip
# An action without its operand does nothing; a structure type may bear the same name in the same key.
_OPERANDS = {
    "JavaScript": ("JS",),
    "RichMediaExecute": ("CMD", "TA"),
    "Launch": ("F", "Win", "Mac", "Unix"),
    "SubmitForm": ("F",),
    "ImportData": ("F",),
    "GoToR": ("F", "D"),
    "GoToE": ("F", "D", "T"),
    "Thread": ("F",),
}
# Without its operand too PDFium calls it an action, by its kind, if it is no element of a structure tree.
_ALONE = {"JavaScript", "RichMediaExecute", "Launch", "SubmitForm", "ImportData", "GoToR", "GoToE"}
_OF_STRUCTURE = {"P", "K", "Pg"}
_CODES = {
    "JavaScript": codes.JAVASCRIPT,
    "RichMediaExecute": codes.JAVASCRIPT,
    "Launch": codes.LAUNCH,
    "SubmitForm": codes.SUBMIT,
    "ImportData": codes.REMOTE,
    "GoToR": codes.REMOTE,
    "GoToE": codes.REMOTE,
    "Thread": codes.REMOTE,
}
# Of the web, of programs in which people talk to each other, and words that people type before an address.
_ORDINARY_SCHEMES = {
    "http", "https", "mailto", "tel", "sms", "fax", "ftp", "ftps", "callto", "sip", "skype", "whatsapp", "geo",
    "doi", "urn", "news", "weixin", "wechat", "tencent", "mqqwpa", "mqq", "dingtalk", "aliim", "tg", "line", "viber",
    "email", "e-mail", "mail", "phone", "mobile", "web", "website", "url",
}  # fmt: skip
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+-]*):")
_ON_A_SERVER = re.compile(r"[\\/]{2}")
_NO_LETTERS = re.compile(r"[^!-~]")
_NOT_SHOWN = {"Cc", "Cf", "Zs", "Zl", "Zp"}
_SYSTEMS = ("F", "UF", "DOS", "Mac", "Unix")
_BY_CLICK = {"U", "D"}  # mouse button up and down
_CHAIN = 1000
_MOST_VALUES = 1000


class Finding(NamedTuple):
    """Something that speaks against the file, and where within the object it is."""

    code: str
    path: str
    detail: str


class TooManyValues(Exception):
    """A reference that may lead to more objects than can be looked at."""


class Judge:
    """Looks for actions in objects of one file.

    `resolve` gives everything that a reference may lead to. With `is_part` an object may be known from its middle on:
    an action counts without the operand that could stand before.
    """

    def __init__(self, resolve: Callable[[Reference], Sequence[Value]], *, is_part: bool = False) -> None:
        self._resolve = resolve
        self._is_part = is_part

    def find_actions(self, holder: Value) -> Iterator[Finding]:
        """Walk one indirect object; what it refers to is visited on its own."""
        waiting: list[tuple[Value, str]] = [(holder, "")]
        while waiting:
            value, path = waiting.pop()
            if isinstance(value, list):
                waiting += [(each, f"{path}[{index}]") for index, each in enumerate(value)]
            elif isinstance(value, Either):
                waiting += [(each, path) for each in value.values]
            elif isinstance(value, dict | Stream):
                is_stream = isinstance(value, Stream)
                held = value.held if isinstance(value, Stream) else value
                for code, detail in self._judged(held, is_stream=is_stream):
                    yield Finding(code, path, detail)
                waiting += [(each, f"{path}/{key}") for key, each in held.items()]

    def may_be(self, value: Value) -> list[Value]:
        """What a value is, or what it may be where readers see different objects."""
        found: list[Value] = []
        waiting, left = [value], _MOST_VALUES
        seen: set[Reference] = set()
        while waiting:
            left -= 1
            if not left:
                raise TooManyValues
            each = waiting.pop()
            if isinstance(each, Either):
                waiting += each.values
            elif isinstance(each, Reference):
                if each not in seen:
                    seen.add(each)
                    waiting += self._resolve(each)
            elif each is not None:
                found.append(each)
        return found

    def _names(self, value: Value) -> set[str]:
        return {str(each) for each in self.may_be(value) if isinstance(each, Name)}

    def _texts(self, value: Value) -> list[str]:
        """Of strings and names: PDFium takes either for an address."""
        found = [each.encode("latin-1", "replace") if isinstance(each, Name) else each for each in self.may_be(value)]
        return [text_of(each) for each in found if isinstance(each, bytes)]

    def _dictionaries(self, value: Value) -> list[dict[str, Value]]:
        """With those of streams, which PDFium takes where a dictionary should be."""
        found = [each.held if isinstance(each, Stream) else each for each in self.may_be(value)]
        return [each for each in found if isinstance(each, dict)]

    def _judged(self, held: dict[str, Value], *, is_stream: bool) -> Iterator[tuple[str, str]]:
        if _KEYS.isdisjoint(held):
            return
        yield from self._own_action(held)
        yield from self._automatic_links(held)
        yield from self._files(held, is_stream=is_stream)
        if self._tree_has_entries(held.get("JavaScript")):
            yield codes.JAVASCRIPT, "scripts of the document"
        if any(isinstance(each, Stream | bytes) for each in self.may_be(held.get("OnInstantiate"))):
            yield codes.JAVASCRIPT, "a script of a 3D picture"
        if held.get("XFA") not in (None, []):
            yield from self._form(held["XFA"])

    def _form(self, value: Value) -> Iterator[tuple[str, str]]:
        """Scripts of an XFA form; one that leads to no stream for us may lead to one for others."""
        has_packets = False
        for each in self.may_be(value):
            packets = each if isinstance(each, list) else [each]
            streams = [
                [one for one in self.may_be(packet) if isinstance(one, Stream)]
                for packet in packets
                if not isinstance(packet, bytes)  # in an array, the packets' names
            ]
            found = [each for each in streams if each]
            has_packets |= bool(found) or not packets
            yield from scripts_in_xfa(found, self.may_be)
        if not has_packets:
            yield codes.JAVASCRIPT, "an XFA form that could hide scripts: its packets are no streams"

    def _own_action(self, held: dict[str, Value]) -> Iterator[tuple[str, str]]:
        kinds = self._names(held.get("S"))
        for kind in sorted(kinds & _OPERANDS.keys()):
            # By reference it counts even if it leads nowhere for us.
            has_operand = any(each in held for each in _OPERANDS[kind])
            if has_operand or self._is_part or (kind in _ALONE and _OF_STRUCTURE.isdisjoint(held)):
                yield _CODES[kind], f"action {kind}"
        scripts = [] if "JavaScript" in kinds else self.may_be(held.get("JS"))
        named = bool(kinds) or self._is_part
        if any(isinstance(each, bytes) or (isinstance(each, Stream) and named) for each in scripts):
            yield codes.JAVASCRIPT, f"a script in an action {max(kinds, default='')}".rstrip()
        if "URI" in kinds or self._is_part:
            for address in self._texts(held.get("URI")):
                yield from _judged_address(address)
        for base in self._dictionaries(held.get("URI")):
            for address in self._texts(base.get("Base")):
                yield from _judged_address(address)

    def _automatic_links(self, held: dict[str, Value]) -> Iterator[tuple[str, str]]:
        """Addresses that are opened without a click."""
        starts = [held.get("OpenAction")]
        for additional in self._dictionaries(held.get("AA")):
            starts += [each for key, each in additional.items() if key not in _BY_CLICK]
        for start in starts:
            for action in self._chain(start):
                if "URI" in self._names(action.get("S")):
                    yield codes.URI, f"opens {max(self._texts(action.get('URI')), default='')} by itself"

    def _chain(self, start: Value) -> Iterator[dict[str, Value]]:
        """An action and those that follow it, in any order; bounded, as they may form a circle."""
        waiting, left = [start], _CHAIN
        while waiting and left:
            left -= 1
            for action in self._dictionaries(waiting.pop())[:left]:
                yield action
                for after in self.may_be(action.get("Next")):
                    waiting += after[:left] if isinstance(after, list) else [after]

    def _files(self, held: dict[str, Value], *, is_stream: bool) -> Iterator[tuple[str, str]]:
        named = [text for key in ("F", "UF") for text in self._texts(held.get(key))]
        if any(self._has_files(each) for each in self._dictionaries(held.get("EF"))):
            yield codes.EMBEDDED_FILE, max(named, default="")
        if self._tree_has_entries(held.get("EmbeddedFiles")):
            yield codes.EMBEDDED_FILE, "files of the document"
        if is_stream and any(isinstance(each, bytes | dict | Stream) for each in self.may_be(held.get("F"))):
            yield codes.REMOTE, "a stream whose data is in another file"
        if is_stream and any("F" in each for each in self._dictionaries(held.get("Ref"))):
            yield codes.REMOTE, "content of another file"
        if any(_ON_A_SERVER.match(each) for each in named):
            yield codes.REMOTE, f"a file at {max(named)}"
        if any(named) and "URL" in self._names(held.get("FS")):
            yield codes.REMOTE, f"data from {max(named)}"

    def _has_files(self, embedded: dict[str, Value]) -> bool:
        """Whether a stream stands under the name of a system; a font may be called EF too, and has none there."""
        return any(isinstance(one, Stream) for key in _SYSTEMS for one in self.may_be(embedded.get(key)))

    def _tree_has_entries(self, tree: Value) -> bool:
        return any(
            isinstance(each, list) and each
            for node in self._dictionaries(tree)
            for key in ("Names", "Kids")
            for each in self.may_be(node.get(key))
        )


def worth_a_look(text: bytes) -> bool:
    """Whether an object, as qpdf writes it out, can hold anything that a `Judge` would report."""
    return _WORTH_A_LOOK.search(text) is not None


def text_of(data: bytes) -> str:
    """A string as a reader would show it."""
    if data.startswith((b"\xfe\xff", b"\xff\xfe")):
        return data.decode("utf-16", errors="replace")
    return data.removeprefix(b"\xef\xbb\xbf").decode("latin-1")


def _judged_address(address: str) -> Iterator[tuple[str, str]]:
    """Links that a person clicks may lead to ordinary addresses, not to programs, files or scripts."""
    plain = "".join(each for each in address if unicodedata.category(each) not in _NOT_SHOWN)  # as browsers drop them
    if _NO_LETTERS.sub("", unquote(plain)).lower().startswith("javascript:"):
        yield codes.JAVASCRIPT, f"a link to {plain}"
        return
    if _ON_A_SERVER.match(plain):
        yield codes.REMOTE, f"a link to {plain}"
        return
    scheme = _SCHEME.match(plain)
    if scheme is None or scheme[1].lower() == "localhost":
        return  # a bare host, with or without a port, or a path beside the file
    if scheme[1].lower() not in _ORDINARY_SCHEMES:
        yield codes.URI, f"a link to {plain}"
