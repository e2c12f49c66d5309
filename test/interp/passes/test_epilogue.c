/* Elementwise nodes that are fused into the epilogue of the op before them, and near misses. */
#include "ops/epilogue.h"

#include "interp/simulate.h"

#define SHAPED(rows, name) "{'shape': [{'literal': " #rows "}, {'literal': 6}], 'name': '" name "'}"
#define T(name) SHAPED(4, name)
#define HALF(name) "{'dtype': 'F16', 'shape': [{'literal': 4}, {'literal': 6}], 'name': '" name "'}"
#define PLANES(type, name) \
  "{'dtype': '" type       \
  "', 'shape': [{'literal': 2}, {'literal': 2}, {'literal': 3}], 'name': '" name "'}"
#define NODE(type, name, fields) "{'op_type': '" type "', 'op': {" fields "}, 'name': '" name "'}"
#define ID(n) "{'idx': " #n "}"
#define NORM(x, out) NODE("RmsNorm", "norm", "'x': " ID(x) ", 'out': " ID(out))
#define SOFTMAX(x, out) NODE("Softmax", "softmax", "'x': " ID(x) ", 'out': " ID(out))
#define STEP(kind, type, inputs, operands, out)                                 \
  NODE("Elementwise", kind,                                                     \
       "'inputs': [" inputs "], 'steps': [{'kind': '" kind "', 'dtype': '" type \
       "', 'operands': [" operands "]}], 'out': " ID(out))
#define EXP(x, out) STEP("exp", "F32", ID(x), "{}", out)
#define ADD(x, y, out) STEP("add", "F32", ID(x) ", " ID(y), "{}, {'index': 1}", out)
#define SQUARE(x, out) STEP("mul", "F32", ID(x), "{}, {}", out)
#define CAST(type, x, out) STEP("cast", type, ID(x), "{}", out)
#define PROGRAM(tensors, instructions)                                                     \
  "{'version': 3, 'producer': 'test', 'n_inputs': 1, 'n_outputs': 1, 'tensors': [" tensors \
  "], 'chains': [{'name': 'forward', 'instructions': [" instructions                       \
  "]}], 'methods': [{'name': 'forward', 'inputs': [{'name': 'x', 'tensor': {'idx': 0}}], " \
  "'outputs': [{'name': 'y', 'tensor': {'idx': 1}}], 'updates': [], 'metadata': ''}]}"
#define FIRST T("x") "," T("y")

static const struct {
  const char *what, *text;
  uint32_t left;    /* instructions */
  uint32_t steps;   /* steps in the epilogue of the last node */
  uint32_t inputs;  /* inputs of the epilogue, */
  const char *name; /* and whose node it is */
} rows[] = {
    {"one node", PROGRAM(FIRST "," T("a"), NORM(0, 2) "," EXP(2, 1)), 1, 1, 0, "norm"},
    {"a chain", PROGRAM(FIRST "," T("a") "," T("b"), NORM(0, 2) "," EXP(2, 3) "," ADD(3, 0, 1)), 1,
     2, 1, "norm"},
    {"of two results the later one's",
     PROGRAM(FIRST "," T("a") "," T("b"), NORM(0, 2) "," NORM(0, 3) "," ADD(3, 2, 1)), 2, 1, 1,
     "norm"},
    {"an op that takes none", PROGRAM(FIRST "," T("a"), SOFTMAX(0, 2) "," EXP(2, 1)), 2, 0, 0,
     "exp"},
    {"a result that the node reads twice", PROGRAM(FIRST "," T("a"), NORM(0, 2) "," SQUARE(2, 1)),
     1, 1, 0, "norm"},
    {"one that is two inputs", PROGRAM(FIRST "," T("a"), NORM(0, 2) "," ADD(2, 2, 1)), 2, 0, 0,
     "add"},
    {"one that another op reads",
     PROGRAM(FIRST "," T("a") "," T("b"), NORM(0, 2) "," SOFTMAX(2, 3) "," ADD(2, 3, 1)), 3, 0, 0,
     "add"},
    {"an output", PROGRAM(FIRST "," T("a"), NORM(0, 1) "," EXP(1, 2)), 2, 0, 0, "exp"},
    {"another dtype", PROGRAM(T("x") "," HALF("y") "," T("a"), NORM(0, 2) "," CAST("F16", 2, 1)), 2,
     0, 0, "cast"},
    {"another dtype of sums of integers",
     PROGRAM(PLANES("I8", "x") "," PLANES("U8", "y") "," PLANES("I32", "a"),
             NODE("ConvInteger", "conv",
                  "'x': " ID(0) ", 'weight': " ID(0) ", 'stride': [1], 'padding': [1], "
                                                     "'dilation': [1], 'out': " ID(
                                                         2)) "," CAST("U8", 2, 1)),
     1, 1, 0, "conv"},
    {"a result that is repeated",
     PROGRAM(SHAPED(1, "x") "," T("y") "," SHAPED(1, "a") "," T("b"),
             NORM(0, 2) "," NODE("Expand", "expand",
                                 "'x': " ID(0) ", 'shape': [{'literal': 4}, {'literal': 6}], "
                                               "'out': " ID(3)) "," ADD(2, 3, 1)),
     3, 0, 0, "add"},
};

static void nodes_become_epilogues(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    null_device device;
    executable *executable;
    program *program = program_of(rows[i].text);
    device_set set = null_devices(&device, 1);
    good(executable_create(program, &set, &(executable_options){0}, &executable));
    const graph *graph = &executable->methods[0].graph;
    const ir_instruction *last = &graph->instructions[graph->n - 1];
    const ir_steps *steps = epilogue_of(last);
    uint32_t inputs[MAX_STEP_INPUTS] = {0};
    if (graph->n != rows[i].left || (steps ? steps->count : 0) != rows[i].steps)
      fail_msg("%s: %u instructions are left, the last has %u steps", rows[i].what, graph->n,
               steps ? steps->count : 0);
    assert_string_equal(last->name, rows[i].name);
    if (steps) assert_int_equal(epilogue_alone(last, inputs).inputs.count, 1 + rows[i].inputs);
    executable_destroy(executable);
    program_destroy(program);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(nodes_become_epilogues)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
