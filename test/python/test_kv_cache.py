"""clave.ops.sdpa_with_kv_cache against attention in separate ops; clave.llm.use_kv_cache against transformers alone."""

import json
import subprocess

import pytest

torch = pytest.importorskip("torch", reason="needs torch")

import clave
from clave.llm import KVCache
from clave.ops import sdpa_with_kv_cache

pytestmark = pytest.mark.by_turn(17)

DEVICES = ("cpu", "opencl")
HEADS, N_KV, SIZE, TOKENS = 6, 2, 8, 23


def tokens(n=TOKENS):
    generator = torch.Generator().manual_seed(n)
    return [torch.randn(1, h, n, SIZE, generator=generator) for h in (HEADS, N_KV, N_KV)]


def written_out(q, k, v, window=None, softcap=None):
    k, v = (t.repeat_interleave(HEADS // N_KV, 1) for t in (k, v))
    scores = q @ k.mT / SIZE**0.5
    if softcap:
        scores = torch.tanh(scores / softcap) * softcap
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if window:
        seen &= ~seen.tril(-window)
    return torch.softmax(scores.masked_fill(~seen, -torch.inf), -1) @ v


def in_pieces(cache, pieces, softcap=None, call=None):
    """Returns the results for tokens that arrive in pieces of these lengths."""
    q, k, v = tokens(sum(pieces))
    results, at = [], 0
    for n in pieces:
        part = slice(at, at + n)
        results.append((call or cache)(q[:, :, part], k[:, :, part], v[:, :, part], torch.tensor(at), softcap=softcap))
        at += n
    return torch.cat(results, 2)


@pytest.mark.parametrize("pieces", [(TOKENS,), (1,) * TOKENS, (7, 1, 1, 11, 3)])
@pytest.mark.parametrize(("rows", "window"), [(TOKENS, None), (40, 5), (7, 5), (5, 5), (1, 1)])
@pytest.mark.parametrize("softcap", [None, 1.5])
def test_pieces_give_what_the_whole_gives(pieces, rows, window, softcap):
    got = in_pieces(KVCache(N_KV, rows, SIZE, window=window), pieces, softcap)
    torch.testing.assert_close(got, written_out(*tokens(), window, softcap), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("window", [None, 5])
def test_an_int8_cache_is_near_the_float_one(window):
    rows = window + 2 if window else TOKENS
    cache = KVCache(N_KV, rows, SIZE, dtype=torch.int8, window=window)
    got = in_pieces(cache, (9, 1, 13))
    torch.testing.assert_close(got, written_out(*tokens(), window), rtol=0.03, atol=0.03)
    k = tokens()[1][:, :, -1]
    row, scale = cache.keys[:, :, (TOKENS - 1) % rows], cache.key_scale[:, :, (TOKENS - 1) % rows]
    assert torch.equal(scale, k.abs().amax(-1) / 127)
    assert torch.equal(row, torch.round(k / scale[..., None]).to(torch.int8))


def test_a_full_cache_is_an_error():
    cache = KVCache(N_KV, 20, SIZE)
    with pytest.raises(IndexError, match=r"positions \[16, 23\) exceed a cache of 20 rows"):
        in_pieces(cache, (16, 7))


@pytest.mark.parametrize("dtype", [torch.float16, torch.int8])
def test_torch_finds_the_op_well_formed(dtype):
    q, k, v = tokens(3)
    cache = KVCache(N_KV, 9, SIZE, dtype=dtype)
    arguments = (q, k, v, cache.keys, cache.values, torch.tensor(2), cache.key_scale, cache.value_scale, 5, 0.2, 3.0)
    torch.library.opcheck(sdpa_with_kv_cache, arguments, test_utils=("test_schema", "test_faketensor"))


def save(cache, path):
    length = torch.export.Dim("length", min=1, max=4096)
    shapes = ({2: length}, {2: length}, {2: length}, None)
    clave.export(cache, (*tokens(3), torch.tensor(0)), dynamic_shapes=shapes).save(path)
    return path


def test_the_cache_is_not_copied(tmp_path, build):
    path = save(KVCache(N_KV, 4096, SIZE), tmp_path / "m.clv")
    session = clave.Session(path, "cpu")
    got = in_pieces(None, (9, 1, 13), call=lambda *a, **_: torch.from_numpy(session.run(*a)[0]))
    torch.testing.assert_close(got, written_out(*tokens()), rtol=1e-5, atol=1e-5)
    full = r"positions \[4096, 4097\) exceed a cache of 4096 rows; node 0 .attention_cached, sdpa_with_kv_cache."
    with pytest.raises(clave.Error, match=full):
        session.run(*tokens(1), torch.tensor(4096))
    trace = tmp_path / "t.json"
    inputs = tmp_path / "i.safetensors"
    from safetensors.torch import save_file

    save_file(dict(zip(("q", "k", "v", "position"), (*tokens(3), torch.tensor(0)), strict=True)), inputs)
    command = [build / "clave", "run", path, "--device", "cpu", "--inputs", inputs, "--profile", trace]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    assert [e["name"] for e in json.loads(trace.read_text()) if e["ph"] == "X"] == ["attention_cached"]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int8])
def test_a_session_chooses_how_long_the_cache_is(device, dtype):
    """The length may change between tokens: stored tokens count, and exceeding it is an error without effects."""
    cache, pieces = KVCache(N_KV, 40, SIZE, dtype=dtype), (5, 1, 3, 1, 7, 6)
    lengths = ({2: torch.export.Dim("length", min=1, max=40)},) * 3
    program = clave.export(cache, (*tokens(3), torch.tensor(0)), dynamic_shapes=(*lengths, None))
    rows = [t.shape[2].vid is not None for t in program.schema.tensors if "key" in t.name and len(t.shape) > 2]
    assert all(rows) and [v.max for v in program.schema.values if v.name == "context"] == [40]
    sizes = iter((5, 6, 20, 10, 39, 23))
    session = clave.Session(program, clave.Device(device, fallback=False))

    def call(q, k, v, position, softcap=None):
        session.resize("context", max(next(sizes), int(position) + q.shape[2]))
        return session(q, k, v, position)

    want = in_pieces(cache, pieces)
    torch.testing.assert_close(in_pieces(None, pieces, call=call), want, rtol=1e-5, atol=1e-5)
    session.resize("context", 24)
    q, k, v = (t[:, :, :2] for t in tokens())
    with pytest.raises(clave.Error, match=r"positions \[23, 25\) exceed a cache of 24 rows"):
        session(q, k, v, torch.tensor(23))
    session.reset()
    torch.testing.assert_close(session(*tokens(9), torch.tensor(0)), want_of(tokens(9), dtype), rtol=1e-5, atol=1e-5)


def want_of(qkv, dtype):
    return KVCache(N_KV, 40, SIZE, dtype=dtype)(*qkv, torch.tensor(0))


@pytest.mark.parametrize("change", ["window", "read elsewhere", "an initial value"])
def test_other_caches_stay_as_they_are(change):
    class Read(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = KVCache(N_KV, 40, SIZE, window=5 if change == "window" else None)
            if change == "an initial value":
                self.cache.keys += 1

        def forward(self, q, k, v, position):
            y = self.cache(q, k, v, position)
            return y + self.cache.keys.sum() if change == "read elsewhere" else y

    program = clave.export(Read(), (*tokens(3), torch.tensor(0)))
    keys = next(t for t in program.schema.tensors if t.name == "cache.keys")
    assert keys.shape[2].literal == 40


def test_a_view_of_a_cache_is_refused():
    class Stacked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("caches", torch.zeros(2, 1, N_KV, 20, SIZE))

        def forward(self, q, k, v, position):
            return sdpa_with_kv_cache(q, k, v, self.caches[0], self.caches[1], position)

    with pytest.raises(
        clave.UnsupportedOp, match="key_cache: expected a buffer of its own, got a view of another tensor"
    ) as e:
        clave.export(Stacked(), (*tokens(3), torch.tensor(0)))
    assert e.value.ops == ["clave.sdpa_with_kv_cache.default"]


# ---------------------------------------------------------------- transformers

VOCAB = 97
SMALL = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,  # so that the attention matters
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 24}
LATENT = {"num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "v_head_dim": 8}
LATENT |= {"qk_rope_head_dim": 8, "qk_nope_head_dim": 8}
SLIDING = ["sliding_attention", "full_attention"]
FAMILIES = {
    "Llama": {},
    "Mistral": {"sliding_window": 5},
    "Qwen2": {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1},
    "Qwen3": {"head_dim": 12},
    "Gemma2": {"head_dim": 16, "sliding_window": 5, "query_pre_attn_scalar": 10, "attn_logit_softcapping": 2.0},
    "Gemma3": {"head_dim": 16, "sliding_window": 5, "query_pre_attn_scalar": 10, "layer_types": SLIDING},
    "Phi3": {"sliding_window": 6},
    "Cohere2": {"sliding_window": 5, "layer_types": SLIDING},
    "StableLm": {},  # its layers do not pass unknown arguments to attention
    "Nemotron": {},
    "JetMoe": {},  # reads the result of attention as a view
    "GptOss": {"num_local_experts": 4, "head_dim": 8, "sliding_window": 5},  # heads have scores without a value
    "Mixtral": {"num_local_experts": 4},
    "Qwen2Moe": EXPERTS | {"num_experts": 6, "shared_expert_intermediate_size": 20},
    "DeepseekV3": EXPERTS | LATENT | {"first_k_dense_replace": 1, "n_routed_experts": 8, "n_group": 2, "topk_group": 1},
}
PIECES = (11, 1, 1, 5, 1, 11)


def model_of(family, **others):
    transformers = pytest.importorskip("transformers", reason="needs transformers (ci/requirements.txt)")
    config = getattr(transformers, "Gemma3TextConfig" if family == "Gemma3" else f"{family}Config")
    torch.manual_seed(0)
    return getattr(transformers, f"{family}ForCausalLM")(config(**SMALL | FAMILIES.get(family, {}) | others)).eval()


def check_logits(run, want, tolerance=1e-4):
    at = 0
    for n in PIECES:
        got = run(IDS[:, at : at + n], torch.tensor(at))
        at += n
        torch.testing.assert_close(got[0], want[at - 1], rtol=tolerance, atol=tolerance)


IDS = torch.randint(3, VOCAB, (1, sum(PIECES)), generator=torch.Generator().manual_seed(0))


@torch.no_grad()
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_the_whole_text(family):
    model = model_of(family)
    want = model(IDS).logits[0]
    cached = clave.llm.use_kv_cache(model, 64, prompt_piece=4)
    check_logits(cached, want)
    windows = {c.window: c.keys.shape[2] for c in cached.caches}
    window = FAMILIES[family].get("sliding_window")
    assert windows.get(window) == (window + 3 if window else 64)


@torch.no_grad()
@pytest.mark.parametrize(
    ("family", "dtype", "tolerance"),
    [
        ("Gemma3", None, 1e-4),
        ("Llama", torch.int8, 0.15),
        ("StableLm", None, 1e-4),
        ("Mixtral", None, 1e-4),
        ("Qwen2Moe", None, 1e-4),
        ("DeepseekV3", None, 1e-4),
    ],
)
def test_exported_it_gives_the_same(family, dtype, tolerance, tmp_path):
    model = model_of(family)
    want = model(IDS).logits[0]
    cached = clave.llm.use_kv_cache(model, 64, dtype=dtype, prompt_piece=4)
    length = torch.export.Dim("length", min=1, max=64)
    methods = {
        "prefill": (cached, (IDS[:, :3], torch.tensor(0)), None, ({1: length}, None)),
        "decode": (cached, (IDS[:, :1], torch.tensor(0))),
    }
    clave.export(methods).save(tmp_path / "m.clv")
    for device in DEVICES:
        session = clave.Session(tmp_path / "m.clv", device)

        def run(ids, position, session=session):
            method = "decode" if ids.shape[1] == 1 else "prefill"
            return torch.from_numpy(session.run(ids, position, method=method)[0])

        check_logits(run, want, tolerance)


@torch.no_grad()
def test_greedy_tokens_are_those_of_generate():
    model = model_of("Llama")
    prompt = IDS[:, :5]
    want = model.generate(prompt, max_new_tokens=20, do_sample=False, eos_token_id=None)[0, 5:].tolist()
    cached, got, at = clave.llm.use_kv_cache(model, 64, all_logits=True), [], 0
    while len(got) < len(want):
        logits = cached(prompt, torch.tensor(at))
        at += prompt.shape[1]
        prompt = logits[:, -1:].argmax(-1)
        got.append(int(prompt))
    assert got == want


@torch.no_grad()
def test_two_caches_of_one_model():
    """Each cache continues from its own position."""
    model = model_of("Llama")
    want = model(IDS).logits[0]
    a, b = (clave.llm.use_kv_cache(model, rows) for rows in (64, 40))
    for cached in (a, b):
        cached(IDS[:, :8], 0)
    for cached in (b, a):
        torch.testing.assert_close(cached(IDS[:, 8:12], 8)[0], want[11], rtol=1e-4, atol=1e-4)


def test_the_model_is_called_through_its_cache():
    cached = clave.llm.use_kv_cache(model_of("Llama"), 64)
    assert (cached.way, cached.reason) == ("attention interface", None)
    with pytest.raises(clave.Error, match="call the model through the module that use_kv_cache returned"):
        cached.model(IDS)


@torch.no_grad()
def test_a_model_that_no_way_fits_is_refused_and_as_it_was(monkeypatch):
    """Here the reason is that the cache forgets its tokens."""
    model = model_of("Llama")
    before = model(IDS).logits
    monkeypatch.setattr(clave.llm.KVCache, "forward", lambda self, q, *_: q * 0)
    monkeypatch.setattr(clave.llm.KVCache, "write", lambda self, k, v, _: (k * 0, v * 0))
    with pytest.raises(clave.Error, match="LlamaForCausalLM: attention interface returns other logits, off by"):
        clave.llm.use_kv_cache(model, 64)
    torch.testing.assert_close(model(IDS).logits, before)
