"""The examples: the commands of their READMEs run unchanged, and their results equal torch's.

Tests that need the data of ../shared/data (or CLAVE_TEST_DATA) are skipped, with this reason, if it is absent.
"""

import functools
import itertools
import json
import os
import pathlib
import re
import runpy
import signal
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.by_turn(9)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = pathlib.Path(os.environ.get("CLAVE_TEST_DATA") or ROOT / "../shared/data").resolve()
EXAMPLES = ROOT / "examples"
sys.path.insert(0, str(ROOT / "test" / "docs"))
from documents import blocks

needs_data = pytest.mark.skipif(not DATA.exists(), reason=f"no data in {DATA}")
DEVICES = ["cpu", "opencl"]


@pytest.fixture(autouse=True)
def own_data(monkeypatch):
    """Makes examples search the tests' data folder for fetched data."""
    monkeypatch.setenv("CLAVE_TEST_DATA", str(DATA))


def commands(readme):
    """Returns the blocks that a test runs, in order: each may use the files that earlier blocks made."""
    left_out = ("hardware", "long") if DATA.exists() else ("hardware", "long", "fetch")
    return [text for mark, text in blocks(readme, "sh") if not mark.startswith(left_out)]


def run_script(text):
    """Returns the standard output of a README's commands. The data that it fetches come from the tests' folder."""
    # The script runs in this test's Python environment.
    script = text.replace(".venv/bin/python", sys.executable)
    script = re.sub(r"^examples/fetch ", f"examples/fetch --from '{DATA}' ", script, flags=re.M)
    env = {k: v for k, v in os.environ.items() if k not in ("CLAVE_DEVICE", "CLAVE_LIBRARY", "MAKEFLAGS")}
    p = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=ROOT, env=env, capture_output=True, text=True)
    assert p.returncode == 0, f"{script}\n{p.stdout[-2000:]}{p.stderr[-2000:]}"
    return p.stdout


@pytest.mark.parametrize("name", sorted(r.parent.name for r in EXAMPLES.glob("*/README.md") if commands(r)))
def test_readme(name):
    out = "".join(map(run_script, commands(EXAMPLES / name / "README.md")))
    if name == "build_c":
        assert "\n0 0\n7.25 0\n" in out and "matmul" in out and "F32 [batch, 3]" in out
    if name == "compiler":
        assert "passes: batch_norm 2\n" in out and "\ndigit: 7\n" in out and "bit for bit" in out
    if name == "embed_opencl":
        assert out.endswith("\nthe bar is a 1\n") or out == "the bar is a 1\n"
    if name == "host_app":
        expect_named("\n".join(line for line in out.splitlines() if re.fullmatch(r"\d+ [a-z]+ [01]\.\d+", line)))
    if name == "llama":
        assert "\n" + tinylm_text("ROMEO:", 96) + "\n" in out
        if DATA.exists():
            assert out.endswith("\n" + published_story().removeprefix("Once upon a time") + "\n")


def tinylm_text(prompt, n_tokens):
    """Returns tinylm's greedy text, as the tool prints it."""
    command = [ROOT / "build/clave", "generate", EXAMPLES / "tinylm/tinylm.clv", "--prompt", prompt]
    p = subprocess.run([*command, "--max-new-tokens", str(n_tokens), "--device", "cpu"], capture_output=True, text=True)
    assert p.returncode == 0, p.stderr
    return p.stdout.rstrip("\n")


@functools.cache
def drawn_logits(n):
    """Returns torch's logits for the first n of the 40 pictures of host_app's page, the names, and the labels."""
    import torch

    model, shapes = example("resnet"), example("resnet", "shapes.py")
    images, labels = (x[:n] for x in shapes["dataset"](40, shapes["HELD_OUT"]))
    with torch.no_grad():
        logits = model["load"]()(model["normalise"](torch.from_numpy(images))).numpy()
    return logits.astype(np.float64), shapes["NAMES"], labels


