"""Step 3, optimisation: runs clave's passes on a program (all, or those of --pass), and prints the IR before and
after. `clave optimize` does the same without printing the IR.
"""

from __future__ import annotations

import argparse

import clave
from clave.command import run


def describe(program: clave.Program) -> str:
    """Lists the instructions of each chain, one per line: the node of torch's graph and the op."""
    chains = program.schema.chains
    return "\n".join(f"  {i.name:<40} {type(i.op).__name__}" for chain in chains for i in chain.instructions)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="PROG")
    parser.add_argument("output", metavar="OUT")
    parser.add_argument("--pass", dest="passes", action="append", metavar="NAME", help="run only this pass; repeatable")

    def command(options: argparse.Namespace) -> None:
        before = clave.load(options.program)
        after = before.optimized(options.passes)
        after.save(options.output)
        did = ", ".join(f"{name} {times}" for name, times in after.passes.items())
        print(f"before\n{describe(before)}\npasses: {did or 'nothing to do'}\nafter\n{describe(after)}")

    return run(command, parser.parse_args(), "export")


if __name__ == "__main__":
    raise SystemExit(main())
