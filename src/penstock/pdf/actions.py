"""Finds what a PDF may do beyond being read: scripts, actions that leave the file, files within the file.

Every object of the file is looked at, whether a page leads to it or not: readers disagree about which objects are
in use (updates, repairs), so what is unreachable for us may run elsewhere. qpdf writes each object out with
plain names, object streams and escapes undone; a search over that text picks the few that are then walked.
Values are judged as the structures they are, so the word /JavaScript in a text, or as the name of a font, is none.
"""

import re
from collections.abc import Iterator

from pikepdf import Array, Dictionary, Object, Stream, String

from penstock.pdf import codes
from penstock.pdf.findings import Notes
from penstock.pdf.reading import dictionary_of, elements_of, name_of, text_of
from penstock.pdf.xfa import scripts_in_xfa

# /URI followed by a name, an end or an ordinary address is the most common thing of all, and harmless.
_WORTH_A_LOOK = re.compile(
    rb"/(?:(?:JS|JavaScript|OnInstantiate|XFA|Launch|SubmitForm|ImportData|GoToR|GoToE|RichMediaExecute|OpenAction|AA|EF"
    rb"|EmbeddedFiles|Filespec|UF|FS|Ref|Win|CMD)(?![^\s/<>()\[\]])"
    rb"|S \d+ \d+ R|F (?:\(|<|\d+ \d+ R)|URI(?! /| >>| \((?:https?|mailto):))"
)
# Of two values of one key qpdf keeps the last, and never shows us the other.
DECISIVE_KEYS = {"/A", "/AA", "/AcroForm", "/Annots", "/EF", "/JS", "/Names", "/Next", "/OpenAction", "/S", "/XFA"}
_KEYS = {
    "/S", "/JS", "/URI", "/OpenAction", "/AA", "/EF", "/EmbeddedFiles", "/F", "/UF", "/FS", "/Ref", "/JavaScript",
    "/OnInstantiate", "/XFA",
}  # fmt: skip
# An action without its operand does nothing; a structure type may bear the same name in the same key.
_OPERANDS = {
    "/JavaScript": ("/JS",),
    "/RichMediaExecute": ("/CMD", "/TA"),
    "/Launch": ("/F", "/Win", "/Mac", "/Unix"),
    "/SubmitForm": ("/F",),
    "/ImportData": ("/F",),
    "/GoToR": ("/F", "/D"),
    "/GoToE": ("/F", "/D", "/T"),
    "/Thread": ("/F",),
}
_CODES = {
    "/JavaScript": codes.JAVASCRIPT,
    "/RichMediaExecute": codes.JAVASCRIPT,
    "/Launch": codes.LAUNCH,
    "/SubmitForm": codes.SUBMIT,
    "/ImportData": codes.REMOTE,
    "/GoToR": codes.REMOTE,
    "/GoToE": codes.REMOTE,
    "/Thread": codes.REMOTE,
}
# Of the web, of programs in which people talk to each other, and words that people type before an address.
_ORDINARY_SCHEMES = {
    "http", "https", "mailto", "tel", "sms", "fax", "ftp", "ftps", "callto", "sip", "skype", "whatsapp", "geo",
    "doi", "urn", "news", "weixin", "wechat", "tencent", "mqqwpa", "mqq", "dingtalk", "aliim", "tg", "line", "viber",
    "email", "e-mail", "mail", "phone", "mobile", "web", "website", "url",
}  # fmt: skip
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+-]*):")
_SYSTEMS = ("/F", "/UF", "/DOS", "/Mac", "/Unix")
_BY_CLICK = {"/U", "/D"}  # mouse button up and down
_CHAIN = 1000


def worth_a_look(text: bytes) -> bool:
    """Whether an object, written out, can hold anything that `find_actions` would report."""
    return _WORTH_A_LOOK.search(text) is not None


def find_actions(holder: Object, place: str, notes: Notes) -> None:
    """Walk one indirect object; what it refers to is visited on its own."""
    waiting: list[tuple[object, str]] = [(holder, "")]
    while waiting:
        value, path = waiting.pop()
        if isinstance(value, Array):
            waiting += [(each, f"{path}[{index}]") for index, each in enumerate(value) if _is_direct(each)]
            continue
        held = dictionary_of(value)
        if held is None:
            continue
        for code, detail in _judged(held, is_stream=isinstance(value, Stream)):
            notes.add(code, f"{place} {path}".rstrip(), detail)
        waiting += [(each, path + key) for key, each in held.items() if _is_direct(each)]


