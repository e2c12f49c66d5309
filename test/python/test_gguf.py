"""clave.from_gguf: logits and greedy ids against transformers' own models with the weights of the file."""

import collections
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers", reason="needs transformers (ci/requirements.txt)")

import gguf
from _export import instructions
from _gguf import MODELS, VOCAB, Written
from _gguf_layout import layout_of

import clave

PIECES = (11, 1, 1, 5, 1, 17)  # together longer than windows, and than the original context of 32
IDS = torch.randint(3, VOCAB, (1, sum(PIECES)), generator=torch.Generator().manual_seed(0))


def logits_of(session, ids=IDS, pieces=PIECES):
    """Returns the logits of the last token of each piece: (pieces, VOCAB)."""
    found, at = [], 0
    for n in pieces:
        found.append(session(ids[:, at : at + n], torch.tensor(at))[0][0])
        at += n
    return torch.stack(found)


def check(written, path, device="cpu", tolerance=1e-4, **options):
    """Compares logits in pieces, and the tokens that follow greedily."""
    program = clave.from_gguf(written.write(path / "m.gguf"), **{"max_context": 48, "kv": "f32"} | options)
    session = clave.Session(program, device)
    ends = torch.tensor(PIECES).cumsum(0) - 1
    with torch.no_grad():
        want = written.model(IDS, use_cache=False).logits[0]
        got, ids = logits_of(session), IDS
        torch.testing.assert_close(got, want[ends], rtol=0, atol=tolerance * want.abs().max().item())
        for at in range(IDS.shape[1], 44):
            ids = torch.cat([ids, written.model(ids, use_cache=False).logits[:, -1].argmax(-1, True)], 1)
            assert got[-1].argmax() == ids[0, at], f"token {at}"
            got = session(ids[:, at:], torch.tensor(at))[0]
    return program


@pytest.mark.by_turn(3)
@pytest.mark.parametrize("name", MODELS)
def test_every_architecture_in_f32(name, tmp_path):
    check(Written(name), tmp_path)


@pytest.mark.by_turn(17)
@pytest.mark.parametrize("name", MODELS)
def test_every_architecture_on_opencl(name, tmp_path):
    check(Written(name), tmp_path, "opencl")


@pytest.mark.parametrize("name, window", [("mistral", 9), ("gemma3", 7), ("phi3_window", 8)])
def test_caches_that_are_rings(name, window, tmp_path):
    """A layer with a window keeps the rows that the tokens of one piece see."""
    longest = max(PIECES)
    program = check(Written(name), tmp_path, prompt_piece=longest)
    caches = [t for t in program.schema.tensors if t.name.endswith("cache.keys")]
    rings = {t.shape[2].literal for t in caches if t.shape[2].vid is None}
    assert rings == {window + longest - 1} and len(caches) == program.schema.n_state / 2


def test_without_other_packages(tmp_path):
    code = """
import sys
sys.modules |= dict.fromkeys(("torch", "gguf", "flatbuffers"))  # importing them is an error
import clave.__main__
import numpy as np
session = clave.Session(clave.from_gguf(sys.argv[1]), "cpu")
assert session.run(np.ones((1, 3), np.int64), 0)[0].shape == (1, 160)
assert clave.__main__.main(["from-gguf", *sys.argv[1:]]) == 0
"""
    path, output = Written("qwen2").write(tmp_path / "m.gguf"), tmp_path / "m.clv"
    done = subprocess.run([sys.executable, "-c", code, path, "-o", output], capture_output=True, text=True)
    assert done.returncode == 0 and output.exists(), done.stderr


@pytest.mark.parametrize("change", ["unnamed", "no magnitude"])
def test_longrope_as_converters_write_it(change, tmp_path):
    """The file lacks the name of its kind, or the magnitude that its formula defines."""
    written = Written("phi3")
    del written.keys[{"unnamed": "phi3.rope.scaling.type", "no magnitude": "phi3.rope.scaling.attn_factor"}[change]]
    check(written, tmp_path)


