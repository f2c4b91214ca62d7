"""The check that every result passes before it is stored or shown."""

from penstock.extraction.ports import Extract, Rule
from penstock.extraction.rule_sandbox import RuleSandbox
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

SKIP = "skip"
_SHOWN = 50


async def check_result(sandbox: RuleSandbox, rule: Rule, extract: Extract, merchant_id: str) -> None:
    """ETL_RESULT_INVALID: never a half-valid result called completed, whoever made it.

    Our own post-processors check in the sandbox while they work; that of a plug-in is checked here.
    """
    if extract.is_checked or rule.json_schema is None or rule.postprocess_mode == SKIP:
        return
    if errors := await sandbox.errors_of(rule.json_schema, extract.data, merchant_id):
        raise PenstockError(error_codes.ETL_RESULT_INVALID, errors=errors[:_SHOWN])