def expect_named(out):
    """Checks that each run of host_app prints torch's names for its pictures."""
    rows = [line.split() for line in out.splitlines()]
    begins = [i for i, row in enumerate(rows) if row[0] == "0"]
    assert begins
    for begin, end in itertools.pairwise([*begins, len(rows)]):
        numbers, labels, probabilities = zip(*rows[begin:end], strict=True)
        logits, names, right = drawn_logits(end - begin)
        assert len(labels) >= 20 and [int(n) for n in numbers] == list(range(len(labels)))
        assert list(labels) == [names[i] for i in logits.argmax(1)]
        assert (logits.argmax(1) == right).mean() >= 0.95
        want = np.exp(logits - logits.max(1, keepdims=True))
        assert np.abs(np.array(probabilities, float) - (want / want.sum(1, keepdims=True)).max(1)).max() < 2e-3


@pytest.fixture(scope="module")
def host_app():
    """Returns a function that runs host_app on 20 images."""
    run_script(next(blocks(EXAMPLES / "host_app/README.md", "sh"))[1])
    images = ROOT / "build/host_app.images"
    images.write_bytes(images.read_bytes()[: 20 * 32 * 32 * 3])
    command = [ROOT / "build/host_app", ROOT / "build/host_app.weights", images]

    def run(*options, env=(), plugin=ROOT / "build/libclave_delegate.so"):
        p = subprocess.run(
            [command[0], "--plugin", plugin, *options, *command[1:]],
            env=os.environ | {"CLAVE_DEVICE": "cpu"} | dict(env),
            capture_output=True,
            text=True,
        )
        assert p.returncode == 0, p.stderr
        expect_named(p.stdout)
        return p.stderr

    return run


def test_host_app_divides_its_graph(host_app):
    assert "runs 54 of 56 nodes in 1 part on" in host_app()
    assert "runs 44 of 56 nodes in 11 parts on" in host_app("--own", "add", "--own", "mean")
    assert "runs 54 of 56 nodes in 1 part on" in host_app("--opencl")
    assert "runs 35 of 56 nodes in 20 parts on" in host_app("--opencl", "--own", "conv")
    said = host_app("--dma-buf")
    assert "runs 54 of 56 nodes in 1 part on" in said and "without clave" not in said


def test_host_app_without_clave(host_app, tmp_path):
    assert "note: no plugin" in host_app(plugin=tmp_path / "no.so")
    assert "note: no plugin" in host_app(plugin="libc.so.6")
    assert "note: clave: unknown device 'opencl:99'" in host_app(env={"CLAVE_DEVICE": "opencl:99"})


def test_host_app_is_interrupted(host_app, tmp_path):
    (tmp_path / "images").write_bytes((ROOT / "build/host_app.images").read_bytes() * 50)
    command = [
        "build/host_app",
        "--plugin",
        "build/libclave_delegate.so",
        "build/host_app.weights",
        tmp_path / "images",
    ]
    env = os.environ | {"CLAVE_DEVICE": "cpu", "CLAVE_THREADS": "1"}
    with subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        assert "runs 54 of 56" in p.stderr.readline()
        p.send_signal(signal.SIGINT)
        out, error = p.communicate(timeout=60)
    assert p.returncode == 1 and error.endswith("host_app: interrupted\n") and "without clave" not in error
    assert len(out.splitlines()) < 1000


@pytest.mark.parametrize("options", [(), ("--opencl",)])
def test_host_app_loses_its_device(host_app, stub, options):
    """The device is lost from one of several OpenCL calls on: while host_app opens it, builds kernels, or runs."""
    env = stub | {"CLAVE_DEVICE": "opencl"}
    assert "runs 54 of 56" in host_app(*options, env=env)  # the later runs find their kernels in the cache
    notes = [host_app(*options, env=env | {"CLAVE_STUB_LOST_AT": str(n)}) for n in (0, 40, 250, 400)]
    assert all("note:" in text for text in notes)
    assert sum("going on without clave" in text for text in notes) >= 2


def example(name, file="model.py"):
    """Returns the names that a file of an example defines; its neighbours are importable while it runs."""
    sys.path.insert(0, str(EXAMPLES / name))
    for module in ("model", "export"):
        sys.modules.pop(module, None)
    try:
        return runpy.run_path(str(EXAMPLES / name / file))
    finally:
        sys.path.remove(str(EXAMPLES / name))


