"""Every filter, test, operator, method, attribute, slice and format with values of every type, against Jinja2: where
ours differs it raises. Products of the tables cover all that a template can express; single templates follow."""

import itertools
import os
import random
import struct

import pytest
from _jinja import RAISED, Template, reference

from clave import Error

ALL = bool(os.environ.get("CLAVE_TEST_ALL"))

VALUES = [
    "none",
    "true",
    "false",
    "nope",
    "0",
    "7",
    "-13",
    "2.5",
    "-0.75",
    "0.0",
    "-0.0",
    "1e20",
    "5e-324",
    "''",
    "'12'",
]
VALUES += [
    "'Hello wOrld'",
    "' 3.5 '",
    "'Straße é日本'",
    "'<a & \"b\">'",
    "'a\\nb\\n\\nc  '",
    "'ǅ ΑΣ'",
    "'１２'",
    "[]",
    "{}",
]
VALUES += ["[3, 1, 2]", "['b', 'A', 'a']", "[1, 'a', none]", "[{'n': 'x', 'v': 2}, {'n': 'Y', 'v': 1}]", "[[1,2],[0]]"]
VALUES += [
    "(1, 'b')",
    "{'b': 1, 'a': [1], 'C': none}",
    "{'x': {'y': [1]}}",
    "range(3)",
    "namespace(a=1)",
    "('<i>'|safe)",
]
VALUES += ["([1,2]|map('string'))", "{'a':1}.keys()", "{'a':1}.values()", "range", "self"]

FILTERS = """
abs attr('a') batch(2)|list capitalize center(9) count d('z') default('z',true) dictsort dictsort(true)
dictsort(by='value') e filesizeformat first float float(1.5) forceescape format(1) groupby('n')|list indent
indent('--',true) int int(5) int(base=16) int(5,8) items|list join join('-',attribute='n') last length list
lower map('upper')|list map(attribute='n')|list map(attribute='n',default='?')|list max max(attribute='v') min
pprint reject('odd')|list rejectattr('v')|list replace('l','L',1) replace('','-') reverse|list round round(1)
round(2,'floor') round(0,'ceil') safe select|list select('equalto',1)|list selectattr('n','eq','x')|list
slice(2)|list sort sort(true) sort(case_sensitive=true) sort(attribute='n') string striptags sum
sum(attribute='v') title tojson tojson(indent=2) tojson(true) tojson(sort_keys=true)
tojson(separators=(',',':')) trim trim('a') truncate(5) unique|list unique(attribute='n')|list upper urlencode
wordcount wordwrap(5) xmlattr nofilter abs(1)
"""
TESTS = [
    "boolean",
    "callable",
    "defined",
    "divisibleby(3)",
    "eq(7)",
    "eq none",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
]
TESTS += [
    "ge(2)",
    "in [7, 'a', none]",
    "in 'Hello'",
    "in {'a':1}",
    "integer",
    "iterable",
    "lower",
    "lt(3)",
    "mapping",
    "ne(7)",
]
TESTS += ["none", "number", "odd", "sameas(none)", "sequence", "string", "test", "true", "undefined", "upper", "notest"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "~", "==", "<", ">=", "in", "not in", "and", "or"]
METHODS = """
capitalize() casefold() center(9,'*') count('l',3) encode() endswith(('d','x')) endswith('o',0,5) expandtabs()
find('o',5) index('o') isalnum() isalpha() isdigit() islower() isnumeric() istitle() isupper() isspace()
join(['a','b']) ljust(9,'.') lower() lstrip('H') partition('o') removeprefix('He') removesuffix('ld')
replace('l','L',1) replace('l') rfind('o') rindex('o') rjust(9) rpartition('o') rsplit() rsplit('o',1)
rsplit(none,1) rstrip('d') split() split('l',1) split('') split(none,1) split(sep='o') splitlines(true)
startswith('l',2) startswith(1) strip('Hd') swapcase() title() upper() zfill(9) zfill('a') upper(1) nomethod()
strip(chars='H') append(1) copy() count(1) index(1) index(value=1) pop() sort() get('a') get('z',1)
get('z',default=1) get([1]) items() keys()|list values()|list setdefault('q',1) update({}) fromkeys('ab')
bit_length() real is_integer() hex() start isdisjoint([]) gi_running name arguments __class__ __len__() _x
"""
KEYS = ["0", "-1", "5", "'a'", "'n'", "none", "true", "1.0", "nope", "(1,2)", "[1]", "'upper'", "'__class__'"]
SLICES = [":2", "-2:", "::-1", "5:", "-100:100", "::0", "none:2", "'a':", "2:0:-1", "1:3:2"]
FORMATS = [
    "",
    "d",
    "5",
    "<5",
    "^7",
    "*^9",
    "05",
    "+",
    " ",
    "x",
    "#x",
    "o",
    "b",
    "c",
    ".2e",
    ".3f",
    "g",
    ".3g",
    "%",
    ".1%",
    ",",
]
FORMATS += ["_", ",x", ",.2f", "s", ".2s", "05d", "=+6d", "é^7", "5.", "+s", "=5", "05s", ".3d", "i", "z.1f", "<05d"]
FORMATTED = [
    "0",
    "7",
    "-13",
    "1234567",
    "2.5",
    "-0.75",
    "1e20",
    "1e-7",
    "true",
    "'abc'",
    "none",
    "[1]",
    "nope",
    "65",
    "-0.0",
]
PERCENTS = [
    "%s",
    "%r",
    "%d",
    "%i",
    "%5d",
    "%-5d|",
    "%05d",
    "%+d",
    "%x",
    "%#o",
    "%c",
    "%.2e",
    "%.0f",
    "%10.2f",
    "%g",
    "%%",
    "%a",
]
PERCENTS += ["%5s", "%.2s", "%(a)s", "%", "%z", "%*d", "%s %s", "%5%", "%(a", "%#.3g", "% x", "%05s"]

