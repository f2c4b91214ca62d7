"""How PDF places things: six numbers that take a point of one system to another. Forms within forms multiply."""

from typing import Any

from pypdfium2 import raw

Matrix = tuple[float, float, float, float, float, float]
IDENTITY: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


def matrix_of(item: Any) -> Matrix:
    """The matrix of a page object; without the forms that it is in."""
    found = raw.FS_MATRIX()
    if not raw.FPDFPageObj_GetMatrix(item, found):
        return IDENTITY
    return found.a, found.b, found.c, found.d, found.e, found.f


def times(m: Matrix, n: Matrix) -> Matrix:
    """First m, then n."""
    return (
        m[0] * n[0] + m[1] * n[2],
        m[0] * n[1] + m[1] * n[3],
        m[2] * n[0] + m[3] * n[2],
        m[2] * n[1] + m[3] * n[3],
        m[4] * n[0] + m[5] * n[2] + n[4],
        m[4] * n[1] + m[5] * n[3] + n[5],
    )


def moved(m: Matrix, x: float, y: float) -> tuple[float, float]:
    """Where a point comes to lie."""
    return m[0] * x + m[2] * y + m[4], m[1] * x + m[3] * y + m[5]


def bounds_of(m: Matrix, left: float, bottom: float, right: float, top: float) -> tuple[float, float, float, float]:
    """The upright rectangle around a rectangle that was moved: least x, least y, most x, most y."""
    corners = [moved(m, x, y) for x in (left, right) for y in (bottom, top)]
    across, up = [x for x, _ in corners], [y for _, y in corners]
    return min(across), min(up), max(across), max(up)
