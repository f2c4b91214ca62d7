"""A document split over the tables of the registry, and put together again. Pure.

Invariant: `document_of(rows_of(document)) == document` for every canonical document. What no table has a place for
(auth, count, planning, and lists that are empty on purpose) is in `reg_prov_endpoint_def.sections`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.harvest.durations import iso_text, read_duration

_Json = dict[str, Any]
Rows = dict[str, list[_Json]]

SECTION_TABLES = {
    "http": "reg_prov_http_cfg",
    "pagination": "reg_prov_pagination_cfg",
    "window": "reg_prov_window_offset_cfg",
    "retry": "reg_prov_retry_cfg",
    "rateLimit": "reg_prov_rate_limit_cfg",
    "batching": "reg_prov_batching_cfg",
}
ENDPOINTS, CREDENTIALS, SCHEDULES = "reg_prov_endpoint_def", "reg_prov_credential", "reg_schedule"
PARAMS, FIELDS = "reg_prov_api_param_map", "reg_expr_field_dict"
CAPABILITIES, RENDER_RULES = "reg_prov_expr_capability", "reg_prov_expr_render_rule"
TABLES = (
    ENDPOINTS, *SECTION_TABLES.values(), CREDENTIALS, PARAMS, CAPABILITIES, RENDER_RULES, FIELDS, SCHEDULES,
)  # fmt: skip
JSON_COLUMNS = frozenset({"defaults", "sections", "params", "settings", "reference", "path"})
_PARAM_COLUMNS = {"default": "default_value", "expr": "expr", "pattern": "pattern"}


def rows_of(document: Mapping[str, Any]) -> Rows:
    """Without the source's own row."""
    rows: Rows = {table: [] for table in TABLES}
    code = document["source"]
    for name, endpoint in document["endpoints"].items():
        _add_endpoint(rows, {"provenance_code": code, "endpoint_name": name}, endpoint)
    for name, credential in document["credentials"].items():
        reference = {key: value for key, value in credential.items() if key != "type"}
        rows[CREDENTIALS].append({
            "provenance_code": code, "credential_code": name, "type_code": credential["type"], "reference": reference,
        })  # fmt: skip
    for schedule in document["schedules"]:
        every = schedule.get("every")
        rows[SCHEDULES].append({
            "provenance_code": code, "endpoint_name": schedule["endpoint"], "operation_code": schedule["operation"],
            "cron": schedule.get("cron"), "every": None if every is None else read_duration(every),
            "params": schedule["params"],
        })  # fmt: skip
    return rows


def _add_endpoint(rows: Rows, key: _Json, endpoint: _Json) -> None:
    for section, table in SECTION_TABLES.items():
        if section in endpoint:
            rows[table].append({**key, "settings": endpoint[section]})
    if expr := dict(endpoint.get("expr", {})):
        if "allowedFunctions" in expr:
            rows[CAPABILITIES].append({**key, "allowed_functions": expr.pop("allowedFunctions")})
        if expr:
            rows[RENDER_RULES].append({**key, "settings": expr})
    mapping = dict(endpoint.get("mapping", {}))
    rows[PARAMS] += [_param_row(key, number, each) for number, each in enumerate(mapping.get("requestParams", ()))]
    rows[FIELDS] += [
        {**key, "kind_code": "RESPONSE", "field_name": name, "path": value, "is_required": False, "sort_no": 0}
        for name, value in endpoint.get("response", {}).items()
    ]
    rows[FIELDS] += [
        {**key, "kind_code": "OUTPUT", "field_name": each["name"], "path": each["expr"],
         "is_required": each["required"], "sort_no": number}
        for number, each in enumerate(mapping.get("outputFields", ()))
    ]  # fmt: skip
    left = {name: value for name, value in mapping.items() if name == "sink" or value == []}
    rows[ENDPOINTS].append({
        **key, "role_code": endpoint["role"], "is_default": endpoint.get("default", False),
        "linked_endpoint": endpoint.get("linkedEndpoint"), "params": endpoint.get("params", {}),
        "defaults": endpoint.get("defaults", {}),
        "sections": {name: endpoint[name] for name in ("auth", "count", "planning") if name in endpoint}
        | ({"mapping": left} if left else {}),
    })  # fmt: skip


def _param_row(key: _Json, number: int, param: _Json) -> _Json:
    return {
        **key,
        "param_name": param["name"],
        "location_code": param["location"],
        "is_required": param["required"],
        **{column: param.get(name) for name, column in _PARAM_COLUMNS.items()},
        "sort_no": number,
    }


def document_of(source: Mapping[str, Any], rows: Mapping[str, Sequence[_Json]]) -> _Json:
    """`source`: the row of reg_provenance; `rows`: those of its other tables."""
    endpoints = {row["endpoint_name"]: _endpoint(row) for row in rows[ENDPOINTS]}
    for section, table in SECTION_TABLES.items():
        for row in rows[table]:
            endpoints[row["endpoint_name"]][section] = row["settings"]
    for row in rows[CAPABILITIES]:
        endpoints[row["endpoint_name"]]["expr"] = {"allowedFunctions": row["allowed_functions"]}
    for row in rows[RENDER_RULES]:
        endpoints[row["endpoint_name"]].setdefault("expr", {}).update(row["settings"])
    for row in sorted(rows[FIELDS], key=lambda row: row["sort_no"]):
        _add_field(endpoints[row["endpoint_name"]], row)
    for row in sorted(rows[PARAMS], key=lambda row: row["sort_no"]):
        _listed(endpoints[row["endpoint_name"]], "requestParams").append(_param(row))
    return {
        "source": source["provenance_code"],
        "name": source["name"],
        "description": source["description"],
        "defaults": source["defaults"],
        "credentials": {row["credential_code"]: {"type": row["type_code"], **row["reference"]}
                        for row in rows[CREDENTIALS]},
        "endpoints": endpoints,
        "schedules": sorted(map(_schedule, rows[SCHEDULES]), key=lambda each: (each["endpoint"], each["operation"])),
    }  # fmt: skip


def _endpoint(row: _Json) -> _Json:
    made = {"role": row["role_code"], **row["sections"]}
    if row["defaults"]:
        made["defaults"] = row["defaults"]
    if row["params"]:
        made["params"] = row["params"]
    if row["is_default"]:
        made["default"] = True
    if row["linked_endpoint"]:
        made["linkedEndpoint"] = row["linked_endpoint"]
    return made


def _add_field(endpoint: _Json, row: _Json) -> None:
    if row["kind_code"] == "RESPONSE":
        endpoint.setdefault("response", {})[row["field_name"]] = row["path"]
    else:
        _listed(endpoint, "outputFields").append(
            {"name": row["field_name"], "expr": row["path"], "required": row["is_required"]}
        )


def _listed(endpoint: _Json, key: str) -> list[_Json]:
    listed: list[_Json] = endpoint.setdefault("mapping", {}).setdefault(key, [])
    return listed


def _param(row: _Json) -> _Json:
    said = {name: row[column] for name, column in _PARAM_COLUMNS.items() if row[column] is not None}
    return {"name": row["param_name"], "location": row["location_code"], "required": row["is_required"], **said}


def _schedule(row: _Json) -> _Json:
    when = {"cron": row["cron"]} if row["cron"] is not None else {"every": iso_text(row["every"])}
    return {"endpoint": row["endpoint_name"], "operation": row["operation_code"], **when, "params": row["params"]}