def test_short_factors_of_longrope(tmp_path):
    """Short factors apply to texts within the original context, 32 here."""
    written = Written("phi3")
    session = clave.Session(clave.from_gguf(written.write(tmp_path / "m.gguf"), max_context=32, kv="f32"), "cpu")
    with torch.no_grad():
        want = written.model(IDS[:, :30], use_cache=False).logits[0, -1]
        wrong = written.model(IDS, use_cache=False).logits[0, 29]
    got = session(IDS[:, :30], torch.tensor(0))[0][0]
    torch.testing.assert_close(got, want, rtol=0, atol=1e-4 * want.abs().max().item())
    assert (got - wrong).abs().max() > 0.01 * want.abs().max()


@pytest.mark.parametrize("alignment", [8, 64, 4096])
def test_alignment(alignment, tmp_path, monkeypatch):
    """Tensors are stored at the file's alignment; keys with values of every kind may precede them."""
    written, plain, path = Written("llama3", num_hidden_layers=1, hidden_size=48), tmp_path / "a.gguf", tmp_path / "b"
    session = clave.Session(clave.from_gguf(written.write(plain)), "cpu")
    for how in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float64"):
        written.keys[f"test.{how}"] = (7, how)
    written.keys["test.bytes"] = (bytes(range(5)), "array")
    written.tensors = dict(reversed(written.tensors.items()))  # the first is one of 24 bytes

    class Aligned(gguf.GGUFWriter):
        def __init__(self, *args):
            super().__init__(*args)
            self.add_custom_alignment(alignment)
            self.data_alignment = alignment

    monkeypatch.setattr(gguf, "GGUFWriter", Aligned)
    first, second, *_ = layout_of(written.write(path))[1]
    assert first.at % alignment == 0 and second.at - first.at == max(24, alignment)
    assert torch.equal(logits_of(clave.Session(clave.from_gguf(path), "cpu")), logits_of(session))


def program(path, name, options=None, **keys):
    """Returns the program of a file of that model with other keys; None removes a key."""
    written = Written(name, num_hidden_layers=1)
    of = f"{written.architecture}."
    written.keys = {k: v for k, v in written.keys.items() if keys.get(k.removeprefix(of), 0) is not None}
    written.keys |= {of + k: v for k, v in keys.items() if v is not None}
    return clave.from_gguf(written.write(path / "m.gguf"), **options or {})


def saved(path, *args, **keys):
    """Returns the bytes of such a program's file: its instructions and constants."""
    program(path, *args, **keys).save(path / "m.clv")
    return (path / "m.clv").read_bytes()


def test_memory_of_layers_without_caches(tmp_path):
    """Only one of four layers of LFM2 has a cache. The states of scans count, too."""
    path = Written("lfm2").write(tmp_path / "m.gguf")
    with pytest.raises(clave.Error, match="the caches of 2147483647 tokens take 262144 MiB"):
        clave.from_gguf(path, max_context=2**31 - 1)
    large = (2**20, "uint32")
    with pytest.raises(clave.Error, match="the states of scans take 4194304 MiB"):
        program(tmp_path, "mamba2", **{"ssm.inner_size": large, "ssm.state_size": large})


KEYS_WITHOUT_EFFECT = [
    ("granite", {f"ssm.{k}": (4, "uint32") for k in ("conv_kernel", "inner_size", "state_size", "group_count")}),
    ("olmo3", {"rope.scaling.yarn_attn_factor": (1.1386, "float32")}),
    ("llama", {"attention.layer_norm_epsilon": (1e-5, "float32")}),
    ("qwen2", {"expert_count": (1, "uint32")}),
    ("mixtral", {"expert_used_count": ([3], "array")}),
    ("olmo3", {"rope.scaling.attn_factor": (1.1386294, "float32")}),  # YaRN's own magnitude
]


