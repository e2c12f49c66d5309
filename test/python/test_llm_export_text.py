"""python -m clave.llm.export, then clave generate: the published text of stories260K; what the program carries."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers", reason="needs transformers (ci/requirements.txt)")

from _folders import folder_of
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("CLAVE_TEST_DATA") or ROOT / "../shared/data") / "stories260K"
pytestmark = pytest.mark.by_turn(3)
BEGINNING = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park."
NAMES = {
    "attention_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attention.wq": "self_attn.q_proj",
    "attention.wk": "self_attn.k_proj",
    "attention.wv": "self_attn.v_proj",
    "attention.wo": "self_attn.o_proj",
    "feed_forward.w1": "mlp.gate_proj",
    "feed_forward.w2": "mlp.down_proj",
    "feed_forward.w3": "mlp.up_proj",
}


def halves(w, n_heads):
    """Rows whose pairs lie side by side, as transformers has them: half a head apart."""
    return w.unflatten(0, (n_heads, -1, 2)).transpose(1, 2).flatten(0, 2)


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    """stories260K as a Hugging Face folder, in two files of weights."""
    if not DATA.exists():
        pytest.skip("no shared data")
    p, folder = json.loads((DATA / "params.json").read_text()), tmp_path_factory.mktemp("stories") / "hf"
    config = LlamaConfig(
        vocab_size=p["vocab_size"],
        hidden_size=p["dim"],
        intermediate_size=p["hidden_dim"],
        num_hidden_layers=p["n_layers"],
        num_attention_heads=p["n_heads"],
        num_key_value_heads=p["n_kv_heads"],
        max_position_embeddings=p["max_seq_len"],
        rms_norm_eps=p["norm_eps"],
        rope_theta=p["rope_theta"],
        tie_word_embeddings=True,
        bos_token_id=p["bos_id"],
        eos_token_id=p["eos_id"],
    )
    model, ours = LlamaForCausalLM(config), {}
    for name, w in load_file(DATA / "stories260K.safetensors").items():
        if name.startswith("layers."):
            _, n, kind = name.removesuffix(".weight").split(".", 2)
            heads = {"attention.wq": p["n_heads"], "attention.wk": p["n_kv_heads"]}.get(kind)
            ours[f"model.layers.{n}.{NAMES[kind]}.weight"] = halves(w, heads) if heads else w
    meta = load_file(DATA / "stories260K.safetensors")
    ours["model.embed_tokens.weight"] = ours["lm_head.weight"] = meta["tok_embeddings.weight"]
    ours["model.norm.weight"] = meta["norm.weight"]
    model.load_state_dict(ours)
    model.save_pretrained(folder, max_shard_size="600KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    shutil.copy(DATA / "tok512.model", folder / "tokenizer.model")
    (folder / "LICENSE").write_text("MIT, say")
    (folder / "generation_config.json").write_text('{"eos_token_id": [2, 1], "do_sample": true, "top_p": 0.9}')
    (folder / "tokenizer_config.json").write_text('{"bos_token": "<s>", "chat_template": "{{ messages[0].content }}"}')
    return folder


def run(*command):
    p = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env=os.environ | {"PYTHONPATH": "python"}
    )
    assert p.returncode == 0, p.stderr
    return p.stdout, p.stderr


@pytest.mark.parametrize(
    ("options", "device"),
    [
        ((), "cpu"),
        (("--dtype", "f16"), "opencl"),
        (("--dtype", "bf16", "--kv", "f32"), "cpu"),
        (("--quantize", "int8", "--quantize-embedding", "int8", "--pack", "cpu"), "cpu"),
    ],
)
def test_stories(stories, build, tmp_path, options, device):
    out = tmp_path / "m.clv"
    printed, said = run(sys.executable, "-m", "clave.llm.export", "--model", stories, "--output", out, *options)
    assert (printed, said) == ("", "")
    n = 25 if "bf16" in options or "int8" in options else 200
    text, _ = run(build / "clave", "generate", out, "--prompt", "", "--max-new-tokens", n, "--device", device)
    assert text.startswith(BEGINNING[: 60 if n == 25 else None])
    if n == 200:
        assert text.rstrip().endswith("Lily didn't want to help her mom, so she")


def test_what_a_program_carries(stories, build, tmp_path):
    out = tmp_path / "m.clv"
    run(sys.executable, "-m", "clave.llm.export", "--model", stories, "--output", out, "--max-context", 100)
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
