"""Prompts in pieces of 1, 7, 32 and whole, and the tokens after them, across every length in a model's configuration.

The lengths are read from the configuration itself: a new one is covered without a line here.
"""

import functools
import re

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers (ci/requirements.txt)")

from _folders import FAMILIES, SMALL, VOCAB, model_of, rope

import clave
from clave.llm import use_kv_cache
from clave.llm.limits import TooLong

PIECES, N_NEW = (1, 7, 32, 1000), 6
SMALLEST = {  # small values of families' lengths, which a text of some tokens crosses
    "sliding_window": 16,
    "max_position_embeddings": 48,
    "n_positions": 48,  # the same as max_position_embeddings
    "attention_chunk_size": 16,
    "original_max_position_embeddings": 24,
}
ROPES = {
    "llama_yarn": rope("yarn", factor=2.0, original_max_position_embeddings=24),
    "llama_dynamic": rope("dynamic", factor=4.0),
    "llama_3": rope(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=24
    ),
    "phi3": rope(
        "longrope", original_max_position_embeddings=24, long_factor=[2.0, 4.0, 6.0, 8.0], short_factor=[1.0] * 4
    ),
}
PHIMOE = {
    "rope_parameters": ROPES["phi3"]["rope_parameters"] | {"short_mscale": 1.1, "long_mscale": 1.3},
}
MORE = {  # (class, configuration): models with lengths that the families of _folders.py lack
    "llama4": ("Llama4Text", {"attention_chunk_size": 16, "attn_temperature_tuning": True, "floor_scale": 10}),
    "doge": ("Doge", {"keep_window_size": 24}),
    "gemma3_ropes": ("Gemma3Text", {"head_dim": 16, "sliding_window": 16}),
    "qwen2_windows": ("Qwen2", {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1}),
    "ministral3": ("Ministral3", {"head_dim": 8, "sliding_window": 16}),
    "gptj": ("GPTJ", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 48, "rotary_dim": 4}),
    "gpt_neo": (
        "GPTNeo",
        {"attention_types": [[["global", "local"], 1]], "num_layers": 2, "num_heads": 4, "window_size": 16},
    ),
    "mpt": ("Mpt", {"d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 48}),
    "xglm": ("XGLM", {"d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 48}),
    "biogpt": ("BioGpt", {}),
    "phimoe": ("Phimoe", {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None} | PHIMOE),
    "ctrl": ("CTRL", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 48, "dff": 48}),
}


def lengths_of(config):
    """Returns the lengths in a configuration: of texts, windows, chunks or tables, also of its rope."""
    said = {**config.to_dict(), **(getattr(config, "rope_parameters", None) or {})}
    name = re.compile(r"window|chunk|position|seq_len|local_attention|index_topk")
    return sorted({v for k, v in said.items() if name.search(k) and type(v) is int and 4 < v <= 64})


def small(name):
    """Returns a model in which every length is small."""
    if name in MORE:
        kind, more = MORE[name]
        sizes = {k: v for k, v in SMALL.items() if k not in more}
        config = getattr(transformers, f"{kind}Config")(**sizes | {"max_position_embeddings": 48} | more)
        torch.manual_seed(0)
        classes = (kind.removesuffix("Text") + "ForCausalLM", kind + "LMHeadModel")
        model = next(getattr(transformers, c) for c in classes if hasattr(transformers, c))(config).eval()
        for p in model.parameters():
            p.data.add_(torch.randn_like(p) * (0.2 if p.dim() > 1 else 0.1))
        return model
    config = getattr(transformers, f"{FAMILIES[name][0]}Config")()
    lengths = {k: v for k, v in SMALLEST.items() if hasattr(config, k)}
    return model_of(name, **{k: v for k, v in lengths.items() if getattr(config, k) is not None} | ROPES.get(name, {}))


@functools.cache
def ids_of(length):
    return torch.randint(3, VOCAB, (1, length), generator=torch.Generator().manual_seed(length))


@torch.no_grad()
def own_logits(model, length):
    """Returns the logits of the last tokens of a prompt that runs at once, and of N_NEW tokens, one by one, with
    transformers' own cache. Some models run over the whole text: transformers does not read RWKV's state again, and
    does not limit Mamba 2's time steps for a single token."""
    ids = ids_of(length + N_NEW)
    if any(hasattr(m, "time_step_limit") or m._get_name() == "RwkvForCausalLM" for m in model.modules()):
        return model(input_ids=ids).logits[0, length - 1 :]
    out = model(input_ids=ids[:, :length], use_cache=True)
    kept = "past_key_values" if getattr(out, "past_key_values", None) is not None else "cache_params"
    logits = [out.logits[0, -1]]
    for i in range(length, length + N_NEW):
        out = model(input_ids=ids[:, i : i + 1], use_cache=True, **{kept: out[kept]})
        logits.append(out.logits[0, -1])
    return torch.stack(logits)


def check(session, want, length, piece, name):
    session.reset()
    ids, at = ids_of(length + N_NEW), 0
    got = []
    while at < length + N_NEW:
        n = min(piece, length - at) if at < length else 1
        last = session(ids[:, at : at + n], torch.tensor(at))
        at += n
        if at >= length:
            got.append(last[0])
    error, largest = float((torch.stack(got) - want).abs().max()), float(want.abs().max())
    assert error <= 1e-3 * largest, f"{name}: a prompt of {length} in pieces of {piece}: off by {error} of {largest}"


def check_family(name, devices):
    model = small(name)
    named = lengths_of(model.config)
    most = max([48, *named]) + 16
    while True:  # the longest text that it supports, as `clave.llm.export` finds it
        try:
            cached = use_kv_cache(model, most, prompt_piece=16)
        except TooLong as e:
            assert e.most < most and f"at most {e.most}" in str(e)
            most = e.most
        else:
            break
    prompts = {n + d for n in named for d in (-1, 0, 1)} | {most - N_NEW, 40}
    prompts = sorted(n for n in prompts if 0 < n <= most - N_NEW)
    fresh = small(name)
    want = {n: own_logits(fresh, n) for n in prompts}
    length = torch.export.Dim("length", min=1, max=most)
    program = clave.export(cached, (ids_of(3), torch.tensor(0)), dynamic_shapes=({1: length}, None))
    for device in devices:
        session = clave.Session(program, device)
        for n in prompts:
            for piece in PIECES:
                if piece == 1000 or piece < n:
                    check(session, want[n], n, piece, name)


@pytest.mark.by_turn(24)
@pytest.mark.parametrize("name", [*FAMILIES, *MORE])
def test_pieces_of_every_size(name, everything):
    check_family(name, ("cpu", "opencl") if everything else ("cpu",))
