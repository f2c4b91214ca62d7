"""What secrets and personal data look like. Every pattern here takes time linear in the text.

Repetitions are possessive (`++`): what they took they never give back. A pattern that could start anywhere
inside a run of letters is anchored to a fixed word or, by a look-behind, to the beginning of the run.
When in doubt a pattern takes too much: a log line that hides a harmless word is cheap, a leaked one is not.
"""

import re
from functools import lru_cache
from typing import Final

_LONG = (  # secret wherever they stand in a name
    r"authorization|passw(?:or)?d|passphrase|passcode|secret|token|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|signing[_-]?key|encryption[_-]?key|account[_-]?key|mask[_-]?key|cookie|credential|signature|session[_-]?id"
    r"|access[_-]?id"
)
_SHORT = "sig|otp|pwd|jwt|csrf"  # secret as a word of their own
_NAMES: Final = re.compile(rf"{_LONG}|(?:^|_)(?:{_SHORT})(?:_|$)")
# Names that hold such a word and only tell of it: token_count, signature_algorithm, secret_name.
_ABOUT: Final = re.compile(
    r"_(?:count|total|limit|budget|ttl|seconds|days|length|size|algorithm|alg|type|kind|name|expire[sd]?(?:_\w+)?"
    r"|lifetime|url|uri|endpoint|path|required|present|valid|version)$"
)
_STEMS: Final = (
    "auth", "pass", "secret", "token", "key", "cookie", "credential", "signature", "session", "access",
    *_SHORT.split("|"),
)  # fmt: skip
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether what stands under this name is secret, whatever it looks like."""
    plain = re.sub(r"[-. ]", "_", _CAMEL.sub("_", name[:200])).lower()
    return _NAMES.search(plain) is not None and _ABOUT.search(plain) is None


def mentions_a_secret_name(text: str) -> bool:
    """Cheap and never wrongly False: most lines end here, and the long pattern below is spared."""
    lowered = text.lower()
    return any(stem in lowered for stem in _STEMS)


# name=value, "name": "value", ('name', b'value'), <name>value, ?name=value&…, also inside escaped JSON: a
# quoted value ends at the quote that has as many backslashes as the one it began with. Headers such as
# Authorization and Cookie go to the end of the line, because their values have spaces.
_SEPARATOR = r"(?:\\*+[\"']\s{0,4}+(?:=>|[=:,])|\s{0,4}+(?:=>|[=:>]))\s{0,4}+(?:b(?=[\"']))?+"
_QUOTED = r"(?P<quote>\\*+[\"'])(?:(?!(?<!\\)(?P=quote)).)*+(?:(?P=quote)|\Z)"
_HEADER = r"(?<![a-z0-9_.-])(?P<header>(?:proxy-)?authorization|(?:set-)?cookie)"
_NAME = rf"(?P<name>{_HEADER}|(?:{_LONG}|(?<![a-z0-9])(?:{_SHORT})(?![a-z0-9]))[a-z0-9_.-]{{0,40}}+)"
_VALUE = rf"(?P<value>{_QUOTED}|(?(header)[^\r\n]++|(?:[^\s&]|&(?![\w.%\[\]-]{{1,64}}+=))++))"
_FIRST_LETTER = "(?=[acejmopst])"  # of all these names: most places are passed over without trying each name
ASSIGNMENT: Final = re.compile(rf"{_FIRST_LETTER}(?P<before>{_NAME}{_SEPARATOR}){_VALUE}", re.IGNORECASE | re.DOTALL)
MASKED_SECRET: Final = re.compile(r"b?<secret#[0-9a-f]{8}>[\s\\\"',;)\]}]*+")
OPTION: Final = re.compile(r"(?P<before>--(?P<name>[\w-]{2,60}+)\s{1,4}+)(?P<value>[^\s-]\S*+)")

# Secrets that show by themselves, wherever they stand. A password in a URL may hold a raw slash, as long as
# what follows the first colon is not a port. `upload_id` in an address is a session of a bucket, which whoever has it
# may write to.
CARRIED: Final = re.compile(
    r"""(?x)
      ://(?P<userinfo>[^\s/?\#]{1,512}|[^\s/?\#:@]{0,256}+:(?![0-9]{1,5}+(?:[/?\#\s]|\Z))[^\s@]{1,512}+)@
    | \b(?P<scheme>(?i:bearer)|(?i:basic|apikey)(?=\s{1,4}\S{0,64}[A-Z0-9=]))\s{1,4}+(?P<credentials>[^\s"'<>]{6,}+)
    | (?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{6,}+(?:\.[A-Za-z0-9_-]*+){0,4}+
    | -----BEGIN\ [A-Z ]{0,40}PRIVATE\ KEY-----[^-]*+(?:-----END\ [A-Z ]{0,40}PRIVATE\ KEY-----)?
    | (?<=[?&])upload_id=[^\s&"'<>\\]{16,}+
    | (?<![A-Za-z0-9])(?:(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w-]{30,}+|gh[pousr]_\w{20,}+|glpat-[\w-]{16,}+
        |xox[abprs]-[\w-]{10,}+|sk-[\w-]{16,}+|whsec_[A-Za-z0-9+/=_-]{8,}+)
    """
)

EMAIL: Final = re.compile(r"(?<![\w.+-])[\w.+-]++(?:@|%40)[\w-]++(?:\.[\w-]++)++")

# Digests, UUIDs and times come first, so that nobody finds a telephone number in them.
_HEXADECIMAL = (
    r"(?<![0-9a-z])(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|(?=[0-9]*+[a-f])[0-9a-f]{16,128}+)(?![0-9a-z])"
)
_CLOCK = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9}+)?+)?+"
_TIME = rf"(?<![0-9])20[0-9]{{2}}-[01][0-9]-[0-3][0-9](?:[T ]{_CLOCK})?+(?![0-9])"
NUMBERS: Final = re.compile(
    rf"""(?xi)
      (?=[0-9a-f+(])  # how each of them begins: most places are passed over at once
      (?: (?P<harmless> {_HEXADECIMAL} | {_TIME} )
    | (?P<identity> (?<![0-9])[1-9][0-9]{{5}}(?:18|19|20)[0-9]{{2}}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])
        [0-9]{{3}}[0-9X](?![0-9]) )
    | (?P<mobile> (?<![0-9])(?:\+?(?:00)?86[ -]?)?1[3-9][0-9](?:[ -]?[0-9]{{4}}){{2}}(?![0-9]) )
    | (?P<phone> (?<![0-9a-z+])\+[0-9](?:[ ().-]{{0,2}}+[0-9]){{7,}}+
        | (?<![0-9a-z.-])(?:\([0-9]{{2,4}}\)\ ?|0[0-9]{{2,3}}[ -])[0-9]{{3,4}}[ -]?[0-9]{{4}}(?![0-9-])
        | (?<![0-9a-z.-])[0-9]{{3}}-[0-9]{{3,4}}-[0-9]{{4}}(?![0-9a-z-]) ) )
    """
)
ANY_NUMBER: Final = re.compile(r"[0-9]{2}")
IDENTITY_WEIGHTS: Final = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
