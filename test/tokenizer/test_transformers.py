"""The tokenizer.json that transformers' classes build today, around vocabularies trained here."""

import json

import pytest
from _compare import same
from _trained import trained

from clave import Tokenizer
from strings import strings

transformers = pytest.importorskip("transformers")
TEXTS = strings(700, seed=41, extra=["<s>", "</s>", "[MASK]", "a<s> b", "x [SEP] y", "<|endoftext|>a"])
BYTES = ["GPT2", "Qwen2", "Roberta", "CLIP", "Cohere", "GPTNeoX"]
METASPACE = ["Llama", "CodeLlama", "Gemma"]
UNIGRAM = ["T5", "XLMRoberta", "Albert", "XLNet", "MBart", "Camembert", "BigBird", "Pegasus", "Barthez", "Udop"]
WORDPIECE = ["Bert", "DistilBert", "MPNet", "Electra", "LayoutLMv2"]


def model(name):
    return json.loads(trained(name).to_str())["model"]


def build(kind):
    cls = getattr(transformers, f"{kind}Tokenizer")
    if kind in UNIGRAM:
        return cls(vocab=[tuple(x) for x in model("unigram")["vocab"]])
    if kind in WORDPIECE:
        return cls(vocab=model("bert_uncased")["vocab"])
    bpe = model("gpt2" if kind in BYTES else "llama2")
    return cls(vocab=bpe["vocab"], merges=[tuple(m) for m in bpe["merges"]])


@pytest.mark.parametrize("kind", [*BYTES, *METASPACE, *UNIGRAM, *WORDPIECE])
def test_class(kind):
    reference = build(kind).backend_tokenizer
    ours = Tokenizer(reference.to_str().encode())

    def decode(ids, skip):
        return reference.decode(ids, skip_special_tokens=skip)

    for frame in (False, True):
        encode = lambda text, frame=frame: reference.encode(text, add_special_tokens=frame).ids
        same(ours, TEXTS[frame * 400 :], encode, decode, bos=frame, eos=frame)
