"""Random mappers and records: sources of the mapper language, with values at its edges."""

import random
from dataclasses import dataclass, field
from math import inf, nan
from typing import Any

COLUMNS: dict[str, Any] = {"a": "number", "b": "number", "s": "text", "u": "text", "t": "time", "f": "bool"}
KEYS = ["north", "south", "", "é", "a longer key, of several words"]
NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.7, -7.25, 1e300, -1e300, 5e-324, 2.0**53, 1e9, inf, -inf, nan)
TEXTS = (
    *("", "a", "ab", "north", " south ", "A,b,,c", "é", "a longer key, of several words", "12.5", "-0003.25 "),
    *("1.2.3", ".", "+.5", "123456789012345678901", "0." + "0" * 30 + "7", "\t x \n y", "NORTH south", "b" * 40),
)
TIMES = (0.0, -1.0, 86_400e6, 1.7e15, -62e15, 1.709164800e15, nan, 951_782_400e6, 253_402_300_799e6)
HELPERS = """
def twice(x):
    return x + x

def head(x, n):
    if n > 3:
        return x[:2]
    elif n != n:
        return x
    return x[1:]

def grow(n):
    total = 0
    for i in range(n):
        total += i
        if total > 20:
            break
    return total

def tag(x):
    if len(x) > 4:
        return
    emit(x, len(x))

"""


