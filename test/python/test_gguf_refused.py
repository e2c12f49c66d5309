"""Files that are not GGUF, or not of a model that clave.from_gguf supports: one line says what, where and what is
expected, and no file is written."""

import copy
import functools
import json
import os
import re
import struct
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers", reason="needs transformers (ci/requirements.txt)")

import numpy as np
from _gguf import GGMLQuantizationType, Written
from _gguf_layout import layout_of

import clave
from clave.__main__ import main

TINY = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2}
TINY |= {"num_key_value_heads": 1, "vocab_size": 40}


@functools.cache
def made(name):
    return Written(name, **TINY)


def tiny(name="llama"):
    """Returns a file's tensors and keys, for a test to change."""
    written = copy.copy(made(name))
    written.tensors, written.keys = dict(written.tensors), dict(written.keys)
    return written


def refused(path):
    """Returns from_gguf's error: one line that ends with the file's name."""
    with pytest.raises(clave.Error) as e:
        clave.from_gguf(path)
    said = str(e.value)
    assert said.endswith(f"; {path}") and "\n" not in said and len(said) < 700, said
    return said.removesuffix(f"; {path}")


def check(message, said):
    """`...` matches any words."""
    assert all(part in message for part in said.split("...")), message


@functools.cache
def layout():
    """Returns the places of the keys and tensors in a file of tiny(), by name."""
    with tempfile.TemporaryDirectory() as folder:
        keys, tensors = layout_of(tiny().write(f"{folder}/m.gguf"))
    return keys, {t.name: t for t in tensors}


@pytest.fixture
def valid(tmp_path):
    return bytearray(tiny().write(tmp_path / "valid.gguf").read_bytes())


# ---- bytes


def test_cut_anywhere(valid, tmp_path):
    """Truncates at each place where a part begins or ends, and beside it."""
    keys, tensors = layout()
    places = {0, 1, 4, 8, 16, 24, len(valid)}
    places |= {n for k in keys.values() for n in (k.at - 8, k.at - 4, k.at, k.end)}
    places |= {t.info + n for t in tensors.values() for n in (-8, 0, 4, 12, 20, 24, 32)}
    places |= {n for t in tensors.values() for n in (t.at, t.end)}
    path = tmp_path / "m.gguf"
    for n in sorted({p + d for p in places for d in (-1, 0, 1)}):
        if 0 <= n < len(valid):
            path.write_bytes(valid[:n])
            said = refused(path)
            short = re.match(rf"expected \d+ bytes or more, got {n}: it ends ", said)
            assert short or said.startswith((f"has {n} bytes, ", "is not a GGUF file")), (n, said)


def patched(format, value, at=None, key=None, tensor=None, before=0):
    """Writes a number at an offset of the file, into a key's value or into a tensor's entry."""

    def change(data):
        keys, tensors = layout()
        where = at if at is not None else keys[key].at if key else tensors[tensor].info
        struct.pack_into(f"<{format}", data, where + before, value)

    return change


