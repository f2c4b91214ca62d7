"""The description of the API is complete, and the API keeps to it, whatever is thrown at it."""

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.support.edge import bearer

from penstock.api.access import ACCESS
from penstock.api.routes import pages

HIDDEN = {(method, route.path) for route in pages.router.routes for method in route.methods}


class TestTheDescription:
    async def test_every_route_that_is_not_a_page_is_in_it(self, client):
        described = (await client.get("/openapi.json")).json()["paths"]
        found = {(method.upper(), path) for path, operations in described.items() for method in operations}
        assert found == set(ACCESS) - HIDDEN

    async def test_every_guarded_route_says_who_may_and_what_happens_otherwise(self, client):
        document = (await client.get("/openapi.json")).json()
        for (method, path), roles in ACCESS.items():
            if (method, path) in HIDDEN or roles is None:
                continue
            operation = document["paths"][path][method.lower()]
            assert operation["x-roles"] == sorted(roles)
            assert operation["security"] == [{"bearer": []}]
            assert {"401", "403", "500"} <= set(operation["responses"])

    async def test_it_is_written_once_and_not_sent_to_who_has_it(self, client):
        first = await client.get("/openapi.json")
        again = await client.get("/openapi.json", headers={"If-None-Match": f'"other", {first.headers["etag"]}'})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
        changed = await client.get("/openapi.json", headers={"If-None-Match": '"other"'})
        assert (changed.status_code, changed.content) == (200, first.content)

    async def test_errors_have_our_shape_with_examples(self, client):
        document = (await client.get("/openapi.json")).json()
        answer = document["paths"]["/api/v1/session"]["post"]["responses"]["401"]["content"]["application/json"]
        assert answer["schema"] == {"$ref": "#/components/schemas/Error"}
        assert answer["examples"]["SIGN_IN_CODE_INVALID"]["value"]["code"] == "SIGN_IN_CODE_INVALID"
        assert "HTTPValidationError" not in document["components"]["schemas"]


@schemathesis.serializer("application/offset+octet-stream")
def _as_is(_context, value):
    return value if isinstance(value, bytes) else str(value).encode()


DESCRIBED = [status_code_conformance, content_type_conformance, response_schema_conformance]
CHECKS = [not_a_server_error, *DESCRIBED]
TRYING = "/api/v1/etl/rules/{rule_id}/try"  # only here a model is asked, and none is set up
ENDLESS = "/api/v1/dashboard/events"


class TestKeepingToIt:
    @pytest.mark.timeout(300)  # every operation, many times: a busy machine needs its while
    def test_nothing_that_is_sent_breaks_it_or_leaves_the_description(self, app, loop, database_url):
        """All operations but the endless one, valid and invalid input, as an admin."""
        schema = schemathesis.openapi.from_dict(app.openapi()).exclude(path=ENDLESS)
        operations = [found.ok() for found in schema.get_all_operations()]
        assert len(operations) == len(set(ACCESS) - HIDDEN) - 1
        assert TRYING in {operation.path for operation in operations}
        for operation in operations:
            described = app.openapi()["paths"][operation.path][operation.method]
            _throw_at(app, operation, schemathesis.GenerationMode.POSITIVE, loop)
            if described.get("parameters") or described.get("requestBody"):  # otherwise nothing can be wrong
                _throw_at(app, operation, schemathesis.GenerationMode.NEGATIVE, loop)


async def _send(app, case):
    given = case.as_transport_kwargs(base_url="http://penstock.test", headers=bearer("admin"))
    body = (
        {"content" if isinstance(given["data"], bytes | str) else "data": given.pop("data")} if "data" in given else {}
    )
    given = {name: value for name, value in given.items() if name in ("method", "url", "headers", "params", "json")}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app)) as client:
        return await client.request(**given, **body)


def _throw_at(app, operation, mode, loop):
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=5, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    def each(case):
        answer = loop.run_until_complete(_send(app, case))
        is_refused = operation.path == TRYING and answer.status_code == 503
        lacks_a_model = is_refused and answer.json()["code"] == "LLM_NOT_CONFIGURED"
        case.validate_response(answer, checks=DESCRIBED if lacks_a_model else CHECKS)

    each()
