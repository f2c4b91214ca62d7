"""Values, how they are written, and what they hash to. Fixed for ever: stored fingerprints depend on them.

Run as a program with any Python it prints what that Python makes of them; needs nothing but the standard library.
"""

import json
import sys
import types
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

VECTORS = [
    (None, "null"),
    (True, "true"),
    (1, "1"),
    (1.0, "1"),
    (1e0, "1"),
    (-0.0, "0"),
    (0.1, "0.1"),
    (-2.5, "-2.5"),
    (1e-6, "0.000001"),
    (1.5e-7, "1.5e-7"),
    (5e-324, "5e-324"),
    (123456789.125, "123456789.125"),
    (1e21, "1000000000000000000000"),
    (10**21, "1000000000000000000000"),
    (2**53 + 1, "9007199254740993"),
    ("", '""'),
    ('"\\/\b\f\n\r\t\x1f\x7f', '"\\"\\\\/\\b\\f\\n\\r\\t\\u001f\x7f"'),
    ("蜜蜂 é e\u0301 \U0001f41d", '"蜜蜂 é e\u0301 \U0001f41d"'),
    ([], "[]"),
    ((1, [2.0, "3"]), '[1,[2,"3"]]'),
    ({}, "{}"),
    ({"b": 1, "a": {"d": None, "c": False}}, '{"a":{"c":false,"d":null},"b":1}'),
    ({"\U0001f41d": 1, "\uff00": 2, "Z": 3, "a": 4}, '{"Z":3,"a":4,"\uff00":2,"\U0001f41d":1}'),
    (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), '"2026-01-02T03:04:05.000000Z"'),
    (datetime(2026, 1, 2, 3, 4, 5, 6, timezone(timedelta(hours=8))), '"2026-01-01T19:04:05.000006Z"'),
    (datetime(999, 1, 1, tzinfo=UTC), '"0999-01-01T00:00:00.000000Z"'),
    (timedelta(0), '"PT0S"'),
    (timedelta(days=1, minutes=10, milliseconds=250), '"P1DT10M0.25S"'),
]
WHOLE = "sha256:b5a4484865288955c1c41966681bb923d50b153d0402156f307c21e825c35fc0"  # of all vectors together


def main() -> None:
    root = Path(sys.argv[1])
    for name in ("penstock", "penstock.harvest", "penstock.harvest.compiling"):  # without what the packages import
        package = types.ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")))]
        sys.modules[name] = package
    from penstock.harvest.compiling.canonical import canonical_bytes, fingerprint

    written = [canonical_bytes(value).decode() for value, _ in VECTORS]
    sys.stdout.write(json.dumps({"written": written, "whole": fingerprint([value for value, _ in VECTORS])}))


if __name__ == "__main__":
    main()