HUGE = 2**62
Q = "blk.0.attn_q.weight"
BYTES = [
    (lambda d: d.clear(), "is not a GGUF file: expected 'GGUF' at its start, got ''"),
    (
        lambda d: d.__setitem__(slice(0, 4), b"PK\3\4"),
        r"is not a GGUF file: expected 'GGUF' at its start, got 'PK\x03\x04'",
    ),
    (patched("I", 1, at=4), "expected version 2 or 3 of GGUF, got 1"),
    (patched("I", 4, at=4), "expected version 2 or 3 of GGUF, got 4"),
    (patched("I", 3 << 24, at=4), "expected little-endian, got big-endian"),
    (patched("Q", HUGE, at=8), f"bytes, too few for the {HUGE} tensors that it names"),
    (patched("Q", 2**64 - 1, at=16), f"bytes, too few for the {2**64 - 1} keys that it names"),
    (patched("Q", HUGE, at=24), "the name of key 1 of 14: expected at most 65535 bytes, got 4611686018427387904"),
    (patched("Q", 60_000, at=24), "it ends within the name of key 1 of 14"),
    (patched("B", 0xFF, at=32), "the name of key 1 of 14 is not UTF-8"),
    (patched("I", 13, key="llama.block_count", before=-4), "key 'llama.block_count': expected type 0 to 12, got 13"),
    (patched("I", 9, key="llama.vocab_size", before=-4), "key 'llama.vocab_size': expected type 0 to 12, got 40"),
    (patched("Q", HUGE, key="general.architecture", before=0), "it ends within key 'general.architecture'"),
    (patched("I", 5, tensor=Q), f"tensor '{Q}': expected at most 4 dimensions, got 5"),
    (patched("I", 2**32 - 1, tensor=Q), f"tensor '{Q}': expected at most 4 dimensions, got 4294967295"),
    (patched("Q", 2**63, tensor=Q, before=4), f"it ends before tensor '{Q}' does"),
    (patched("Q", 31, tensor=Q, before=4), f"tensor '{Q}': expected (32, 32), got (32, 31)"),
    (patched("Q", 33, tensor=Q, before=4), f"tensors '{Q}' and 'blk.0.attn_k.weight' overlap, from byte "),
    (patched("Q", 0, tensor=Q, before=12), f"tensor '{Q}': expected (32, 32), got (0, 32)"),
    (patched("I", 99, tensor=Q, before=20), f"tensor '{Q}' is of type 99, which is not known"),
    (patched("I", 31, tensor=Q, before=20), f"'{Q}' is of type 31 (Q4_0_4_4, which llama.cpp no longer reads)"),
    (patched("I", 16, tensor=Q, before=20), f"tensor '{Q}' has rows of 32, IQ2_XXS needs a multiple of 256"),
    (patched("I", 26, tensor=Q, before=20), f"tensor '{Q}': expected one of F32, F16, BF16, Q4_0, ..., got I32"),
    (patched("Q", 33, tensor=Q, before=24), f"tensor '{Q}': expected a multiple of the alignment 32 as offset, got 33"),
    (patched("Q", HUGE, tensor=Q, before=24), f"it ends before tensor '{Q}' does"),
    (patched("Q", 0, tensor=Q, before=24), "overlap, from byte "),
]


@pytest.mark.parametrize("change, said", BYTES)
def test_bytes(change, said, valid, tmp_path):
    change(valid)
    path = tmp_path / "m.gguf"
    path.write_bytes(valid)
    check(refused(path), said)


def test_names_that_are_there_twice(valid, tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(valid.replace(b"llama.vocab_size", b"llama.rope.fred_").replace(b"attn_v", b"attn_k"))
    assert refused(path) == "has tensor 'blk.0.attn_k.weight' twice"
    path.write_bytes(
        valid.replace(b"llama.block_count", b"general.alignment").replace(b"llama.vocab_size", b"llama.vocab_size")
    )
    assert refused(path).startswith("key 'general.alignment': expected a power of two, at least 8, got 1")
    path.write_bytes(valid.replace(b"key_length", b"key_lengtx").replace(b"value_length", b"key_lengtx__"[:12]))
    assert "has keys that are not supported: 'llama.attention.key_len" in refused(path)


FOLDER = "python -m clave.llm.export converts a Hugging Face model folder"


def test_what_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "folder.gguf").mkdir()
    for name, said in [
        ("none.gguf", "no such file or directory"),
        ("folder.gguf", f"expected a .clv or .json program, got a folder; {FOLDER}"),
        ("pipe.gguf", "expected a regular file"),
    ]:
        with pytest.raises(clave.Error) as e:
            clave.from_gguf(tmp_path / name)
        assert str(e.value) == f"{tmp_path / name}: {said}"
    with pytest.raises(clave.Error, match="path: expected a path without NUL"):
        clave.from_gguf("a\0b")


# ---- keys


def u32(n):
    return n, "uint32"


