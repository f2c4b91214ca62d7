"""Damaged files: whatever bytes come, there is a verdict, and the pool answers afterwards."""

import asyncio
import random

from tests.support.pdfs import FONT, JS, RULES, document, packed, stream, text_pages

from penstock.kernel.error_codes import REGISTRY
from penstock.pdf import Examiner

CASES = 200
SEED = 20240229
IMAGE = "/Type/XObject/Subtype/Image/Width 2/Height 2/BitsPerComponent 8/ColorSpace/DeviceGray"
TOKENS = [
    b"<<",
    b">>",
    b"[",
    b"]",
    b"stream\n",
    b"endobj",
    b"obj",
    b"R",
    b"-1",
    b"99999999999",
    b"/Kids",
    b"null",
    b"(",
    b"%",
]
GOOD = [
    document(content=b"BT /F 12 Tf 60 700 Td (Hello) Tj ET"),
    text_pages(4),
    packed(text_pages(4)),
    document(page=f"/Annots[<</Subtype/Link/Rect[0 0 9 9]/A {JS}>>]"),
    document(
        content=b"q 90 0 0 90 9 9 cm /I Do Q /A Do",
        resources="<</XObject<</I 5 0 R/A 6 0 R>>>>",
        objects={
            5: stream(b"\x00\xff\xff\x00", IMAGE),
            6: stream(b"BT /F 9 Tf (x) Tj ET", f"/Subtype/Form/BBox[0 0 9 9]/Resources{FONT}"),
        },
    ),
]


def damaged(chance: random.Random) -> bytes:
    data = bytearray(chance.choice(GOOD))
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(data))
        kind = chance.randrange(6)
        if kind == 0:
            data[at] = chance.randrange(256)
        elif kind == 1:
            del data[at : at + chance.randint(1, 60)]
        elif kind == 2:
            data[at:at] = chance.choice(TOKENS) * chance.choice([1, 1, 5, 300])
        elif kind == 3:
            data[at:at] = data[at : at + chance.randint(1, 200)]
        elif kind == 4:
            digits = [index for index, byte in enumerate(data) if 48 <= byte <= 57]
            data[chance.choice(digits)] = 48 + chance.randrange(10)
        elif chance.random() < 0.2:
            del data[at:]
        if len(data) < 2:
            break
    return bytes(data) or b"%PDF-"


async def codes_of(examiner: Examiner, path) -> set[str]:
    found = await examiner.inspect(path)
    if not found.ok:
        return {issue.code for issue in found.issues}
    assert found.page_count > 0
    scan = await examiner.prescan(path, found.page_count, RULES)
    assert scan.issues or len(scan.pages) == found.page_count
    return {issue.code for issue in scan.issues}


class TestDamagedFiles:
    async def test_each_gets_a_verdict_and_the_pool_lives_on(self, examiner, pool, saved):
        chance = random.Random(SEED)
        paths = [saved(damaged(chance)) for _ in range(CASES)]
        verdicts = await asyncio.gather(*(codes_of(examiner, path) for path in paths))
        assert set().union(*verdicts) <= set(REGISTRY)
        assert any(not each for each in verdicts)  # some damage is harmless
        assert sum("SECURITY_JAVASCRIPT_EMBEDDED" in each for each in verdicts) > 5  # and hides no script
        assert (await pool.call("operator:add", 1, 2)).value == 3