PRODUCTS = {
    "filters": ("{{ %s | %s }}", VALUES, FILTERS.split()),
    "tests": ("{{ %s is %s }}", VALUES, TESTS),
    "operators": ("{{ (%s) %s (%s) }}", VALUES, OPERATORS, VALUES),
    "methods": ("{{ (%s).%s }}", VALUES, METHODS.split()),
    "attributes": ("{{ (%s).%s is defined }}", VALUES, [m.split("(")[0] for m in METHODS.split()]),
    "items": ("{{ (%s)[%s] }}", VALUES, KEYS),
    "slices": ("{{ (%s)[%s] }}", VALUES, SLICES),
    "loops": ("{%% for x in %s %%}%s{%% else %%}none{%% endfor %%}", VALUES,
              ["{{ x }}", "{{ loop.previtem }}{{ loop.nextitem }}", "{% break %}", "{% continue %}",
               "{{ loop.cycle(1, 2) }}",               "{{ loop }}", "{{ loop|length }}", "{% set loop = 1 %}",
               "{% if loop.last %}{% continue %}{% endif %}{{ x }}"]),
    "unpacking": ("{%% for %s in %s %%}{{ a }}{{ b }};{%% endfor %%}", ["a, b", "(a, b)", "a,"], VALUES),
    "format": ("{{ '{:%s}'.format(%s) }}", FORMATS, FORMATTED),
    "percent": ("{{ '%s' %% %s }}", PERCENTS, [*FORMATTED, "(1,)", "(1,2)", "()", "{'a': 1}", "(5,2.5)", "('é',)"]),
    "unary": ("{{ %s(%s) }}", ["-", "+", "not "], VALUES),
    "containers": ("{{ %s }}{{ 1 if (%s) else 2 }}", ["[%s]", "{'k': %s}", "(%s,)", "%s"], VALUES),
}  # fmt: skip


def check(source, context=None):
    """Returns True if ours renders Jinja2's text; it may refuse, but must not print text that Jinja2 does not."""
    context = context or {}
    try:
        want = reference(source, **context)
    except (*RAISED, MemoryError) as error:
        want = error
    try:
        got = Template(source).render(now=0, **context)
    except Error:
        return False
    assert got == want, f"{source!r}: Jinja2: {want!r}, ours: {got!r}"
    return True


