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

HYPHEN_AT_LINE_END = 0x02  # PDFium's mark for one that it takes for a broken word
_SPACES = np.array([0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000])
_ENOUGH = 50  # letters from which on a mixture says something
_ENOUGH_WORDS = 20
_WORD = re.compile(r"[A-Za-z]*[a-z][A-Za-z]{3,}")
_VOWEL = re.compile(r"[aeiouyAEIOUY]")
_STRANGE = re.compile(
    "[\x00\x02\xad\ufb00-\ufb06\u2e80-\u2fdf\uf020-\uf0ff\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\x09-\x0d]"
)


def _plain_forms() -> dict[int, str | None]:
    """Letters that stand for others: ligatures, radicals used as characters, symbols of the old symbol fonts."""
    ranges = (*range(0xFB00, 0xFB07), *range(0x2E80, 0x2FE0))
    forms: dict[int, str | None] = {code: unicodedata.normalize("NFKC", chr(code)) for code in ranges}
    forms |= dict.fromkeys((*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x206A), 0xFEFF))
    forms |= {HYPHEN_AT_LINE_END: "-", 0xAD: "-", 0: "\ufffd", 0xF0B7: "•", 0xF0A7: "▪", 0xF0D8: "➢", 0xF0FC: "✓"}
    return forms | dict.fromkeys(range(0x09, 0x0E), " ")


_PLAIN = _plain_forms()


def spaces(codes: Codes) -> Mask:
    return np.isin(codes, _SPACES) | ((codes >= 0x2000) & (codes <= 0x200A))


def without_spaces_between(codes: Codes) -> Mask:
    """Letters of scripts that are written without spaces: Chinese and Japanese."""
    wide = (codes >= 0x2E80) & (codes <= 0xA4CF) & (codes != 0x3000)
    return wide | ((codes >= 0xF900) & (codes <= 0xFAFF)) | ((codes >= 0xFF01) & (codes <= 0xFF9F)) | _far_east(codes)


def _far_east(codes: Codes) -> Mask:
    return (codes >= 0x20000) & (codes <= 0x3FFFF)


def written_leftwards(codes: Codes) -> Mask:
    """Hebrew, Arabic and their kin."""
    near = (codes >= 0x0590) & (codes <= 0x08FF)
    return near | ((codes >= 0xFB1D) & (codes <= 0xFDFF)) | ((codes >= 0xFE70) & (codes <= 0xFEFE))


def meaningless(codes: Codes) -> Mask:
    """Codes that no text has: controls, private letters, what stands for an unknown letter."""
    controls = (codes < 0x20) & (codes != HYPHEN_AT_LINE_END)
    private = ((codes >= 0xE000) & (codes <= 0xF8FF)) | (codes >= 0xF0000)
    known = (codes == 0xF0B7) | (codes == 0xF0A7) | (codes == 0xF0D8) | (codes == 0xF0FC)
    unknown = (codes >= 0xFFFC) & (codes <= 0xFFFF)
    return controls | ((codes >= 0x7F) & (codes <= 0x9F)) | (private & ~known) | unknown


def plain(text: str) -> str:
    """As somebody would type it."""
    return text.translate(_PLAIN) if _STRANGE.search(text) else text


def is_rubbish(text: str, unmapped: float) -> bool:
    """Ordinary letters that cannot be a text. `unmapped` is the share whose meaning the font does not tell."""
    letters = [each for each in text if not each.isspace()]
    if len(letters) < _ENOUGH:
        return False
    western = sum("\xa1" <= each <= "\xff" for each in letters)
    if western > len(letters) * 0.5:  # bytes of another encoding taken for accented letters
        return True
    words = _WORD.findall(text)
    without = sum(not _VOWEL.search(each) for each in words)
    if len(words) >= _ENOUGH_WORDS and without > len(words) * 0.6:
        return True
    if unmapped < 0.5:
        return False
    sensible = sum(each.isalnum() for each in letters)
    return sensible < len(letters) * 0.6 or without > len(words) * 0.3
