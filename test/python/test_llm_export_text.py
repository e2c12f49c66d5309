"""python -m clave.llm.export, then clave generate: the published text of stories260K; what the program carries."""

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers", reason="needs transformers (ci/requirements.txt)")

from _folders import folder_of

from clave import Tokenizer

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("CLAVE_TEST_DATA") or ROOT / "../shared/data") / "stories260K"
pytestmark = pytest.mark.by_turn(3)


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    """stories260K as a Hugging Face folder, its weights in several files; transformers' model."""
    if not DATA.exists():
        pytest.skip("no ../shared/data")
    folder = tmp_path_factory.mktemp("stories") / "hf"
    model = runpy.run_path(str(ROOT / "examples/llama/export_llama.py"))["load_stories"](DATA)
    model.save_pretrained(folder, max_shard_size="600KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    shutil.copy(DATA / "tok512.model", folder / "tokenizer.model")
    (folder / "LICENSE").write_text("MIT, say")
    (folder / "generation_config.json").write_text('{"eos_token_id": [2, 1], "do_sample": true, "top_p": 0.9}')
    (folder / "tokenizer_config.json").write_text('{"bos_token": "<s>", "chat_template": "{{ messages[0].content }}"}')
    return folder, model


def published_story():
    """As ../shared/data/README.md prints it, behind "prints:"."""
    return runpy.run_path(str(ROOT / "test/examples/test_examples.py"))["published_story"]()


def run(*command):
    p = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env=os.environ | {"PYTHONPATH": "python"}
    )
    assert p.returncode == 0, p.stderr
    return p.stdout, p.stderr


@torch.no_grad()
def nats_of(model, ids):
    """The mean of -log P of each id after those before it, by torch."""
    logits = model(torch.tensor([[1, *ids]])).logits[0, :-1].double().log_softmax(-1)
    return -float(logits[range(len(ids)), ids].mean())


@pytest.mark.parametrize(
    ("options", "device", "n", "tolerance"),  # tolerance: nats, about 5 times what the roundings of the form give here
    [
        ((), "cpu", 200, 1e-5),
        (("--dtype", "f16"), "opencl", 200, 1e-3),
        (("--dtype", "bf16", "--kv", "f32"), "cpu", 70, 5e-3),
        (("--quantize", "int8", "--quantize-embedding", "int8", "--pack", "cpu"), "cpu", 70, 2e-3),
    ],
)
def test_stories(stories, build, tmp_path, options, device, n, tolerance):
    """The published text, as far as no two tokens are nearly as likely, and how likely it is."""
    folder, model = stories
    out, text, stats = tmp_path / "m.clv", tmp_path / "text", tmp_path / "stats"
    printed, said = run(sys.executable, "-m", "clave.llm.export", "--model", folder, "--output", out, *options)
    assert (printed, said) == ("", "")
    story = published_story()
    made, _ = run(build / "clave", "generate", out, "--prompt", "", "--max-new-tokens", n, "--device", device)
    assert made == story if n == 200 else len(made) > 150 and story.startswith(made)
    text.write_text(story)
    run(build / "clave", "generate", out, "--perplexity", text, "--stats-json", stats, "--device", device)
    ids = Tokenizer(DATA / "tok512.model").encode(story)
    assert json.loads(stats.read_text())["nats_per_token"] == pytest.approx(nats_of(model, ids), abs=tolerance)


def test_what_a_program_carries(stories, build, tmp_path):
    out = tmp_path / "m.clv"
    run(sys.executable, "-m", "clave.llm.export", "--model", stories[0], "--output", out, "--max-context", 100)
    text, _ = run(build / "clave", "inspect", out)
    shown = json.loads(run(build / "clave", "inspect", out, "--json")[0])
    llm = shown["metadata"]["llm"]
    assert shown["tokenizer"] == {"format": "SentencePiece BPE", "n_ids": 512, "bos": 1, "eos": 2}
    assert (llm["max_context"], llm["bos"], llm["eos"], llm["stop_ids"]) == (100, 1, 2, [2, 1])
    assert llm["chat_template"] == "{{ messages[0].content }}" and llm["license"] == "MIT, say"
    assert llm["sampling"] == {"do_sample": True, "top_p": 0.9}
    assert llm["source"]["architecture"] == "LlamaForCausalLM" and len(llm["source"]["sha256"]) == 64
    assert "tokens   SentencePiece BPE, 512 ids" in text and "max_context" in text
    n_constants = sum("embed" in c["name"] or "lm_head" in c["name"] for c in shown["constants"])
    assert n_constants == 1, "tied embeddings are stored once"
    answer, _ = run(build / "clave", "generate", out, "--chat", "--prompt", "Once", "--max-new-tokens", 5)
    assert answer


def test_ids_alone(tmp_path, build):
    """Without a tokenizer: a note, ids in and out; the greedy ids of transformers."""
    folder, model = folder_of(tmp_path / "m")
    out, ids = tmp_path / "m.clv", torch.randint(3, 97, (1, 20), generator=torch.Generator().manual_seed(3))
    _, said = run(sys.executable, "-m", "clave.llm.export", "--model", folder, "--output", out)
    assert said == f"clave: note: {folder} has no tokenizer: the program takes and gives ids\n"
    (tmp_path / "ids").write_text(" ".join(map(str, ids[0].tolist())))
    got, _ = run(
        build / "clave", "generate", out, "--prompt-ids", tmp_path / "ids", "--max-new-tokens", 30, "--ignore-stop-ids"
    )
    want = model.generate(ids, max_new_tokens=30, do_sample=False, eos_token_id=None)[0, 20:]
    assert [int(w) for w in got.split()] == want.tolist()
