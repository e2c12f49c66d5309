"""clave.llm.LLMExporter of small folders: the tokens that transformers' own model takes greedily, family by family."""

import pytest

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers", reason="needs transformers (ci/requirements.txt)")

from _folders import CONTEXT, FAMILIES, VOCAB, folder_of

import clave
from clave.llm import LLMExporter

N_NEW = 64
PROMPTS = ((1,), (7,), (64,), (30, 1, 20, 13))  # lengths of pieces
IDS = torch.randint(3, VOCAB, (1, 64), generator=torch.Generator().manual_seed(0))


def greedy(session, prompt, pieces, n_new):
    """The prompt and what follows, and the logits of all that was decided: (n_new, VOCAB)."""
    ids, at, logits = prompt, 0, []
    for n in pieces:
        last = session(ids[:, at : at + n], torch.tensor(at))
        at += n
    while len(logits) < n_new:
        logits.append(last[0].float())
        ids = torch.cat([ids, last.argmax(-1, keepdim=True)], 1)
        last = session(ids[:, -1:], torch.tensor(ids.shape[1] - 1))
    return ids, torch.stack(logits)


@torch.no_grad()
def check_greedy(session, model, pieces, tolerance=1e-3):
    """A token may be another only where the model itself hardly prefers its own."""
    n = sum(pieces)
    ids, got = greedy(session, IDS[:, :n], pieces, N_NEW)
    want = model(ids, use_cache=False).logits[0, n - 1 : -1].float()
    largest = want.abs().max()
    torch.testing.assert_close(got, want, rtol=0, atol=float(tolerance * largest))
    top = want.topk(2).values
    differ = ids[0, n:] != want.argmax(-1)
    assert not (differ & (top[:, 0] - top[:, 1] > 1e-4 * largest)).any()


@pytest.mark.by_turn(8)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_gives_transformers_tokens(name, tmp_path):
    folder, model = folder_of(tmp_path / "m", name)
    path = LLMExporter(folder, max_context=CONTEXT, prompt_piece=16).save(tmp_path / "m.clv")
    for device in ("cpu", "opencl"):
        session = clave.Session(path, device)
        for pieces in PROMPTS:
            session.reset()
            check_greedy(session, model, pieces)