@needs_data
@pytest.mark.parametrize("device", DEVICES)
def test_resnet_gives_the_stored_logits(device, tmp_path):
    import torch

    import clave

    resnet = example("resnet")
    images = resnet["normalise"](torch.from_numpy(np.load(DATA / "cifar10" / "images_200_u8_nhwc.npy")))
    want = np.load(DATA / "cifar10" / "logits_resnet20_200.npy")
    batch = torch.export.Dim("batch", min=1, max=256)
    weights = DATA / "cifar10" / "resnet20-12fca82f.th"
    program = clave.export(resnet["load"](weights), (images[:2],), dynamic_shapes=({0: batch},))
    (got,) = clave.Session(program, device).run(images)
    assert np.abs(got - want).max() < 1e-3
    assert (got.argmax(1) == want.argmax(1)).all()


@needs_data
@pytest.mark.parametrize("device", DEVICES)
def test_mnist_labels_as_torch_does(device):
    import torch

    import clave

    mnist = example("mnist")
    images = mnist["dataset"]()[0][mnist["TRAINING"] :]
    with torch.no_grad():
        want = mnist["load"]()(images).numpy()
    (got,) = clave.Session(EXAMPLES / "mnist" / "mnist.clv", device).run(images)
    assert np.abs(got - want).max() < 1e-4
    assert (got.argmax(1) == want.argmax(1)).all()


def test_mnist_is_small():
    assert sum((EXAMPLES / "mnist" / name).stat().st_size for name in ("mnist.clv", "weights.pt")) <= 500_000
    assert (EXAMPLES / "resnet/weights.pt").stat().st_size <= 600_000


def test_tinylm_carries_its_tokenizer_and_is_small():
    import clave

    path = EXAMPLES / "tinylm" / "tinylm.clv"
    assert path.stat().st_size <= 4_000_000
    program = clave.load(path)
    assert program.tokenizer.decode(program.tokenizer.encode("O Romeo, Romeo!")) == "O Romeo, Romeo!"
    assert program.metadata["llm"]["max_context"] == 512


def held_out_loss(session, windows):
    """Returns nats per token of texts (n, length) that begin with BOS, run token by token."""
    losses = []
    for ids in windows:
        session.reset()
        for position, (token, following) in enumerate(itertools.pairwise(ids)):
            (logits,) = session.run(np.array([[token]]), np.array(position))
            logits = logits[0].astype(np.float64)
            losses.append(np.logaddexp.reduce(logits) - logits[following])
    return float(np.mean(losses))


