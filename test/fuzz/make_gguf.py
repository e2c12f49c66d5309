"""Writes the initial inputs of fuzz_gguf: tiny models of each architecture, tensor type and kind of vocabulary.
make_gguf.py CORPUS writes CORPUS/gguf."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

from _gguf import Written

TINY = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2}
TINY |= {"num_key_value_heads": 1}
WORDS = ["<unk>", "<s>", "</s>", "<|im_end|>", *"abceABCD", "ab", "abc", "\u2581", "\u2581a", "d", "cab", "ca"]
TYPES = [2, 3, 3, 4] + [1] * 13 + [5, 1]
# (model, tensor type, vocabulary, pre-tokenizer)
FILES = [
    ("llama3", "F32", "llama", None),
    ("llama", "Q4_0", "gpt2", "llama-bpe"),
    ("qwen2", "F16", "gpt2", "qwen2"),
    ("qwen3", "Q8_0", "gpt2", "gpt-4o"),
    ("gemma2", "BF16", "llama", None),
    ("gemma3_linear", "MXFP4", "gpt2", "smollm"),
    ("phi3", "Q5_1", "llama", None),
    ("phi3_window", "Q4_1", "no_vocab", None),
]


def with_vocabulary(written, kind, pre):
    keys = {"model": (kind, "string"), "tokens": (WORDS, "array"), "token_type": (TYPES, "array")}
    keys |= {"bos_token_id": (1, "uint32"), "eos_token_id": (2, "uint32")}
    if kind == "llama":
        keys["scores"] = ([-float(i) for i in range(len(WORDS))], "array")
    if pre:
        keys |= {"pre": (pre, "string"), "merges": (["a b", "ab c", "c a", "ca b"], "array")}
    written.keys |= {f"tokenizer.ggml.{k}": v for k, v in keys.items()}
    written.keys |= {"tokenizer.chat_template": ("{{ messages }}", "string"), "general.license": ("mit", "string")}
    return written


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1]) / "gguf"
    folder.mkdir(parents=True, exist_ok=True)
    for name, kind, vocabulary, pre in FILES:
        written = Written(name, kind, **TINY | {"vocab_size": len(WORDS)})
        with_vocabulary(written, vocabulary, pre).write(folder / f"{name}.gguf")