@dataclass
class MapperWriter:
    """Writer of one random mapper."""

    chance: random.Random
    names: dict[str, list[str]] = field(
        default_factory=lambda: {"number": ["a", "b"], "text": ["s", "u"], "time": ["t"], "bool": ["f"]}
    )

    def write(self) -> str:
        body = self.block(1, 3, loop=False)
        return f"{HELPERS}def mapper(a, b, s, u, t, f):\n{body}"

    def pick(self, *options: str) -> str:
        return self.chance.choice(options)

    def number(self, depth: int = 3) -> str:
        n, s, t = self.number, self.text, self.time
        if depth <= 0 or self.chance.random() < 0.2:
            return self.pick(*self.names["number"], "0", "1", "2.5", "7", "1e10", "-3", "0.1")
        d = depth - 1
        match self.chance.randrange(12):
            case 0 | 1 | 2:
                return f"({n(d)} {self.pick('+', '-', '*', '/', '//', '%')} {n(d)})"
            case 3:
                return f"{self.pick('abs', 'floor', 'ceil', 'int', 'sqrt')}({n(d)})"
            case 4:
                return f"{self.pick('min', 'max')}({n(d)}, {n(d)}, {n(d)})"
            case 5:
                return f"len({s(d)})"
            case 6:
                return f"number({s(d)})"
            case 7:
                return f"{s(d)}.find({s(d)})"
            case 8:
                return f"({n(d)} if {self.truth(d)} else {n(d)})"
            case 9:
                return f"{t()}{self.pick('.hour', '.minute', '.second', '.day', '.month', '.year', '.weekday()')}"
            case 10:
                return f"twice({n(d)})" if self.chance.random() < 0.5 else f"grow({n(d)})"
            case _:
                return f"-{n(d)}" if self.chance.random() < 0.5 else f"({t()} - {t()})"

    def time(self) -> str:
        return self.pick(*self.names["time"])

    def text(self, depth: int = 3) -> str:
        if depth <= 0 or self.chance.random() < 0.3:
            return self.pick(*self.names["text"], '"a"', '"north"', '""', '"é"', '","')
        s, n, d = self.text, self.number, depth - 1
        match self.chance.choices(range(7), [3, 4, 0.5, 0.5, 2, 3, 4])[0]:
            case 0:
                return f"{s(d)}.{self.pick('lower', 'upper', 'strip')}()"
            case 1:
                ends = self.pick("{}:{}", ":{1}", "{0}:", ":")
                return f"{s(d)}[{ends.format(n(d), n(d))}]"
            case 2:
                return f"{s(d)}[{self.pick('0', '-1', n(d))}]"
            case 3:
                separator, place = self.pick("", "','", "'a'", "'ab'"), self.pick("0", "1", f"0 + {n(d)}")
                return f"{s(d)}.split({separator})[{place}]"
            case 4:
                return f"({s(d)} if {self.truth(d)} else {s(d)})"
            case 5:
                return f"head({s(d)}, {n(d)})"
            case _:
                return self.pick(*self.names["text"])

    def truth(self, depth: int = 2) -> str:
        n, s, d = self.number, self.text, depth - 1
        match self.chance.randrange(9 if depth > 0 else 3):
            case 0:
                return f"{n(d)} {self.pick('<', '<=', '>', '>=', '==', '!=')} {n(d)}"
            case 1:
                return self.pick(*self.names["bool"], "True", "False")
            case 2:
                return f"{s(d)} {self.pick('==', '!=', 'in', 'not in')} {s(d)}"
            case 3:
                return f"({self.truth(d)} {self.pick('and', 'or')} {self.truth(d)})"
            case 4:
                return f"(not {self.truth(d)})"
            case 5:
                return f"{s(d)}.{self.pick('startswith', 'endswith')}({s(d)})"
            case 6:
                return f"{n(d)} < {n(d)} <= {n(d)}"
            case 7:
                return f'{s(d)} in ("a", {s(d)}, "north")'
            case _:
                return f"{self.time()} {self.pick('<', '>=')} {self.time()}"

    def block(self, indent: int, depth: int, *, loop: bool) -> str:
        before = {kind: list(names) for kind, names in self.names.items()}
        lines = "".join(self.statement(indent, depth, loop=loop) for _ in range(self.chance.randrange(1, 5)))
        self.names = before
        return lines

    def statement(self, indent: int, depth: int, *, loop: bool) -> str:
        pad = "    " * indent
        match self.chance.randrange(11 if depth > 0 else 5):
            case 0 | 1:
                return f"{pad}emit({self.key()}, {self.number()})\n"
            case 2 | 3:
                return f"{pad}{self.assign()}\n"
            case 4:
                if loop and self.chance.random() < 0.4:
                    return f"{pad}if {self.truth()}: {self.pick('break', 'continue', 'return')}\n"
                return f"{pad}tag({self.text()})\n"
            case 5 | 6:
                body = f"{pad}if {self.truth()}:\n{self.block(indent + 1, depth - 1, loop=loop)}"
                return f"{body}{pad}else:\n{self.block(indent + 1, depth - 1, loop=loop)}"
            case 7:
                return f"{pad}while {self.truth()}:\n{self.block(indent + 1, depth - 1, loop=True)}"
            case 8 | 9:
                head = self.pick("range({0})", "range({0}, {1})").format(self.number(1), self.number(1))
                return f"{pad}for i{indent} in {head}:\n" + self.loop_body(f"i{indent}", "number", indent, depth)
            case _:
                head = f"{self.text(1)}.split({self.pick('', repr(','), repr('a'))})"
                return f"{pad}for w{indent} in {head}:\n" + self.loop_body(f"w{indent}", "text", indent, depth)

    def loop_body(self, name: str, kind: str, indent: int, depth: int) -> str:
        known = self.names[kind]
        self.names[kind] = [*known, name]
        body = self.block(indent + 1, depth - 1, loop=True)
        self.names[kind] = known
        return body

    def assign(self) -> str:
        kind = self.pick("number", "number", "text", "bool")
        value = {"number": self.number, "text": self.text, "bool": self.truth}[kind]()
        name = self.pick(f"{kind}_1", f"{kind}_2")
        if name not in self.names[kind]:
            self.names[kind] = [*self.names[kind], name]
        elif kind == "number" and self.chance.random() < 0.5:
            return f"{name} += {value}"
        return f"{name} = {value}"

    def key(self) -> str:
        return f"{self.text(1)}[:]" if self.chance.random() < 0.4 else self.pick('"north"', '"é"', '""')


def draw_columns(chance: random.Random, records: int) -> dict[str, list[Any]]:
    """Return columns of items at the edges of their kinds."""

    def number() -> float:
        return chance.choice(NUMBERS) if chance.random() < 0.5 else chance.uniform(-10, 30)

    def text() -> str:
        drawn = "".join(chance.choice("ab, nN1.") for _ in range(chance.randrange(12)))
        return chance.choice(TEXTS) if chance.random() < 0.5 else drawn

    rows: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for _ in range(records):
        for name, kind in COLUMNS.items():
            drawn = {"number": number(), "text": text(), "time": chance.choice(TIMES), "bool": chance.random() < 0.5}
            rows[name].append(drawn[kind])
    return rows
