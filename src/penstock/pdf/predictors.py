"""Undoes the differences between bytes, or rows of bytes, that a stream may be written in before it is packed."""

_ROW_AT_MOST = 1 << 20
_FIRST_OF_PNG = 10


def undo_predictor(data: bytes, parameters: dict[str, int]) -> bytes:
    """The data itself; what is left of a row that was cut off is kept."""
    colors, depth = max(1, parameters.get("Colors", 1)), max(1, parameters.get("BitsPerComponent", 8))
    row = min(_ROW_AT_MOST, max(1, (max(1, parameters.get("Columns", 1)) * colors * depth + 7) // 8))
    step = max(1, colors * depth // 8)
    if parameters.get("Predictor") == 2:
        return _undo_tiff(data, row, step) if depth == 8 else data
    if parameters.get("Predictor", 1) < _FIRST_OF_PNG:
        return data  # there is none of that number
    return _undo_png(data, row, step)


def _undo_tiff(data: bytes, row: int, step: int) -> bytes:
    made = bytearray(data)
    for start in range(0, len(made), row):
        for at in range(start + step, min(start + row, len(made))):
            made[at] = (made[at] + made[at - step]) & 255
    return bytes(made)


def _undo_png(data: bytes, row: int, step: int) -> bytes:
    made, above = bytearray(), bytes(row)
    for start in range(0, len(data), row + 1):
        kind, line = data[start], bytearray(data[start + 1 : start + 1 + row])
        if kind == 2:
            line = bytearray((one + other) & 255 for one, other in zip(line, above, strict=False))
        elif kind in (1, 3, 4):
            _undo_row(kind, line, above, step)
        made += line
        above = bytes(line).ljust(row, b"\x00")
    return bytes(made)


def _undo_row(kind: int, line: bytearray, above: bytes, step: int) -> None:
    for at in range(len(line)):
        left = line[at - step] if at >= step else 0
        corner = above[at - step] if at >= step else 0
        if kind == 1:
            guess = left
        elif kind == 3:
            guess = (left + above[at]) // 2
        else:
            guess = _nearest(left, above[at], corner)
        line[at] = (line[at] + guess) & 255


def _nearest(left: int, up: int, corner: int) -> int:
    """Paeth's choice among the neighbours."""
    guess = left + up - corner
    return min((left, up, corner), key=lambda each: abs(guess - each))
