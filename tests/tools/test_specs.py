"""What a model is told of a tool, and the errors that tell it what to change."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft202012Validator
from msgspec import Meta, Struct, structs

from midflight.errors import InvalidRequest, InvalidTool
from midflight.tools.declaration import Tool, tool
from midflight.tools.specs import named, parse, spec


class Line(Struct, frozen=True):
    item: str
    count: int = 1


@tool(effect="once", name="shop.order")
async def order(
    customer: Annotated[str, Meta(description="who pays")],
    lines: list[Line],
    speed: Literal["slow", "fast"] = "slow",
    idempotency_key: str = "",
) -> str:
    """Order things.

    They are sent at once.
    """
    return f"{customer} {lines} {speed} {idempotency_key}"


def test_a_model_is_told_the_docstring_and_a_schema_of_the_signature() -> None:
    told = spec(order)

    assert told.name == "shop_order"
    assert told.description == "Order things.\n\nThey are sent at once."
    Draft202012Validator.check_schema(told.schema)
    assert told.schema["required"] == ["customer", "lines"]
    assert told.schema["properties"]["customer"] == {"description": "who pays", "type": "string"}
    assert set(told.schema["properties"]) == {"customer", "lines", "speed"}
    assert told.schema["additionalProperties"] is False


def test_arguments_come_as_the_function_takes_them() -> None:
    given = parse(order, '{"customer": "ann", "lines": [{"item": "tea"}]}')

    assert given == {"customer": "ann", "lines": [Line("tea")]}


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        ('{"customer": 3, "lines": []}', "argument customer: expected string, got 3"),
        ('{"customer": "ann"}', "argument lines is missing"),
        ('{"customer": "a", "lines": [{}]}', "argument lines.0.item is missing"),
        (
            '{"customer": "a", "lines": [{"item": "x", "count": "2"}]}',
            'argument lines.0.count: expected integer, got "2"',
        ),
        (
            '{"customer": "a", "lines": [], "color": 1}',
            'argument "color" is unknown; the tool takes customer, lines, speed',
        ),
        ('{"customer": "a", "lines": [], "speed": "warp"}', "argument speed: 'warp' is not one of"),
        ('{"idempotency_key": "x", "customer": "a", "lines": []}', '"idempotency_key" is unknown'),
        ('{"customer": "a"', "the arguments are not JSON (Input data was truncated)"),
        ("[1]", "the arguments are [1]; send one JSON object"),
        ('{"customer": NaN}', "not JSON"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_an_error_says_what_to_change_and_that_nothing_was_done(
    arguments: str, advice: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(order, arguments)

    assert str(refused.value).startswith("shop_order: ")
    assert advice in str(refused.value)
    assert str(refused.value).endswith("Nothing was done.")


def test_an_error_repeats_no_more_of_a_value_than_one_can_read() -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(order, '{"customer": ["%s"], "lines": []}' % ("x" * 100_000))

    assert len(str(refused.value)) < 250


def test_no_arguments_at_all_are_an_empty_object() -> None:
    @tool(effect="read", name="specs.now")
    async def now() -> str:
        return "now"

    assert parse(now, "") == {}
    assert spec(now).description == "specs.now"


def foreign(schema: dict[str, Any]) -> Tool:
    return structs.replace(order, name="far.away", schema=schema, description="From elsewhere.")


def test_a_schema_of_others_is_used_as_it_is_but_its_expressions_keep_nobody_busy() -> None:
    text = {"type": "string", "pattern": "^(a+)+$"}
    schema = {
        "type": "object",
        "properties": {"pattern": text, "n": {"type": "integer"}},
        "patternProperties": {"^(x+)+$": {"type": "integer"}},
        "additionalProperties": False,
        "required": ["pattern"],
    }
    far = foreign(schema)
    evil = "a" * 40 + "!"

    assert spec(far).schema == schema
    assert parse(far, f'{{"pattern": "{evil}", "{"x" * 40}y": 1}}')["pattern"] == evil
    with pytest.raises(InvalidRequest, match="argument pattern: expected string, got 1"):
        parse(far, '{"pattern": 1}')


def test_a_name_is_made_of_what_providers_take_and_stays_apart_from_others() -> None:
    longs = [structs.replace(order, name="x" * 80 + end) for end in "ab"]

    names = [spec(declared).name for declared in longs]

    assert [len(name) for name in names] == [64, 64]
    assert names[0] != names[1]
    assert list(named([order, *longs])) == ["shop_order", *names]
    with pytest.raises(InvalidTool, match=r"would see the same name for it and for shop\.order"):
        named([order, structs.replace(order, name="shop/order")])


def test_a_parameter_without_a_name_is_refused_where_the_model_is_told() -> None:
    @tool(effect="read", name="specs.sum")
    async def add(*numbers: int) -> int:
        return sum(numbers)

    with pytest.raises(InvalidTool, match="by name"):
        spec(add)
