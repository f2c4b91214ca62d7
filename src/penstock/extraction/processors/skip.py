"""The mode `skip`: nothing is made of the document; the stage's own pointers are the result."""

from penstock.extraction.ports import Extract, Manuscript, Progress, Rule, Subject


class SkipProcessor:
    """Asks no model."""

    name = "skip"

    async def process(self, rule: Rule, manuscript: Manuscript, subject: Subject, progress: Progress) -> Extract:  # noqa: ARG002  the port asks for it
        await progress(1, 1)
        return Extract(None)
