"""The form that servers of 2.x and 3.x take. They ignore names they do not know: these are the real ones."""

from penstock.extraction.providers.mineru.family import Order
from penstock.extraction.providers.mineru.settings import MineruSettings
from penstock.extraction.providers.mineru.web import Sent


def parse_form(order: Order, settings: MineruSettings) -> Sent:
    fields = {
        "lang_list": settings.language,
        "parse_method": settings.ocr_mode,
        "formula_enable": _word(settings.formulas),
        "table_enable": "true",
        "return_md": "true",
        "return_middle_json": "true",
        "return_content_list": "true",
        "return_images": "true",
        "response_format_zip": "true",
    }
    if settings.model_version:
        fields["backend"] = settings.model_version
    if not order.part.is_whole:  # from 0, both included
        fields |= {"start_page_id": str(order.part.first - 1), "end_page_id": str(order.part.last - 1)}
    return Sent(fields=fields, file=(order.filename, order.document.path, order.document.media_type))


def _word(value: bool) -> str:
    return "true" if value else "false"
