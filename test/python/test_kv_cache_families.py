"""clave.llm.use_kv_cache of models with their own attention: with a cache, in pieces, against the whole text."""

import json
import re
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers (ci/requirements.txt)")

import clave
from clave.llm import general, use_kv_cache

pytestmark = pytest.mark.by_turn(27)

VOCAB, CONTEXT, PIECES = 97, 40, (11, 1, 1, 5, 1, 11)
IDS = torch.randint(3, VOCAB, (1, sum(PIECES)), generator=torch.Generator().manual_seed(0))
LENGTH = torch.export.Dim("length", min=1, max=CONTEXT)

BERT = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,  # so that the attention matters
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
GPT = {"vocab_size": VOCAB, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "initializer_range": 0.3}
GPT_NEO = {"attention_types": [[["global", "local"], 1]], "num_layers": 2, "num_heads": 4, "window_size": 16}
FAIRSEQ = {"decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 48, "init_std": 0.3}
MPT = {"d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64, "initializer_range": 0.3}
XGLM = {"num_layers": 2, "attention_heads": 4, "ffn_dim": 48, "init_std": 0.3}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2, "num_key_value_heads": 2, "head_dim": 16}
NO_INTERFACE = "0 of the 2 layers of .* use transformers' attention interface"

# name: (classes, config, why the attention interface is not used)
FAMILIES = {
    "gptj": ("GPTJ", GPT | {"rotary_dim": 4}, NO_INTERFACE),
    "codegen": ("CodeGen", GPT | {"rotary_dim": 4}, NO_INTERFACE),
    "gpt_neo": ("GPTNeo", BERT | GPT_NEO, NO_INTERFACE),
    "falcon": ("Falcon", BERT | {"alibi": False}, NO_INTERFACE),
    "falcon_alibi": ("Falcon", BERT | {"alibi": True}, NO_INTERFACE),
    "bloom": ("Bloom", {k: v for k, v in GPT.items() if k != "n_embd"} | {"hidden_size": 32}, NO_INTERFACE),
    "mpt": ("Mpt", {"vocab_size": VOCAB} | MPT, NO_INTERFACE),
    "xglm": ("XGLM", {"vocab_size": VOCAB, "d_model": 32, "max_position_embeddings": 64} | XGLM, NO_INTERFACE),
    "diffllama": ("DiffLlama", BERT | {"num_key_value_heads": 2}, "diffllama attends 4 times in 2 layers"),
    "roberta": ("Roberta", BERT | {"is_decoder": True}, "attention interface returns other logits"),
    "llama4": ("Llama4Text", BERT | EXPERTS | {"attention_chunk_size": 8}, "layers of chunked_attention"),
    "gpt_neox_japanese": ("GPTNeoXJapanese", BERT | {"intermediate_multiple_size": 2}, NO_INTERFACE),
    "megatron_bert": ("MegatronBert", BERT | {"is_decoder": True}, NO_INTERFACE),
    "rembert": ("RemBert", BERT | {"is_decoder": True}, NO_INTERFACE),
    "roformer": ("RoFormer", BERT | {"is_decoder": True, "embedding_size": 32}, NO_INTERFACE),
    "blenderbot": ("Blenderbot", {"vocab_size": VOCAB, "d_model": 32} | FAIRSEQ, "returns other logits"),
    "doge": ("Doge", BERT, "DogeAttention has attention_mask"),
}
EXPORTED = list(FAMILIES)[:10]


def model_of(family, **others):
    name, config, _ = FAMILIES[family]
    torch.manual_seed(0)
    classes = [name.removesuffix("Text") + end for end in ("ForCausalLM", "LMHeadModel")]
    model = next(getattr(transformers, c) for c in classes if hasattr(transformers, c))
    return model(getattr(transformers, f"{name}Config")(**config | others)).eval()


def check_logits(run, want):
    at = 0
    for n in PIECES:
        got = run(IDS[:, at : at + n], torch.tensor(at))
        at += n
        torch.testing.assert_close(got[0], want[at - 1], rtol=1e-4, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_the_whole_text(family):
    """Cached steps compute the logits of the whole text, even if rows that are not written yet contain another text."""
    model = model_of(family)
    want, own = model(input_ids=IDS, use_cache=False).logits[0], model.config._attn_implementation
    cached = use_kv_cache(model, CONTEXT)
    assert cached.way == f"cache ({own} attention)"
    assert re.search(FAMILIES[family][2], cached.reason)
    check_logits(cached, want)
    for cache in cached.caches:
        cache.keys.normal_(std=9)
        cache.values.normal_(std=9)
    check_logits(cached, want)


@torch.no_grad()
def test_a_model_that_leaves_a_single_token_to_the_mask(monkeypatch):
    """Masks later rows itself only if there are several tokens, like LED and Kosmos-2."""
    code = sys.modules[transformers.GPTJForCausalLM.__module__]
    causal = code.create_causal_mask

    def mask(*, inputs_embeds, attention_mask, **more):
        if inputs_embeds.shape[1] > 1 or attention_mask is None:
            return causal(inputs_embeds=inputs_embeds, attention_mask=attention_mask, **more)
        return (1 - attention_mask[:, None, None].float()) * torch.finfo().min

    model = model_of("gptj")
    want = model(input_ids=IDS, use_cache=False).logits[0]
    monkeypatch.setattr(code, "create_causal_mask", mask)
    monkeypatch.setattr(general, "WAYS", [way for way in general.WAYS if way.length != "size"])
    cached = use_kv_cache(model, CONTEXT)
    check_logits(cached, want)
    for cache in cached.caches:
        cache.keys.normal_(std=9)
        cache.values.normal_(std=9)
    check_logits(cached, want)


@torch.no_grad()
@pytest.mark.parametrize("family", EXPORTED)
def test_exported_it_gives_the_same(family, tmp_path):
    model = model_of(family)
    want = model(input_ids=IDS, use_cache=False).logits[0]
    example = (IDS[:, :3], torch.tensor(0))
    program = clave.export(use_kv_cache(model, CONTEXT), example, dynamic_shapes=({1: LENGTH}, None))
    for device in ("cpu", "opencl"):
        session = clave.Session(program, device)
        check_logits(session, want)
        session.reset()
        check_logits(session, want)


@torch.no_grad()
@pytest.mark.parametrize("family", ["gptj", "falcon", "diffllama", "gpt_neo"])
def test_the_cache_is_not_copied(family, tmp_path, build):
    """A step needs less memory than one layer's keys."""
    wide = {"n_embd": 128, "n_positions": 1024} if family == "gptj" else {"hidden_size": 128}
    cached = use_kv_cache(model_of(family, **wide | {"max_position_embeddings": 1024}), 1024)
    clave.export(cached, (IDS[:, :1], torch.tensor(0))).save(tmp_path / "m.clv")
    command = [build / "clave", "bench", tmp_path / "m.clv", "--device", "cpu", "--runs", "1", "--json"]
    out = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout
    assert json.loads(out)["plan"]["arena_bytes"] < cached.caches[0].keys.nbytes


@torch.no_grad()
def test_an_int8_cache_of_two_texts():
    model = model_of("bloom")
    ids = torch.cat([IDS[:, :20], IDS[:, 10:]])
    want = model(input_ids=ids, use_cache=False).logits
    cached = use_kv_cache(model, CONTEXT, batch=2, dtype=torch.int8, all_logits=True)
    got = torch.cat([cached(ids[:, :13], 0), cached(ids[:, 13:], 13)], 1)
    assert cached.caches[0].keys.dtype == torch.int8
    torch.testing.assert_close(got, want, rtol=0.15, atol=0.15)


def test_a_full_cache_is_an_error():
    model = model_of("bloom")
    with torch.no_grad():
        cached = use_kv_cache(model, 16)
        with pytest.raises(IndexError):
            cached(IDS[:, :7], 10)
        program = clave.export(cached, (IDS[:, :7], torch.tensor(0)))
    for device in ("cpu", "opencl"):
        with pytest.raises(clave.Error, match=r"index .*16.*index_copy"):
            clave.Session(program, device)(IDS[:, :7], torch.tensor(10))


def test_a_model_without_a_cache_is_refused():
    with pytest.raises(clave.Error, match="OpenAIGPTLMHeadModel accepts no cache"):
        use_kv_cache(transformers.OpenAIGPTLMHeadModel(transformers.OpenAIGPTConfig(**GPT)), CONTEXT)


@torch.no_grad()
def test_what_modules_keep_of_a_trial_is_taken_back():
    """Tables by length are kept for the whole text, one token and the pieces, but not for the trial without values."""
    model = model_of("bloom")
    norm = model.transformer.ln_f
    norm.register_forward_hook(lambda module, _, out: setattr(module, f"table_of_{out.shape[1]}", out))
    use_kv_cache(model, CONTEXT)
    tables = {k: v for k, v in vars(norm).items() if k.startswith("table_of_")}
    assert sorted(tables) == ["table_of_1", "table_of_12", "table_of_5", "table_of_6"]
    assert {type(t) for t in tables.values()} == {torch.Tensor}


ROPE = {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}}


@torch.no_grad()
def test_rope_whose_frequencies_grow_with_the_text():
    """Frequencies grow only beyond max_position_embeddings."""
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**BERT | ROPE)).eval()
    want = model(IDS).logits[0]
    with pytest.raises(clave.Error, match=r"rope of type dynamic: beyond 64 tokens .* at most 64, got 65"):
        use_kv_cache(model, 65)
    cached = use_kv_cache(model, 64)
    program = clave.export(cached, (IDS[:, :3], torch.tensor(0)), dynamic_shapes=({1: LENGTH}, None))
    check_logits(clave.Session(program, "cpu"), want)


