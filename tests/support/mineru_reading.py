"""`python -m tests.support.mineru_reading BASE_URL FOLDER PAGES`: reads a document in a process that may be killed."""

import asyncio
import sys
from pathlib import Path

from tests.integration.extraction.mineru.conftest import document_of, provider_at
from tests.support.notebooks import opened


async def main(base_url: str, folder: Path, pages: int) -> None:
    async with provider_at(base_url, pages_per_part=2) as provider:
        await provider.read(document_of(folder / "document", pages), await opened(folder / "notebook"))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