@pytest.mark.parametrize("name, keys", KEYS_WITHOUT_EFFECT)
def test_keys_without_effect(name, keys, tmp_path):
    """Converters write them, and llama.cpp or transformers have the same results without them."""
    assert saved(tmp_path, name) == saved(tmp_path, name, **keys)


@pytest.mark.parametrize("name", ["gemma2", "cohere2", "gpt-oss", "olmo3"])
def test_base_of_layers_with_windows(name, tmp_path):
    plain = saved(tmp_path, name, **{"attention.sliding_window": (7, "uint32")})
    keys = {"attention.sliding_window": (7, "uint32"), "rope.freq_base_swa": (500.0, "float32")}
    assert plain != saved(tmp_path, name, **keys)


def test_layers_that_predict_further(tmp_path):
    """Arrays have an element for each layer of the file, also for those that are not used."""
    keys = {"nextn_predict_layers": (1, "uint32"), "block_count": (2, "uint32")}
    heads = {"attention.head_count_kv": ([2, 4], "array")}
    assert saved(tmp_path, "glm4") == saved(tmp_path, "glm4", **keys, **heads)


def test_keys_that_say_the_same(tmp_path):
    """Arrays with a number for each layer, old names, and defaults of missing keys."""
    plain = saved(tmp_path, "llama_linear")
    assert plain != saved(tmp_path, "llama_linear", **{"rope.scaling.factor": (4.0, "float32")})
    arrays = {k: ([n], "array") for k, n in (("attention.head_count", 4), ("feed_forward_length", 96))}
    assert saved(tmp_path, "llama_linear", **arrays) == plain
    old = {"rope.scaling.type": None, "rope.scaling.factor": None, "rope.scale_linear": (8.0, "float32")}
    assert saved(tmp_path, "llama_linear", **old) == plain
    assert saved(tmp_path, "llama_linear", **{"attention.head_count_kv": None, "rope.scaling.type": None}) == plain
    longer = {"max_context": 5000}
    absent = {"attention.sliding_window": None, "attn_logit_softcapping": None, "final_logit_softcapping": None}
    given = {k: (v, "float32") for k, v in (("attn_logit_softcapping", 50.0), ("final_logit_softcapping", 30.0))}
    given["attention.sliding_window"] = (4096, "uint32")
    assert saved(tmp_path, "gemma2", longer, **absent) == saved(tmp_path, "gemma2", longer, **given)
    (found,) = instructions(program(tmp_path, "gemma2", longer, **absent), "AttentionCached")
    assert (found.op.window, found.op.softcap) == (4096, 50)


def of_layers(path, name, n_layers, **keys):
    """Returns (window, scale of the scores) of each layer. The file has the tensors of its first layer for all."""
    written = Written(name, num_hidden_layers=1)
    of, first = f"{written.architecture}.", {k: v for k, v in written.tensors.items() if k.startswith("blk.0.")}
    written.tensors |= {k.replace("blk.0.", f"blk.{i}."): v for i in range(1, n_layers) for k, v in first.items()}
    written.keys |= {of + k: v for k, v in ({"block_count": (n_layers, "uint32")} | keys).items()}
    found = instructions(clave.from_gguf(written.write(path / "m.gguf")), "AttentionCached")
    return [(i.op.window, i.op.scale) for i in found]


def test_layers_with_a_window(tmp_path):
    """Every second layer of gemma2, five of six of gemma3, all layers of others; or as a pattern says."""
    of = lambda name, **keys: tuple(window for window, _ in of_layers(tmp_path, name, 8, **keys))
    assert of("gemma2") == (7, None) * 4
    assert of("gemma3") == (7,) * 5 + (None, 7, 7)
    assert of("phi3_window") == (8,) * 8
    pattern = "attention.sliding_window_pattern"
    assert of("gemma3", **{pattern: (3, "uint32")}) == (7, 7, None) * 2 + (7, 7)
    assert of("gemma3", **{pattern: ([True, False] * 4, "array")}) == (7, None) * 4
    assert of("phi3_window", **{pattern: (1, "uint32")}) == (None,) * 8
    assert of("gemma3", **{"attention.sliding_window": (0, "uint32")}) == (None,) * 8


