"""clave.from_gguf against llama.cpp itself on the same files. `ci/venv llama`, which `make check-all` calls, builds
PyPI's llama-cpp-python from source in minutes. llama.cpp rounds the activations of a product to the weight's type (for
blocks to 8 bits), and reads GELU from a table of f16."""

import runpy

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("llama_cpp", reason="no llama_cpp (ci/venv llama builds it)")

import llama_peer
from _gguf import MODELS, VOCAB, Written

import clave

PIECES = (11, 1, 1, 5, 1, 17)
N_NEW, CONTEXT = 20, 128
IDS = torch.randint(3, VOCAB, (sum(PIECES),), generator=torch.Generator().manual_seed(0)).tolist()
WIDE = {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 2, "initializer_range": 0.1}
# llama.cpp ignores the windows of these models, and that of EXAONE 4 unless it has 64 layers. It has norms of q and k
# in Command R only with 64 layers, and rounds the bounds of YaRN's ramp in gpt-oss, which transformers does not.
OTHERS = {"mistral", "phi3_window", "starcoder2", "exaone4", "command-r_plus", "gpt-oss"}
NAMES = [n for n in MODELS if n not in OTHERS]


def both(path, n_vocab=VOCAB, ids=IDS, pieces=PIECES):
    """Returns (clave's logits, llama.cpp's) of the last token of each piece and of each token that llama.cpp generates:
    (pieces + N_NEW, n_vocab)."""
    theirs, new = llama_peer.logits_of(path, n_vocab, CONTEXT, ids, pieces, N_NEW)
    session = clave.Session(clave.from_gguf(path, max_context=CONTEXT, kv="f32"), "cpu")
    ours, at, ids = [], 0, torch.tensor([ids + new])
    for n in pieces + (1,) * N_NEW:
        ours.append(session(ids[:, at : at + n], torch.tensor(at))[0][0])
        at += n
    return torch.stack(ours), torch.from_numpy(theirs)


