"""Costs and savings of conversations that share pages: a single conversation, memory of forks, tokens per second of
concurrent ones, and the cost of a new prompt length. Builds without pages skip concurrent conversations.

bench/pages.py MODEL.clv [DEVICE]: the model needs a context of at least 512 tokens.
"""

import random
import resource
import statistics
import sys
import time

import clave

ONE, FORKS, PROMPT, NEW_TOKENS, ROUNDS = 448, 16, 900, 32, 3  # tokens, except FORKS and ROUNDS


def megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def bench_one(llm, ids):
    """Returns the minimum time of a prompt with its first token, and of a later token."""
    best = [float("inf")] * 2
    for _ in range(ROUNDS):
        talk, begin = llm.conversation(ignore_stop_ids=True), time.perf_counter()
        talk.prompt(ids(ONE)).generate(max_new_tokens=1)
        middle = time.perf_counter()
        talk.generate(max_new_tokens=NEW_TOKENS)
        best = [min(best[0], middle - begin), min(best[1], (time.perf_counter() - middle) / NEW_TOKENS)]
    print(f"one conversation: {ONE} tokens {best[0] * 1e3:.1f} ms, then {best[1] * 1e3:.2f} ms a token")


def bench_forks(llm, ids):
    """Forks a long conversation and continues each fork separately."""
    first = llm.conversation(ignore_stop_ids=True).prompt(ids(min(PROMPT, llm.max_context - 64)))
    first.generate(max_new_tokens=1)
    before, begin = megabytes(), time.perf_counter()
    forks = [first.fork() for _ in range(FORKS)]
    seconds = (time.perf_counter() - begin) / FORKS
    for i, fork in enumerate(forks):
        fork.prompt([5 + i]).generate(max_new_tokens=4)
    print(f"{FORKS} forks: {seconds * 1e3:.2f} ms each, {before:.0f} MB before, {megabytes() - before:.0f} MB more")


def bench_each(llm, ids, n):
    """Runs n conversations one after the other, and concurrently."""
    options = {"max_new_tokens": NEW_TOKENS, "ignore_stop_ids": True}
    ways = (lambda ps: [llm.generate(p, **options) for p in ps]), (lambda ps: llm.generate_each(ps, **options))
    best = [float("inf")] * 2
    for _ in range(ROUNDS):
        for i, way in enumerate(ways):
            prompts = [ids(32) for _ in range(n)]
            begin = time.perf_counter()
            way(prompts)
            best[i] = min(best[i], time.perf_counter() - begin)
    alone, together = (n * NEW_TOKENS / seconds for seconds in best)
    print(f"{n} conversations: {alone:.1f} tokens/s one after the other, {together:.1f} together")


def bench_lengths(llm, ids, lengths):
    """Extra CPU time of a prompt with a new length: the first of three runs minus the second. As a measure of noise,
    also the second minus the third. Medians over all lengths."""
    talk, rows = llm.conversation(ignore_stop_ids=True), []
    random.Random(4).shuffle(lengths := list(lengths))
    for n in [*lengths[:2], *lengths]:  # the first two warm the process up
        prompt, seconds = ids(n), []
        for _ in range(3):
            begin = time.process_time()
            talk.reset().prompt(prompt).generate(max_new_tokens=1)
            seconds.append(time.process_time() - begin)
        rows.append((seconds[0] - seconds[1], seconds[1] - seconds[2], seconds[1], seconds[1] / n))
    new, noise, run, token = (statistics.median(column) * 1e3 for column in zip(*rows[2:], strict=True))
    print(f"{min(lengths)} to {max(lengths)} tokens: {run:.1f} ms, {token:.2f} a token; a length that is new", end=" ")
    print(f"{new:.2f} ms ({noise:+.2f}), {new / run:.1%}, {new / token:.1f} tokens")


def main():
    llm, random_ids = clave.LLM(*sys.argv[1:]), random.Random(3)
    ids = lambda n: [random_ids.randrange(3, 500) for _ in range(n)]
    bench_one(llm, ids)
    bench_forks(llm, ids)
    for lengths in (range(10, 50), range(100, 120)):
        bench_lengths(llm, ids, lengths)
    for n in (4, 8) if hasattr(llm, "generate_each") else ():
        bench_each(llm, ids, n)


if __name__ == "__main__":
    main()