def test_scores_of_the_largest_gemmas(tmp_path):
    """Scores are scaled by embedding size / heads. Gemma 2 and 3 with 27 billion parameters are identified by their
    number of layers."""
    for name, layers in (("gemma2", 46), ("gemma3", 62)):
        for n, size in ((26, 32), (layers, 64 / 4)):
            assert {scale for _, scale in of_layers(tmp_path, name, n)} == {size**-0.5}


WIDE = {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 2, "initializer_range": 0.1}
# (type, another type for the embedding and the output, tolerance for activations rounded to 16 bits)
TYPES = [
    ("F16", None, 5e-3),
    ("BF16", None, 5e-2),
    ("Q8_0", None, 1e-4),
    ("Q4_0", "F16", 5e-3),
    ("Q4_K", "Q6_K", 1e-4),
    ("Q6_K", "Q8_0", 1e-4),
]
OTHER_BLOCKS = ["Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q5_K", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4"]
OTHER_BLOCKS += ["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M"]


def blocks_of(program):
    """Returns format and rows of each constant in blocks, by name."""
    tensors, constants = program.schema.tensors, program.schema.constants
    return {
        c.name: (tensors[i].encoding.format, tensors[i].shape[0].literal)
        for i, c in enumerate(constants)
        if tensors[i].encoding
    }


def rows_of_formats(blocks):
    total = collections.Counter()
    for kind, rows in blocks.values():
        total[kind] += rows
    return total


@pytest.mark.by_turn(11)
@pytest.mark.parametrize(
    "name, more", [("llama", {}), ("gemma3", {"head_dim": 64, "query_pre_attn_scalar": 64}), ("phi3_window", {})]
)
@pytest.mark.parametrize("kind, output, tolerance", TYPES)
def test_types_of_weights(name, more, kind, output, tolerance, tmp_path):
    check_blocks(Written(name, kind, output, **WIDE | more), tmp_path, tolerance)


@pytest.mark.by_turn(6)
@pytest.mark.parametrize("kind", OTHER_BLOCKS)
def test_other_blocks(kind, tmp_path):
    check_blocks(Written("llama", kind, "Q8_0", **WIDE), tmp_path, 1e-4)


@pytest.mark.by_turn(9)
@pytest.mark.parametrize("name", ["llama3", "gemma3", "phi3_window"])
def test_blocks_on_opencl(name, tmp_path):
    check(Written(name, "Q8_0"), tmp_path, "opencl")


def check_blocks(written, path, tolerance):
    """Blocks keep the file's names, unless products of one tensor were joined, and a tied embedding is one constant."""
    program = check(written, path, tolerance=tolerance)
    blocks = {k: (t.name, len(a)) for k, (a, t) in written.tensors.items() if t.name not in ("F32", "F16", "BF16")}
    got = blocks_of(program)
    assert rows_of_formats(got) == rows_of_formats(blocks)
    joined = {k.removesuffix(".folded") for k in got if k not in blocks}
    assert joined <= blocks.keys() and all(got[k] == blocks[k] for k in got.keys() & blocks.keys())


def test_origin(tmp_path):
    """Name, architecture and licence are kept if they are texts; clave inspect shows them."""
    written = Written("llama")
    assert "license" not in clave.from_gguf(written.write(tmp_path / "a.gguf")).metadata["llm"]
    written.keys |= {"general.name": ("N", "string"), "general.license": ("mit", "string")}
    said = clave.from_gguf(written.write(tmp_path / "b.gguf")).metadata["llm"]
    assert said["license"] == "mit" and said["source"] == {"name": "N", "architecture": "llama"}
    written.keys |= {"general.name": (5, "uint32"), "general.license": (True, "bool")}
    said = clave.from_gguf(written.write(tmp_path / "c.gguf")).metadata["llm"]
    assert "license" not in said and said["source"] == {"architecture": "llama"}