def error(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


def check_greedy(ours, theirs, most=0):
    """The likeliest token is the same except at `most` steps: seeded weights make some tokens nearly equal."""
    assert (ours.argmax(-1) != theirs.argmax(-1)).sum() <= most


@pytest.mark.parametrize("name", NAMES)
def test_f32(name, tmp_path):
    """llama.cpp reads GELU from a table of f16."""
    written = Written(name, "F32")
    ours, theirs = both(written.write(tmp_path / "m.gguf"))
    kind = getattr(written.config, "hidden_act", "") or written.config.to_dict().get("activation_function", "")
    has_gelu = "gelu" in kind or written.architecture.startswith(("gemma", "falcon"))
    assert error(ours, theirs) < (1e-3 if has_gelu else 1e-5)
    check_greedy(ours, theirs)


@pytest.mark.parametrize("name", ["gemma2", "gemma3"])
def test_base_of_layers_with_windows(name, tmp_path):
    """llama.cpp ignores the key in cohere2, exaone4 and olmo2."""
    written = Written(name)
    written.keys[f"{name}.rope.freq_base_swa"] = (500.0, "float32")
    ours, theirs = both(written.write(tmp_path / "m.gguf"))
    assert error(ours, theirs) < 1e-3  # as in test_f32: Gemma has GELU
    check_greedy(ours, theirs)


@pytest.mark.parametrize("name, more", [("granitehybrid", {"mamba_n_groups": 2}), ("mamba2", {"n_groups": 4})])
def test_groups_of_mamba2(name, more, tmp_path):
    """llama.cpp and Mamba's authors normalize each group; transformers normalizes all groups together."""
    ours, theirs = both(Written(name, **more).write(tmp_path / "m.gguf"))
    assert error(ours, theirs) < 1e-5
    check_greedy(ours, theirs)


def in_16_bits(x):
    return x.half().float()


def in_8_bits(x):
    """Rounds like llama.cpp's Q8_0: 32 numbers share a factor in f16."""
    b = x.unflatten(-1, (-1, 32))
    d = b.abs().amax(-1, keepdim=True) / 127
    return (torch.where(d > 0, (b * (1 / d)).round(), 0) * d.half()).flatten(-2)


def in_8_bits_of_256(x):
    """Rounds like Q8_K: the largest of 256 is -127, and the factor is f32."""
    b = x.unflatten(-1, (-1, 256))
    largest = b.gather(-1, b.abs().argmax(-1, keepdim=True))
    scale = -127 / largest
    return torch.where(largest != 0, (b * scale).round().clamp(max=127) / scale, 0).flatten(-2)


def logits_of(written, rounded):
    """Returns transformers' logits at the ends of pieces, with activations of products rounded like llama.cpp's."""
    hooks = []
    for name, module in written.model.named_modules():
        if rounded and isinstance(module, torch.nn.Linear):
            kind = written.output if "lm_head" in name else written.kind
            round_to = in_16_bits if kind == "F16" else in_8_bits_of_256 if kind.endswith("_K") else in_8_bits
            hooks.append(module.register_forward_pre_hook(lambda _, args, f=round_to: (f(args[0]),)))
    with torch.no_grad():
        found = written.model(torch.tensor([IDS]), use_cache=False).logits[0]
    for hook in hooks:
        hook.remove()
    return found[torch.tensor(PIECES).cumsum(0) - 1]


def distance(a, b):
    return ((a - b).norm() / b.norm()).item()


TYPES = [
    ("F16", None),
    ("Q8_0", None),
    ("Q4_0", None),
    ("Q4_K", "Q6_K"),
    ("Q5_K", "Q8_0"),
    ("Q3_K", None),
    ("Q2_K", None),
]


@pytest.mark.parametrize("name, more", [("llama", {}), ("gemma3", {"head_dim": 64, "query_pre_attn_scalar": 64})])
@pytest.mark.parametrize("kind, output", TYPES)
def test_blocks(name, more, kind, output, tmp_path):
    """The difference is the rounding of activations, to 8 bits or, for F16 on some processors, to 16: transformers'
    model with it is nearer to llama.cpp than without, and as far from clave as llama.cpp is."""
    written = Written(name, kind, output, **WIDE | more)
    ours, theirs = both(written.write(tmp_path / "m.gguf"))
    plain, rounded = logits_of(written, False), logits_of(written, True)
    n, cost = len(PIECES), distance(rounded, plain)
    assert distance(ours[:n], plain) < 1e-5
    assert distance(ours[:n], theirs[:n]) < 1.5 * cost < 0.1
    assert kind == "F16" or distance(theirs[:n], rounded) < cost
    check_greedy(ours, theirs, 1)


@pytest.fixture(scope="module")
def tinylm(root, tmp_path_factory):
    """Returns examples/tinylm as a GGUF file, by its type."""
    folder, make = tmp_path_factory.mktemp("tinylm"), runpy.run_path(str(root / "examples/tinylm/to_gguf.py"))["write"]

    def of(kind):
        path = folder / f"{kind}.gguf"
        make(path, kind)
        return path

    return of


TEXTS = [
    "ROMEO:\nBut soft, what light",
    "KING HENRY VI:\n",
    "First Citizen:\nWe are accounted poor citizens; 1066, na\u00efve \U0001f600",
]


@pytest.mark.parametrize("kind", ["F32", "F16", "Q8_0"])
def test_tinylm(kind, tinylm):
    """A trained model: the ids of texts, and the tokens that follow."""
    path = tinylm(kind)
    tokenizer = clave.from_gguf(path).tokenizer
    for text, ids in zip(TEXTS, llama_peer.ids_of(path, TEXTS, add_special=True), strict=True):
        assert tokenizer.encode(text, bos=True) == ids, text
        ours, theirs = both(path, tokenizer.n_ids, ids, (len(ids),))
        check_greedy(ours, theirs)