KEYS = [
    (
        "llama",
        "general.architecture",
        ("mamba", "string"),
        "architecture: expected one of llama, ..., got 'mamba'",
    ),
    (
        "llama",
        "general.architecture",
        (("x\n" * 500), "string"),
        "architecture: expected one of llama, ..., got 'x\\nx\\n",
    ),
    ("llama", "general.architecture", u32(3), "key 'general.architecture': expected a text, got uint32"),
    ("llama", "general.alignment", ("32", "string"), "key 'general.alignment': expected uint32, got string"),
    (
        "llama",
        "split.count",
        (3, "uint16"),
        "is one of 3 parts: expected a file name that ends in -00001-of-00003.gguf",
    ),
    ("llama", "llama.block_count", None, "has no key 'llama.block_count'"),
    ("llama", "llama.block_count", u32(0), "key 'llama.block_count': expected 1 to 10000, got 0"),
    ("llama", "llama.block_count", (2**40, "uint64"), f"key 'llama.block_count': expected 1 to 10000, got {2**40}"),
    ("llama", "llama.block_count", u32(2), "has no tensor 'blk.1.attn_norm.weight'"),
    ("llama", "llama.block_count", (1.0, "float32"), "key 'llama.block_count': expected an integer, got float32"),
    ("llama", "llama.embedding_length", u32(64), "tensor 'token_embd.weight': expected (any, 64), got (40, 32)"),
    ("llama", "llama.feed_forward_length", u32(31), "tensor 'blk.0.ffn_gate.weight': expected (31, 32), got (32, 32)"),
    ("llama", "llama.feed_forward_length", ([32, 32], "array"), "feed_forward_length': expected 1 elements, got 2"),
    ("llama", "llama.feed_forward_length", ([0], "array"), "expected 1 to 1048576 for each layer, got 0"),
    ("llama", "llama.context_length", u32(1), "key 'llama.context_length': expected 2 to 2147483647, got 1"),
    ("llama", "llama.attention.head_count", u32(3), "tensor 'blk.0.attn_q.weight': expected (48, 32), got (32, 32)"),
    ("llama", "llama.attention.head_count_kv", u32(3), "2 heads of queries cannot share 3 heads of keys"),
    ("llama", "llama.attention.head_count_kv", u32(0), "head_count_kv': expected 1 to 1048576, got 0"),
    ("llama", "llama.attention.key_length", u32(2**20), "key_length': expected 1 to 65536, got 1048576"),
    (
        "llama",
        "llama.attention.key_length",
        u32(2**16),
        "tensor 'blk.0.attn_q.weight': expected (131072, 32), got (32, 32)",
    ),
    ("llama", "llama.attention.layer_norm_rms_epsilon", None, "has no key 'llama.attention.layer_norm_rms_epsilon'"),
    (
        "llama",
        "llama.attention.layer_norm_rms_epsilon",
        (float("nan"), "float32"),
        "expected a positive finite number, got nan",
    ),
    ("llama", "llama.attention.layer_norm_rms_epsilon", (-1e-5, "float32"), "expected a positive finite number"),
    ("llama", "llama.attention.scale", (1e300, "float64"), "expected a positive finite number, got 1e+300"),
    ("llama", "llama.attention.causal", (False, "bool"), "attention that also sees later tokens is not supported"),
    ("llama", "llama.attention.causal", u32(1), "key 'llama.attention.causal': expected true or false, got uint32"),
    ("llama", "llama.attention.clamp_kqv", (8.0, "float32"), "not supported: 'llama.attention.clamp_kqv'"),
    ("qwen2", "qwen2.expert_count", u32(8), "a mixture of experts is not supported for qwen2"),
    ("llama", "llama.expert_count", u32(8), "has no key 'llama.expert_used_count'"),
    ("mixtral", "llama.expert_used_count", u32(9), "expert_used_count': expected 1 to 8, got 9"),
    ("mixtral", "llama.expert_group_count", u32(2), "a choice among groups of experts is not supported"),
    ("mixtral", "llama.expert_gating_func", u32(4), "expert_gating_func': expected 1 (softmax), 2 ..., got 4"),
    ("mixtral", "llama.expert_count", u32(7), "tensor 'blk.0.ffn_gate_inp.weight': expected (7, 32), got (8, 32)"),
    ("gptneox", "gptneox.use_parallel_residual", None, "has no key 'gptneox.use_parallel_residual'"),
    ("gpt2", "gpt2.attention.layer_norm_epsilon", None, "has no key 'gpt2.attention.layer_norm_epsilon'"),
    ("granite", "granite.logit_scale", None, "has no key 'granite.logit_scale'"),
    ("glm4", "glm4.nextn_predict_layers", u32(1), "nextn_predict_layers': expected 0 to 0, got 1"),
    ("llama", "llama.rope.dimension_count", u32(7), "dimension_count': expected an even number up to 16, got 7"),
    ("llama", "llama.rope.dimension_count", u32(18), "dimension_count': expected an even number up to 16, got 18"),
    ("llama", "llama.rope.freq_base", (1.0, "float32"), "freq_base': expected more than 1, got 1.0"),
    (
        "llama",
        "llama.rope.scaling.type",
        ("dynamic", "string"),
        "rope scaling: expected one of none, linear, yarn, longrope, got 'dynamic'",
    ),
    (
        "llama",
        "llama.rope.scaling.factor",
        (0.0, "float32"),
        "scaling.factor': expected a positive finite number, got 0.0",
    ),
    (
        "llama",
        "llama.rope.scaling.yarn_ext_factor",
        (0.5, "float32"),
        "not supported: 'llama.rope.scaling.yarn_ext_factor'",
    ),
    ("llama", "llama.rope.scaling.type", ("longrope", "string"), "has no tensor 'rope_factors_short.weight'"),
    ("qwen2", "qwen2.attention.sliding_window", u32(8), "sliding_window' is 8: a window is not supported for qwen2"),
    (
        "gemma3",
        "gemma3.attention.sliding_window_pattern",
        ([True, False], "array"),
        "sliding_window_pattern': expected 1 elements, got 2",
    ),
    (
        "gemma3",
        "gemma3.attention.sliding_window_pattern",
        (["a"], "array"),
        "expected an array of kind flag, got one of string",
    ),
    ("gemma2", "gemma2.attn_logit_softcapping", (-1.0, "float32"), "expected a positive finite number, got -1.0"),
    ("llama", "tokenizer.chat_template", u32(1), "key 'tokenizer.chat_template': expected a text, got uint32"),
    ("llama", "tokenizer.ggml.eos_token_id", u32(40), "key 'tokenizer.ggml.eos_token_id': expected 0 to 39, got 40"),
    (
        "llama",
        "tokenizer.ggml.model",
        ("what", "string"),
        "tokenizer: expected one of llama, gpt2, got 'what'; another",
    ),
]


