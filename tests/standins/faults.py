"""What can go wrong on demand. Each figure is the probability of that fault in one answer; the seed decides which."""

import random
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(slots=True)
class Faults:
    """Can be changed while the server runs.

    `repeat_page`: the page before comes once more. With tokens, reading on then leads to where it should; with
    offsets and page numbers only asking again (or the total) shows what was missed. `wrong_content_type`: half of
    them are the right body under a wrong name, half a page of HTML with status 200. `in_band`: an error inside a
    200, in the service's own words.
    """

    rate_429: float = 0.0
    rate_500: float = 0.0
    reset: float = 0.0
    slow_body: float = 0.0
    truncated_json: float = 0.0
    wrong_content_type: float = 0.0
    repeat_page: float = 0.0
    out_of_order: float = 0.0
    duplicate_ids: float = 0.0
    changing_totals: float = 0.0
    in_band: float = 0.0
    slow_seconds: float = 0.3
    seed: int = 0
    chance: random.Random = field(default_factory=random.Random, repr=False)

    def __post_init__(self) -> None:
        self.chance.seed(self.seed)

    def strikes(self, name: str) -> bool:
        rate: float = getattr(self, name)
        return rate > 0 and self.chance.random() < rate

    def change(self, **rates: Any) -> None:
        known = {each.name for each in fields(self)} - {"chance"}
        for name, value in rates.items():
            if name not in known:
                raise ValueError(f"there is no fault {name}; there are: {', '.join(sorted(known))}")
            setattr(self, name, type(getattr(self, name))(value))
        if "seed" in rates:
            self.chance.seed(self.seed)


def none() -> Faults:
    return Faults()


def some(seed: int = 0) -> Faults:
    return Faults(rate_429=0.02, rate_500=0.02, slow_body=0.02, out_of_order=0.1, changing_totals=0.1, seed=seed)


def many(seed: int = 0) -> Faults:
    return Faults(
        rate_429=0.05,
        rate_500=0.05,
        reset=0.04,
        slow_body=0.03,
        truncated_json=0.04,
        wrong_content_type=0.04,
        out_of_order=0.3,
        duplicate_ids=0.2,
        changing_totals=0.3,
        seed=seed,
    )


LEVELS = {"none": lambda _seed: none(), "some": some, "many": many}
