"""Loss of stories260K and tinylm under each way to shrink a Hugging Face folder: nats per token, as a table and a
plot.

    PYTHONPATH=python .venv/bin/python bench/quantisation_bench.py [--device cpu] [--print]
"""

import argparse
import json
import math
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile

from plot import document, text
from process import write_section

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE, PLOT = ROOT / "docs/howto/language_models.md", ROOT / "docs/pictures/quantisation.svg"
FORMS = ("int8", "int8:32", "int6:32", "int5:32", "int4:32", "int4:64", "int4:128", "int4:32:zeros")
PT2E = {"pt2e, weights": "none", "pt2e, inputs too": "inputs", "pt2e, all": "all"}  # activations that are rounded
WAYS = ("f32", "f16", "bf16", "f32, cache of int8", *FORMS, *PT2E)


def stories(folder):
    """Returns the folder's model and a text, the story that its authors publish, or None if the data are missing."""
    data = os.environ.get("CLAVE_TEST_DATA")
    if not data:
        return None
    runpy.run_path(str(ROOT / "examples/llama/export_llama.py"))["load_stories"]().save_pretrained(folder)
    (folder / "tokenizer.model").write_bytes(pathlib.Path(data, "stories260K/tok512.model").read_bytes())
    (folder / "tokenizer_config.json").write_text('{"bos_token": "<s>", "add_bos_token": true}')
    return runpy.run_path(str(ROOT / "test/examples/test_examples.py"))["published_story"]()


def tinylm(folder):
    """Does the same for tinylm, with a held-out part of Tiny Shakespeare."""
    sys.path.insert(0, str(ROOT / "examples/tinylm"))
    from quantise import load
    from train import HELD_OUT, TEXT

    import clave

    if not TEXT.exists():
        return None
    load()[0].save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes(clave.load(str(ROOT / "examples/tinylm/tinylm.clv")).tokenizer_file)
    text = TEXT.read_text()
    return text[int(len(text) * (1 - HELD_OUT)) :][:16000]


def make(folder, way, text, output):
    from clave.llm import LLMExporter

    kv = "int8" if way == "f32, cache of int8" else None
    exporter = LLMExporter(folder, max_context=512, kv=kv).to_dtype(way if way in ("f16", "bf16") else "f32")
    if way in PT2E:
        from clave.quantizer import ClaveQuantizer

        calibration = [] if PT2E[way] == "none" else [text[: len(text) // 2]]
        exporter.pt2e_quantize([ClaveQuantizer(activations=PT2E[way])], calibration)
    elif way in FORMS:
        exporter.quantize(way, way)
    exporter.save(output)


def nats(args, program, text):
    with tempfile.TemporaryDirectory() as work:
        asked, stats = pathlib.Path(work) / "text", pathlib.Path(work) / "stats"
        asked.write_text(text)
        options = ["--perplexity", asked, "--stats-json", stats, "--device", args.device]
        subprocess.run([args.build / "clave", "generate", program, *options], check=True, stdout=subprocess.DEVNULL)
        return json.loads(stats.read_text())["nats_per_token"]


def measure(args, model):
    """Returns {way: (MB, nats per token)}, or {} if the data are missing."""
    found = {}
    with tempfile.TemporaryDirectory() as work:
        folder, output = pathlib.Path(work) / "folder", pathlib.Path(work) / "m.clv"
        text = model(folder)
        for way in WAYS if text else ():
            make(folder, way, text, output)
            found[way] = output.stat().st_size / 1e6, nats(args, output, text)
            print(model.__name__, way, *found[way], flush=True)
    return found


def above(nats):
    """Formats a number; a value that rounds to 0 has no sign."""
    return f"{round(nats, 4) + 0.0:+.4f}"


def table(measured):
    names = " | ".join(f"{name}, MB | nats per token | above f32" for name in measured)
    rows = []
    for way in WAYS:
        cells = (f"{m[way][0]:.2f} | {m[way][1]:.4f} | {above(m[way][1] - m['f32'][1])}" for m in measured.values())
        rows.append(f"| {way} | {' | '.join(cells)} |")
    return [f"| weights | {names} |", "|---" * (1 + 3 * len(measured)) + "|", *rows]


WIDTH, ROW, LEFT, TOP = 300, 18, 150, 44  # panel width, distance of bars, margins; pixels


def bar(x, y, cost, high):
    """Draws a bar on a logarithmic scale from 0.0001 nats on; its width is 0 for losses below that of f32."""
    share = math.log10(max(cost, 1e-4) / 1e-4) / math.log10(high / 1e-4)
    return f'<rect x="{x}" y="{y - 11}" width="{WIDTH * share:.1f}" height="13" fill="#47a"/>'


def plot(measured):
    """Draws one panel per model: nats above f32 on a logarithmic scale."""
    costs = {n: {w: m[w][1] - m["f32"][1] for w in WAYS[1:]} for n, m in measured.items()}
    high = 10 ** math.ceil(math.log10(max(c for of in costs.values() for c in of.values())))
    height, width = TOP + ROW * len(WAYS) + 10, LEFT + (WIDTH + 90) * len(measured)
    lines = []
    for i, (name, of) in enumerate(costs.items()):
        x = LEFT + i * (WIDTH + 90)
        lines.append(text(x, 18, f"{name}: nats per token above f32, 0.0001 to {high:g}, by powers of ten"))
        for row, (way, cost) in enumerate(of.items()):
            y = TOP + ROW * row
            if i == 0:
                lines.append(text(LEFT - 8, y, way, "end"))
            lines += [bar(x, y, cost, high), text(x + WIDTH + 6, y, above(cost))]
    return document(width, height, lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--print", action="store_true", help="do not change docs")
    args = parser.parse_args()
    measured = {m.__name__: measure(args, m) for m in (stories, tinylm)}
    measured = {"stories260K" if name == "stories" else name: found for name, found in measured.items() if found}
    if not measured:
        raise SystemExit("neither stories260K nor Tiny Shakespeare is present")
    lines = table(measured)
    print("\n".join(lines))
    if not args.print:
        write_section(PAGE, "quantisation", lines)
        PLOT.write_text(plot(measured))


if __name__ == "__main__":
    main()
