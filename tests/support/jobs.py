"""Small PDFs, good and bad, and uploads that have just been finished."""

import io
import secrets
from datetime import UTC, datetime, timedelta

import pikepdf
from pikepdf import Dictionary, Name, Pdf

from penstock.kernel.db import Database
from penstock.kernel.statemachine import Step, enter
from penstock.uploads.tus import UPLOAD, Uploads, UploadStatus


def pdf(*pages: str, encrypted: bool = False, script: bool = False, objects: int = 0) -> bytes:
    """One page for each text; an empty text is an empty page."""
    made = Pdf.new()
    for text in pages:
        page = made.add_blank_page(page_size=(300, 400))
        if text:
            font = Dictionary(Type=Name.Font, Subtype=Name.Type1, BaseFont=Name.Helvetica)
            page.Resources = Dictionary(Font=Dictionary(F1=font))
            page.Contents = made.make_stream(f"BT /F1 18 Tf 20 200 Td ({text}) Tj ET".encode())
    if script:
        made.Root.OpenAction = Dictionary(S=Name.JavaScript, JS="app.alert(1)")
    if objects:
        made.Root.Extra = pikepdf.Array([made.make_indirect(Dictionary(N=n)) for n in range(objects)])
    data = io.BytesIO()
    protection = pikepdf.Encryption(owner="o", user="u") if encrypted else False
    made.save(data, encryption=protection, deterministic_id=not encrypted)
    return data.getvalue()


def fresh(pages: int = 1) -> bytes:
    """Content that no other file has."""
    return pdf(*(f"page {n} of {secrets.token_hex(8)}" for n in range(1, pages + 1)))


async def finished_upload(
    database: Database, uploads: Uploads, content: bytes, merchant: str = "m-1", name: str = "spring.pdf"
) -> str:
    """As uploads leave it: a FINISHED row, and the bytes in the directory."""
    upload_id = f"upl_{secrets.token_hex(10)}"
    (uploads.directory / upload_id).write_bytes(content)
    now = datetime.now(UTC)
    async with database.transaction() as tx:
        await tx.execute(
            "insert into tus_uploads (upload_id, merchant_id, created_by, status, filename, length, received,"
            " expires_at, finished_at) values (%s, %s, 'alice', 'FINISHED', %s, %s, %s, %s, %s)",
            (upload_id, merchant, name, len(content), len(content), now + timedelta(hours=6), now),
        )
        await enter(tx, UPLOAD, Step(upload_id, None, UploadStatus.FINISHED, by="uploads", trigger="upload"))
    return upload_id
