"""Random JSON schemas, each with a maker of random valid instances, within what Forerun supports."""

import datetime
import re
import string
import uuid

from jsonschema import FormatChecker

FORMATS = FormatChecker(formats=["date", "ipv4", "ipv6", "email", "uuid"])


@FORMATS.checks("date-time", raises=(ValueError, AssertionError))
def _is_date_time(text):
    if isinstance(text, str):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", text), text
        datetime.datetime.fromisoformat(re.sub(r"\.\d+", "", text))
    return True


@FORMATS.checks("time", raises=(ValueError, AssertionError))
def _is_time(text):
    if isinstance(text, str):
        assert re.fullmatch(r"\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", text), text
        datetime.time.fromisoformat(re.sub(r"\.\d+", "", text))
    return True


LETTERS = string.ascii_letters + string.digits + " _-.,:;/\\\"'\n\té漢字😀\u2028{}[]"
# A pattern, and how a text that it matches is made.
PATTERNS = [
    (r"^[a-z]{2,5}$", lambda r: text_of(r, "abcxyz", 2, 5)),
    (r"^\d{3}-\d{4}$", lambda r: f"{text_of(r, '0123456789', 3, 3)}-{text_of(r, '0189', 4, 4)}"),
    (r"^(foo|bar)+$", lambda r: "".join(r.choice(["foo", "bar"]) for _ in range(r.randint(1, 4)))),
    (r"b", lambda r: text_of(r, LETTERS, 0, 4) + "b" + text_of(r, LETTERS, 0, 4)),
    (r"^[^\"\\/]+$", lambda r: text_of(r, "abc é漢\n", 1, 8)),
    (r"end$", lambda r: text_of(r, LETTERS, 0, 5) + "end"),
    (
        r"^[ \t]?[\u4e00-\u9fff]{1,3}",
        lambda r: text_of(r, "漢字", 1, 3) + text_of(r, LETTERS, 0, 3),
    ),
    (
        r"^[A-Z]\w*(\.[A-Z]\w*)*$",
        lambda r: ".".join(
            r.choice("ABC") + text_of(r, "abz_09", 0, 3) for _ in range(r.randint(1, 3))
        ),
    ),
    (r"^(?:a|b$)", lambda r: r.choice(["b", "a", "ab", 'a"\n'])),
]
FORMAT_MAKERS = {
    "date": lambda r: (
        datetime.date(1000, 1, 1) + datetime.timedelta(r.randrange(3_000_000))
    ).isoformat(),
    "time": lambda r: f"{r.randrange(24):02}:{r.randrange(60):02}:{r.randrange(60):02}Z",
    "date-time": lambda r: FORMAT_MAKERS["date"](r) + "T" + FORMAT_MAKERS["time"](r),
    "uuid": lambda r: str(uuid.UUID(int=r.getrandbits(128))),
    "email": lambda r: (
        f"{text_of(r, 'abc.', 1, 1).replace('.', 'x')}{text_of(r, 'ab1', 1, 5)}@example.org"
    ),
    "ipv4": lambda r: ".".join(str(r.randrange(256)) for _ in range(4)),
    "ipv6": lambda r: r.choice(["::", "::1", "fe80::1:2", "1:2:3:4:5:6:7:8", "2001:db8::ff00"]),
}


def text_of(rng, letters, least, most):
    return "".join(rng.choice(letters) for _ in range(rng.randint(least, most)))


def name_of(rng):
    return rng.choice(
        [
            lambda: text_of(rng, string.ascii_lowercase, 1, 8),
            lambda: text_of(rng, LETTERS, 0, 4),
            lambda: rng.choice(["name", "na", "nam", "id", "naïve", "名前"]),
        ]
    )()


