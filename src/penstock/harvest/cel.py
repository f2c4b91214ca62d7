"""The CEL engine, without its command line.

`import cel` alone also loads a terminal toolkit for the engine's own prompt: 20 MB and 60 ms in every process.
"""

import sys
from types import ModuleType

sys.modules.setdefault("cel.cli", ModuleType("cel.cli"))

from cel import Context, Program, compile  # noqa: A004, E402  their names, as `cel.compile`

__all__ = ["Context", "Program", "compile"]
