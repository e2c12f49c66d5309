"""Log probabilities of texts and `clave generate --perplexity`, against torch."""

import json
import math
import os
import subprocess

import _models
import pytest
import torch
from _llm import Device, Llm, Talk

from clave import Error

TEXT = bytes(32 + (7 * i * i + 3 * i) % 95 for i in range(150))
# Kinds of programs: logits of all tokens or of the last, or one token at a time.
KINDS = {"all": {"every": True}, "last": {}, "one": {"fixed": 1}, "half": {"every": True, "dtype": torch.float16}}


def log_probabilities(ids, dtype=torch.float32):
    """Returns (L): the log probability of each id after those before it; NaN for the first."""
    with torch.no_grad():
        logits = _models.Next(dtype, every=True)(torch.tensor([ids]), torch.tensor(0))[0].double()
    return [math.nan, *logits[:-1].log_softmax(-1)[range(len(ids) - 1), ids[1:]].tolist()]


def reference(ids, window, stride, bos):
    """Returns (nats, tokens, windows) as transformers describes them: overlapping windows count their new tokens."""
    nats, n, n_windows, end = 0.0, 0, 0, 0
    head = [] if bos is None else [bos]
    window -= len(head)
    for begin in range(0, len(ids), stride or window):
        fresh, end = end, min(begin + window, len(ids))
        scores = log_probabilities(head + ids[begin:end])[len(head) :][fresh - begin :]
        known = [s for s in scores if not math.isnan(s)]
        nats, n, n_windows = nats - sum(known), n + len(known), n_windows + 1
        if end == len(ids):
            break
    return nats, n, n_windows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("perplexity")
    ranks = _models.byte_ranks(folder / "bytes.tiktoken")
    for name, options in KINDS.items():
        _models.export(folder / f"{name}.clv", tokenizer=ranks, llm={"bos": 1}, **options)
    _models.export(folder / "free.clv", tokenizer=ranks, llm={"bos": None}, every=True)
    _models.export(folder / "ids.clv")
    _models.export_attention(folder / "paged.clv", _models.CONTEXT, ranks, {"bos": 1})
    (folder / "text").write_bytes(TEXT)
    (folder / "empty").write_bytes(b"")
    (folder / "one").write_bytes(b"x")
    return folder


@pytest.fixture
def clave(build, folder):
    def run(*args, device="cpu"):
        env = os.environ | {"CLAVE_DEVICE": device}
        command = [build / "clave", "generate", *map(str, args)]
        return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60)

    return run


def measured(folder, p):
    assert p.returncode == 0, p.stderr
    stats = json.loads((folder / "stats").read_text())
    assert p.stdout == (
        f"perplexity {stats['perplexity']:.4f}: {stats['nats_per_token']:.6f} nats per token, "
        f"{stats['tokens']} tokens in {stats['windows']} windows\n"
    )
    assert stats["bytes"] == len(TEXT)
    return stats


@pytest.mark.parametrize(
    "name, device, window, stride",
    [
        *(("all", "cpu", window, stride) for window, stride in [(0, 0), (40, 0), (40, 13), (7, 1), (2, 0)]),
        *(("free", "cpu", window, stride) for window, stride in [(0, 0), (40, 13), (2, 0)]),
        ("last", "cpu", 40, 13),
        ("one", "cpu", 40, 13),
        ("all", "opencl", 40, 13),
        ("last", "opencl", 40, 0),
    ],
)
def test_windows(clave, folder, name, device, window, stride):
    bos = None if name == "free" else 1
    flags = ["--window", window] * bool(window) + ["--stride", stride] * bool(stride)
    p = clave(f"{name}.clv", "--perplexity", "text", *flags, "--stats-json", "stats", device=device)
    nats, n, n_windows = reference(list(TEXT), window or _models.CONTEXT, stride, bos)
    stats = measured(folder, p)
    assert (stats["tokens"], stats["windows"]) == (n, n_windows)
    assert stats["nats_per_token"] == pytest.approx(nats / n, rel=1e-6)
    assert stats["perplexity"] == pytest.approx(math.exp(nats / n), rel=1e-5)


@pytest.mark.parametrize(
    "args, part",
    [
        (("all.clv", "--perplexity", "none"), "none"),
        (("ids.clv", "--perplexity", "text"), "needs a tokenizer"),
        (("all.clv", "--perplexity", "empty"), "0 tokens"),
        (("free.clv", "--perplexity", "one"), "1 tokens, and perplexity needs"),
        (("all.clv", "--perplexity", "text", "--window", 65), "context of 64"),
        (("all.clv", "--perplexity", "text", "--window", 1), "no token to score"),
        (("all.clv", "--perplexity", "text", "--window", 8, "--stride", 8), "at most the 7"),
        (("all.clv", "--perplexity", "text", "--prompt", "x"), "excludes a prompt"),
        (("all.clv", "--prompt", "x", "--stride", 3), "need --perplexity"),
    ],
)
def test_refusals(clave, folder, args, part):
    p = clave(*args, "--stats-json", "never")
    assert p.returncode in (1, 2) and p.stdout == ""
    assert p.stderr.splitlines()[0].startswith("clave: ") and part in p.stderr
    assert not (folder / "never").exists()


