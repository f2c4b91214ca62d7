"""What single letters are, and whether many of them make sense.

A text layer is rubbish when its font does not say what its glyphs mean: then the codes arrive as controls, private
letters, or as ordinary letters in an order no language has. Judged generously: a layer is only called rubbish on
strong evidence, as recognising the page again is dear.
"""

import re
import unicodedata

import numpy as np
import numpy.typing as npt

from penstock.pdf.pages.bulk import Codes

Mask = npt.NDArray[np.bool_]

SPACE = 1
WIDE = 2  # of scripts that are written without spaces: Chinese and Japanese
LEFTWARDS = 4  # Hebrew, Arabic and their kin
MEANINGLESS = 8  # codes that no text has: controls, private letters, what stands for an unknown letter
Kinds = npt.NDArray[np.uint8]
_SPACES = (0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
_ENOUGH = 50  # letters from which on a mixture says something
_ENOUGH_WORDS = 20
_WORD = re.compile(r"[A-Za-z]*[a-z][A-Za-z]{3,}")
_WITHOUT_VOWEL = re.compile(r"(?<![A-Za-z])[b-df-hj-np-tv-xzB-DF-HJ-NP-TV-XZ]{4,}(?![A-Za-z])")
_WESTERN = re.compile("[\xa1-\xff]")


_SHAPES = {
    code: "v" if chr(code) in "aeiouyAEIOUY" else "c" if chr(code).isalpha() else " " for code in range(128)
}  # vowels, consonants, and what is between words


def _longer_forms() -> dict[int, str | None]:
    """Letters that stand for several, or for none: ligatures, marks without width."""
    forms: dict[int, str | None] = {code: unicodedata.normalize("NFKC", chr(code)) for code in range(0xFB00, 0xFB07)}
    return forms | dict.fromkeys((*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x206A), 0xFEFF))


def _plain_codes() -> npt.NDArray[np.uint32]:
    """Letters that stand for one other: radicals used as characters, odd spaces, symbols of the old symbol fonts.

    PDFium marks a hyphen that it takes for the end of a broken word by 0x02 or 0xFFFE.
    """
    codes = np.arange(0x10000, dtype=np.uint32)
    codes[[*_SPACES, *range(0x2000, 0x200B)]] = 0x20
    codes[[0x02, 0xAD, 0xFFFE]] = ord("-")
    codes[[0xF0B7, 0xF0A7, 0xF0D8, 0xF0FC]] = [ord(each) for each in "•▪➢✓"]
    codes[[0, *range(0xD800, 0xE000)]] = 0xFFFD
    for code in range(0x2E80, 0x2FE0):
        form = unicodedata.normalize("NFKC", chr(code))
        codes[code] = ord(form) if len(form) == 1 else code
    return codes


_LONGER = _longer_forms()
_PLAIN = _plain_codes()
_HAS_LONGER = re.compile("[\ufb00-\ufb06\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


def _kinds() -> Kinds:
    """The kinds of every code of the basic plane, as bits."""
    kinds = np.zeros(0x10000, np.uint8)
    for bit, ranges in (
        (SPACE, (*((code, code) for code in _SPACES), (0x2000, 0x200A))),
        (WIDE, ((0x2E80, 0x2FFF), (0x3001, 0xA4CF), (0xF900, 0xFAFF), (0xFF01, 0xFF9F))),
        (LEFTWARDS, ((0x0590, 0x08FF), (0xFB1D, 0xFDFF), (0xFE70, 0xFEFE))),
        (MEANINGLESS, ((0, 1), (3, 0x1F), (0x7F, 0x9F), (0xE000, 0xF8FF), (0xFFFC, 0xFFFD), (0xFFFF, 0xFFFF))),
    ):
        for first, last in ranges:
            kinds[first : last + 1] |= bit
    kinds[[0xF0B7, 0xF0A7, 0xF0D8, 0xF0FC]] = 0
    return kinds


_KINDS = _kinds()


def kinds_of(codes: Codes) -> Kinds:
    """What each is, as bits. Codes beyond the basic plane are rare; only two kinds have any."""
    if not len(codes) or codes.max() <= 0xFFFF:
        return _KINDS[codes]
    kinds = _KINDS[np.minimum(codes, 0xFFFB)]
    beyond = codes >= 0xFFFC
    far = codes[beyond]
    wide = np.where((far >= 0x20000) & (far <= 0x3FFFF), WIDE, 0)
    meaningless = (far >= 0xF0000) | np.isin(far, (0xFFFC, 0xFFFD, 0xFFFF))
    kinds[beyond] = np.where(meaningless, MEANINGLESS, 0) | wide
    return kinds


def plain_text(codes: Codes) -> str:
    """As somebody would type it; still one letter for each code."""
    if not len(codes) or codes.max() <= 0xFFFF:
        plain = _PLAIN[codes]
    else:
        plain = np.where(codes > 0xFFFF, np.where(codes <= 0x10FFFF, codes, 0xFFFD), _PLAIN[np.minimum(codes, 0xFFFF)])
    return plain.astype("<u4").tobytes().decode("utf-32-le")


def has_longer_forms(text: str) -> bool:
    return not text.isascii() and _HAS_LONGER.search(text) is not None


def with_longer_forms(text: str) -> str:
    return text.translate(_LONGER)


def is_rubbish(text: str, unmapped: float) -> bool:
    """Ordinary letters that cannot be a text. `unmapped` is the share whose meaning the font does not tell."""
    letters = "".join(text.split())
    if len(letters) < _ENOUGH:
        return False
    is_western = not text.isascii() and len(_WESTERN.findall(letters)) > len(letters) * 0.5
    if is_western:  # bytes of another encoding taken for accented letters
        return True
    without = 0
    if not text.isascii() or " cccc" in " " + text.translate(_SHAPES):
        without = sum(_WORD.fullmatch(each) is not None for each in _WITHOUT_VOWEL.findall(text))
    words = len(_WORD.findall(text)) if without else 0
    if words >= _ENOUGH_WORDS and without > words * 0.6:
        return True
    if unmapped < 0.5:
        return False
    sensible = sum(each.isalnum() for each in letters)
    return sensible < len(letters) * 0.6 or without > words * 0.3
