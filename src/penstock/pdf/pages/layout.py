"""A page's blocks in reading order: headings, paragraphs, lists, tables and pictures where they stand, furniture.

Invariant: every span is named by exactly one block; those of a table by the table's block only. Nothing that is on the
page is left out: a stray word inside a table that no cell has becomes a paragraph after it.
"""

from bisect import bisect
from statistics import median

from penstock.pdf.pages.body import Body
from penstock.pdf.pages.columns import regions
from penstock.pdf.pages.furniture import looks_like_page_number
from penstock.pdf.pages.joining import is_right_to_left
from penstock.pdf.pages.lines import Item, lines_of, placed, text_items
from penstock.pdf.pages.model import Block, BlockKind, Box, Image, Page, Span, Table
from penstock.pdf.pages.paragraphs import Draft, drafts_of


def arrange(page: Page, body_size: float | None = None) -> None:
    """Fill `page.blocks`. `body_size` is the document's usual letter height in points, where it is known."""
    in_tables, strays = _table_spans(page)
    taken = {id_ for ids in (*in_tables.values(), *strays.values()) for id_ in ids}
    items = text_items(page, [span for span in page.spans if span.id not in taken])
    body = Body.of(items, body_size)
    in_flow, behind = _pictures(page, items)
    things = [Item(*placed(page, table.box), table, at) for at, table in enumerate(page.tables)]
    em = median(item.em for item in items) if items else 10.0
    from_right = is_right_to_left("".join(span.text for span in page.spans))
    blocks: list[Block] = []
    for region in regions([*items, *things, *in_flow], em, from_right):
        thing = region[0].thing
        if isinstance(thing, Table):
            blocks.append(Block(BlockKind.TABLE, thing.box, spans=in_tables[thing.id], ref=thing.id))
            blocks += _stray_blocks(page, strays[thing.id])
        elif isinstance(thing, Image):
            blocks.append(_picture(thing))
        else:
            blocks += [_block(draft) for draft in drafts_of(lines_of(region), body)]
    blocks = _with_pictures_behind(blocks, behind)
    for block in blocks:
        if looks_like_page_number(block, blocks):
            block.kind, block.level = BlockKind.FURNITURE, 0
    page.blocks = blocks


def _block(draft: Draft) -> Block:
    spans = [span for line in draft.lines for span in line.spans]
    return Block(draft.kind, around([span.box for span in spans]), draft.text, draft.level, [span.id for span in spans])


def _picture(image: Image) -> Block:
    return Block(BlockKind.IMAGE, image.box, ref=image.id)


def around(boxes: list[Box]) -> Box:
    return Box(
        min([box.x0 for box in boxes]),
        min([box.y0 for box in boxes]),
        max([box.x1 for box in boxes]),
        max([box.y1 for box in boxes]),
    )


def _table_spans(page: Page) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """By table: the spans that its cells have, and those in its frame that no cell has."""
    known = {span.id for span in page.spans}
    taken: set[str] = set()
    inside: dict[str, list[str]] = {}
    for table in page.tables:
        named = dict.fromkeys(id_ for cell in table.cells for id_ in cell.spans if id_ in known and id_ not in taken)
        inside[table.id] = list(named)
        taken.update(named)
    strays: dict[str, list[str]] = {table.id: [] for table in page.tables}
    for span in page.spans if page.tables else []:
        if span.id in taken:
            continue
        around_it = [table for table in page.tables if _holds(table.box, span.box)]
        for table in around_it[:1]:
            (inside if _is_said(table, span) else strays)[table.id].append(span.id)
    return inside, strays


def _is_said(table: Table, span: Span) -> bool:
    """Whether a cell has the span's text though it does not name the span."""
    words = "".join(span.text.split())
    return any(words in "".join(cell.text.split()) for cell in table.cells if _holds(cell.box, span.box))


def _holds(outer: Box, inner: Box) -> bool:
    x, y = (inner.x0 + inner.x1) / 2, (inner.y0 + inner.y1) / 2
    return outer.x0 <= x <= outer.x1 and outer.y0 <= y <= outer.y1


def _stray_blocks(page: Page, ids: list[str]) -> list[Block]:
    if not ids:
        return []
    wanted = set(ids)
    items = text_items(page, [span for span in page.spans if span.id in wanted])
    return [_block(Draft(BlockKind.PARAGRAPH, [line])) for line in lines_of(items)]


def pictures_in_cells(page: Page) -> dict[str, tuple[str, int]]:
    """Pictures that stand in a table's cell: the table, and the cell's place in its list."""
    found = {}
    for image in page.images if page.tables else []:
        for table in page.tables:
            at = next((at for at, cell in enumerate(table.cells) if _holds(cell.box, image.box)), None)
            if at is not None and image.box.width * image.box.height < table.box.width * table.box.height:
                found[image.id] = (table.id, at)
                break
    return found


def _pictures(page: Page, items: list[Item]) -> tuple[list[Item], list[Image]]:
    """Pictures that stand in the flow, and those that lie behind text. Those in cells are the table's."""
    in_cells = pictures_in_cells(page)
    in_flow, behind = [], []
    middles = sorted(((item.x0 + item.x1) / 2, item.middle) for item in items)
    for order, image in enumerate(page.images):
        if image.id in in_cells:
            continue
        x0, y0, x1, y1 = placed(page, image.box)
        across = middles[bisect(middles, (x0, 0.0)) : bisect(middles, (x1, 0.0))]
        covers = any(y0 < y < y1 for _, y in across)
        if covers or any(_holds(table.box, image.box) for table in page.tables) or image.box.height > 0.9:
            behind.append(image)
        else:
            in_flow.append(Item(x0, y0, x1, y1, image, order))
    return in_flow, behind


def _with_pictures_behind(blocks: list[Block], images: list[Image]) -> list[Block]:
    """Each before the first block that lies on it; else before the first below it."""
    places: dict[int, list[Block]] = {}
    for image in images:
        on_it = (at for at, block in enumerate(blocks) if _holds(image.box, block.box))
        below = (at for at, block in enumerate(blocks) if block.box.y0 >= image.box.y1)
        places.setdefault(next(on_it, next(below, len(blocks))), []).append(_picture(image))
    if not places:
        return blocks
    return [block for at, own in enumerate([*blocks, None]) for block in (*places.get(at, ()), own) if block]


def usual_size(page: Page) -> tuple[float, int]:
    """The page's usual letter height and how many letters are in it; for the usual one of a document."""
    items = text_items(page, page.spans)
    size = Body.of(items).em
    return size, sum(len(item.thing.text) for item in items if isinstance(item.thing, Span))
