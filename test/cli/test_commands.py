"""Runs each command on a small program, and tests its output, the files that it writes, and its refusals."""

import json
import re
import shutil
import xml.etree.ElementTree

import numpy as np
import pytest
from conftest import make_program
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

X = np.arange(12, dtype=np.float32).reshape(3, 4) / 4


def expected(x, scale):
    e = np.exp(x * scale - (x * scale).max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.fixture
def inputs(tmp_path):
    save_file({"x": X, "scale": np.array(2.0)}, tmp_path / "in.safetensors")
    return "in.safetensors"


def check_outputs(tool, x=X, scale=2.0):
    got = load_file(tool.folder / "out.safetensors")
    np.testing.assert_allclose(got["output_0"], expected(x, scale), rtol=1e-5)
    assert got["output_1"].dtype == np.int64 and (got["output_1"] == (x * scale).argmax(1)).all()
    (tool.folder / "out.safetensors").unlink()


# ---------------------------------------------------------------- run


def test_run_by_name_and_position(tool, program, inputs):
    tool.good("run", program, "--inputs", inputs, "--outputs", "out.safetensors")
    with safe_open(tool.folder / "out.safetensors", "np") as f:
        assert f.metadata() == {"output_0": "probability", "output_1": "label"}
    check_outputs(tool)
    save_file({"input_1": np.array(2.0), "input_0": X}, tool.folder / "by.safetensors")
    tool.good("run", program, "--inputs", "by.safetensors", "--outputs", "out.safetensors")
    check_outputs(tool)


def test_run_with_npy_and_numbers(tool, program, inputs):
    np.save(tool.folder / "x.npy", np.asfortranarray(X[:2]))
    tool.good(
        "run",
        program,
        "--input",
        "x=x.npy",
        "--input",
        "scale=-0.5",
        "--outputs",
        "out.safetensors",
    )
    check_outputs(tool, X[:2], -0.5)
    tool.good(
        "run",
        program,
        "--inputs",
        inputs,
        "--input",
        "input_1=4",
        "--outputs",
        "out.safetensors",
    )
    check_outputs(tool, X, 4.0)


def test_run_prints_a_summary(tool, program, inputs):
    lines = tool.good("run", program, "--inputs", inputs).splitlines()
    assert lines[0].split() == [
        "output",
        "shape",
        "min",
        "mean",
        "max",
        "first",
        "values",
    ]
    assert lines[1].startswith("probability  F32 [3, 4]") and lines[1].endswith(", ...]")
    assert lines[2].startswith("label        I64 [3]") and lines[2].endswith("[3, 3, 3]")
    rows = json.loads(tool.good("run", program, "--inputs", inputs, "--json"))
    assert rows[1]["first"] == [3, 3, 3] and abs(rows[0]["mean"] - 0.25) < 1e-6


def test_run_profile(tool, program, inputs):
    tool.good(
        "run",
        program,
        "--inputs",
        inputs,
        "--outputs",
        "out.safetensors",
        "--profile",
        "t.json",
    )
    json.loads((tool.folder / "t.json").read_text())
    check_outputs(tool)


def test_run_dumps_every_op(tool, program, inputs):
    tool.good("run", program, "--inputs", inputs, "--dump", "d.safetensors")
    listed = tool.good("inspect", "d.safetensors")
    nodes = json.loads(tool.good("inspect", program, "--json"))
    assert "softmax" in json.dumps(nodes) and "softmax" in listed and "F32 [3, 4]" in listed
    error = tool.bad(1, "run", program, "--inputs", inputs, "--dump", "d.safetensors", "--profile", "t.json")
    assert "--profile" in error


@pytest.mark.parametrize(
    "literal, want",
    [
        ("1,-2,3.5,0", [[1, -2, 3.5, 0]]),
        ("[1, -2, 3.5, 1e2]", [[1, -2, 3.5, 100]]),
        ("[[1,2,3,4],[5,6,7,8]]", [[1, 2, 3, 4], [5, 6, 7, 8]]),
    ],
)
def test_run_with_lists_of_numbers(tool, program, literal, want):
    """Missing dimensions are leading ones of size 1."""
    tool.good("run", program, "--input", f"x={literal}", "--input", "scale=2", "--outputs", "out.safetensors")
    check_outputs(tool, np.array(want, np.float32), 2.0)


@pytest.mark.parametrize(
    "literal, says",
    [
        ("5", "x"),  # wrong size, which the library reports
        ("[[1,2],[3]]", 'expected a tensor with lists of equal lengths, got "[[1,2],[3]]"'),
        ("1,2,", 'expected a number or a list of numbers, such as 5, 1,2,3 or [[1,2],[3,4]], got "1,2,"'),
        ("[[[1,2,3,4]]]", '"[[[1,2,3,4]]]" has 3 dimensions, and the input has 2'),
        ("[" * 9 + "1" + "]" * 9, "expected a tensor of at most 8 dimensions, got "),
        ("x9", '"x9" is neither a .npy file nor numbers, such as 5, 1,2,3 or [[1,2],[3,4]]'),
        ("", '"" is neither a .npy file nor numbers'),
    ],
)
def test_run_refuses_numbers(tool, program, literal, says):
    assert says in tool.bad(1, "run", program, "--input", f"x={literal}", "--input", "scale=2")


def test_run_with_tokens(tool, root):
    """A single integer equals a list of one integer."""
    tinylm = [root / "examples/tinylm/tinylm.clv", "--input", "position=0"]
    one, same, three = (tool.good("run", *tinylm, "--input", f"tokens={t}") for t in ("5", "[[5]]", "5,6,7"))
    assert one == same != three
    assert tool.bad(1, "run", *tinylm, "--input", "tokens=1.5").endswith(
        '"1.5" has an element that is not a value of dtype I64'
    )


@pytest.mark.parametrize(
    "items, says",
    [
        (
            [],
            "missing inputs: x (input_0), F32 [batch, 4]; scale (input_1), F64 scalar",
        ),
        (["scale=1"], "missing input: x (input_0), F32 [batch, 4]"),
        (
            ["y=1", "scale=1"],
            'unknown input "y"; the inputs of the program are x (input_0), scale (input_1)',
        ),
        (["x=nowhere.npy", "scale=1"], "nowhere.npy: no such file or directory"),
        (["x=x.npy", "scale=many"], 'expected a number, got "many"'),
        (["x=x.npy", "scale="], 'expected a number, got ""'),
        (["x=x.npy", "scale=1", "scale=2"], "--input scale is given twice"),
        (["x=x.npy", "scale=x.npy"], "input scale: expected a scalar, got a tensor"),
        (["x=x.npy", "scale=i.npy"], "input scale: expected a scalar of dtype F64, got I64"),
        (["x=x9.npy", "scale=1"], "9"),
        (["x=d.npy", "scale=1"], "F64"),
    ],
)
def test_run_refuses_inputs(tool, program, items, says):
    np.save(tool.folder / "x.npy", X)
    np.save(tool.folder / "x9.npy", np.zeros((9, 4), np.float32))
    np.save(tool.folder / "d.npy", X.astype(np.float64))
    np.save(tool.folder / "i.npy", np.array(3))
    flags = [f for item in items for f in ("--input", item)]
    assert says in tool.bad(1, "run", program, *flags, "--outputs", "no.safetensors")
    assert not (tool.folder / "no.safetensors").exists()


def test_run_refuses_files(tool, program, inputs):
    for tensors, says in [
        ({"x": X, "scale": np.array(1.0), "extra": X}, 'unknown input "extra"'),
        ({"x": X, "input_0": X, "scale": np.array(1.0)}, "already set by"),
        ({"x": X}, "missing input: scale"),
    ]:
        save_file(tensors, tool.folder / "odd.safetensors")
        assert says in tool.bad(1, "run", program, "--inputs", "odd.safetensors")
    assert "in no command" not in tool.bad(2, "run", program, "--input", "x")
    assert 'unknown method "train"; the methods of the program are forward' in tool.bad(
        1, "run", program, "--method", "train"
    )
    assert "nosuch" in tool.bad(1, "run", program, "--inputs", inputs, "--device", "nosuch")
    assert tool.bad(1, "run", program, "--inputs", inputs, "--outputs", "no/such/folder.safetensors")
    assert tool.bad(
        1,
        "run",
        program,
        "--inputs",
        inputs,
        "--outputs",
        "out.safetensors",
        "--profile",
        "no/such.json",
    )
    assert sorted(p.name for p in tool.folder.iterdir()) == [
        "in.safetensors",
        "odd.safetensors",
        "p.json",
    ]


# ---------------------------------------------------------------- the others


def test_devices(tool):
    devices = json.loads(tool.good("devices", "--json"))
    assert devices[-1]["device"] == "cpu" and sum(d["default"] for d in devices) == 1
    text = tool.good("devices")
    assert all(d["device"] in text for d in devices)


def test_devices_without_opencl(tool, tmp_path):
    (tmp_path / "none").mkdir()
    r = tool.run("devices", env={"OCL_ICD_VENDORS": str(tmp_path / "none")})
    assert r.returncode == 0 and "cpu" in r.stdout
    assert r.stderr.startswith("clave: note: ") and "pocl" in r.stderr and r.stderr.count("\n") == 1


def test_bench(tool, program, inputs):
    for flags, shape in [((), [1, 4]), (("--inputs", inputs), [3, 4])]:
        b = json.loads(tool.good("bench", program, "--runs", "4", "--warmup", "1", "--json", *flags))
        assert b["inputs"][0]["shape"] == shape and b["runs"] == 4
        assert 0 < b["min_ms"] <= b["median_ms"] <= b["max_ms"]
        assert b["load_ms"] > 0 and b["first_ms"] > 0 and b["peak_rss_mb"] > 1
        assert set(b["plan"]) >= {"constant_bytes", "state_bytes", "arena_bytes"}
        assert b["answered_by"] == "cpu"
    assert "median_ms" in tool.good("bench", program, "--runs", "1", "--warmup", "0")


def test_the_cpu_backend_answers_while_kernels_are_built(tool, program, inputs):
    args, env = ("--device", "opencl", "--warm-up", "background"), {"CLAVE_CACHE_DIR": "off"}
    r = tool.run("run", program, "--inputs", inputs, *args, env=env)
    assert (
        r.returncode == 0
        and "clave: note: the CPU backend computed the result, because the device was not ready" in r.stderr
    )
    assert r.stdout == tool.good("run", program, "--inputs", inputs, "--device", "cpu")
    assert json.loads(tool.good("bench", program, "--runs", 1, *args, "--json", env=env))["answered_by"] == "cpu"
    wait = tool.run("run", program, "--inputs", inputs, "--device", "opencl", "--warm-up", "wait", env=env)
    assert wait.returncode == 0 and "the CPU backend computed the result" not in wait.stderr


def test_inspect(tool, program):
    text = tool.good("inspect", program)
    assert "batch 1 to 8" in text and "softmax 1" in text and "F32 [batch, 4]" in text
    d = json.loads(tool.good("inspect", program, "--json"))
    m = d["methods"][0]
    assert [i["name"] for i in m["inputs"]] == ["x", "scale"]
    assert m["inputs"][0]["max_shape"] == [8, 4] and m["inputs"][1]["scalar"]
    assert m["ops"] == {"elementwise": 1, "softmax": 1, "arg_reduce": 1}
    assert [n["name"] for n in m["nodes"]] == ["mul", "softmax", "argmax"]
    assert m["peak_bytes"] == 8 * 4 * 4 * 2
    rows = json.loads(tool.good("inspect", program, "--json", "--placement"))["methods"][0]["nodes"]
    assert all(n["where"] in ("cpu", "fused") for n in rows)
    assert "softmax" in tool.good("inspect", program, "--placement")
    assert tool.good("inspect", program, "--dot").startswith('digraph "forward"')


def test_svg_is_a_drawing(tool, program):
    svg = xml.etree.ElementTree.fromstring(tool.good("inspect", program, "--svg"))
    words = [t.text for t in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {"x", "softmax", "probability", "label"} <= set(words)
    width, height = float(svg.get("width")), float(svg.get("height"))
    for r in list(svg.iter("{http://www.w3.org/2000/svg}rect"))[1:]:
        x, y, w, h = (float(r.get(k)) for k in ("x", "y", "width", "height"))
        assert x >= 0 and x + w <= width and y >= 0 and y + h <= height


def test_inspect_survives_odd_names(tool):
    name = 'a<b>&"c\\\x07' + "x" * 100
    (tool.folder / "odd.json").write_text(json.dumps(make_program(name)))
    assert json.loads(tool.good("inspect", "odd.json", "--json"))["methods"][0]["outputs"][0]["name"] == name
    xml.etree.ElementTree.fromstring(tool.good("inspect", "odd.json", "--svg"))
    assert "\x07" not in tool.good("inspect", "odd.json") + tool.good("inspect", "odd.json", "--dot")


def test_inspect_shows_metadata(tool):
    """JSON is shown unchanged, or line by line for a language model. Other text is not metadata."""
    llm = {"max_context": 9, "chat_template": "{{ x }}" * 20, "stop_ids": [1, 2]}
    for said, want in ((json.dumps({"llm": llm}), {"llm": llm}), ("no {json", None), ("", None)):
        (tool.folder / "m.json").write_text(json.dumps(make_program() | {"metadata": said}))
        shown = json.loads(tool.good("inspect", "m.json", "--json"))
        assert shown["metadata"] == want and shown["tokenizer"] is None
        assert ("140 bytes" in tool.good("inspect", "m.json")) == (want is not None)


def test_inspect_tensors(tool, inputs):
    lines = tool.good("inspect", inputs).splitlines()
    assert sorted(x.split()[0] for x in lines[:2]) == ["scale", "x"] and lines[2].startswith("2 tensors, ")
    assert {"name": "x", "dtype": "F32", "shape": [3, 4]} in json.loads(tool.good("inspect", inputs, "--json"))
    assert "no graph" in tool.bad(1, "inspect", inputs, "--svg")
    (tool.folder / "half.safetensors").write_bytes((tool.folder / inputs).read_bytes()[:60])
    assert "half.safetensors" in tool.bad(1, "inspect", "half.safetensors")


def test_verify(tool, program):
    assert "good" in tool.good("verify", program)
    y = expected(X, 2.0)
    reference = {
        "input_0": X,
        "input_1": np.array(2.0),
        "output_0": y,
        "output_1": y.argmax(1),
    }
    save_file(reference, tool.folder / "r.safetensors")
    for device in ("cpu", "opencl"):
        text = tool.good("verify", program, "--reference", "r.safetensors", "--device", device)
        assert "2 equal to the reference" in text and ("ops" in text) == (device != "cpu")
    y[1, 2] += 0.01
    save_file(reference, tool.folder / "r.safetensors")
    message = tool.bad(1, "verify", program, "--reference", "r.safetensors")
    assert "output_0 (probability) differs from the reference: F32 [3, 4] at element 6" in message
    save_file({"input_0": X, "input_1": np.array(2.0)}, tool.folder / "r.safetensors")
    assert "no outputs" in tool.bad(1, "verify", program, "--reference", "r.safetensors")


def test_convert(tool, program, inputs):
    tool.good("convert", program, "q.clv")
    tool.good("convert", "q.clv", "back.json")
    for p in ("q.clv", "back.json"):
        tool.good("run", p, "--inputs", inputs, "--outputs", "out.safetensors")
        check_outputs(tool)
    assert "ends in .clv or .json" in tool.bad(1, "convert", program, "q.txt")
    assert tool.bad(1, "convert", "nowhere.clv", "r.clv") and not (tool.folder / "r.clv").exists()


def test_cache(tool, program, inputs, tmp_path):
    folder = tmp_path / "kernels"
    folder.mkdir(mode=0o700)
    env = {"CLAVE_CACHE_DIR": str(folder)}
    tool.good("run", program, "--inputs", inputs, "--device", "opencl", env=env)
    c = json.loads(tool.good("cache", "--json", env=env))
    assert c["files"] > 0 and c["bytes"] > 0 and c["path"].startswith(str(folder))
    assert json.loads(tool.good("cache", "--max-mb", "100", "--json", env=env))["removed_bytes"] >= 0
    assert json.loads(tool.good("cache", "--json", env=env))["files"] == c["files"]
    library = folder / "executorch-0123456789abcdef/libclave_executorch.so"  # as Python builds it
    library.parent.mkdir(mode=0o700)
    library.write_bytes(b"library" * 1000)
    with_library = json.loads(tool.good("cache", "--json", env=env))
    assert (with_library["files"], with_library["bytes"]) == (c["files"] + 1, c["bytes"] + 7000)
    tool.good("cache", "--max-mb", "100", env=env)
    assert library.exists()
    assert "removed" in tool.good("cache", "--clear", env=env)
    assert json.loads(tool.good("cache", "--json", env=env))["files"] == 0
    assert not library.parent.exists()
    assert json.loads(tool.good("cache", "--json", env={"CLAVE_CACHE_DIR": "off"}))["path"] is None


def test_verify_names_the_first_op_that_differs(tool, program, root):
    """A wrong kernel is found at its op."""
    shutil.copytree(root / "kernels_cl", tool.folder / "kernels")
    source = tool.folder / "kernels/softmax.cl"
    right = source.read_text()
    wrong = right.replace("/ (total)", "/ (2 * (total))")
    assert wrong != right
    source.write_text(wrong)
    y = expected(X, 2.0)
    save_file({"input_0": X, "input_1": np.array(2.0), "output_0": y}, tool.folder / "r.safetensors")
    env = {"CLAVE_KERNEL_DIR": str(tool.folder / "kernels"), "CLAVE_CACHE_DIR": "off", "CLAVE_DEVICE": "opencl"}
    env["CLAVE_SELF_CHECK"] = "on"
    checked = tool.run("verify", program, "--reference", "r.safetensors", env=env)
    assert checked.returncode == 0 and "softmax computes wrong numbers" in checked.stderr
    env["CLAVE_SELF_CHECK"] = "off"
    message = tool.bad(1, "verify", program, "--reference", "r.safetensors", env=env)
    assert message.startswith(
        "node 1 (softmax softmax) is the first that differs from the CPU backend: probability F32 [3, 4]"
    )


# ---------------------------------------------------------------- pictures


@pytest.mark.parametrize("device", ["cpu", "opencl"])
def test_inspect_page(tool, program, inputs, device, root):
    tool.good("run", program, "--inputs", inputs, "--profile", "t.json", "--device", device)
    page = tool.good("inspect", program, "--html", "--profile", "t.json", "--device", device)
    graph, memory = re.findall(r"<svg .*?</svg>", page, re.S)
    texts = "".join(xml.etree.ElementTree.fromstring(graph).itertext())
    assert "softmax" in texts and re.search(r"\d+\.\d+ (us|ms|s), \d+\.\d %", texts)
    assert all(float(n) < 1000 for n in re.findall(r"(\d+\.\d+) (?:us|ms)\b", page))
    assert page.count("border:2px solid #") == 3 and 'placeholder="search nodes' in page
    titles = [t.text for t in xml.etree.ElementTree.fromstring(memory).iter("{http://www.w3.org/2000/svg}title")]
    assert any(t.startswith("x, 16 bytes at ") for t in titles) and any(t.startswith("probability, ") for t in titles)
    lives = [[int(n) for n in re.search(r", (\d+) bytes at \d+, commands (\d+) to (\d+),", t).groups()] for t in titles]
    most = max(sum(size for size, first, last in lives if first <= c <= last) for c in range(9))
    assert f"peak {most} bytes at command " in memory
    assert not re.search(r"(?:src|href|url)\s*=", page)
    assert " us" not in tool.good("inspect", program, "--html", "--device", device)
    mnist = root / "examples/mnist/mnist.clv"
    fused = tool.good("inspect", mnist, "--svg", "--placement", "--device", device)
    assert fused.count('<rect class="f"') == fused.count('<path class="g"') == 4  # each ReLU and the op before it
    assert 'class="f"' not in tool.good("inspect", mnist, "--svg")


def test_inspect_page_folds_repeated_blocks(tool, root):
    """tinylm's layers are equal: one is drawn, and one box represents the others. The whole graph has all of them."""
    model = root / "examples/tinylm/tinylm.clv"
    page = tool.good("inspect", model, "--html", "--device", "cpu")
    folded, whole, _memory = re.findall(r"<svg .*?</svg>", page, re.S)
    more, first, last, block, end = map(
        int,
        re.search(
            r">(\d+) more of the block before<.*?>nodes (\d+) to (\d+) repeat (\d+) to (\d+)<", folded, re.S
        ).groups(),
    )
    assert last - first + 1 == more * (end - block + 1) and first == end + 1
    boxes = lambda svg: [int(n) for n in re.findall(r'data-node="(\d+)"', svg)]
    hidden = set(range(first + 1, last + 1))
    assert set(boxes(folded)) == set(boxes(whole)) - hidden and len(set(boxes(whole))) == len(boxes(whole))
    rows = [int(n) for n in re.findall(r'<tr data-node="(\d+)"', page)]
    assert rows == list(range(len(rows))) and set(boxes(whole)) <= set(rows)
    assert page.count('class="fold"') == 1 and page.count("<script>") == 1
    assert "more of the block before" not in tool.good("inspect", model, "--svg")
    assert 'class="fold"' not in tool.good("inspect", root / "examples/mnist/mnist.clv", "--html", "--device", "cpu")


def test_inspect_page_for_given_sizes(tool, root):
    mnist = root / "examples/mnist/mnist.clv"
    page = lambda *dims: tool.good("inspect", mnist, "--html", "--device", "cpu", *dims)
    peak = lambda *dims: re.search(r"peak (.*?) at command", page(*dims)).group(1)
    assert peak("--dim", "batch=4") != peak() == peak("--dim", "batch=1")
    assert "given twice" in tool.bad(1, "inspect", mnist, "--html", "--dim", "batch=4", "--dim", "batch=4")
    assert "with batch=4" in page("--dim", "batch=4")
    assert "--dim needs --html" in tool.bad(2, "inspect", mnist, "--dim", "batch=4")
    assert "nobody" in tool.bad(1, "inspect", mnist, "--html", "--dim", "nobody=4")


def test_inspect_page_escapes_names(tool):
    name = "<b>&\"'\x1b"
    (tool.folder / "h.json").write_text(json.dumps(make_program(name)))
    for page in (tool.good("inspect", "h.json", "--html"), tool.good("verify", "h.json", "--run", "--html", "v.html")):
        assert "<b>" not in page and "\x1b" not in page
    assert "&#60;b&#62;&#38;&#34;&#39;?" in tool.good("inspect", "h.json", "--html")
    assert "<b>" not in (tool.folder / "v.html").read_text()


def test_profiles_that_are_none(tool, program):
    for text, why in (("[", "t.json: "), ("{}", "has no times"), ("[1]", "has no times"), ('[{"ph":"X"}]', "no times")):
        (tool.folder / "t.json").write_text(text)
        assert why in tool.bad(1, "inspect", program, "--svg", "--profile", "t.json")
    assert "--svg or --html" in tool.bad(2, "inspect", program, "--profile", "t.json")
    assert "--dot" in tool.bad(2, "inspect", program, "--placement", "--dot")
