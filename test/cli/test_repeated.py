"""Every option of every command in the tool's own table: repeatable options are given 0, 1, 2 and many times and have
their effect each time; other options are refused if they are given twice."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("CLAVE_BUILD", ROOT / "build"))
MNIST, TINYLM = ROOT / "examples/mnist/mnist.clv", ROOT / "examples/tinylm/tinylm.clv"
COUNTS = (0, 1, 2, 7)
LISTS = {  # every repeatable option has a test below, or is of the same kind as an option that has one
    ("run", "--input"),
    ("bench", "--input"),
    ("bench", "--dim"),
    ("verify", "--input"),
    ("optimize", "--pass"),
    ("compile", "--dim"),
    ("tune", "--dim"),
    ("inspect", "--dim"),
    ("tune", "--input"),
    ("generate", "--template-arg"),
    ("generate", "--logit-bias"),
    ("generate", "--stop"),
    ("template", "--arg"),
}


def tables():
    done = subprocess.run([BUILD / "clave", "command-tables"], capture_output=True, check=True)
    return json.loads(done.stdout)["commands"]


COMMANDS = tables() if (BUILD / "clave").exists() else []
FLAGS = [(c, f) for c in COMMANDS for f in c["flags"] if f["name"].startswith("-")]
ONCE = [(c["name"], f) for c, f in FLAGS if f["kind"] != "list"]


def test_the_table_is_covered():
    assert {(c["name"], f["name"]) for c, f in FLAGS if f["kind"] == "list"} == LISTS


def value_of(flag):
    return {"switch": [], "integer": ["3"], "number": ["0.5"]}.get(flag["kind"], ["x"])


@pytest.mark.parametrize(("command", "flag"), ONCE, ids=[f"{c}{f['name']}" for c, f in ONCE])
def test_given_twice(tool, command, flag):
    name, value = flag["name"], value_of(flag)
    forms = [[name, *value]] + ([[f"{name}={value[0]}"]] if value and name.startswith("--") else [])
    if flag["short"]:
        forms.append([f"-{flag['short'].lstrip('-')}", *value])
    operands = ["p"] * sum(f["kind"] == "operand" for f in next(c for c in COMMANDS if c["name"] == command)["flags"])
    for first in forms:
        for second in forms:
            for words in ([*first, *second, *operands], [*operands, *first, *second]):
                said = tool.bad(2, command, *words)
                if len(operands) < 2 or "further argument" not in said:
                    assert said == f"{name} is given twice", words


def template(tool, *options):
    (tool.folder / "m.json").write_text("[]")
    names = "".join(f"{{{{ a{i}|default('-')|tojson }}}};" for i in range(7))
    (tool.folder / "t.jinja").write_text(names)
    return tool.good("template", "t.jinja", "--messages", "m.json", *options)


JSON = ["1", "-2.5", '"--x=y"', "[1, {}]", '{"a": [null]}', "false", '"é, \\" = :"']


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("backwards", [False, True])
def test_arguments_of_templates(tool, count, joined, backwards):
    given = [f"a{i}={JSON[i]}" for i in range(count)]
    if backwards:
        given.reverse()
    options = [word for g in given for word in ([f"--arg={g}"] if joined else ["--arg", g])]
    want = [json.dumps(json.loads(JSON[i]), ensure_ascii=False) if i < count else '"-"' for i in range(7)]
    assert template(tool, *options) == "".join(f"{w};" for w in want)


def test_a_name_twice(tool):
    (tool.folder / "m.json").write_text("[]")
    said = tool.bad(2, "template", "chatml", "--messages", "m.json", "--arg", "a=1", "--arg", "ab=1", "--arg", "a=2")
    assert said == "--arg a is given twice"
    said = tool.bad(2, "generate", TINYLM, "--prompt", "x", "--logit-bias", "5=1", "--logit-bias", "5=2")
    assert said == "--logit-bias 5 is given twice"
    said = tool.bad(2, "generate", TINYLM, "--chat", "-p", "x", "--template-arg", "a=1", "--template-arg", "a=2")
    assert said == "--template-arg a is given twice"


def test_arguments_of_chats(tool):
    (tool.folder / "t.jinja").write_text("{{ raise_exception([a, b, c]|tojson) }}")
    words = ["--template-arg", "a=1", "--template-arg=b=-2", "--template-arg", 'c="-x"']
    said = tool.bad(1, "generate", TINYLM, "--chat-template", "t.jinja", *words, "--chat", "-p", "x")
    assert said.startswith('[1, -2, "-x"]')


def ids(tool, *options):
    tool.good("generate", TINYLM, "--prompt", "The", "--max-new-tokens", "4", "--output-ids", "ids", *options)
    return [int(i) for i in (tool.folder / "ids").read_text().split()]


def test_bias_and_stops(tool):
    plain = ids(tool)
    banned = []
    for count in range(4):
        words = [w for i in banned for w in ("--logit-bias", f"{i}=-inf")]
        found = ids(tool, *words)
        assert not set(found) & set(banned), count
        banned += [i for i in found[:1] if i not in banned]
    assert ids(tool, "--logit-bias", f"{plain[0]}=-1e4", f"--logit-bias={banned[1]}=-1e4")[0] not in banned[:2]
    whole = tool.good("generate", TINYLM, "--prompt", "The", "--max-new-tokens", "12")
    stop = [c for c in whole.removeprefix("The") if c.strip()]
    for stops in ([], ["-nothing-"], ["-nothing-", stop[-1]], ["-n-", stop[3], "-", "--stop", "x=y"]):
        out = tool.good(
            "generate", TINYLM, "--prompt", "The", "--max-new-tokens", "12", *[f"--stop={s}" for s in stops]
        )
        assert whole.startswith(out.rstrip("\n")) or out == whole
        assert not any(s in out.removeprefix("The") for s in stops)


def test_inputs_and_sizes(tool, program):
    for values in (["x=[[1,2,3,4]]", "scale=2"], ["scale=-2", "x=[[-1,2,-3e0,4]]"]):
        for words in ([w for v in values for w in ("--input", v)], [f"--input={v}" for v in values]):
            assert json.loads(tool.good("run", program, *words, "--json"))
    assert tool.bad(1, "run", program, "--input", "scale=1", "--input", "scale=2") == "--input scale is given twice"
    for command in (["bench", MNIST, "--runs", "1", "--warmup", "1"], ["tune", MNIST, "--dry-run"]):
        tool.good(*command, "--dim", "batch=2")
        assert "is given twice" in tool.bad(1, *command, "--dim", "batch=2", "--dim=batch=3")


def test_passes(tool):
    """Exactly the named passes run."""

    def applied(*names):
        words = [w for n in names for w in ("--pass", n)]
        rows = [line.split() for line in tool.good("optimize", TINYLM, *words).splitlines()]
        return {row[0] for row in rows if len(row) == 3 and row[1].isdigit()}

    every = applied()
    assert {"view", "join_matmul", "open_cache"} <= every
    assert applied("view") == applied("view", "view") == {"view"}
    assert applied("open_cache", "join_matmul") == {"open_cache", "join_matmul"}
    assert applied(*sorted(every)) == every