def _is_direct(value: object) -> bool:
    return isinstance(value, Array | Dictionary) and not (isinstance(value, Object) and value.is_indirect)


def _judged(held: Object, *, is_stream: bool) -> Iterator[tuple[str, str]]:
    if _KEYS.isdisjoint(held.keys()):
        return
    yield from _own_action(held)
    yield from _automatic_links(held)
    yield from _files(held, is_stream=is_stream)
    if _tree_has_entries(held.get("/JavaScript")):
        yield codes.JAVASCRIPT, "scripts of the document"
    if isinstance(held.get("/OnInstantiate"), Stream | String):
        yield codes.JAVASCRIPT, "a script of a 3D picture"
    if isinstance(held.get("/XFA"), Stream | Array):
        yield from scripts_in_xfa(held.get("/XFA"))


def _own_action(held: Object) -> Iterator[tuple[str, str]]:
    kind, script = name_of(held, "/S"), held.get("/JS")
    if kind in _OPERANDS:
        if any(each in held for each in _OPERANDS[kind]):
            yield _CODES[kind], f"action {kind[1:]}"
    elif isinstance(script, String) or (isinstance(script, Stream) and kind):
        yield codes.JAVASCRIPT, f"a script in an action {kind[1:]}".rstrip()
    if kind == "/URI":
        yield from _judged_address(text_of(held.get("/URI")))
    base = held.get("/URI")
    if isinstance(base, Dictionary):
        yield from _judged_address(text_of(base.get("/Base")))


def _judged_address(address: str) -> Iterator[tuple[str, str]]:
    """Links that a person clicks may lead to ordinary addresses, not to programs, files or scripts."""
    plain = re.sub(r"[\x00-\x20]", "", address)  # as browsers drop them
    if plain.startswith("\\\\"):
        yield codes.REMOTE, f"a link to {plain}"
        return
    scheme = _SCHEME.match(plain)
    if scheme is None or scheme[1].lower() == "localhost":
        return  # a bare host, with or without a port, or a path beside the file
    if scheme[1].lower() == "javascript":
        yield codes.JAVASCRIPT, f"a link to {plain}"
    elif scheme[1].lower() not in _ORDINARY_SCHEMES:
        yield codes.URI, f"a link to {plain}"


def _automatic_links(held: Object) -> Iterator[tuple[str, str]]:
    """Addresses that are opened without a click."""
    starts = [held.get("/OpenAction")]
    additional = held.get("/AA")
    if isinstance(additional, Dictionary):
        starts += [each for key, each in additional.items() if key not in _BY_CLICK]
    for start in starts:
        for action in _chain(start):
            if name_of(action, "/S") == "/URI":
                yield codes.URI, f"opens {text_of(action.get('/URI'))} by itself"


def _chain(start: object) -> Iterator[Object]:
    """An action and those that follow it, in any order; bounded, as they may form a circle."""
    waiting, left = [start], _CHAIN
    while waiting and left:
        left -= 1
        action = waiting.pop()
        if isinstance(action, Dictionary):
            yield action
            waiting += list(elements_of(action.get("/Next")))[:left]


def _files(held: Object, *, is_stream: bool) -> Iterator[tuple[str, str]]:
    if _has_files(held.get("/EF")):
        yield codes.EMBEDDED_FILE, text_of(held.get("/UF")) or text_of(held.get("/F"))
    if _tree_has_entries(held.get("/EmbeddedFiles")):
        yield codes.EMBEDDED_FILE, "files of the document"
    if is_stream and isinstance(held.get("/F"), String | Dictionary):
        yield codes.REMOTE, "a stream whose data is in another file"
    source = held.get("/Ref")
    if is_stream and isinstance(source, Dictionary) and "/F" in source:
        yield codes.REMOTE, "content of another file"
    named = [text_of(held.get(key)) for key in ("/F", "/UF")]
    if any(each.startswith("\\\\") for each in named):
        yield codes.REMOTE, f"a file at {max(named)}"
    if name_of(held, "/FS") == "/URL" and any(named):
        yield codes.REMOTE, f"data from {max(named)}"


def _has_files(embedded: object) -> bool:
    """A font may be called EF too; it has no stream under the name of a system."""
    return isinstance(embedded, Dictionary) and any(isinstance(embedded.get(key), Stream) for key in _SYSTEMS)


def _tree_has_entries(tree: object) -> bool:
    return isinstance(tree, Dictionary) and any(
        isinstance(tree.get(key), Array) and len(tree[key]) > 0 for key in ("/Names", "/Kids")
    )
