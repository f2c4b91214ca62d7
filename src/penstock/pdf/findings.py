"""What an inspection found: values that cross from the sandbox, so plain and small.

Invariant: every issue is counted, but only the first few of a code are listed, so that ten thousand scripts
neither fill the answer nor crowd out the one launch action behind them.
"""

from collections import Counter
from dataclasses import dataclass, field

LISTED_PER_CODE = 20
_SHORT = 200


@dataclass(frozen=True, slots=True)
class Issue:
    """One reason to refuse the file."""

    code: str  # of kernel/error_codes
    place: str = ""  # such as "page 3, annotation 2 (object 17)"
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Inspection:
    """What is known of the file's structure; nothing was rendered for it. Zeros where it could not be read."""

    page_count: int = 0
    readable_pages: int = 0  # as PDFium counts them, which reads damaged files in its own way
    version: str = ""
    object_count: int = 0
    inflated_bytes: int = 0
    images_in_patterns: int = 0  # which measuring the pages does not see
    issues: list[Issue] = field(default_factory=list)
    issue_count: int = 0  # all that were found, also those that are not listed

    @property
    def ok(self) -> bool:
        return not self.issues


@dataclass(frozen=True, slots=True)
class Bounds:
    """What an honest file stays within."""

    max_pages: int
    max_objects: int
    max_stream_bytes: int  # one stream inflated, one image decoded, what one page draws
    max_inflated_bytes: int  # all streams but images
    max_page_points: int


class Notes:
    """Collects issues while a file is looked through."""

    def __init__(self) -> None:
        self._listed: list[Issue] = []
        self._counts: Counter[str] = Counter()

    def add(self, code: str, place: str = "", detail: str = "") -> None:
        self._counts[code] += 1
        if self._counts[code] <= LISTED_PER_CODE:
            self._listed.append(Issue(code, _plain(place), _plain(detail)))

    def inspection(self) -> Inspection:
        return Inspection(issues=self._listed, issue_count=self._counts.total())


def _plain(text: str) -> str:
    """A stranger's bytes, fit for a log line and a text column."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text[:_SHORT])
