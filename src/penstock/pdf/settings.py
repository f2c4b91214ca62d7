"""The settings of PDF admission. Every page is checked: there is no sampling to be set."""

from typing import ClassVar

from pydantic import Field, PositiveFloat, PositiveInt
from pydantic_settings import SettingsConfigDict

from penstock.kernel.settings import SettingsGroup
from penstock.pdf.findings import Bounds

_MiB = 1 << 20


class PdfSettings(SettingsGroup):
    """What a PDF may be, and what looking at one may cost."""

    model_config = SettingsConfigDict(env_prefix="GW_")
    without_effect: ClassVar = {"GW_SECURITY_SAMPLE_PAGES": "all pages are looked at, not a sample"}

    max_pages: PositiveInt = Field(1000, description="Pages a PDF may have")
    max_page_points: PositiveInt = Field(100_000, description="Longest side of a page, in points of 1/72 inch")
    security_parse_timeout_sec: PositiveInt = Field(
        30,
        description="CPU seconds after which an inspection, or the prescan of one page, is killed and the PDF refused",
    )
    security_memory_limit_mb: PositiveInt = Field(
        512, description="Memory in MiB that reading a PDF may take on top of the idle process"
    )
    security_max_object_count: PositiveInt = Field(500_000, description="Objects a PDF may hold")
    security_max_stream_mb: PositiveInt = Field(
        256, description="MiB that one stream may inflate to, one picture decode to, and one page draw"
    )
    security_max_inflated_mb: PositiveInt = Field(
        1024, description="MiB that all streams but pictures may inflate to together"
    )
    prescan_timeout_sec: PositiveInt = Field(
        120,
        description="CPU seconds after which the prescan of a whole PDF is given up, earlier when its first pages are "
        "so slow that the rest can be foreseen",
    )
    render_timeout_sec: PositiveInt = Field(
        10, description="CPU seconds after which drawing one page image is killed; that it cannot be drawn is kept"
    )
    read_total_sec: PositiveFloat = Field(
        300,
        description="CPU seconds that all calls for the text of one PDF may take together, beside those for each page; "
        "pages that are left then come as unreadable",
    )
    read_per_page_sec: PositiveFloat = Field(
        2, description="CPU seconds that each page of a PDF adds to GW_READ_TOTAL_SEC, whichever page needs them"
    )
    render_max_pixels: PositiveInt = Field(
        16_000_000, description="Pixels of a page image; a higher resolution is lowered to fit"
    )

    @property
    def bounds(self) -> Bounds:
        return Bounds(
            max_pages=self.max_pages,
            max_objects=self.security_max_object_count,
            max_stream_bytes=self.security_max_stream_mb * _MiB,
            max_inflated_bytes=self.security_max_inflated_mb * _MiB,
            max_page_points=self.max_page_points,
        )