@pytest.mark.parametrize("name, key, value, said", KEYS)
def test_keys(name, key, value, said, tmp_path):
    written = tiny(name)
    written.keys[key] = value
    if value is None:
        del written.keys[key]
    check(refused(written.write(tmp_path / "m.gguf")), said)


# ---- tensors


def without(name):
    return lambda t: t.pop(name)


def shaped(name, *shape):
    return lambda t: t.__setitem__(name, (np.ones(shape, np.float32), GGMLQuantizationType.F32))


def added(name):
    return shaped(name, 32)


def of_type(name, kind, *shape):
    return lambda t: t.__setitem__(name, (np.zeros(shape, np.uint8), GGMLQuantizationType[kind]))


TENSORS = [
    ("llama", without("token_embd.weight"), "has no tensor 'token_embd.weight'"),
    ("llama", without("output_norm.weight"), "has no tensor 'output_norm.weight'"),
    ("llama", without("blk.0.ffn_up.weight"), "has no tensor 'blk.0.ffn_up.weight'"),
    ("qwen3", without("blk.0.attn_q_norm.weight"), "has no tensor 'blk.0.attn_q_norm.weight'"),
    ("gemma2", without("blk.0.post_ffw_norm.weight"), "has no tensor 'blk.0.post_ffw_norm.weight'"),
    ("mixtral", without("blk.0.ffn_up_exps.weight"), "has no tensor 'blk.0.ffn_up_exps.weight'"),
    ("mixtral", without("blk.0.ffn_gate_inp.weight"), "has no tensor 'blk.0.ffn_up.weight'"),
    (
        "mixtral",
        shaped("blk.0.ffn_down_exps.weight", 8, 32, 31),
        "tensor 'blk.0.ffn_down_exps.weight': expected (8, 32, 32), got (8, 32, 31)",
    ),
    ("gpt2", without("position_embd.weight"), "has no tensor 'position_embd.weight'"),
    ("olmo2", without("blk.0.attn_q_norm.weight"), "has no tensor 'blk.0.attn_q_norm.weight'"),
    ("phi3", without("rope_factors_long.weight"), "has no tensor 'rope_factors_long.weight'"),
    ("llama", shaped("output.weight", 41, 32), "tensor 'output.weight': expected (40, 32), got (41, 32)"),
    ("llama", shaped("token_embd.weight", 40, 4, 8), "tensor 'token_embd.weight': expected (any, 32), got (40, 4, 8)"),
    ("llama", shaped("blk.0.attn_k.weight", 32, 32), "tensor 'blk.0.attn_k.weight': expected (16, 32), got (32, 32)"),
    ("llama", shaped("blk.0.attn_q.bias", 16), "tensor 'blk.0.attn_q.bias': expected (32), got (16)"),
    ("llama", shaped("blk.0.attn_norm.weight", 2, 32), "'blk.0.attn_norm.weight': expected (32), got (2, 32)"),
    (
        "phi3",
        shaped("blk.0.attn_qkv.weight", 96, 32),
        "tensor 'blk.0.attn_qkv.weight': expected (64, 32), got (96, 32)",
    ),
    ("phi3", shaped("blk.0.ffn_up.weight", 32, 32), "tensor 'blk.0.ffn_up.weight': expected (64, 32), got (32, 32)"),
    ("phi3", shaped("rope_factors_long.weight", 5), "tensor 'rope_factors_long.weight': expected (6), got (5)"),
    ("llama", added("blk.1.attn_norm.weight"), "has tensors that are not supported: 'blk.1.attn_norm.weight'"),
    ("llama", added("v.patch_embd.bias"), "has tensors that are not supported: 'v.patch_embd.bias'"),
    ("llama", added("blk.0.attn_q.scale"), "has tensors that are not supported: 'blk.0.attn_q.scale'"),
    (
        "llama",
        of_type("blk.0.attn_q.weight", "IQ4_XS", 32, 136),
        "tensor 'blk.0.attn_q.weight': expected (32, 32), got (32, 256)",
    ),
    (
        "llama",
        of_type("blk.0.attn_q.weight", "Q8_K", 32, 292),
        "'blk.0.attn_q.weight': expected one of F32, ..., IQ1_M, got Q8_K",
    ),
]