class Maker:
    """Makes (schema, instance maker) pairs; definitions gather in `defs`."""

    def __init__(self, rng):
        self.rng = rng
        self.defs = {}
        self.calls = 0  # of recursive instance makers, so that instances end

    def any(self, depth):
        kinds = [
            self.null,
            self.boolean,
            self.integer,
            self.number,
            self.string,
            self.string,
            self.values,
            self.types,
        ]
        if depth > 0:
            kinds += [
                self.object,
                self.object,
                self.object,
                self.array,
                self.array,
                self.any_of,
                self.one_of,
                self.all_of,
                self.reference,
                self.tree,
                self.name_patterns,
                self.dependent,
                self.condition,
                self.overlapping,
                self.unique,
            ]
            kinds = kinds[8:] * 2 + kinds[:8]
        schema, instance = self.rng.choice(kinds)(depth)
        if isinstance(schema, dict) and self.rng.random() < 0.1:
            schema = {"description": 'a "description"', **schema, "default": 3}
        if isinstance(schema, dict) and self.rng.random() < 0.05:
            schema = {"javaType": "a.B", **schema, "propertyOrder": 3, "links": [{"rel": "self"}]}
        return schema, instance

    def null(self, _):
        return {"type": "null"}, lambda: None

    def boolean(self, _):
        return {"type": "boolean"}, lambda: self.rng.random() < 0.5

    def integer(self, _):
        rng = self.rng
        low = rng.randint(-(10 ** rng.randint(1, 6)), 10 ** rng.randint(1, 6))
        high = low + rng.randint(0, 10 ** rng.randint(1, 6))
        schema, step = {"type": "integer"}, 1
        if rng.random() < 0.3:
            step = rng.choice([2, 3, 5, 10, 60])
            schema["multipleOf"] = step
            high = max(high, low + step)
        if rng.random() < 0.7:
            schema.update(rng.choice([{"minimum": low}, {"exclusiveMinimum": low - 1}]))
        if rng.random() < 0.7:
            schema.update(rng.choice([{"maximum": high}, {"exclusiveMaximum": high + 1}]))
        return schema, lambda: rng.randint(-(-low // step), high // step) * step

    def number(self, _):
        rng = self.rng
        if rng.random() < 0.2:
            step = rng.choice([0.5, 2.5, 0.25])  # exact as doubles, for the judge
            return {
                "type": "number",
                "multipleOf": step,
                "minimum": -1000,
            }, lambda: rng.randint(-99, 99) * step
        low = round(rng.uniform(-1000, 1000), rng.randint(0, 4))
        high = round(low + rng.uniform(0.1, 1000), 4)
        schema = {"type": "number"}
        if rng.random() < 0.6:
            schema[rng.choice(["minimum", "exclusiveMinimum"])] = low
        if rng.random() < 0.6:
            schema[rng.choice(["maximum", "exclusiveMaximum"])] = high
        return schema, lambda: round(low + (high - low) * rng.uniform(0.1, 0.9), 6) + 0.0

    def string(self, _):
        rng = self.rng
        kind = rng.randrange(4)
        if kind == 0:
            least, most = rng.randint(0, 4), rng.randint(4, 40)
            schema = {"type": "string"}
            if rng.random() < 0.7:
                schema["minLength"] = least
            if rng.random() < 0.7:
                schema["maxLength"] = most
            return schema, lambda: text_of(rng, LETTERS, least, most)
        if kind == 1:
            pattern, make = rng.choice(PATTERNS)
            schema = {"type": "string", "pattern": pattern}
            if rng.random() < 0.3:
                schema["maxLength"] = rng.choice([60, 5000])
            if rng.random() < 0.2:
                schema["not"] = {"enum": ["foobar", "b b"]}
                return schema, lambda: next(
                    t for t in iter(lambda: make(rng), 0) if t not in schema["not"]["enum"]
                )
            return schema, lambda: make(rng)
        if kind == 2:
            name = rng.choice(list(FORMAT_MAKERS))
            return {"type": "string", "format": name}, lambda: FORMAT_MAKERS[name](rng)
        return {"type": "string"}, lambda: text_of(rng, LETTERS, 0, 20)

    def values(self, _):
        rng = self.rng
        pool = [
            "a",
            "ab",
            "abc",
            'é"\\\n',
            "名",
            0,
            -5,
            12,
            2.5,
            None,
            True,
            [],
            [1, "x"],
            {"k": [{}], "": None},
            {},
            "rouge",
            "vert",
            "bleu",
        ]
        values = rng.sample(pool, rng.randint(1, 7))
        schema = {"const": values[0]} if len(values) == 1 else {"enum": values}
        return schema, lambda: rng.choice(values)

    def types(self, _):
        options = {
            "string": lambda: text_of(self.rng, LETTERS, 0, 5),
            "null": lambda: None,
            "integer": lambda: self.rng.randint(-99, 99),
            "boolean": lambda: True,
            "array": lambda: [1, {"a": None}],
            "object": lambda: {"x": [2.5, "é"]},
        }
        chosen = self.rng.sample(list(options), 2)
        return {"type": chosen}, lambda: options[self.rng.choice(chosen)]()

    def object(self, depth):
        rng = self.rng
        members = {}
        for _ in range(rng.randint(0, 5)):
            members[name_of(rng)] = (*self.any(depth - 1), rng.random() < 0.6)
        required = [name for name, member in members.items() if member[2]]
        schema = {"type": "object", "properties": {n: m[0] for n, m in members.items()}}
        if required:
            schema["required"] = rng.sample(required, len(required))
        extra = None
        kind = rng.randrange(4)
        if kind == 0:
            schema["additionalProperties"] = False
        elif kind == 1:
            schema["additionalProperties"], extra = self.any(depth - 1)

        def instance():
            value = {n: m[1]() for n, m in members.items() if m[2] or rng.random() < 0.5}
            if extra and rng.random() < 0.6:
                name = name_of(rng)
                if name not in members:
                    value[name] = extra()
            return value

        return schema, instance

    def array(self, depth):
        rng = self.rng
        if rng.random() < 0.25:
            items = [self.any(depth - 1) for _ in range(rng.randint(1, 3))]
            schema = {
                "type": "array",
                "prefixItems": [item[0] for item in items],
                "minItems": len(items),
                "items": False,
            }
            return schema, lambda: [item[1]() for item in items]
        item, make = self.any(depth - 1)
        least, most = rng.randint(0, 2), rng.randint(2, 5)
        schema = {"type": "array", "items": item}
        if rng.random() < 0.6:
            schema["minItems"] = least
        if rng.random() < 0.6:
            schema["maxItems"] = most
        return schema, lambda: [make() for _ in range(rng.randint(least, most))]

    def any_of(self, depth):
        parts = [self.any(depth - 1) for _ in range(self.rng.randint(2, 3))]
        return {"anyOf": [p[0] for p in parts]}, lambda: self.rng.choice(parts)[1]()

    def one_of(self, depth):
        parts = []
        for i in range(self.rng.randint(2, 3)):
            schema, make = self.object(depth)
            schema["properties"] = {
                "kind": {"const": f"k{i}"},
                **{n: s for n, s in schema["properties"].items() if n != "kind"},
            }
            schema["required"] = ["kind", *schema.get("required", [])]
            parts.append((schema, lambda make=make, i=i: {"kind": f"k{i}", **make()}))
        return {"oneOf": [p[0] for p in parts]}, lambda: self.rng.choice(parts)[1]()

    def all_of(self, depth):
        first, make_first = self.object(depth)
        second, make_second = self.object(depth)
        for schema, mark in ((first, "1"), (second, "2")):
            schema.pop("additionalProperties", None)
            schema["properties"] = {mark + n: s for n, s in schema["properties"].items()}
            schema["required"] = [mark + n for n in schema.get("required", [])]

        def instance():
            a, b = make_first(), make_second()
            return {
                **{"1" + n: v for n, v in a.items() if "1" + n in first["properties"]},
                **{"2" + n: v for n, v in b.items() if "2" + n in second["properties"]},
            }

        return {"allOf": [first, second]}, instance

    def name_patterns(self, depth):
        """Properties by patterns of their names."""
        first, make_first = self.any(depth - 1)
        other, make_other = self.any(depth - 1)
        rng = self.rng
        schema = {
            "type": "object",
            "patternProperties": {"^n_": first},
            "additionalProperties": rng.choice([False, other]),
            "propertyNames": {"pattern": "^[a-z_]*$", "maxLength": 12},
        }
        if rng.random() < 0.3:
            schema["maxProperties"] = 2

        def instance():
            value = {}
            if rng.random() < 0.7:
                value["n_" + text_of(rng, "abc", 0, 3)] = make_first()
            if schema["additionalProperties"] is not False and rng.random() < 0.5:
                value["o" + text_of(rng, "abc", 0, 3)] = make_other()
            return value

        return schema, instance

    def dependent(self, depth):
        makers = {name: self.any(depth - 1) for name in "abc"}
        rng = self.rng
        schema = {
            "type": "object",
            "properties": {name: made[0] for name, made in makers.items()},
            "additionalProperties": False,
            rng.choice(["dependencies", "dependentRequired"]): {"a": ["c"]},
        }
        if "dependencies" in schema:  # no keyword of the judge's draft
            schema["dependentRequired"] = schema["dependencies"]

        def instance():
            names = rng.choice(["", "b", "c", "bc", "ac", "abc"])
            return {name: makers[name][1]() for name in names}

        return schema, instance

    def condition(self, depth):
        rest, make = self.any(depth - 1)
        rng = self.rng
        schema = {
            "type": "object",
            "properties": {"kind": {"enum": ["x", "y"]}, "rest": rest},
            "required": ["kind"],
            "additionalProperties": False,
            "if": {"properties": {"kind": {"const": "x"}}},
            "then": {"required": ["rest"]},
            "else": {"not": {"required": ["rest"]}},
        }
        return schema, lambda: rng.choice([{"kind": "y"}, {"kind": "x", "rest": make()}])

    def overlapping(self, depth):
        """Alternatives that are told apart by what they demand."""
        first, make_first = self.any(depth - 1)
        second, make_second = self.any(depth - 1)
        schema = {
            "type": "object",
            "properties": {"first": first, "second": second},
            "oneOf": [{"required": ["first"]}, {"required": ["second"]}],
        }
        return schema, lambda: self.rng.choice(
            [lambda: {"first": make_first()}, lambda: {"second": make_second()}]
        )()

    def unique(self, _):
        values = ["a", "b", 3, None]
        schema = {"type": "array", "items": {"enum": values}, "uniqueItems": True}
        return schema, lambda: self.rng.sample(values, self.rng.randint(0, 4))

    def reference(self, depth):
        name = f"d{len(self.defs)}" + self.rng.choice(["", "/~ %"])
        self.defs[name] = None
        self.defs[name], make = self.any(depth - 1)
        step = name.replace("~", "~0").replace("/", "~1").replace("%", "%25").replace(" ", "%20")
        return {"$ref": "#/$defs/" + step}, make

    def tree(self, depth):
        rng = self.rng
        name = f"d{len(self.defs)}"
        self.defs[name] = None
        leaf, make_leaf = self.any(min(depth - 1, 1))
        reference = {"$ref": f"#/$defs/{name}"}
        self.defs[name] = {
            "type": "object",
            "properties": {
                "leaf": leaf,
                "children": {"type": "array", "items": reference},
                "next": {"anyOf": [reference, {"type": "null"}]},
            },
            "required": ["leaf", "next"],
            "additionalProperties": False,
        }

        def instance(levels=3):
            value = {"leaf": make_leaf()}
            if levels > 0 and rng.random() < 0.5:
                value["children"] = [instance(levels - 1) for _ in range(rng.randint(0, 2))]
            value["next"] = instance(levels - 1) if levels > 0 and rng.random() < 0.5 else None
            return value

        return reference, instance


def random_case(rng):
    """A schema and a function that makes an instance of it."""
    maker = Maker(rng)
    schema, instance = maker.any(rng.randint(0, 3))
    if maker.defs:
        schema = {**schema, "$defs": maker.defs}
    return schema, instance
