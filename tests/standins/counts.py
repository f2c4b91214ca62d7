"""What a stand-in was asked: so that a test can say "no 429" or "one page was read again at the most"."""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Counts:
    total: int = 0
    by_status: Counter[int] = field(default_factory=Counter)
    pages: Counter[str] = field(default_factory=Counter)  # whole answers by what they hold, whatever token led there
    in_flight: int = 0
    most_in_flight: int = 0
    most_in_a_second: int = 0
    resets: int = 0
    _recent: deque[float] = field(default_factory=deque, repr=False)

    @property
    def read_again(self) -> int:
        """How many pages were served more often than once, counting each further time."""
        return sum(times - 1 for times in self.pages.values())

    def arrived(self, moment: float) -> None:
        self.total += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        self._recent.append(moment)
        while self._recent[0] <= moment - 1:
            self._recent.popleft()
        self.most_in_a_second = max(self.most_in_a_second, len(self._recent))

    def left(self, status: int, page_key: str | None) -> None:
        self.in_flight -= 1
        if status == 0:
            self.resets += 1
            return
        self.by_status[status] += 1
        if page_key is not None and status == 200:
            self.pages[page_key] += 1

    def clear(self) -> None:
        waiting = self.in_flight
        self.__init__()  # type: ignore[misc]
        self.in_flight = waiting

    def told(self) -> dict[str, Any]:
        return {
            "total": self.total,
            "by_status": {str(status): times for status, times in sorted(self.by_status.items())},
            "pages": len(self.pages),
            "read_again": self.read_again,
            "most_in_flight": self.most_in_flight,
            "most_in_a_second": self.most_in_a_second,
            "resets": self.resets,
        }
