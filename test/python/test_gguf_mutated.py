"""GGUF files with changed numbers, or with bytes changed, inserted or removed, by seed: clave.from_gguf makes a program
that verifies and runs, or reports the error in one line; either way it needs little memory."""

import contextlib
import random
import resource

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers", reason="needs transformers (ci/requirements.txt)")

from _gguf import Written
from _gguf_layout import layout_of

import clave

TINY = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2}
TINY |= {"num_key_value_heads": 1, "vocab_size": 40}
WIDE = {"hidden_size": 256, "intermediate_size": 256}
FILES = [
    ("llama3", "F32", {}),
    ("qwen2", "F16", {}),
    ("qwen3", "Q4_0", {}),
    ("gemma2", "Q8_0", {}),
    ("gemma3", "BF16", {"num_hidden_layers": 2}),
    ("phi3_window", "Q4_K", WIDE),
]
WORDS = ["<unk>", "<s>", "</s>", *"abcdefghijklmnopqrstuvwxyzABCDEFGH", "ab", "abc", "\u2581a"]
ROOM = 2 << 30  # bytes of address space beyond what is already used
NUMBERS = [0, 1, 2, 7, 31, 33, 255, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1]


def with_vocabulary(written, kind):
    """kind: "llama", with scores and types; or "gpt2", with merges."""
    keys = {"model": (kind, "string"), "tokens": (WORDS, "array"), "bos_token_id": (1, "uint32")}
    keys |= {"token_type": ([2, 3, 3] + [1] * (len(WORDS) - 3), "array")}
    if kind == "llama":
        keys["scores"] = ([-float(i) for i in range(len(WORDS))], "array")
    else:
        keys |= {"pre": ("llama-bpe", "string"), "merges": (["a b", "ab c"], "array")}
    written.keys |= {f"tokenizer.ggml.{k}": v for k, v in keys.items()}
    written.keys["tokenizer.chat_template"] = ("{{ messages }}", "string")
    return written


def places_of(path):
    """Returns the size of the header, and (offset, size) of numbers: values of keys, first elements of arrays,
    dimensions, types and offsets."""
    keys, tensors = layout_of(path)
    found = [(8, 8), (16, 8), *((k.at, k.size) for k in keys.values())]
    for t in tensors:
        found += [(t.info, 4), *((t.info + 4 + 8 * i, 8) for i in range(t.rank))]
        found += [(t.info + 4 + 8 * t.rank, 4), (t.info + 8 + 8 * t.rank, 8)]
    return min(t.at for t in tensors), found


def with_number(data, place, r):
    """Replaces a number: by a special number, or by one near the old number."""
    at, size = place
    old = int.from_bytes(data[at : at + size], "little")
    new = r.choice((NUMBERS, (old + 1, old - 1, old * 2, old // 2, old ^ 32))[r.randrange(2)])
    data[at : at + size] = (new % 2 ** (8 * size)).to_bytes(size, "little")


def with_bytes(data, header, r):
    """Changes, inserts or removes bytes somewhere."""
    at = r.randrange((header if r.random() < 0.6 else len(data)) + 1)
    n = r.choice((1, 1, 2, 4, 8, 13, 32, 100))
    how = r.randrange(6)
    if how == 0:
        data[at : at + 1] = bytes([r.randrange(256)])
    elif how == 1:
        data[at : at + n] = r.randbytes(n)[: len(data) - at]
    elif how == 2:
        data[at:at] = r.randbytes(n)
    elif how == 3:
        del data[at : at + n]
    elif how == 4:
        del data[at:]
    else:
        data[at:at] = data[at : at + n]


def mutated(data, header, places, r):
    """Returns a mutated file. r: seeded; header: the bytes before the tensors."""
    data = bytearray(data)
    for _ in range(r.choice((0, 1, 1, 2))):
        with_number(data, r.choice(places), r)
    if r.random() < 0.3:
        with_bytes(data, min(header, len(data)), r)
    return bytes(data)


@contextlib.contextmanager
def little_room():
    """Makes an allocation of gigabytes fail."""
    with open("/proc/self/statm") as f:
        taken = int(f.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.by_turn(2)
@pytest.mark.parametrize("name, kind, more", FILES)
def test_mutated(name, kind, more, everything, tmp_path):
    written = with_vocabulary(Written(name, kind, **TINY | more), "gpt2" if name.startswith("q") else "llama")
    path = written.write(tmp_path / "m.gguf")
    data = path.read_bytes()
    header, places = places_of(path)
    refused, made, ids = set(), 0, torch.zeros(1, 2, dtype=torch.int64)
    with little_room():
        for i in range(3000 if everything else 150):
            path.unlink()  # its pages may be mapped
            path.write_bytes(mutated(data, header, places, random.Random(f"{name} {i}")))
            try:
                program = clave.from_gguf(path)
            except clave.Error as e:
                said = str(e)
                assert str(path) in said and "\n" not in said and len(said) < 1000, (i, said)
                assert said.endswith(f"; {path}") or said.startswith(f"{path}: its tokenizer: "), (i, said)
                refused.add(said.removeprefix(f"{path}: ")[:30])
                continue
            made += 1
            (logits,) = clave.Session(program, "cpu")(ids, torch.tensor(0))
            assert logits.shape == program.methods["forward"].outputs[0].shape
    assert made > 3 and len(refused) > 20