@pytest.mark.parametrize("name, change, said", TENSORS)
def test_tensors(name, change, said, tmp_path):
    written = tiny(name)
    change(written.tensors)
    check(refused(written.write(tmp_path / "m.gguf")), said)


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf"), 1e-45])
def test_factors_of_rope(factor, tmp_path):
    written = tiny()
    written.tensors["rope_freqs.weight"] = (np.array([factor] + [1.0] * 7, np.float32), GGMLQuantizationType.F32)
    said = refused(written.write(tmp_path / "m.gguf"))
    assert said in (
        "has rope factors that are not positive numbers",
        "rope's base, factor or factors produce frequencies that are not finite",
    )


# ---- options, the command line


def test_options(tmp_path):
    path = tiny().write(tmp_path / "m.gguf")
    for options, said in [
        ({"kv": "f8"}, "kv: expected 'f32', 'f16', 'bf16' or 'int8', got 'f8'"),
        ({"max_context": 1}, "max_context: expected an integer from 2 to 2**31 - 1, got 1"),
        ({"max_context": 2**31}, "max_context: expected an integer from 2 to 2**31 - 1, got 2147483648"),
        ({"prompt_piece": 0}, "prompt_piece: expected an integer from 1 to 2**31 - 1, got 0"),
        (
            {"max_context": 2**31 - 1, "kv": "f32"},
            "the caches of 2147483647 tokens take 262144 MiB, and this machine has ",
        ),
    ]:
        with pytest.raises(clave.Error) as e:
            clave.from_gguf(path, **options)
        assert said in str(e.value)


def run(capsys, *args):
    code = main(["from-gguf", *map(str, args)])
    out, err = capsys.readouterr()
    assert not out
    return code, err


def test_command_line(capsys, valid, tmp_path):
    path, output = tmp_path / "m.gguf", tmp_path / "out" / "m.clv"
    output.parent.mkdir()
    path.write_bytes(valid[:-1])
    n = len(valid)
    said = f"clave: expected {n} bytes or more, got {n - 1}: it ends before tensor "
    code, err = run(capsys, path, "-o", output)
    assert code == 1 and err.startswith(said) and err.endswith(f" does; {path}\n") and err.count("\n") == 1
    path.write_bytes(valid)
    assert run(capsys, path, "-o", output, "--kv", "f8") == (2, "clave: --kv f8: expected f32, f16, bf16 or int8\n")
    assert run(capsys, path, "-o", output, "--max-context", "1")[0] == 2
    assert run(capsys, path, "-o", output, "--prompt-piece", "0")[0] == 2
    code, err = run(capsys, path, "-o", output, "--tokenizer", tmp_path / "none")
    assert code == 1 and err == f"clave: {tmp_path / 'none'}: no such file or directory\n"
    assert not list(output.parent.iterdir())
    assert run(capsys, path, "-o", output) == (0, "") and output.exists()