def fill(form, parts):
    if form.startswith("{{ %s }}{{ 1 if"):
        container, value = parts
        return form.replace("%s", container % value, 1).replace("%s", value, 1)
    return form % tuple(parts)


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name):
    """Tests all pairs, and a sample of larger products; make check-all tests all of these."""
    form, *tables = PRODUCTS[name]
    cases = list(itertools.product(*tables))
    if not ALL and len(cases) > 1200:
        cases = random.Random(1).sample(cases, 900)
    rendered = sum(check(fill(form, parts)) for parts in cases)
    assert rendered >= len(cases) // 12


SINGLE = [
    "{% macro m(a, b=2) %}{{ a }}{% endmacro %}{{ m.name }}{{ m.arguments }}"
    "{{ m.catch_kwargs }}{{ m.catch_varargs }}{{ m.caller }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{{ caller() }}{% endmacro %}"
    "{{ m.catch_varargs }}{{ m.catch_kwargs }}{{ m.caller }}",
    "{% macro m(a, a) %}{% endmacro %}",
    "{% macro m(caller) %}{% endmacro %}",
    "{{ self is defined }}{{ self is undefined }}",
    "{% set self = 2 %}{{ self }}",
    "{% macro m() %}{{ self is defined }}{% endmacro %}{{ m() }}",
    "{% print 1, 2 %}",
    "{% for x in [1, 2] %}{% if x == 1 %}{% continue %}{% endif %}{% break %}{% else %}else{% endfor %}",
    "{% for x in [1, 2] %}{{ x }}{% break %}{% else %}else{% endfor %}",
    "{% for x in [1, 2] %}{{ x }}{% if x == 2 %}{% break %}{% endif %}{% else %}else{% endfor %}",
    "{{ ('<a>'|safe) + '<b>' }}{{ '<b>' + ('<a>'|safe) }}{{ ('<a>'|safe) ~ '<b>' }}",
    "{{ \"Use '\"|safe + \"f's\" + \"' to '\"|safe + 'a & b' + \"'\\n\"|safe + {'k': '<v>'} | tojson() }}",
    "{% set x %}<{% endset %}{{ x + '<' }}{% set y | safe %}<{% endset %}{{ y + '<' }}",
    "{{ [('<'|safe), '<'] | join('&') }}{{ ('<'|safe) | tojson }}{{ ('<'|safe) == '<' }}{{ ('<'|e) + '<' }}",
    "{{ 1e400 }}",
    "{{ [1] in {'a': 1} }}",
    "{{ [1] is filter }}",
]  # fmt: skip


@pytest.mark.parametrize("source", SINGLE)
def test_single(source):
    check(source)


def test_what_must_not_be_refused():
    for i in (0, 1, 4, 6, 8, 9, 10, 11, 12, 13, 14):
        assert check(SINGLE[i]), SINGLE[i]


def numbers(seed, count):
    """Yields doubles of all exponents: random bits, 32-bit floats, powers of two, their neighbours, short decimals."""
    r = random.Random(seed)
    for _ in range(count):
        yield struct.unpack("<d", r.randbytes(8))[0]
        yield struct.unpack("<f", r.randbytes(4))[0]
        yield r.randrange(10**6) / 10 ** r.randrange(9)
        yield struct.unpack("<d", struct.pack("<Q", r.randrange(1 << 52)))[0]
    for e in range(-1074, 1024):
        for step in (-1, 0, 1):
            bits = struct.unpack("<q", struct.pack("<d", 2.0**e))[0] + step
            yield struct.unpack("<d", struct.pack("<q", bits))[0]


def test_digits_of_numbers():
    """repr and JSON of doubles have the same digits as in Python."""
    every = [d for d in numbers(5, 100_000 if ALL else 8000) if d == d and abs(d) != float("inf")]
    t = Template("{{ l }}{{ l | tojson }}")
    for first in range(0, len(every), 5000):
        part = every[first : first + 5000]
        assert t.render(l=part) == repr(part) * 2