@needs_data
def test_tinylm_knows_shakespeare():
    """The loss is that of the README, on the windows on which train.py measures it."""
    import clave

    train = example("tinylm", "train.py")
    text = train["read_text"]()
    cut = text.index("\n\n", int(len(text) * (1 - train["HELD_OUT"]))) + 2
    program = EXAMPLES / "tinylm" / "tinylm.clv"
    tokenizer = train["train_tokenizer"](text[:cut])
    ours = clave.load(program).tokenizer
    assert ours.encode(text[cut:]) == tokenizer.encode(text[cut:], add_special_tokens=False).ids
    speeches = train["Speeches"](text[cut:], tokenizer)
    windows = speeches.batch(speeches.starts[:: max(1, len(speeches.starts) // 16)]).numpy()
    assert held_out_loss(clave.Session(program, "cpu"), windows) == pytest.approx(3.49, abs=0.01)
    first = windows[:1, :64]
    losses = [held_out_loss(clave.Session(program, device), first) for device in DEVICES]
    assert losses[0] == pytest.approx(losses[1], abs=2e-3)  # sums of f16 round differently


@needs_data
@pytest.mark.parametrize("form", ["int8", "Q4_1"])
def test_tinylm_in_fast_precision_loses_little(form, tmp_path):
    """Tests the columns of docs/howto/quantise.md, on one window."""
    out = tmp_path / "losses.json"
    command = ["quantise.py", "--precision", "strict", "fast", "--windows", "1", "--forms", form, "--json", out]
    env = os.environ | {"PYTHONPATH": str(ROOT / "python"), "CLAVE_DEVICE": "opencl", "CLAVE_DEVICE_CLASS": "cpu"}
    subprocess.run([sys.executable, *command], cwd=EXAMPLES / "tinylm", env=env, check=True)
    _, error, strict, fast = json.loads(out.read_text())[form]
    assert abs(fast - strict) < 0.01 and fast != strict
    assert 0.5 < error < 0.7  # relative to half a step; for evenly spread errors it is 3 ** -0.5


def published_story():
    """Returns the text in the data's README: the indented lines after "prints:"."""
    text = (DATA / "README.md").read_text().split("prints:\n", 1)[1]
    lines = [line.removeprefix("    ") for line in text.splitlines() if line.startswith("    ")]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    """Returns a function to the program in each dtype, which is made at the first call."""
    folder, made = tmp_path_factory.mktemp("stories"), {}

    def program(dtype):
        if dtype not in made:
            import torch

            import clave

            dtypes = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
            length = torch.export.Dim("length", min=1, max=512)
            arguments = (torch.ones(1, 3, dtype=torch.int64), torch.tensor(0))
            model = example("stories260k")["load"](dtypes[dtype])
            made[dtype] = folder / f"{dtype}.clv"
            clave.export(model, arguments, dynamic_shapes=({1: length}, None)).save(made[dtype])
        return made[dtype]

    return program


def told(program, device, folder):
    """Returns (text, ids) of 200 greedy tokens after an empty prompt."""
    model = DATA / "stories260K" / "tok512.model"
    command = [ROOT / "build/clave", "generate", program, "--tokenizer", model, "--device", device, "--prompt", ""]
    rest = ["--max-new-tokens", "200", "--output-ids", folder / "ids.txt"]
    p = subprocess.run([*command, *rest], capture_output=True, text=True)
    assert p.returncode == 0, p.stderr
    return p.stdout, [int(i) for i in (folder / "ids.txt").read_text().split()]


def expect_near_tie(program, ids, others):
    """Where two greedy texts diverge, both tokens are equally likely up to 16-bit rounding: within 2 % of the range of
    logits."""
    import clave

    n = next((i for i, (a, b) in enumerate(zip(ids, others, strict=True)) if a != b), None)
    if n is None:
        return
    (logits,) = clave.Session(program, "cpu").run(np.array([[1, *ids[:n]]]), np.array(0))
    assert n > 20 and abs(logits[0, ids[n]] - logits[0, others[n]]) < 0.02 * np.ptp(logits[0]), n


@needs_data
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_stories_are_the_published_text(stories, dtype, device, tmp_path):
    import clave

    program = stories(dtype)
    text, tokens = told(program, device, tmp_path)
    if dtype == "f32":
        assert text == published_story()
    else:
        exact, ids = told(stories("f32"), "cpu", tmp_path)
        assert exact == published_story()
        expect_near_tie(stories("f32"), ids, tokens)
    # A prompt of many tokens leaves the same cache as the same tokens one by one.
    (at_once,) = clave.Session(program, device).run(np.array([[1, *tokens[:9]]]), np.array(0))
    assert int(at_once[0].argmax()) == tokens[9]


@needs_data
def test_stories_by_prompt_and_up_to_the_contexts_end(stories, tmp_path):
    """The published text from its first words, as text and as ids; stopped by a text; and up to the context's end."""

    def tell(*args):
        command = [ROOT / "build/clave", "generate", stories("f32"), "--device", "cpu", *map(str, args)]
        p = subprocess.run([*command, "--stats-json", tmp_path / "stats"], capture_output=True, text=True)
        assert p.returncode == 0, p.stderr
        return p.stdout, json.loads((tmp_path / "stats").read_text())

    with_text, begin = ("--tokenizer", DATA / "stories260K" / "tok512.model"), "Once upon a time"
    text, stats = tell(*with_text, "--prompt", begin, "--max-new-tokens", 150)
    assert published_story().startswith(begin + text) and len(text) > 200 and stats["decode_tokens"] == 149
    assert tell(*with_text, "--prompt", begin, "--stop", "red ball", "--stop", "zebra")[0] == text.split("red ball")[0]
    (tmp_path / "ids").write_text("1 403 407\n261 378\n")
    ids, stats = tell("--prompt-ids", tmp_path / "ids", "--max-new-tokens", 150, "--output-ids", tmp_path / "new")
    assert (tmp_path / "new").read_text().split() == ids.split() and stats["prompt_tokens"] == 5
    assert tell(*with_text, "--prompt-ids", tmp_path / "ids", "--max-new-tokens", 150)[0] == text
    _, stats = tell(*with_text, "--prompt", begin, "--max-new-tokens", 1000, "--ignore-stop-ids")
    assert stats["stop_reason"] == "context_full" and stats["prompt_tokens"] + stats["decode_tokens"] + 1 == 512
