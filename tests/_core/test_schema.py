from typing import Annotated, Literal

import pytest
from msgspec import Meta, Struct

from stragglers._core import schema
from stragglers._core.errors import BadInput


class Square(Struct, tag="square", tag_field="kind", forbid_unknown_fields=True):
    side: Annotated[float, Meta(gt=0)]


class Circle(Struct, tag="circle", tag_field="kind", forbid_unknown_fields=True):
    radius: float
    colour: Literal["red", "blue"] = "red"


class Drawing(Struct, forbid_unknown_fields=True):
    title: str
    shapes: dict[str, Square | Circle] = {}
    copies: Annotated[int, Meta(ge=1, le=9)] | None = None
    framed: bool = False
    size: tuple[float, float] = (1.0, 1.0)


GOOD = {
    "title": "t",
    "shapes": {"a": {"kind": "square", "side": 2}, "b": {"kind": "circle", "radius": 1.0}},
}


def test_a_document_becomes_its_structs():
    assert schema.convert(Drawing, GOOD) == Drawing("t", {"a": Square(2.0), "b": Circle(1.0)})


BAD = {
    "title is missing; give it": {},
    "title: 3 given, expected a text": {"title": 3},
    "unknown key 'tilte'; did you mean 'title'?": {"tilte": ""},
    "copies: 0 given, expected a whole number of at least 1": {"title": "", "copies": 0},
    "copies: 10 given, expected a whole number of at most 9": {"title": "", "copies": 10},
    "copies: 'x' given, expected a whole number": {"title": "", "copies": "x"},
    "framed: 1 given, expected true or false": {"title": "", "framed": 1},
    "shapes: 4 given, expected a table of keys": {"title": "", "shapes": 4},
    "shapes.a.side is missing; give it": {"shapes": {"a": {"kind": "square"}}},
    "shapes.a.side: -1.0 given, expected a number above 0": {
        "shapes": {"a": {"kind": "square", "side": -1.0}}
    },
    "shapes.a.side: nan given, expected a number": {
        "shapes": {"a": {"kind": "square", "side": float("nan")}}
    },
    "shapes.a.kind: 'sqare' given; did you mean 'square'?": {"shapes": {"a": {"kind": "sqare"}}},
    "shapes.a.kind is missing; expected one of: square, circle": {"shapes": {"a": {}}},
    "shapes.b.colour: 'green' given; did you mean 'red'?": {
        "shapes": {"b": {"kind": "circle", "radius": 1, "colour": "green"}}
    },
    "shapes.b.colour: 7 given; expected one of: blue, red": {
        "shapes": {"b": {"kind": "circle", "radius": 1, "colour": 7}}
    },
}


@pytest.mark.parametrize("line", BAD)
def test_the_first_mistake_is_told_in_our_words(line):
    with pytest.raises(BadInput) as error:
        schema.convert(Drawing, BAD[line])
    assert str(error.value) == line


def test_what_msgspec_says_of_lists_is_passed_on():
    with pytest.raises(BadInput, match="size"):
        schema.convert(Drawing, {"title": "", "size": [1.0]})
    with pytest.raises(BadInput, match=r"size\[1\]: .*expected a number"):
        schema.convert(Drawing, {"title": "", "size": [1.0, "x"]})


def test_paths_are_those_of_the_kinds_that_are_there():
    assert set(schema.paths(Drawing, GOOD)) == {
        "title",
        "copies",
        "framed",
        "size",
        "shapes.a.kind",
        "shapes.a.side",
        "shapes.b.kind",
        "shapes.b.radius",
        "shapes.b.colour",
    }


def test_tables_are_the_paths_that_take_any_key():
    class Fleet(Struct):
        shares: float | dict[str, float] = 0.0
        name: str = ""

    assert set(schema.tables(Fleet, {})) == {"shares"}


def test_a_section_is_found_by_its_path():
    assert schema.section_at(Drawing, GOOD, "shapes.b") is Circle
    assert schema.section_at(Drawing, GOOD, "shapes.c") is None
    assert schema.keys(Circle) == {"kind", "radius", "colour"}