@pytest.mark.parametrize("chunk", [1, 5, 0])
@pytest.mark.parametrize("name", KINDS)
def test_scores_go_on_from_a_conversation(folder, name, chunk):
    """Scores follow a prompt that was not run, or an answer, in two parts; later answers are unchanged."""
    dtype = torch.float16 if name == "half" else torch.float32
    talk = Talk(Llm(folder / f"{name}.clv", Device("cpu")), chunk=chunk).prompt([5, 6, 7])
    assert talk.score([]) == []
    scores = talk.score([8, 9, 200, 1]) + talk.score([299])
    want = log_probabilities([5, 6, 7, 8, 9, 200, 1, 299], dtype)
    assert scores == pytest.approx(want[3:], rel=1e-6)
    answer = talk.take(4)[0]
    assert answer == _models.reference([5, 6, 7, 8, 9, 200, 1, 299], 4, dtype)
    assert talk.score([3, 4]) == pytest.approx(log_probabilities(talk.ids(), dtype)[-2:], rel=1e-6)


def test_scores_from_the_beginning_to_the_end(folder):
    """The first id has nothing before it; the context may be filled to its last token, not beyond."""
    talk = Talk(Llm(folder / "all.clv", Device("cpu")))
    ids = list(range(100, 100 + _models.CONTEXT))
    with pytest.raises(Error, match="no space for an answer in the context of 64 tokens"):
        talk.score([*ids, 1])
    with pytest.raises(Error, match="ids below 300"):
        talk.score([1, 300])
    assert talk.ids() == []
    scores = talk.score(ids)
    assert math.isnan(scores[0]) and scores[1:] == pytest.approx(log_probabilities(ids)[1:], rel=1e-6)
    with pytest.raises(Error, match="leaves no space"):
        talk.score([1])
    with pytest.raises(Error, match="full"):
        talk.next()
    assert talk.ids() == ids


def paged_log_probabilities(ids):
    """Returns log_probabilities of the model whose state may be in pages."""
    with torch.no_grad():
        logits = [_models.Attends()(torch.tensor([ids[: i + 1]]), torch.tensor(0))[0] for i in range(len(ids) - 1)]
    return [math.nan, *torch.stack(logits).double().log_softmax(-1)[range(len(ids) - 1), ids[1:]].tolist()]


@pytest.mark.parametrize("device", ["cpu", "opencl"])
def test_programs_in_pages_score_in_pieces(folder, device):
    """Each piece is one run, whose logits are those of all its tokens; others in the pool are unchanged."""
    model, runs = Llm(folder / "paged.clv", Device(device)), {}
    assert model.info.page_rows == 32
    ids = [(7 * i * i + 3) % 300 for i in range(50)]
    want = paged_log_probabilities([5, 6, 7, *ids])
    answer = Talk(model).prompt([5, 6, 7, *ids]).take(4)[0]
    for chunk in (1, 2, 7, 32, 0):
        calls = []
        talk = Talk(model, chunk=chunk, cancel=lambda calls=calls: calls.append(1)).prompt([5, 6, 7])
        other = Talk(model).prompt([5, 6, 7, *ids[:20]])
        scores = talk.score(ids[:20])
        assert other.take(1)[0] == [Talk(model).prompt([5, 6, 7, *ids[:20]]).next()[0]]
        fork = talk.fork()
        scores += talk.score(ids[20:21]) + talk.score(ids[21:])
        runs[chunk] = len(calls)
        assert scores == pytest.approx(want[3:], rel=1e-4, abs=1e-5)
        assert fork.score(ids[20:]) == pytest.approx(want[23:], rel=1e-4, abs=1e-5)
        assert talk.ids() == fork.ids() == [5, 6, 7, *ids] and talk.take(4)[0] == fork.take(4)[0] == answer
    assert runs[0] * 4 < runs[1]


def test_perplexity_of_a_program_in_pages(clave, folder):
    """The perplexity does not depend on the size of pieces, and equals torch's."""
    ids, nats, n = list(TEXT), 0.0, 0
    for begin in range(0, len(ids), 39):
        scores = paged_log_probabilities([1, *ids[begin : begin + 39]])[1:]
        nats, n = nats - sum(scores), n + len(scores)
    for chunk in (1, 5, 40, 64):
        p = clave(
            "paged.clv", "--perplexity", "text", "--window", 40, "--prefill-chunk", chunk, "--stats-json", "stats"
        )
        assert measured(folder, p)["nats_per_token"] == pytest.approx(nats / n, rel=1e-5)
    for how, same in (("yes", True), ("auto", True), ("no", False)):
        p = clave("paged.clv", "--perplexity", "text", "--window", 40, "--bos", how, "--stats-json", "stats")
        assert (measured(folder, p)["nats_per_token"] == pytest.approx(nats / n, rel=1e-5)) == same
