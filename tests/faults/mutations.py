"""Mutations of files: of their bytes, of their text, and of the structure of JSON and tables.

All are functions of a random generator, so a case is repeated by its seed.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pyarrow as pa

Random = random.Random

NUMBERS: tuple[Any, ...] = (
    *(0, -1, 1, 2, 255, 2**31, -(2**31), 2**63, 2**64, 10**30, 9_999_999, -0.5, 0.5, 1e-300),
    *(1e300, -1e300, math.nan, math.inf, -math.inf),
)
OTHER: tuple[Any, ...] = (
    *(None, True, False, "", "x", "\0", "\ud800", "é\u2028", "1"),
    *([], {}, [[]], [None], {"id": None}),
    *(["a", 1], {"a": {"b": []}}, "../../x", "a" * 5000, [0] * 1000),
)
CELLS = (
    *("", "0", "-1", "1e400", "nan", "inf", "-inf", "9999999", str(2**63), str(10**30), "9" * 5000),
    *(
        "x",
        "\0",
        "<",
        ">",
        "&",
        "'",
        '"',
        "{",
        "[",
        ",",
        ";",
        "\n",
        "\t",
        "\r",
        "\ufeff",
        "\x1b[2J",
    ),
    *("é", "\u2028", "a" * 3000, "00:00:01.000", "99:99:99,999", "-->", "{\\an8}", "<c>", "1:1"),
)
_LONGEST = 1_000_000  # characters after which text grows no more
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")


def mutate_bytes(random: Random, data: bytes) -> bytes:
    """Flip, overwrite, delete, repeat, move or truncate some bytes."""
    content = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4, 16))):
        if not content:
            return bytes(content)
        at = random.randrange(len(content))
        length = min(random.choice((1, 2, 4, 8, 64, 1024)), len(content) - at)
        match random.randrange(8):
            case 0 | 1:
                content[at] ^= 1 << random.randrange(8)
            case 2:
                content[at : at + length] = random.randbytes(length)
            case 3:
                content[at : at + length] = random.choice((b"\0", b"\xff", b"\x7f")) * length
            case 4:
                del content[at : at + length]
            case 5:
                content[at:at] = content[at : at + length] * random.choice((1, 2, 50))
            case 6:
                other = random.randrange(len(content))
                content[at : at + length], content[other : other + length] = (
                    content[other : other + length],
                    content[at : at + length],
                )
            case _:
                del content[at:]
    return bytes(content)


def mutate_text(random: Random, text: str) -> str:
    """Replace, delete, repeat and exchange words, signs and lines."""
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        lines = random.random() < 0.3
        parts = text.splitlines(keepends=True) if lines else _TOKEN.findall(text)
        if not parts or len(text) > _LONGEST:
            return text
        at, other = random.randrange(len(parts)), random.randrange(len(parts))
        match random.randrange(5):
            case 0 | 1:
                parts[at] = random.choice(CELLS)
            case 2:
                del parts[at]
            case 3:
                parts[at:at] = [parts[at]] * random.choice((1, 2, 100))
            case _:
                parts[at], parts[other] = parts[other], parts[at]
        text = "".join(parts)
    return text


def mutate_tree(random: Random, tree: Any) -> Any:
    """Replace, delete, repeat and exchange values of parsed JSON, at any depth."""
    tree = json.loads(json.dumps(tree))
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        places = list(_places(tree))
        if not places:
            return _odd_value(random, tree)
        holder, key = random.choice(places)
        match random.randrange(7):
            case 0 | 1 | 2:
                holder[key] = _odd_value(random, holder[key])
            case 3:
                del holder[key]
            case 4 if isinstance(holder, list):
                holder.insert(int(key), holder[key])
            case 5:
                holder[key] = _nested(random, holder[key])
            case _:
                others, name = random.choice(places)
                holder[key] = json.loads(json.dumps(others[name])) if name in _keys(others) else 0
    return tree


def dump_tree(random: Random, tree: Any) -> bytes:
    """JSON text of a tree, sometimes nested deeper than any parser goes."""
    text = json.dumps(tree, ensure_ascii=random.random() < 0.5)
    if random.random() < 0.01:
        text = "[" * 100_000 + text
    return text.encode("utf-8", "surrogatepass")


def _keys(holder: Any) -> Any:
    return holder if isinstance(holder, dict) else range(len(holder))


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(tree, dict | list):
        for key in list(_keys(tree)):
            yield tree, key
            yield from _places(tree[key])


def _odd_value(random: Random, value: Any) -> Any:
    if isinstance(value, bool | None) or random.random() < 0.4:
        return deepcopy(random.choice(OTHER))
    if isinstance(value, int | float):
        return random.choice((*NUMBERS, value + 1, -value, value * 1e6))
    if isinstance(value, str):
        return random.choice((mutate_text(random, value), random.choice(CELLS), 3, None))
    return deepcopy(random.choice((*NUMBERS, *OTHER)))


def _nested(random: Random, value: Any) -> Any:
    for _ in range(random.choice((1, 3, 200))):
        value = [value] if random.random() < 0.5 else {"a": value}
    return value


def mutate_table(random: Random, table: pa.Table) -> pa.Table:
    """Drop, rename, repeat, retype and empty columns, and drop or repeat rows."""
    for _ in range(random.choice((1, 1, 2))):
        if not table.num_columns:
            return table
        at = random.randrange(table.num_columns)
        name, column = table.column_names[at], table.column(at)
        match random.randrange(8):
            case 0:
                table = table.drop_columns([name])
            case 1:
                names = [random.choice(CELLS) if n == name else n for n in table.column_names]
                table = table.rename_columns([n.replace("\ud800", "") for n in names])
            case 2:
                table = table.slice(random.randrange(max(1, table.num_rows)))
            case 3:
                table = pa.concat_tables([table, table])
            case 4:
                table = table.append_column(name, column)
            case 5:
                table = table.set_column(at, name, pa.nulls(table.num_rows, column.type))
            case _:
                table = table.set_column(at, name, _odd_column(random, column))
    return table


def _odd_column(random: Random, column: pa.ChunkedArray) -> pa.Array:
    values = column.to_pylist()
    rows = len(values)
    match random.randrange(5):
        case 0:
            return pa.array([str(value) for value in values], pa.string())
        case 1:
            return pa.array([random.choice(NUMBERS) for _ in range(rows)], pa.float64())
        case 2:
            return pa.array([[0.5] * random.randrange(3) for _ in range(rows)])
        case 3:
            return pa.array([random.choice((None, 0, -1, 2**40)) for _ in range(rows)], pa.int64())
        case _:
            return pa.array([random.choice((None, {"x1": 1.0})) for _ in range(rows)])
