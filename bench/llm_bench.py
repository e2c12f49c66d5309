"""Text generation by small language models: `clave generate` on both backends and transformers, in alternation."""

import json
import pathlib
import statistics
import subprocess
import sys

from process import seconds, tool

ROOT = pathlib.Path(__file__).resolve().parent.parent
TINYLM = ROOT / "examples/tinylm/tinylm.clv"
NEW_TOKENS = 200


def export_stories(path):
    """Returns the program of transformers' Llama with the weights of stories260K, and a separate copy of that Llama."""
    sys.path.insert(0, str(ROOT / "examples/llama"))
    from export_llama import export, find, load_stories

    program = export(load_stories(), 512)
    program.set_tokenizer(find("stories260K", "tok512.model"))
    path.parent.mkdir(parents=True, exist_ok=True)
    program.save(path)
    return load_stories().eval()


def generate(args, program, device, n=NEW_TOKENS):
    """Returns tokens per second after the first, and the seconds of the whole process."""
    stats = args.work / "stats.json"
    command = [args.build / "clave", "generate", program, "--prompt", "", "--device", device, "--ignore-stop-ids"]
    rest = ["--max-new-tokens", str(n), "--stats-json", stats]
    taken = seconds(lambda: subprocess.run([*command, *rest], check=True, capture_output=True))
    s = json.loads(stats.read_text())
    return s["decode_tokens"] / s["decode_ms"] * 1000 if s["decode_ms"] else 0, taken


def transformers_speed(model):
    """Returns transformers' tokens per second after the first, with greedy sampling and its dynamic cache."""
    import torch

    ids = torch.tensor([[1]])
    write = lambda n: model.generate(ids, do_sample=False, min_new_tokens=n, max_new_tokens=n, pad_token_id=0)
    with torch.no_grad():
        one, all_of = seconds(lambda: write(1)), seconds(lambda: write(NEW_TOKENS))
    return (NEW_TOKENS - 1) / (all_of - one)


def bench_llm(args):
    stories = args.work / "stories260k.clv"
    model = export_stories(stories)
    rows = {"stories260K, f32": (stories, model), "tinylm, f16": (TINYLM, None)}
    head = (
        "| model | clave on cpu, tokens/s | clave on opencl | transformers | start to first token on cpu, s | opencl |"
    )
    lines = [head, "|---|---|---|---|---|---|"]
    for name, (program, reference) in rows.items():
        speeds, firsts = {"cpu": [], args.device: [], "torch": []}, {"cpu": [], args.device: []}
        generate(args, program, args.device)  # builds kernels
        for _ in range(5):
            for device in ("cpu", args.device):
                speeds[device].append(generate(args, program, device)[0])
                firsts[device].append(generate(args, program, device, 1)[1])
            if reference:
                speeds["torch"].append(transformers_speed(reference))
        cpu, opencl = (statistics.median(speeds[d]) for d in ("cpu", args.device))
        torch_speed = f"{statistics.median(speeds['torch']):.0f}" if reference else "–"
        first = " | ".join(f"{statistics.median(firsts[d]):.3f}" for d in ("cpu", args.device))
        lines.append(f"| {name} | {cpu:.0f} | {opencl:.0f} | {torch_speed} | {first} |")
    return lines


def bench_sampler(args):
    """Times the sampler alone, on logits like a model's and on equal ones: the median of three processes."""
    runs = [tool(args, "sampler", 128256) for _ in range(3)]
    rows = []
    for mode in runs[0]:
        normal, equal = (statistics.median(r[mode][k] for r in runs) for k in (0, 1))
        rows.append(f"| {mode.replace('_', ' ')} | {normal:.2f} | {equal:.2f} | 1 |")
    head = "| a choice among 128,256 tokens | normal logits, ms | equal logits, ms | limit |"
    return [head, "|---|---|---|---|", *rows]
