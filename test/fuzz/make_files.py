"""Writes talk.clv, the language model of fuzz_conversation, and the initial inputs of fuzz_run, fuzz_conversation,
fuzz_npy, fuzz_cache, fuzz_bundle and fuzz_folder. Run by hand: make_files.py build/cases build/fuzzing/corpus.
`ci/fuzz --merge build/fuzzing` then adds useful inputs to test/fuzz/found."""

import base64
import io
import pathlib
import struct
import sys
import tempfile

import numpy as np
import safetensors.torch
import torch

HERE = pathlib.Path(__file__).resolve().parent
HEADER, SECTION, LARGEST = 64, 32, 2400
CONTEXT, N_VOCAB = 4, 5


class Talk(torch.nn.Module):
    """The smallest language model: its logits are the same for every token, and its state is the tokens it has read."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1, 1, CONTEXT, 2))
        self.register_buffer("sum", torch.zeros(3, dtype=torch.int64))

    def forward(self, tokens, position):
        positions = position + torch.arange(tokens.shape[-1])
        self.seen.index_copy_(2, positions, tokens.reshape(1, 1, -1, 1).float().expand(1, 1, -1, 2))
        self.sum.add_(tokens.sum())
        return (self.seen.sum() + torch.arange(float(N_VOCAB))[None]) * 0.5


TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"


def talk():
    import clave

    length = torch.export.Dim("length", min=1, max=CONTEXT)
    args = (torch.ones(1, 2, dtype=torch.int64), torch.tensor(0))
    program = clave.export(Talk(), args, dynamic_shapes=({1: length}, None))
    program.metadata = {"llm": {"chat_template": TEMPLATE}}
    with tempfile.NamedTemporaryFile(suffix=".tiktoken") as ranks:
        ranks.write(b"".join(base64.b64encode(bytes([i])) + b" %d\n" % i for i in range(256)))
        ranks.flush()
        program.set_tokenizer(ranks.name)
    program.save(str(HERE / "talk.clv"))


def program(path):
    """Returns the FlatBuffer of the program in a .clv file."""
    data = path.read_bytes()
    (n,) = struct.unpack_from("<I", data, 24)
    for i in range(n):
        tag, _, offset, size, _ = struct.unpack_from("<4sIQQQ", data, HEADER + i * SECTION)
        if tag == b"PROG":
            return data[offset : offset + size]
    raise ValueError(f"{path}: no program in it")


def programs(cases):
    """Yields the programs of the op cases, without their constants."""
    for line in (cases / "index.tsv").read_text().splitlines():
        name, path, *_ = line.split("\t")
        if len(data := program(cases / path)) <= LARGEST:
            yield name.replace("/", "_"), data


MESSAGE = b'{"role":"user","content":"\\u0001"}'
# Errors in a chat of two ids: its turns, its messages.
WRONG_CHATS = {
    "turns_back": ([[1, 1, 0, 34, 3, 7], [0, 2, 34, 34, 3, 7]], MESSAGE),
    "turns_beyond_ids": ([[0, 3, 0, 34, 3, 7]], MESSAGE),
    "turns_without_end": ([[0, 1, 0, 30, 3, 7]], MESSAGE),
    "turns_short": ([[0, 1, 0, 34, 3]], MESSAGE),
    "no_json": ([[0, 1, 0, 4, 3, 7]], b'{"a"'),
    "no_turns": ([], MESSAGE),
}


def conversation(n, turns, chat, version=2):
    run = max(n - 1, 0)
    tensors = {
        "conversation": torch.tensor([version, run, n, 0, run, run]),
        "ids": torch.arange(n),
        "logits": torch.arange(float(N_VOCAB)),
        "messages": torch.tensor(list(chat), dtype=torch.uint8),
        "turns": torch.tensor(turns, dtype=torch.int64).reshape(-1, len(turns[0]) if turns else 6),
        "state.0": torch.zeros(1, 1, CONTEXT, 2),
        "state.1": torch.zeros(3, dtype=torch.int64),
        "check": torch.zeros(1, dtype=torch.int64),
    }
    return safetensors.torch.save(tensors, {"format": "clave conversation"})


def conversations():
    """Yields conversations without a chat, with a chat of one turn, and with wrong chats. The target mends hashes."""
    for n in range(CONTEXT):
        yield f"ids_{n}", conversation(n, [], b"")
        yield f"chat_{n}", conversation(n, [[0, min(n, 1), 0, len(MESSAGE), 3, 7]], MESSAGE)
    for name, (turns, chat) in WRONG_CHATS.items():
        yield name, conversation(2, turns, chat)
    yield "version_1", conversation(2, [], b"", version=1)


def arrays():
    for kind in ("f4", "f2", "f8", "i1", "u1", "i2", "i4", "i8", "b1", ">f4", "c8", "U2"):
        for shape in ((), (2,), (2, 3), (0, 3)):
            yield f"{kind.replace('>', 'big_')}_{len(shape)}{'_empty' if 0 in shape else ''}", np.zeros(shape, kind)
    yield "fortran", np.asfortranarray(np.arange(6, dtype="f4").reshape(2, 3))
    yield "rank_9", np.zeros((1,) * 9, "f4")


def npy():
    for name, array in arrays():
        out = io.BytesIO()
        np.save(out, array)
        yield name, out.getvalue()
    out = io.BytesIO()
    np.lib.format.write_array(out, np.zeros(2, "f4"), (2, 0))
    yield "format_2", out.getvalue()


def cache():
    for n in (0, 1, 100):
        head = struct.pack("<8s96x5Q", b"clvbin6", n // 50, n - n // 50 * 8, 0, 0, 14)
        yield f"entry_{n}", head + b"p\nd\nv\nkernel\n\n\0\0" + bytes(range(n))


def bundle():
    head = struct.pack("<8s24s", b"clvkern1", b"0.2.0")
    yield "empty", head + struct.pack("<QQ", 0, 0)
    for name, entry in cache():
        yield (
            f"{name}_alone",
            head + struct.pack("<Q", len(entry)) + entry + bytes(-len(entry) % 8) + struct.pack("<QQ", 0, 1),
        )


def folders():
    corpus = HERE / "corpus"
    words, pieces = (corpus / "tokenizer_json/words").read_bytes(), (corpus / "sentencepiece/model_1").read_bytes()
    for name, config in {
        "plain": b'{"bos_token":"the","eos_token":"a","add_bos_token":true}',
        "objects": b'{"bos_token":{"content":"the","special":true},"eos_token":null}',
        "unknown": b'{"bos_token":"nowhere"}',
        "wrong": b'{"bos_token":7}',
        "list": b"[]",
    }.items():
        yield name, b"@tokenizer.json\n" + words + b"\n@tokenizer_config.json\n" + config
    yield "pieces", b"@tokenizer.model\n" + pieces + b'\n@tokenizer_config.json\n{"bos_token":"<s>","eos_token":"</s>"}'
    yield "both", b"@tokenizer.model\n" + pieces + b"\n@tokenizer.json\n" + words
    yield "alone", b'@tokenizer_config.json\n{"bos_token":"a"}'


def main(cases, out):
    talk()
    kinds = {
        "run": programs(cases),
        "conversation": conversations(),
        "npy": npy(),
        "cache": cache(),
        "bundle": bundle(),
        "folder": folders(),
    }
    for kind, files in kinds.items():
        (out / kind).mkdir(parents=True, exist_ok=True)
        for name, data in files:
            (out / kind / name).write_bytes(data)


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:3]))
