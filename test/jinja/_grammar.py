"""Random templates: statements, expressions and white space as in chat templates, and values to render them with.

Most expressions have operands of valid kinds, so that rendering is rarely an error; some do not.
"""

import random

NAMES = ["messages", "tools", "x", "y", "s", "t", "l", "d", "e", "n", "b", "m", "i", "k", "v", "ns", "nothing"]
TEXTS = ["", "a", "Hi", "  hi there \n", "a,b,,c", "Straße", "日本 é", "it's", 'say "x"', "{{ x }}", "<|im_end|>"]
TEXTS += ["12", " 7 ", "3.5", "x\ty", "ABC def", "ǆ ΑΣ", "%s", "\u00a0pad\u00a0", "a\\b", "<b>&", "0", "\x01\x7f", "-5"]
KINDS = ["text", "number", "list", "dict", "bool", "any"]
TEXT_METHODS = ["strip()", "lstrip()", "rstrip()", "upper()", "lower()", "title()", "capitalize()", "swapcase()"]
TEXT_METHODS += ["strip('a ')", "rstrip('\\n')", "lstrip('<')", "replace('a', 'bb')", "replace(' ', '', 1)", "zfill(6)"]
TEXT_METHODS += ["removeprefix('a')", "removesuffix('c')", "center(9, '*')", "ljust(6)", "rjust(7)", "replace('', '-')"]
TEXT_FILTERS = ["trim", "upper", "lower", "title", "capitalize", "replace('i', 'o')", "string", "indent(2)", "e"]
TEXT_FILTERS += [
    "indent(3, true)",
    "indent('> ', blank=true)",
    "reverse",
    "default('z')",
    "trim('a')",
    "tojson",
    "safe",
]
LIST_FILTERS = ["list", "sort", "reverse | list", "unique | list", "map('string') | list", "select | list", "d([])"]
LIST_FILTERS += [
    "reject('none') | list",
    "select('string') | list",
    "sort(reverse=true)",
    "map('upper') | list",
    "list | tojson",
]
NUMBER_FILTERS = ["int", "float", "abs", "round", "round(1)", "round(0, 'floor')", "round(2, 'ceil')", "string | int"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float"]
TESTS += ["boolean", "true", "false", "not none", "not string", "eq(1)", "in [1, 'a', none]", "ne('a')", "equalto('a')"]
NUMBER_TESTS = ["odd", "even", "divisibleby(3)", "gt(2)", "le(0)", "lt(1.5)", "divisibleby 2"]


class Grammar:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def one(self, of):
        return of[self.r.randrange(len(of))]

    def chance(self, p):
        return self.r.random() < p

    # ---- values

    def scalar(self):
        r = self.r
        return self.one(
            [
                None,
                True,
                False,
                r.randint(-9, 99),
                r.uniform(-3, 3),
                0.5,
                1e20,
                3.0,
                0,
                self.one(TEXTS),
                self.one(TEXTS),
            ]
        )

    def value(self, depth=0):
        if depth > 2 or self.chance(0.5):
            return self.scalar()
        if self.chance(0.5):
            return [self.value(depth + 1) for _ in range(self.r.randrange(4))]
        return {
            self.one(["a", "b", "role", "content", "items", "name", "k y"]): self.value(depth + 1) for _ in range(3)
        }

    def context(self):
        r = self.r
        messages = [
            {"role": self.one(["system", "user", "assistant", "tool"]), "content": self.one([*TEXTS, None])}
            for _ in range(r.randrange(4))
        ]
        return {
            "messages": messages,
            "tools": self.one([None, [], [{"name": "f", "parameters": self.value()}]]),
            "x": r.randint(-5, 12),
            "y": self.one([0.5, -2.25, 3.0, 1e16, 7]),
            "s": self.one(TEXTS),
            "t": self.one(TEXTS),
            "l": [self.scalar() for _ in range(r.randrange(5))],
            "d": {"a": self.scalar(), "b": self.value(), "items": 1},
            "e": self.one([{}, [], "", None]),
            "n": None,
            "b": self.chance(0.5),
            "v": self.value(),
            "bos_token": "<s>",
        }

    # ---- expressions

    def literal_text(self):
        text = self.one(TEXTS)
        quote = self.one(["'", '"'])
        text = text.replace("\\", "\\\\").replace(quote, "\\" + quote)
        return quote + text.replace("\n", self.one(["\n", "\\n"])).replace("\x01", "\\x01") + quote

    def expression(self, depth, kind=None):
        kind = kind or self.one(KINDS)
        if self.chance(0.02):
            kind = self.one(KINDS)
        if depth <= 0:
            return self.leaf(kind)
        if self.chance(0.07):
            return f"({self.expression(depth - 1, kind)})"
        if self.chance(0.06):
            return f"({self.expression(depth - 1, kind)} if {self.expression(depth - 1)} else {self.expression(depth - 1, kind)})"
        if self.chance(0.04):
            return f"({self.expression(depth - 1, kind)} {self.one(['or', 'and'])} {self.expression(depth - 1, kind)})"
        return getattr(self, "make_" + kind)(depth - 1)

    def leaf(self, kind):
        r = self.r
        if kind == "text":
            return self.one(
                [self.literal_text(), "s", "t", "bos_token", "d.a", "(messages | map(attribute='role') | join)"]
            )
        if kind == "number":
            return self.one([str(r.randint(0, 20)), "x", "y", "2.5", "1e3", "(l | length)", "1_000", "0"])
        if kind == "list":
            return self.one(
                ["l", "messages", "[1, 2, 3]", "['b', 'A', 'c']", "range(4)", "[]", "s.split(',')", "(1, 'a')"]
            )
        if kind == "dict":
            return self.one(
                ["d", "{'a': 1, 'b': [x]}", "{}", "dict(a=1, c=s)", "(messages | first)", "{1: 'one', none: 2}"]
            )
        if kind == "bool":
            return self.one(["true", "false", "b", "True", "n is none", "nothing is defined"])
        return self.one(
            [*NAMES, "none", "v", "d.b", "loop is defined", "tools", "v.a", "v['b']", "v[0]", "messages[0]"]
        )

    def make_text(self, depth):
        r, e = self.r, self.expression
        a = e(depth, "text")
        return self.one(
            [
                lambda: f"{a} + {e(depth, 'text')}",
                lambda: f"{a} ~ {e(depth)} ~ {e(depth)}",
                lambda: f"({a}).{self.one(TEXT_METHODS)}",
                lambda: f"({a}) | {self.one(TEXT_FILTERS)}",
                lambda: f"({a})[{self.slice()}]",
                lambda: f"({a}) * {r.randint(0, 3)}",
                lambda: f"({e(depth, 'list')}) | join({self.literal_text()})",
                lambda: (
                    f"({e(depth)}) | tojson{self.one(['', '', '(indent=2)', '(sort_keys=true)', '(ensure_ascii=true)', chr(40) + 'separators=(chr44, chr58))'.replace('chr44', repr(',')).replace('chr58', repr(':'))])}"
                ),
                lambda: f"({e(depth)}) | string",
                lambda: "'%s-%s' % (" + e(depth) + ", " + e(depth, "number") + ")",
                lambda: "'{} {x:>4}'.format(" + a + ", x=" + e(depth, "number") + ")",
                lambda: "'%03d|%.2f|%5s|%-4s|' | format(" + f"{e(0, 'number')}, {e(0, 'number')}, {a}, 'q')",
                lambda: f"', '.join(({e(depth, 'list')}) | map('string'))",
            ]
        )()

    def make_number(self, depth):
        e = self.expression
        return self.one(
            [
                lambda: f"({e(depth, 'number')} {self.one('+-*')} {e(depth, 'number')})",
                lambda: f"({e(depth, 'number')} {self.one(['/', '//', '%'])} {self.one(['3', '-2', '2.5', 'x', '7'])})",
                lambda: f"{e(0, 'number')} ** {self.r.randint(0, 3)}",
                lambda: f"-({e(depth, 'number')})",
                lambda: f"({e(depth, 'number')}) | {self.one(NUMBER_FILTERS)}",
                lambda: f"({e(depth, 'text')}) | {self.one(['length', 'int', 'float', 'int(7)', 'count'])}",
                lambda: f"({e(depth, 'text')}).{self.one(['find', 'count', 'rfind'])}({self.literal_text()})",
                lambda: f"({e(depth, 'list')}) | {self.one(['length', 'count', 'sum', 'max', 'min'])}",
            ]
        )()

    def make_list(self, depth):
        e = self.expression
        return self.one(
            [
                lambda: f"[{e(depth)}, {e(depth)}]",
                lambda: f"({e(depth)}, {e(depth)})",
                lambda: f"({e(depth, 'list')}) | {self.one(LIST_FILTERS)}",
                lambda: f"({e(depth, 'list')})[{self.slice()}]",
                lambda: f"({e(depth, 'list')}) + [{e(depth)}]",
                lambda: (
                    f"({e(depth, 'text')}).{self.one(['split()', 'split(None, 1)', 'rsplit(' + chr(39) + ',' + chr(39) + ', 1)', 'splitlines()', 'partition(' + chr(39) + ' ' + chr(39) + ')', 'split(' + chr(39) + 'a' + chr(39) + ')'])}"
                ),
                lambda: f"({e(depth, 'dict')}).{self.one(['items()', 'keys()', 'values()'])} | list",
                lambda: (
                    f"({e(depth, 'dict')}) | {self.one(['items | list', 'dictsort', 'list', 'dictsort(true, ' + repr('value') + ')'])}"
                ),
                lambda: (
                    f"messages | {self.one(['map(attribute=' + repr('role') + ')', 'selectattr(' + repr('content') + ')', 'selectattr(' + repr('role') + ', ' + repr('equalto') + ', ' + repr('user') + ')', 'rejectattr(' + repr('role') + ', ' + repr('in') + ', [' + repr('tool') + '])', 'sort(attribute=' + repr('role') + ')', 'map(attribute=' + repr('zz') + ', default=1)'])} | list"
                ),
                lambda: f"range({self.r.randint(-3, 6)}, {self.r.randint(-3, 6)}, {self.one([1, 2, -1, -3])})",
            ]
        )()

    def make_dict(self, depth):
        e = self.expression
        return self.one(
            [
                lambda: "{" + f"{self.literal_text()}: {e(depth)}, 'z': {e(depth)}" + "}",
                lambda: f"dict(a={e(depth)}, b={e(depth)})",
                lambda: f"dict({e(0, 'dict')}, q=1)",
                lambda: f"({e(depth, 'dict')}).get('b', {{'c': 1}})",
            ]
        )()

    def make_bool(self, depth):
        e = self.expression
        return self.one(
            [
                lambda: f"({e(depth)}) is {self.one(TESTS)}",
                lambda: f"({e(depth, 'number')}) is {self.one(NUMBER_TESTS)}",
                lambda: f"{e(depth, 'number')} {self.one(['<', '<=', '>', '>=', '==', '!='])} {e(depth, 'number')}",
                lambda: f"0 < {e(depth, 'number')} <= {e(depth, 'number')}",
                lambda: f"{e(depth)} == {e(depth)}",
                lambda: f"{e(depth, 'text')} {self.one(['in', 'not in'])} {e(depth, 'text')}",
                lambda: f"{e(depth)} {self.one(['in', 'not in'])} {e(depth, self.one(['list', 'dict']))}",
                lambda: f"not {e(depth)}",
                lambda: f"({e(depth, 'text')}).{self.one(['startswith', 'endswith'])}({self.literal_text()})",
                lambda: (
                    f"({e(depth, 'text')}).{self.one(['isupper()', 'islower()', 'isspace()', 'isalpha()', 'isascii()'])}"
                ),
            ]
        )()

    def make_any(self, depth):
        e = self.expression
        return self.one(
            [
                lambda: f"({e(depth, 'dict')}).{self.one('abz')}",
                lambda: f"({e(depth, 'dict')})['{self.one('abz')}']",
                lambda: f"({e(depth, 'list')})[{self.r.randint(-3, 3)}]",
                lambda: f"({e(depth, 'list')}) | {self.one(['first', 'last', 'list | last'])}",
                lambda: f"({e(depth, 'dict')}).get({self.literal_text()}{self.one(['', ', ' + e(0)])})",
                lambda: f"({e(depth)}) | default({e(depth)}{self.one(['', ', true'])})",
                lambda: f"f({e(depth)})",
                lambda: f"({e(depth)} if {e(depth, 'bool')})",
            ]
        )()

    def slice(self):
        bound = lambda: self.one(["", str(self.r.randint(-4, 4))])
        return f"{bound()}:{bound()}" + self.one(["", "", f":{self.one([1, 2, -1, -2])}"])

    # ---- statements

    def open(self):
        return "{%" + self.one(["", "", "-", "+"])

    def close(self):
        return self.one(["", "", "-"]) + "%}" + self.one(["", "\n", "\n  ", " "])

    def tag(self, words):
        return f"{self.one(['', '', '  ', chr(10)])}{self.open()} {words} {self.close()}"

    def body(self, depth):
        return "".join(self.statement(depth) for _ in range(self.r.randint(1, 3)))

    def text(self):
        return self.one(["hello", " ", "\n", "\n\n", "  \n", "<|user|>", "é", "{", "}", "a\r\nb", "\t", "% }", ""])

    def target(self):
        return self.one(["x", "s", "l", "k", "v", "m", "q", "messages", "ns.a", "d"])

    def statement(self, depth):
        e = self.expression
        if depth <= 0 or self.chance(0.4):
            if self.chance(0.4):
                return self.text()
            return "{{" + self.one(["", "-"]) + " " + e(self.r.randint(0, 3)) + " " + self.one(["", "-"]) + "}}"
        return self.one(
            [
                lambda: self.tag(f"if {e(2)}") + self.body(depth - 1) + self.tag("endif"),
                lambda: (
                    self.tag(f"if {e(2)}")
                    + self.body(depth - 1)
                    + self.tag(f"elif {e(2)}")
                    + self.body(depth - 1)
                    + self.tag("else")
                    + self.body(depth - 1)
                    + self.tag("endif")
                ),
                lambda: self.tag(f"set {self.target()} = {e(2)}"),
                lambda: self.tag(f"set {self.target()} = {e(2)}"),
                lambda: self.tag(f"set k, v = {e(1)}, {e(1)}"),
                lambda: (
                    self.tag(f"set q{self.one(['', ' | upper', ' | trim'])}")
                    + self.body(depth - 1)
                    + self.tag("endset")
                ),
                lambda: self.loop(depth),
                lambda: self.loop(depth),
                lambda: (
                    self.tag(f"macro f(a{self.one(['', '=1'])}{self.one(['', ', s=x'])[: self.r.choice([0, 5])]})")
                    + self.body(depth - 1)
                    + "{{ a }}"
                    + self.tag("endmacro")
                ),
                lambda: self.tag(f"call f({e(1)})") + self.body(depth - 1) + self.tag("endcall"),
                lambda: (
                    self.tag(
                        f"filter {self.one(['upper', 'trim', 'lower | replace(' + repr('a') + ', ' + repr('b') + ')'])}"
                    )
                    + self.body(depth - 1)
                    + self.tag("endfilter")
                ),
                lambda: self.tag(f"with k = {e(1)}, x = {e(1)}") + self.body(depth - 1) + self.tag("endwith"),
                lambda: self.tag("generation") + self.body(depth - 1) + self.tag("endgeneration"),
                lambda: "{#" + self.one(["", "-"]) + " {{ note }} " + self.one(["", "-"]) + "#}" + self.one(["", "\n"]),
                lambda: self.tag("raw") + self.text() + "{{ x }}" + self.tag("endraw"),
                lambda: "{{ raise_exception('no ' ~ x) }}" if self.chance(0.1) else "{{ x }}",
            ]
        )()

    def loop(self, depth):
        e = self.expression
        head = self.one(
            [
                f"for m in {e(1, 'list')}",
                "for m in messages",
                f"for k, v in ({e(0, 'dict')}).items()",
                f"for i in range({self.r.randint(0, 4)})",
                "for c in s",
            ]
        )
        test = self.one(["", "", f" if {e(1)}", " if m"])
        about = self.one(
            [
                "",
                "{{ loop.index }}/{{ loop.length }}",
                "{{ loop.first }}{{ loop.last }}",
                "{{ loop.revindex }}{{ loop.previtem }}",
                "{{ loop.nextitem is defined }}",
                "{{ loop.cycle('a', 'b') }}",
                "{{ loop.changed(x) }}",
            ]
        )
        jump = self.one(
            ["", "", "", self.tag("if loop.index > 2") + self.tag(self.one(["break", "continue"])) + self.tag("endif")]
        )
        other = self.tag("else") + self.body(depth - 1) if self.chance(0.2) else ""
        return self.tag(head + test) + jump + about + self.body(depth - 1) + other + self.tag("endfor")

    def template(self):
        start = "{%- set ns = namespace(a=1) -%}{%- macro f(a) %}[{{ a }}{{ caller() if caller is defined }}]{% endmacro -%}"
        return start + "".join(self.statement(2) for _ in range(self.r.randint(1, 5)))