def test_another_tokenizer(capsys, build, tmp_path):
    """A folder replaces an unknown tokenizer, and the tool writes text with it."""
    written, folder = tiny(), tmp_path / "hf"
    vocabulary = {w: i for i, w in enumerate(["<unk>", *"abcdefghijklmnopqrstuvwxyz \n"])}
    folder.mkdir()
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"}
    split = {"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": False}
    document = {"version": "1.0", "added_tokens": [], "pre_tokenizer": split, "model": model}
    (folder / "tokenizer.json").write_text(json.dumps(document))
    written.keys["tokenizer.ggml.model"] = ("gpt2", "string")
    written.keys["tokenizer.ggml.pre"] = ("of-mine", "string")
    written.keys["tokenizer.ggml.tokens"] = ([f"<{i}>" for i in range(40)], "array")
    path, output = written.write(tmp_path / "m.gguf"), tmp_path / "m.clv"
    code, err = run(capsys, path, "-o", output)
    assert code == 1 and "pre-tokenizer: expected one of gpt-2, " in err and ", got 'of-mine'; " in err
    assert err.endswith(f"; another tokenizer can be given in its place (tokenizer=, --tokenizer); {path}\n")
    assert run(capsys, path, "-o", output, "--tokenizer", folder) == (0, "")
    assert clave.load(output).tokenizer.encode("ab a") == [1, 2, 27, 1]
    command = [build / "clave", "generate", output, "--prompt", "abc", "--max-new-tokens", "5", "--device", "cpu"]
    p = subprocess.run(command, capture_output=True, text=True)
    assert p.returncode == 0 and p.stdout, p.stderr
    vocabulary["beyond"] = 40
    (folder / "tokenizer.json").write_text(json.dumps(document))
    code, err = run(capsys, path, "-o", output, "--tokenizer", folder)
    assert (code, err) == (1, f"clave: {path}: {folder} has 41 tokens, and token_embd.weight has rows for 40\n")


# ---- a file that changes


def overwrite(path):
    with path.open("r+b") as f:
        f.seek(-1, os.SEEK_END)
        f.write(b"\x7f")


def cut(path):
    os.truncate(path, 100)


def grow(path):
    with path.open("ab") as f:
        f.write(bytes(4096))


def large():
    """Returns a file that is mapped: smaller ones are copied."""
    return Written("llama", **TINY | {"vocab_size": 3000, "num_hidden_layers": 40})


@pytest.mark.parametrize("change", [overwrite, cut, grow])
def test_a_file_that_changes(change, tmp_path):
    """Afterwards a program is neither saved nor run."""
    path = large().write(tmp_path / "m.gguf")
    program = clave.from_gguf(path)
    session = clave.Session(program, "cpu")
    change(path)
    ids = torch.tensor([[1, 2, 3]])
    for use in (
        lambda: program.save(tmp_path / "m.clv"),
        lambda: program.save(tmp_path / "m.json"),
        lambda: session(ids, torch.tensor(0)),
        lambda: clave.Session(program, "cpu"),
    ):
        with pytest.raises(clave.Error, match=r"m\.gguf: .*; load it again|m\.gguf: .*: load the file again"):
            use()
    assert [p.name for p in tmp_path.iterdir()] == ["m.gguf"]


def test_a_small_file_that_changes(tmp_path):
    """It was read at once, and changes have no effect."""
    path = tiny().write(tmp_path / "m.gguf")
    program, ids = clave.from_gguf(path), torch.tensor([[1, 2, 3]])
    (want,) = clave.Session(program, "cpu")(ids, torch.tensor(0))
    path.write_bytes(bytes(path.stat().st_size))
    assert torch.equal(clave.Session(program, "cpu")(ids, torch.tensor(0))[0], want)


@pytest.mark.parametrize("name", ["m.clv", "m.json"])
def test_a_file_that_changes_while_it_is_saved(name, tmp_path):
    """The program is written into a pipe, which is full before the constants are read."""
    path = large().write(tmp_path / "m.gguf")
    program = clave.from_gguf(path)
    os.mkfifo(tmp_path / name)
    with ThreadPoolExecutor() as pool:
        saved = pool.submit(program.save, tmp_path / name)
        with (tmp_path / name).open("rb", buffering=0) as pipe:
            assert pipe.read(1)
            overwrite(path)
            while pipe.read(1 << 20):
                pass
        with pytest.raises(clave.Error, match=r"m\.gguf: the constants have changed since the file was opened"):
            saved.result()


def test_a_file_that_is_replaced(tmp_path):
    """A new file of the same name does not count as a change of the old one."""
    path = large().write(tmp_path / "m.gguf")
    program = clave.from_gguf(path)
    other = tmp_path / "other"
    other.write_bytes(b"other")
    other.replace(path)
    program.save(tmp_path / "m.clv")
    ids = torch.tensor([[1, 2, 3]])
    (first,), (second,) = (clave.Session(p, "cpu")(ids, torch.tensor(0)) for p in (program, tmp_path / "m.clv"))
    assert torch.equal(first, second)