ORIGINAL = {"original_max_position_embeddings": 20}
LONG = ORIGINAL | {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0, 1.1, 1.2, 1.3],
    "long_factor": [2.0, 4.0, 6.0, 8.0],
}


@torch.no_grad()
@pytest.mark.parametrize("name", ["Llama", "Phi3"])
def test_rope_with_factors_by_the_length_of_the_text(name):
    """Short factors apply up to the original context, whatever ran before; beyond it, long ones on request."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**BERT | {"rope_parameters": LONG} | ORIGINAL)
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    long, short = model(IDS).logits[0], model(IDS[:, :20]).logits[0]  # this run leaves the long factors in the model
    message = r"rope of type longrope: beyond 20 tokens .* at most 20, or long_factors \(--long-factors\), got 21"
    for context in (21, 21, 64):
        with pytest.raises(clave.Error, match=message if context == 21 else "got 64"):
            use_kv_cache(model, context)
        cached, at = use_kv_cache(model, 20), 0
        for n in (7, 1, 12):
            got = cached(IDS[:, at : at + n], at)[0]
            at += n
            torch.testing.assert_close(got, short[at - 1], rtol=1e-4, atol=1e-4)
    check_logits(use_kv_cache(model, CONTEXT, long_factors=True), long)


@torch.no_grad()
@pytest.mark.parametrize("kept", [20, 40])
def test_layers_that_keep_the_keys_of_the_highest_scores(kept):
    model = model_of("doge", keep_window_size=kept)
    for layer in model.model.layers:
        layer.self_attn.A.data.normal_()
    want = model(input_ids=IDS, use_cache=False).logits[0]
    if kept < CONTEXT:
        message = r"20 keys that it scores highest \(keep_window_size\).* at most 20, got 40"
        with pytest.raises(clave.Error, match=message):
            use_kv_cache(model, CONTEXT)
        return
    check_logits(use_kv_cache(model, CONTEXT), want)


def test_a_comparison_crosses_windows(monkeypatch):
    """A method that ignores the windows is refused, however long they are."""
    model = transformers.MistralForCausalLM(
        transformers.MistralConfig(**BERT | {"num_key_value_heads": 2, "sliding_window": 30})
    ).eval()
    monkeypatch.setattr("clave.llm.interface.ring", lambda window, rows, piece: (rows, None))
    cached = use_kv_cache(model, CONTEXT)
    assert "returns other logits" in cached.reason and cached.way.startswith("cache")
    assert model.config.sliding_window == 30


@torch.no_grad()
def test_a_comparison_has_rows_that_are_not_written(monkeypatch):
    """A method that reads them is refused."""
    show = general._Rows.update
    monkeypatch.setattr(general, "WAYS", [way for way in general.WAYS if way.length != "size"])

    def all_rows(self, key_states, value_states, *args, **kwargs):
        keys, values = show(self, key_states, value_states, *args, **kwargs)
        return keys, values + 1e-4 * values.sum(2, keepdim=True)

    use_kv_cache(model_of("gptj"), CONTEXT)
    monkeypatch.setattr(general._Rows, "update", all_rows)
    with pytest.raises(clave.Error, match="returns other logits"):
        use_kv_cache(model_of("gptj"), CONTEXT)
