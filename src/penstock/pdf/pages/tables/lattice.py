"""Grids drawn by rulings: rulings that touch make a lattice, and its walls make cells.

A wall may be missing (a merged cell) and a side may be open (level rulings that end without an upright one); cells are
always rectangles, and together they cover the grid once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from penstock.pdf.pages.tables.marks import JOIN, Marks, Rule, Word, clusters

TOUCH = 0.5  # letter heights: rulings that come this near to each other touch
WALL = 0.6  # share of a cell's side that must be drawn for it to be a wall
DOUBLE = 0.7  # letter heights: two rulings no further apart, with no word between, are a double line
MOST_CELLS = 10_000  # more is a pattern, not a table
OPEN_SIDE = 1.0  # letter heights: level rulings that run further past the last upright one have an open side there


@dataclass
class Rect:
    """A cell by its rows and columns; the end is not part of it."""

    top: int
    left: int
    bottom: int
    right: int


@dataclass
class Grid:
    xs: list[float]
    ys: list[float]
    rects: list[Rect] = field(default_factory=list)
    used: float = 1.0

    @property
    def rows(self) -> int:
        return len(self.ys) - 1

    @property
    def columns(self) -> int:
        return len(self.xs) - 1

    @property
    def extent(self) -> tuple[float, float, float, float]:
        return self.xs[0], self.ys[0], self.xs[-1], self.ys[-1]

    def box(self, rect: Rect) -> tuple[float, float, float, float]:
        return self.xs[rect.left], self.ys[rect.top], self.xs[rect.right], self.ys[rect.bottom]

    def insert_row(self, y: float, row: int, whole: set[int]) -> None:
        """A row edge inside `row`. The rects named by `whole` are not cut: something in them stands across the edge."""
        self.ys.insert(row + 1, y)
        found: list[Rect] = []
        for rect in self.rects:
            cut = rect.top == row and rect.bottom == row + 1 and id(rect) not in whole
            bottom = rect.bottom + (rect.bottom > row)
            top = rect.top + (rect.top > row)
            if cut:
                found.append(Rect(top, rect.left, row + 1, rect.right))
                top = row + 1
                found.append(Rect(top, rect.left, bottom, rect.right))
            else:
                rect.top, rect.bottom = top, bottom
                found.append(rect)
        self.rects = found


def lattices(marks: Marks) -> list[tuple[list[Rule], list[Rule]]]:
    """Level and upright rulings that hang together, in groups, from the top of the page."""
    across, down = marks.across, marks.down
    parent = list(range(len(across) + len(down)))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for node, other in _touching(across, down, TOUCH * marks.em):
        parent[root(node)] = root(other)
    groups: dict[int, tuple[list[Rule], list[Rule]]] = {}
    for node in range(len(parent)):
        group = groups.setdefault(root(node), ([], []))
        if node < len(across):
            group[0].append(across[node])
        else:
            group[1].append(down[node - len(across)])
    found = [group for group in groups.values() if group[0] and group[1]]
    return sorted(found, key=lambda group: (group[0][0].at, group[0][0].start))


def _touching(across: list[Rule], down: list[Rule], reach: float) -> Iterator[tuple[int, int]]:
    for node, level in enumerate(across):
        for offset, upright in enumerate(down):
            if (
                level.start - reach <= upright.at <= level.end + reach
                and upright.start - reach <= level.at <= upright.end + reach
            ):
                yield node, len(across) + offset


def grid_of(across: list[Rule], down: list[Rule], words: Sequence[Word], em: float) -> Grid | None:
    xs = _with_open_sides(clusters([rule.at for rule in down], 2 * JOIN * em), across, em)
    ys = _with_open_sides(clusters([rule.at for rule in across], 2 * JOIN * em), down, em)
    inside = [w for w in words if xs[0] <= (w.x0 + w.x1) / 2 <= xs[-1] and ys[0] <= w.middle <= ys[-1]]
    xs = _without_double(xs, [(w.x0 + w.x1) / 2 for w in inside], em)
    ys = _without_double(ys, [w.middle for w in inside], em)
    if len(xs) < 2 or len(ys) < 2 or len(xs) * len(ys) > MOST_CELLS:
        return None
    grid = Grid(xs, ys)
    upright = _walls(xs, ys, down, em)
    level = _walls(ys, xs, across, em)
    grid.used = min(_used(upright), _used(level))
    taken = [[False] * grid.columns for _ in range(grid.rows)]
    for row in range(grid.rows):
        for column in range(grid.columns):
            if not taken[row][column]:
                rect = _grown(row, column, upright, level, taken)
                grid.rects.append(rect)
                for covered in range(rect.top, rect.bottom):
                    for each in range(rect.left, rect.right):
                        taken[covered][each] = True
    return grid


def _with_open_sides(edges: list[float], crossing: list[Rule], em: float) -> list[float]:
    first, last = min(rule.start for rule in crossing), max(rule.end for rule in crossing)
    if first < edges[0] - OPEN_SIDE * em:
        edges = [first, *edges]
    if last > edges[-1] + OPEN_SIDE * em:
        edges = [*edges, last]
    return edges


def _without_double(edges: list[float], taken: Sequence[float], em: float) -> list[float]:
    """Double lines made one: two edges close together with no word between."""
    found = edges[:1]
    for edge in edges[1:]:
        if edge - found[-1] <= DOUBLE * em and not any(found[-1] < each < edge for each in taken):
            found[-1] = (found[-1] + edge) / 2
        else:
            found.append(edge)
    return found


def _used(walls: list[list[bool]]) -> float:
    inner = walls[1:-1]
    return sum(sum(row) / len(row) for row in inner) / len(inner) if inner else 1.0


def _walls(edges: list[float], spans: list[float], rules: list[Rule], em: float) -> list[list[bool]]:
    """walls[e][s]: whether edge e is drawn along span s. The outermost edges always are."""
    found = []
    for number, edge in enumerate(edges):
        near = [rule for rule in rules if abs(rule.at - edge) <= DOUBLE * em]
        row = []
        for start, end in pairwise(spans):
            drawn = max([min(end, rule.end) - max(start, rule.start) for rule in near], default=0.0)
            row.append(drawn >= WALL * (end - start) or number in (0, len(edges) - 1))
        found.append(row)
    return found


def _grown(row: int, column: int, upright: list[list[bool]], level: list[list[bool]], taken: list[list[bool]]) -> Rect:
    """The largest rectangle without a wall inside: first to the right, then down."""
    rows, columns = len(taken), len(taken[0])
    right = column + 1
    while right < columns and not upright[right][row] and not taken[row][right]:
        right += 1
    bottom = row + 1
    while bottom < rows and not any(level[bottom][each] or taken[bottom][each] for each in range(column, right)):
        if any(upright[each][bottom] for each in range(column + 1, right)):
            break
        bottom += 1
    return Rect(row, column, bottom, right)
