"""Values: validation, encoding and comparison."""

from __future__ import annotations

from enum import Enum, IntEnum, StrEnum
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import HoldfastError, InvalidInput, InvalidType
from holdfast.model.value import (
    LONGEST_OBJECT,
    as_reference,
    check_json_object,
    check_key,
    decode,
    encode,
    fits,
    larger,
    parse,
    reference_in,
    too_large,
)


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    LARGE = 3


class Status(str, Enum):  # noqa: UP042  (as files written for older Pythons have it)
    OK = "ok"


class Text(str):
    def __str__(self) -> str:
        return "something else"


class Number(int):
    def __int__(self) -> int:
        return 7


class Fraction(float):
    def __float__(self) -> float:
        return 7.0


texts = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
).filter(lambda value: value is not None)


@pytest.mark.full
@given(json_values)
def test_every_json_value_round_trips(value: Any) -> None:
    assert decode(encode(value)) == value


@pytest.mark.full
@given(json_values)
def test_an_encoded_value_is_parsed_to_the_same_value(value: Any) -> None:
    assert decode(parse(encode(value))) == decode(encode(value))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("app_1", '"app_1"'),
        (1, "1"),
        (1.0, "1.0"),
        (True, "true"),
        ([1, None], "[1,null]"),
        ({"b": 1, "a": ()}, '{"b":1,"a":[]}'),
        ((1, (2,)), "[1,[2]]"),
        (Colour.RED, '"red"'),
        (Size.LARGE, "3"),
        (Text("x"), '"x"'),
        (Status.OK, '"ok"'),
        ([{Status.OK: Text("x")}], '[{"ok":"x"}]'),
        (Number(1), "1"),
        (Fraction(1.5), "1.5"),
        ("\u00e9\U0001f680", '"\u00e9\U0001f680"'),
        ("\x00", '"\\u0000"'),
    ],
)
def test_a_value_is_encoded_as_json(value: Any, text: str) -> None:
    assert encode(value) == text


def test_a_value_nested_too_deep_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(250):
        deep = [deep]

    with pytest.raises(InvalidInput, match="nested deeper than 200 levels"):
        encode(deep)


def test_a_circular_value_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)

    with pytest.raises(InvalidInput, match="circular"):
        encode(circle)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("app_1", "in quotes"),
        ("", "not JSON"),
        ("{", "not JSON"),
        ("'a'", "not JSON"),
        ("NaN", "not JSON"),
        ("[1, Infinity]", "not JSON"),
        ('"a" "b"', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("null", "None cannot be stored"),
        ("1e999", "not JSON|beyond|inf"),
        ("9223372036854775808", "beyond 64 bits|not JSON"),
        ('"\\ud800"', "not JSON|surrogate"),
    ],
)
def test_input_text_that_is_not_a_value_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as refused:
        parse(text)

    assert isinstance(refused.value, HoldfastError)


@pytest.mark.parametrize(
    ("text", "parsed"), [(' {"a" : 1.50} ', '{"a":1.5}'), ('"\\u00e9"', '"\u00e9"')]
)
def test_input_text_is_stored_as_if_a_task_had_written_it(text: str, parsed: str) -> None:
    assert parse(text) == parsed


def test_a_reference_is_recognised() -> None:
    assert reference_in(as_reference("s3://bucket/key")) == "s3://bucket/key"


@pytest.mark.parametrize(
    "value",
    [
        "s3://bucket/key",
        {"a": 1},
        decode(as_reference("s3://bucket/key")),
        {"__holdfast_value__": decode(as_reference("s3://bucket/key"))},
        {"a": decode(as_reference("s3://bucket/key"))},
    ],
)
def test_a_value_that_looks_like_a_reference_is_still_a_value(value: Any) -> None:
    assert reference_in(encode(value)) is None
    assert decode(encode(value)) == value


@pytest.mark.parametrize("key", ["a", "A/b c", "\U0001f680" * 512, "it's", " ", "\u00a0", "%"])
def test_a_key_may_be_any_text(key: str) -> None:
    check_key(key)


@pytest.mark.parametrize(
    ("key", "error"),
    [
        ("", InvalidInput),
        ("k" * 513, InvalidInput),
        ("\x1f", InvalidInput),
        ("\x7f", InvalidInput),
        ("\x9f", InvalidInput),
        ("\udc00", InvalidInput),
        (None, InvalidType),
        (b"k", InvalidType),
    ],
)
def test_an_invalid_key_is_refused(key: Any, error: type[HoldfastError]) -> None:
    with pytest.raises(error) as refused:
        check_key(key)

    assert refused.value.hint


def test_a_size_counts_bytes_not_characters() -> None:
    assert fits('"\u00e9"', 4)
    assert not fits('"\u00e9"', 3)

    error = too_large('"\u00e9"', 3, "here")
    assert error.message == "here: the value has 4 bytes as JSON; the limit is 3"


def test_a_limit_of_zero_is_no_limit() -> None:
    assert fits("x" * 1_000_000, 0)


numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)


@given(st.tuples(numbers, numbers) | st.tuples(texts, texts))
def test_the_larger_of_two_is_what_python_says(pair: tuple[Any, Any]) -> None:
    standing, proposed = pair

    assert decode(larger(encode(standing), encode(proposed), "here")) == max(pair)


def test_of_equal_values_the_current_one_is_kept() -> None:
    assert larger("1", "1.0", "here") == "1"
    assert larger("1.0", "1", "here") == "1.0"


def test_an_absent_value_is_replaced_by_the_proposed_one() -> None:
    assert larger(None, "1", "here") == "1"


@pytest.mark.parametrize("pair", [("1", '"1"'), ('"1"', "1"), ("true", "1"), ("[1]", '"1"')])
def test_values_of_two_types_have_no_larger_one(pair: tuple[str, str]) -> None:
    with pytest.raises(InvalidType, match="here holds a"):
        larger(*pair, "here")


@pytest.mark.parametrize("proposed", ["true", "[1]", "{}", "null"])
def test_only_numbers_and_strings_have_an_order(proposed: str) -> None:
    with pytest.raises(InvalidType, match="only numbers and strings"):
        larger(None, proposed, "here")


def test_an_object_that_is_too_long_is_refused_with_its_length() -> None:
    text = f'{{"x":"{"y" * LONGEST_OBJECT}"}}'

    with pytest.raises(
        InvalidInput, match=r"conf has 1,048,584 characters as JSON\nhint: 1,048,576"
    ):
        check_json_object("conf", text)


@pytest.mark.parametrize("name", ["int64", "uint8", "uint16", "uint32", "uint64", "float16"])
def test_the_hint_for_a_number_of_numpy_is_its_item(name: str) -> None:
    number = getattr(numpy, name)(1)

    with pytest.raises(InvalidType) as refused:
        encode(number)

    assert refused.value.hint == "store value.item() instead"
    assert encode(number.item()) in ("1", "1.0")
