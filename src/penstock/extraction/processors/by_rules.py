"""The mode `rules`: labels, headings and tables of the document are mapped to the schema, without a model.

The work is done in the sandbox (`rule_match.py`). A result that does not fit the schema is a failure that names each
path, never a guess.
"""

from penstock.extraction.ports import Extract, Manuscript, Progress, Rule, Subject
from penstock.extraction.rule_sandbox import RuleSandbox
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError, Sentence
from penstock.kernel.schemas import fault


class RulesProcessor:
    """Asks no model."""

    name = "rules"

    def __init__(self, sandbox: RuleSandbox) -> None:
        self._sandbox = sandbox

    async def process(self, rule: Rule, manuscript: Manuscript, subject: Subject, progress: Progress) -> Extract:
        """ETL_RESULT_INVALID with each path; ETL_RULE_TOO_COSTLY."""
        if rule.json_schema is None:
            raise PenstockError(
                error_codes.ETL_RULE_INVALID, problems=[fault("/json_schema", Sentence("缺失", "is missing"))]
            )
        found = await self._sandbox.match(rule, manuscript, subject.merchant_id, progress)
        facts = {"strategy": "rules", "fields_found": found.places_found}
        return Extract(found.data, found.places, facts, is_checked=True)
