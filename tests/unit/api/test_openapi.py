"""The description of the API leaves no question open: each call is explained, and each example is a true one."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from jsonschema import Draft202012Validator

from penstock.api import examples, openapi
from penstock.api.app import ROUTERS
from penstock.api.routes.job_shapes import JobDetail, detail
from penstock.kernel.errors import Language
from penstock.kernel.identity import Caller, Role

UPLOADER = Caller("alice", "m-1", Role.UPLOADER)


def described() -> dict[str, Any]:
    app = FastAPI(openapi_url=None)
    for router in ROUTERS:
        app.router.routes.extend(router.routes)
    return openapi.describe(app)


DOCUMENT = described()
SCHEMAS = DOCUMENT["components"]["schemas"]
OPERATIONS = {
    f"{method.upper()} {path}": operation
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
}
# No field that the model does not have: a renamed one would otherwise stay in the examples.
EXACT = {"schemas": {name: {"additionalProperties": False, **schema} for name, schema in SCHEMAS.items()}}
each_operation = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)


def given(place: dict[str, Any]) -> list[Any]:
    """The examples of a parameter, a header, a body or an answer, wherever OpenAPI lets them stand."""
    named = [one["value"] for one in place.get("examples", {}).values()]
    alone = [place["example"]] if "example" in place else []
    return named + alone or given_by(place["schema"])


def given_by(schema: dict[str, Any]) -> list[Any]:
    if "examples" in schema:
        return schema["examples"]
    if "anyOf" in schema:
        return [example for choice in schema["anyOf"] for example in given_by(choice)]
    return given_by(SCHEMAS[schema["$ref"].rpartition("/")[2]]) if "$ref" in schema else []


def holds_no_text(place: dict[str, Any]) -> bool:
    return place["schema"].get("format") == "binary"


def all_schemas(node: Any, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Schemas with examples of their own, however deep."""
    if isinstance(node, dict):
        if isinstance(node.get("examples"), list):
            yield where, node
        for name, child in node.items():
            if name not in ("example", "examples"):
                yield from all_schemas(child, f"{where} {name}")
    elif isinstance(node, list):
        for child in node:
            yield from all_schemas(child, where)


def places(operation: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for parameter in operation.get("parameters", []):
        yield parameter["name"], parameter
    for kind, body in operation.get("requestBody", {"content": {}})["content"].items():
        yield f"body {kind}", body
    for status, answer in operation["responses"].items():
        for kind, content in answer.get("content", {}).items():
            yield f"{status} {kind}", content
        for name, header in answer.get("headers", {}).items():
            yield f"{status} {name}", header


def problems(schema: dict[str, Any], example: Any) -> list[str]:
    checker = Draft202012Validator({**schema, "components": EXACT}, format_checker=Draft202012Validator.FORMAT_CHECKER)
    return [problem.message for problem in checker.iter_errors(example)]


class TestEveryOperation:
    @each_operation
    def test_says_what_it_does_and_what_nobody_could_guess(self, operation):
        assert operation.get("summary")
        assert operation.get("description")
        assert operation["summary"].lower() not in operation["description"].lower()

    @each_operation
    def test_explains_its_parameters_and_shows_each(self, operation):
        parameters = operation.get("parameters", [])
        assert [one["name"] for one in parameters if not one.get("description")] == []
        assert [one["name"] for one in parameters if not given(one)] == []

    @each_operation
    def test_shows_what_is_sent_and_what_is_answered(self, operation):
        silent = [where for where, place in places(operation) if not holds_no_text(place) and not given(place)]
        assert silent == []

    @each_operation
    def test_lists_its_errors(self, operation):
        errors = {status: answer for status, answer in operation["responses"].items() if status >= "400"}
        assert "500" in errors
        assert [status for status, answer in errors.items() if not list(places({"responses": {status: answer}}))] == []


class TestExamples:
    @each_operation
    def test_each_fits_its_place(self, operation):
        wrong = {
            where: found
            for where, place in places(operation)
            for example in given(place)
            if (found := problems(place["schema"], example))
        }
        assert wrong == {}

    def test_each_that_stands_in_a_schema_fits_it(self):
        found = list(all_schemas(SCHEMAS, ""))
        assert len(found) > 20
        assert {where: bad for where, one in found for each in one["examples"] if (bad := problems(one, each))} == {}

    @pytest.mark.parametrize(
        "wrong",
        [
            {"job_id": "no name of a job"},
            {"created_at": "yesterday"},
            {"status": "DONE"},
            {"total_pages": None},
            {"renamed": 1},
        ],
    )
    def test_one_that_does_not_fit_is_found(self, wrong):
        schema = {"$ref": "#/components/schemas/JobSummary"}
        assert problems(schema, examples.JOB_SUMMARY) == []
        assert len(problems(schema, examples.JOB_SUMMARY | wrong)) == 1

    @pytest.mark.parametrize(
        ("job", "pages"),
        [
            (examples.NEW_JOB, {"PENDING": 2, "BLANK": 1}),
            (examples.JOB, examples.PROGRESS["pages_by_status"]),
            (examples.CANCELLED_JOB, examples.PROGRESS["pages_by_status"]),
            (examples.ENDED_JOB, {"IMPORTED_CONFIRMED": 2, "BLANK": 1}),
        ],
        ids=lambda given: given.get("status", ""),
    )
    def test_a_job_is_shown_as_the_server_would_tell_it(self, job, pages):
        row = JobDetail.model_validate(job).model_dump()
        assert detail(row, pages, Language.EN, UPLOADER).model_dump(mode="json") == job
        assert sum(pages.values()) == job["total_pages"]
