"""Every place that merchants share: who attacks it how, and whose times are looked at meanwhile."""

from collections.abc import Callable
from dataclasses import dataclass

from bench.fair_shares import victims
from bench.fair_shares.system import Target
from bench.fair_shares.victims import Victim


@dataclass(frozen=True)
class Place:
    """A shared place. `attack` is the name of a function in `attacks`."""

    name: str
    attack: str
    victims: tuple[Callable[[Target], Victim], ...]


PLACES = (
    Place("sandbox", "occupy_sandbox", (victims.MakeJob,)),
    Place("admissions", "flood_admissions", (victims.MakeJob,)),
    Place("images", "draw_pages", (victims.MakeJob, victims.PageImage)),
    Place("rules", "write_rules", (victims.Live, victims.WriteRule, victims.TryRule)),
    Place("try-out", "try_rules", (victims.TryRule, victims.UploadMegabyte)),
    Place("rule-tasks", "run_rules", (victims.RunTask, victims.Delivered)),
    Place("deliveries", "hang_deliveries", (victims.Delivered,)),
    Place("streams", "hold_streams", (victims.Streamed,)),
    Place("uploads", "flood_uploads", (victims.UploadMegabyte,)),
    Place("etl-queue", "queue_tasks", (victims.RunTask,)),
    Place("grpc", "flood_grpc", (victims.Announce,)),
    Place("database", "exhaust_database", (victims.ListJobs,)),
)
