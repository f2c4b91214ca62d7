"""Rule 7: every code is in the dictionaries. Names that the model itself refuses are reported under this rule too."""

from collections.abc import Iterator

from penstock.harvest.compiling.problems import Case, Complaint, Found, Part, Rule


def _check(case: Case) -> Found:
    if case.terms.known_codes is None:
        return
    for part in case.parts:
        for kind, key, code in _codes(case, part):
            if code is not None and code not in case.terms.known_codes.get(kind, frozenset()):
                yield (
                    part,
                    Complaint(key, f"字典 {kind} 中没有 {code}", f"the dictionary {kind} has no {code}"),
                )


def _codes(case: Case, part: Part) -> Iterator[tuple[str, str, str | None]]:
    sections = part.sections
    yield "http_method", "http.method", sections.http.method
    yield "reg_auth_type", "auth.type", sections.auth.type
    yield "reg_endpoint_role", "role", part.role
    yield "reg_pagination_type", "pagination.type", sections.pagination.type
    yield "ing_cursor_type", "window.cursorType", sections.window.cursor_type
    yield "ing_namespace_scope", "window.namespace", sections.window.namespace
    yield "ing_operation", "operation", case.operation


CODES = Rule(7, "codes", "字典编码存在且合法", "every code is known to the dictionaries", _check)
