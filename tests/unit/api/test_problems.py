"""Every problem that a field can have is told in Chinese with its figures."""

from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from penstock.api.problems import reason
from penstock.kernel.errors import Language


class Colour(StrEnum):
    RED = "red"


def problem_of(kind: Any, value: Any) -> dict[str, Any]:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(kind).validate_python(value)
    return dict(refused.value.errors()[0])


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (str, 5, "应为字符串"),
        (int, "x", "应为整数"),
        (UUID, "x", "应为 UUID"),
        (Colour, "blue", "应为以下之一：'red'"),
        (Literal["a"], "b", "应为以下之一：'a'"),
        (Annotated[str, Field(min_length=2)], "x", "至少 2 个字符"),
        (Annotated[str, Field(max_length=2)], "xxx", "最多 2 个字符"),
        (Annotated[str, Field(pattern="^a$")], "b", "格式不符：应匹配 ^a$"),
        (Annotated[int, Field(ge=1)], 0, "应不小于 1"),
        (Annotated[int, Field(le=1)], 2, "应不大于 1"),
        (Annotated[int, Field(gt=1)], 1, "应大于 1"),
        (Annotated[int, Field(lt=1)], 1, "应小于 1"),
        (Annotated[list[int], Field(max_length=1)], [1, 2], "最多 1 项"),
    ],
)
def test_it_is_said_in_chinese(kind, value, said):
    assert reason(problem_of(kind, value), Language.ZH) == said


def test_english_and_what_nobody_translated_are_in_the_validators_words():
    problem = problem_of(int, "x")
    assert reason(problem, Language.EN) == problem["msg"]
    assert reason({"type": "never_heard_of", "msg": "odd"}, Language.ZH) == "odd"
