"""What admission asks of whoever can read a PDF; `penstock.pdf.Examiner` can."""

from pathlib import Path
from typing import Protocol

from penstock.pdf import Inspection, PictureFormat, PrescanRules, Scan


class Examiner(Protocol):
    """Reads strangers' files, outside of our process. What is wrong with a file is a value; our own trouble raises."""

    async def inspect(self, path: Path, *, tenant: str) -> Inspection: ...

    async def prescan(self, path: Path, page_count: int, rules: PrescanRules, *, tenant: str) -> Scan: ...

    async def render(
        self, path: Path, page_number: int, dpi: float, picture_format: PictureFormat, *, tenant: str
    ) -> bytes: ...
