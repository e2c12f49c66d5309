"""Graphs that always run: the smallest graphs that detected a fault, by name."""

from graph import Graph, Input, Statement

SIZES = ({}, {})  # two sets of values


def case(inputs: list[Input], statements: list[Statement], sizes: tuple = SIZES) -> Graph:
    return Graph(0, tuple(inputs), tuple(statements), (statements[-1].target,), sizes)


def makes(name: str, code: str, rounds: str = "once") -> Statement:
    return Statement(f"{name} = {code}", name, rounds)


ROWS, PLACES = Input("x0", "F32", (5, 6)), Input("x1", "I64", (5,))

CASES = {
    # A tensor that is changed in place is read through another view, so only unshared bytes may change in place.
    "index_put_of_itself": case(
        [ROWS, PLACES],
        [makes("x2", "x0 * 2"), Statement("x2.index_put_((x1 % 5,), old(x2), accumulate=True)", "x2", "adds")],
    ),
    "index_add_of_itself_reversed": case(
        [ROWS, PLACES],
        [makes("x2", "x0 * 2"), Statement("x2.index_add_(0, x1 % 5, old(x2.flip(0)))", "x2", "adds")],
    ),
    "copy_of_itself_one_on": case([ROWS], [makes("x2", "x0 * 2"), Statement("x2[1:].copy_(old(x2[:-1]))", "x2", "no")]),
    # Columns and rows have more elements than a block; sizes come in the other order.
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
    # A plan is valid for the numbers for which it was made, not only for the sizes.
    "number_that_is_no_size": case(
        [Input("x0", "F32", (9, 6)), Input("x1", "INT", (), "ones"), Input("x3", "INT", ())],
        [makes("x4", "x0.roll(x1, 0)[:x3] * x3")],
        ({}, {}, {}, {}),
    ),
    # Fused steps round to 16 bits like steps that are run separately.
    "fused_half_steps": case(
        [Input("x0", "BF16", (300,), "wide")], [makes("x1", "x0 * 3"), makes("x2", "x1 + x0"), makes("x3", "x2 - x1")]
    ),
    # The decomposition keeps its operand's strides.
    "lerp_of_transposed": case(
        [Input("x0", "BF16", (1, 2, 3)), Input("x1", "BF16", (1, 3, 2))], [makes("x2", "torch.lerp(x0.mT, x1, 0.25)")]
    ),
    # Scores are finite only after scaling.
    "attention_of_huge_queries": case(
        [Input("x0", "F32", (6, 20, 3), "special"), Input("x1", "F32", (6, 9, 3)), Input("x2", "F32", (6, 9, 2))],
        [makes("x3", "F.scaled_dot_product_attention(x0, x1, x2)", "sum")],
        ({},) * 6,
    ),
    "attention_of_huge_query": case(
        [Input("x0", "BF16", (6, 1, 3), "special"), Input("x1", "BF16", (6, 6, 3)), Input("x2", "BF16", (1, 6, 1))],
        [makes("x3", "F.scaled_dot_product_attention(x0, x1, x2)", "sum")],
        ({},) * 6,
    ),
    # There are fewer keys than a kernel reads at once, and nothing after the last key may count.
    "attention_to_infinite_values": case(
        [Input("x0", "F32", (2, 20, 4)), Input("x1", "F32", (2, 6, 4)), Input("x2", "F32", (2, 6, 3), "special")],
        [makes("x3", "F.scaled_dot_product_attention(x0, x1, x2)", "sum")],
        ({},) * 6,
    ),
    # torch.export fixes a to 6, without a guard; at 63 nothing is compared.
    "size_that_export_fixes": case(
        [Input("x0", "I32", (3, "a")), Input("x1", "I64", (3,))],
        [
            makes("x2", "x0 * 2"),
            makes("x3", "x2.unfold(1, 2, 3)", "no"),
            Statement("x3.index_put_((x1 % x3.shape[0],), old(x3.flip(0)), accumulate=True)", "x3", "adds"),
            makes("x4", "x3 + 1"),
        ],
        ({"a": 6}, {"a": 3}, {"a": 63}),
    ),
}
