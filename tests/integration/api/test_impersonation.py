"""Acting for another merchant: one route creates jobs that way, and no other route or parameter does."""

import re

import pytest
from tests.support.edge import bearer

from penstock.api.access import ACCESS

NAME = "impersonate_merchant_id"
ONLY = ("POST", "/api/v1/jobs")
THERE = "3f0c8a52-1f0e-4b59-9a35-0c6f5b0f6a11"  # an id of the right shape; nothing has it
GUARDED = sorted(place for place, roles in ACCESS.items() if roles is not None)


def mentions(document, schema) -> bool:
    """Whether the name occurs in a schema or in one that it refers to."""
    if isinstance(schema, dict):
        if NAME in schema.get("properties", {}):
            return True
        referred = schema.get("$ref", "").rpartition("/")[2]
        if referred and mentions(document, document["components"]["schemas"][referred]):
            return True
        return any(mentions(document, part) for part in schema.values())
    return isinstance(schema, list) and any(mentions(document, part) for part in schema)


class TestAllRoutes:
    async def test_the_description_names_it_in_the_body_of_one_route(self, client):
        document = (await client.get("/openapi.json")).json()
        found = [
            (method.upper(), path)
            for path, operations in document["paths"].items()
            for method, operation in operations.items()
            if any(parameter["name"] == NAME for parameter in operation.get("parameters", []))
            or mentions(document, operation.get("requestBody", {}))
        ]
        assert found == [ONLY]

    @pytest.mark.parametrize("role", ["uploader", "operator", "admin"])
    async def test_no_route_takes_it_as_a_query_parameter(self, client, role):
        for method, path in GUARDED:
            if role not in ACCESS[method, path]:
                continue
            address = re.sub(r"\{\w+\}", "1", path.replace("{job_id}", THERE))
            headers = {"Tus-Resumable": "1.0.0", **bearer(role)}
            answer = await client.request(method, address, params={NAME: "m-2"}, headers=headers)
            code = answer.headers["x-error-code"] if method == "HEAD" else answer.json()["code"]
            assert (answer.status_code, code) == (400, "REQUEST_INVALID"), (method, path)
            if method != "HEAD":
                assert f"query.{NAME}" in answer.json()["details"]["fields"], (method, path)

    async def test_every_body_but_that_of_a_job_refuses_it_as_a_field(self, client):
        document = (await client.get("/openapi.json")).json()
        asked = 0
        for method, path in GUARDED:
            body = document["paths"].get(path, {}).get(method.lower(), {}).get("requestBody", {})
            if (method, path) == ONLY or "application/json" not in body.get("content", {}):
                continue
            address = re.sub(r"\{\w+\}", "1", path.replace("{job_id}", THERE))
            answer = await client.request(method, address, json={NAME: "m-2"}, headers=bearer("admin"))
            assert (answer.status_code, answer.json()["code"]) == (400, "REQUEST_INVALID"), (method, path)
            assert f"body.{NAME}" in answer.json()["details"]["fields"] or "{" in path, (method, path)
            asked += 1
        assert asked >= 10
