"""The settings of text recognition."""

from datetime import timedelta

from pydantic import ByteSize, Field, PositiveInt
from pydantic_settings import SettingsConfigDict

from penstock.kernel.settings import SettingsGroup

_MiB = 1 << 20


class OcrSettings(SettingsGroup):
    """How scans and photos are read: processes of one thread each, what they may use, how fine pages are drawn."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_OCR_")

    processes: int = Field(
        0,
        ge=0,
        description="Pages recognised at once, each in a process with one thread; 0: as many as there are cores",
    )
    memory: ByteSize = Field(
        ByteSize(2048 * _MiB),
        description="Memory one page may take on top of the warm models, which are shared and hold about 250 MiB",
    )
    page_seconds: timedelta = Field(
        timedelta(seconds=180), gt=timedelta(0), description="CPU time after which a page is given up"
    )
    document_seconds: timedelta = Field(
        timedelta(minutes=15),
        gt=timedelta(0),
        description="CPU time that recognising all pages of one document may take together, beside that for each page; "
        "pages that are left then come as unreadable, or with their written text only",
    )
    document_seconds_per_page: timedelta = Field(
        timedelta(seconds=20),
        ge=timedelta(0),
        description="CPU time that each page of a document adds to PENSTOCK_OCR_DOCUMENT_SECONDS, whichever "
        "page needs it",
    )
    dpi: int = Field(150, ge=72, le=600, description="Resolution at which pages are drawn and pictures are looked at")
    max_pixels: PositiveInt = Field(
        6_000_000, description="Pixels of what is looked at; a larger page is drawn less finely"
    )
    max_picture_pixels: PositiveInt = Field(
        100_000_000, description="A picture with more pixels is refused before it is decoded"
    )
    max_picture_frames: PositiveInt = Field(1000, description="Pages a TIFF may have")
    min_confidence: float = Field(
        0.5, ge=0, le=1, description="Lines of which the recogniser is less sure are left out"
    )
    warn_confidence: float = Field(
        0.8, ge=0, le=1, description="A page recognised with a lower mean confidence carries the warning low_confidence"
    )
