"""The registry of error codes: a new code is a new row in one of these files, and nowhere else.

Codes are frozen once released. HTTP statuses are the edge's affair (`api/http_status.py`); the generated
page `docs/errors.md` shows both together.
"""

from penstock.kernel.error_codes.direct import *  # noqa: F403
from penstock.kernel.error_codes.documents import *  # noqa: F403
from penstock.kernel.error_codes.everywhere import *  # noqa: F403  every code is used as error_codes.X
from penstock.kernel.error_codes.extraction import *  # noqa: F403
from penstock.kernel.error_codes.harvest import *  # noqa: F403
from penstock.kernel.error_codes.table import REGISTRY as REGISTRY
