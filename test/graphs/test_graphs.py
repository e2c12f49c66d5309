"""The programs around random graphs: generation, shrinking and judging."""

import argparse
import os
import pathlib
import subprocess
import sys

import pytest
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import report
import run
from cases import case, makes
from execute import Failure, Trial, export
from generate import Builder, make_graph
from graph import Graph, Input, Statement, prune
from optimized import check, compare_with_oracle, pass_names, rewritten
from oracle import Oracle, judge
from shrink import PASSES


def test_a_name_has_one_rank_at_all_sizes():
    b = next(b for b in map(Builder, range(100)) if b.dynamic and 1 not in b.sizes[0].values())
    b.sizes[1]["a"] = 1
    assert b.add_input("F32", ("a", 5)) == "x0"
    assert not b.try_statement(Statement("x1 = x0.squeeze()", "x1", "no"))
    assert b.try_statement(Statement("x1 = x0.flatten()", "x1", "no"))


@pytest.mark.parametrize("seed", range(12))
def test_all_smaller_graphs_can_be_pruned(seed):
    graph = make_graph(seed)
    assert all(isinstance(prune(c), Graph) for candidates in PASSES for c in candidates(graph))


def test_what_changed_the_output_in_place_goes_with_it():
    graph = case([Input("x0", "F32", (3,))], [makes("x1", "x0 * 2"), Statement("x1.add_(1)", "x1")])
    smaller = [prune(c) for candidates in PASSES for c in candidates(graph)]
    assert any(not c.statements and c.outputs == ("x0",) for c in smaller)


def test_a_fault_of_the_shrinker_is_told(monkeypatch, capsys):
    def fail(*_):
        raise KeyError("x8")

    monkeypatch.setattr(run, "explain", fail)
    run.explain_safely(7, ("values", "", ()), argparse.Namespace())
    assert "graph 7, made small" in (text := capsys.readouterr().out) and "KeyError: 'x8'" in text


def judged(graph, wrong):
    """Calls check() of a graph's program with another graph's program in place of the rewritten one."""
    trial = Trial(graph, *export(graph), "cpu")
    oracle = Oracle(graph)
    answers = [oracle.run(a) for a in trial.arguments]
    check(trial, {"all passes": export(wrong)[0]}, answers)


def test_a_rewritten_program_has_the_same_bits():
    graph = case([Input("x0", "F32", (300,))], [makes("x1", "x0 * 0.3 + x0")])
    judged(graph, graph)
    with pytest.raises(Failure, match=r"output 0: all passes: other bits than without passes"):
        judged(graph, case([Input("x0", "F32", (300,))], [makes("x1", "x0 * 1.3")]))
    with pytest.raises(Failure, match=r"all passes: inputs 0, output 0: .* torch's"):
        judged(graph, case([Input("x0", "F32", (300,))], [makes("x1", "x0 * 1.31")]))


def test_each_pass_runs_alone_by_turn():
    graph = case([Input("x0", "F32", (4, 5))], [makes("x1", "x0.mT.mT * torch.sigmoid(x0)")])
    plain = export(graph)[0]
    names = pass_names(plain)
    assert {"view", "silu", "attention"} <= set(names)
    every = rewritten(graph, plain)
    assert list(every) == ["all passes", *(f"{n} alone" for n in names)]
    assert every["all passes"].passes["silu"] == 1 and every["view alone"].passes.keys() == {"view"}
    by_turn = [list(rewritten(make_graph(seed), plain))[1:] for seed in range(len(names))]
    assert sorted(by_turn) == sorted([f"{n} alone"] for n in names)


def test_what_fails_can_be_replayed(tmp_path):
    graph = case([Input("x0", "F32", (4, 5))], [makes("x1", "x0 * 0.3")])
    command = report.write(graph, Failure("values", "cpu: no pass: inputs 0, output 0: wrong", ("cpu", 0, 0)), tmp_path)
    build = pathlib.Path(os.environ.get("CLAVE_BUILD", run.ROOT / "build"))
    command = command.replace("build/test/replay", str(build / "test/replay"))
    replayed = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert "1 passed, 0 failed" in replayed.stdout, replayed.stdout + replayed.stderr


def test_refused_sizes_end_a_run_of_states():
    """After a refused run, the state of a sequence of runs differs from torch's."""
    graph = case([Input("x0", "F32", (4,))], [makes("x1", "x0 * 0.3")])
    trial = Trial(graph, *export(graph), "cpu")
    oracle = Oracle(graph)
    fresh = [oracle.run(a) for a in trial.arguments]
    right = trial.outputs(trial.program)
    n, wrong = len(fresh), [[right[0][0] + 1]]
    compare_with_oracle(trial, "no pass", [*right, None, *wrong * (n - 1)], fresh * 2)
    with pytest.raises(Failure, match="no pass: inputs 0"):
        compare_with_oracle(trial, "no pass", [*right, *wrong * n], fresh * 2)


def test_a_sum_whose_terms_overflow_may_be_infinite():
    """A sum whose terms overflow may be infinite, by its order, though it is finite; a sum of smaller terms may not."""
    graph = case([Input("x0", "F32", (2, 3)), Input("x1", "F32", (3, 1))], [makes("x2", "x0 @ x1", rounds="sum")])
    x0 = torch.tensor([[3e38, -3e38, 3e38], [3e37, -3e37, 3e37]])
    (answer,) = Oracle(graph).run({"x0": x0, "x1": torch.ones(3, 1)})
    assert answer.want.isfinite().all()
    assert judge(answer, torch.tensor([[torch.inf], [3e37]])) == ""
    assert "is inf" in judge(answer, torch.tensor([[3e38], [torch.inf]]))
