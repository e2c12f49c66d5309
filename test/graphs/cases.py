"""Graphs that always run: the smallest ones that noticed a fault, by name."""

from graph import Graph, Input, Statement

SIZES = ({}, {})  # two sets of values


def case(inputs: list[Input], statements: list[Statement], sizes: tuple = SIZES) -> Graph:
    return Graph(0, tuple(inputs), tuple(statements), (statements[-1].target,), sizes)


def makes(name: str, code: str, rounds: str = "once") -> Statement:
    return Statement(f"{name} = {code}", name, rounds)


ROWS, PLACES = Input("x0", "F32", (5, 6)), Input("x1", "I64", (5,))

CASES = {
    # What is changed in place is also read through another view: in place only where nothing else lies in its bytes.
    "index_put_of_itself": case(
        [ROWS, PLACES],
        [makes("x2", "x0 * 2"), Statement("x2.index_put_((x1 % 5,), old(x2), accumulate=True)", "x2", "adds")],
    ),
    "index_add_of_itself_reversed": case(
        [ROWS, PLACES],
        [makes("x2", "x0 * 2"), Statement("x2.index_add_(0, x1 % 5, old(x2.flip(0)))", "x2", "adds")],
    ),
    "copy_of_itself_one_on": case([ROWS], [makes("x2", "x0 * 2"), Statement("x2[1:].copy_(old(x2[:-1]))", "x2", "no")]),
    # More elements than a block has, in columns and rows; sizes in the other order.
    "softmax_of_long_columns": case(
        [Input("x0", "F32", ("a", "b"))],
        [makes("x1", "torch.softmax(x0, 0)", "sum")],
        tuple({"a": a, "b": b} for a, b in ((300, 5), (129, 17), (128, 16), (4, 3), (2049, 2))),
    ),
    "matmul_of_some_tiles": case(
        [Input("x0", "F32", ("a", 40)), Input("x1", "F32", (40, "b"))],
        [makes("x2", "x0 @ x1", "sum")],
        tuple({"a": a, "b": b} for a, b in ((20, 33), (65, 17), (9, 64))),
    ),
    # A plan holds for the numbers that it was made for, not for the sizes alone.
    "number_that_is_no_size": case(
        [Input("x0", "F32", (9, 6)), Input("x1", "INT", (), "ones"), Input("x3", "INT", ())],
        [makes("x4", "x0.roll(x1, 0)[:x3] * x3")],
        ({}, {}, {}, {}),
    ),
    # Fused steps round to 16 bits like those that are run alone.
    "fused_half_steps": case(
        [Input("x0", "BF16", (300,), "wide")], [makes("x1", "x0 * 3"), makes("x2", "x1 + x0"), makes("x3", "x2 - x1")]
    ),
}
