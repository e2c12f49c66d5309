/* Tests the verifier: each test makes one edit of a valid program, and expects a one-line error. */
#include "serialize/limits.h"
#include "test/serialize/sample.h"

typedef struct edit {
  const char *from, *to, *error;
} edit;

/* Returns the text with the first `from` replaced. */
static char *replace(const char *source, const char *from, const char *to) {
  const char *at = strstr(source, from);
  if (!at) fail_msg("'%s' is not in the program", from);
  size_t head = (size_t)(at - source), n = strlen(source) + strlen(to) + 1;
  char *result = malloc(n);
  (void)snprintf(result, n, "%.*s%s%s", (int)head, source, to, at + strlen(from));
  return result;
}

static const edit edits[] = {
    /* declarations */
    {"\"version\": 1", "\"version\": 9", NULL}, /* program_create fills it in */
    {"\"n_inputs\": 1", "\"n_inputs\": 99",
     "2 constants, 99 inputs, 1 outputs and 1 states, but only 11 tensors"},
    {"\"n_inputs\": 1", "\"n_inputs\": 4294967295", "but only 11 tensors"},
    {"{\"literal\": 3}, {\"literal\": 4}", "{\"literal\": -3}, {\"literal\": 4}",
     "dimension of size -3: expected 0 or more; tensor 0 ('w')"},
    {"{\"literal\": 3}, {\"literal\": 4}", "{\"vid\": {\"idx\": 0}}, {\"literal\": 4}",
     "tensor 0 ('w') is a constant, so its shape must be fixed"},
    {"\"I64\", \"shape\": [{\"literal\": 2}], \"name\": \"count\"",
     "\"I64\", \"shape\": [{\"vid\": {\"idx\": 0}}], \"name\": \"count\"",
     "state 4 and its initial value, constant 1, differ in dtype or shape"},
    {"{\"vid\": {\"idx\": 0}}", "{\"vid\": {\"idx\": 2}}",
     "dimension is value 2, which is out of range: the program has 2; tensor 2 ('x')"},
    {"{\"vid\": {\"idx\": 0}}", "{\"vid\": {\"idx\": 1}}",
     "dimension is value 1, which is not an int; tensor 2 ('x')"},
    {"{\"literal\": 3}, {\"literal\": 4}",
     "{\"literal\": 1},{\"literal\": 1},{\"literal\": 1},{\"literal\": 1},{\"literal\": 1},"
     "{\"literal\": 1},{\"literal\": 1},{\"literal\": 1},{\"literal\": 1}",
     "expected rank 0 to 8, got 9; tensor 0 ('w')"},
    {"{\"literal\": 3}, {\"literal\": 4}",
     "{\"literal\": \"4611686018427387904\"}, {\"literal\": 4}",
     "the size of the tensor overflows; tensor 0 ('w')"},
    {"{\"literal\": 3}, {\"literal\": 4}",
     "{\"literal\": 0}, {\"literal\": \"9223372036854775807\"}",
     "the size of the tensor overflows; tensor 0 ('w')"},
    {"\"name\": \"w\"}", "\"name\": \"w\", \"encoding\": {\"kind\": \"blocked\"}}",
     "encoding blocked is not supported; tensor 0 ('w')"},
    {"\"name\": \"w\"}",
     "\"name\": \"w\", \"encoding\": {\"kind\": \"group_quantized\", \"bits\": 1}}",
     "codes: expected 2 to 8 bits, got 1; tensor 0 ('w')"},
    {"\"name\": \"w\"}",
     "\"name\": \"w\", \"encoding\": {\"kind\": \"group_quantized\", \"bits\": 9}}",
     "codes: expected 2 to 8 bits, got 9; tensor 0 ('w')"},
    {"\"name\": \"w\"}",
     "\"name\": \"w\", \"encoding\": {\"kind\": \"group_quantized\", \"bits\": 4, \"code\": "
     "\"e4m3\"}}",
     "floats: expected 8 bits, got 4; tensor 0 ('w')"},
    {"\"name\": \"w\"}",
     "\"name\": \"w\", \"encoding\": {\"kind\": \"group_quantized\", \"bits\": 4, \"group\": 24}}",
     "groups: expected a multiple of 16, or 0 for whole rows, got 24; tensor 0 ('w')"},
    {"\"name\": \"w\"}",
     "\"name\": \"w\", \"encoding\": {\"kind\": \"group_quantized\", \"bits\": 4, \"group\": -16}}",
     "groups: expected a multiple of 16, or 0 for whole rows, got -16; tensor 0 ('w')"},
    {"\"name\": \"w\"}",
     "\"name\": \"w\", \"encoding\": {\"kind\": \"group_quantized\", \"bits\": 4, \"scale\": "
     "\"F64\"}}",
     "scales: expected F32, F16 or BF16, got F64; tensor 0 ('w')"},
    {"\"name\": \"w\"}",
     "\"name\": \"w\", \"encoding\": {\"kind\": \"group_quantized\", \"bits\": 4, \"axis\": 2}}",
     "rows: axis 2 is out of range for rank 2; tensor 0 ('w')"},
    {"\"name\": \"w\"}",
     "\"name\": \"w\", \"encoding\": {\"kind\": \"group_quantized\", \"bits\": 4, \"axis\": -1}}",
     "rows: axis -1 is out of range for rank 2; tensor 0 ('w')"},
    {"\"name\": \"w\"}",
     "\"name\": \"w\", \"encoding\": {\"kind\": \"block_format\", \"axis\": 1, \"format\": "
     "\"Q9_9\"}}",
     "block format 'Q9_9' is not supported; tensor 0 ('w')"},
    {"\"name\": \"w\"}",
     "\"name\": \"w\", \"encoding\": {\"kind\": \"block_format\", \"axis\": 1}}",
     "block format '' is not supported; tensor 0 ('w')"},
    {"\"name\": \"w\"}",
     "\"name\": \"w\", \"encoding\": {\"kind\": \"block_format\", \"axis\": 0, \"format\": "
     "\"Q8_0\"}}",
     "rows: expected a multiple of Q8_0's 32, got 12; tensor 0 ('w')"},
    {"\"name\": \"w\"}",
     "\"name\": \"w\", \"encoding\": {\"kind\": \"block_format\", \"axis\": 1, \"format\": "
     "\"Q8_0\"}}",
     "rows: expected a multiple of Q8_0's 32, got 4; tensor 0 ('w')"},
    {"\"name\": \"w\"}",
     "\"name\": \"w\", \"encoding\": {\"kind\": \"group_quantized\", \"bits\": 4, \"axis\": 1}}",
     "b_transposed: expected true as b is encoded, got false"},
    {"\"name\": \"x\"}",
     "\"name\": \"x\", \"encoding\": {\"kind\": \"group_quantized\", \"bits\": 4}}",
     "is encoded, so its shape must be fixed; tensor 2 ('x')"},
    {"\"name\": \"w\"}", "\"name\": \"w\", \"encoding\": {\"kind\": \"plain\"}}", NULL},
    {"\"min\": 1, \"max\": 64", "\"min\": 65, \"max\": 64",
     "value 0 ('n') has min 65 above max 64"},
    {"\"type\": \"bool_\"", "\"type\": \"bool_\", \"min\": 0",
     "value 1 ('flag') has bounds but is not an int"},
    {"\"constants\": [{\"name\": \"w\"}", "\"constants\": [{\"name\": \"start\"}",
     "two constants are named 'start'"},
    {"\"constants\": [{\"name\": \"w\"}", "\"constants\": [{\"name\": \"\"}",
     "constant 0 has no name"},
    {"{\"state\": {\"idx\": 4}, \"constant\": {\"idx\": 1}}",
     "{\"state\": {\"idx\": 5}, \"constant\": {\"idx\": 1}}",
     "tensor 5 is not a state; state_inits[0]"},
    {"{\"state\": {\"idx\": 4}, \"constant\": {\"idx\": 1}}",
     "{\"state\": {\"idx\": 4}, \"constant\": {\"idx\": 2}}",
     "tensor 2 is not a constant; state_inits[0]"},
    {"{\"state\": {\"idx\": 4}, \"constant\": {\"idx\": 1}}",
     "{\"state\": {\"idx\": 4}, \"constant\": {\"idx\": 0}}",
     "state 4 and its initial value, constant 0, differ"},
    {"{\"state\": {\"idx\": 4}, \"constant\": {\"idx\": 1}}",
     "{\"state\": {\"idx\": 4}, \"constant\": {\"idx\": 1}}, {\"state\": {\"idx\": 4}, "
     "\"constant\": {\"idx\": 1}}",
     "tensor 4 ('count') has two initial values; state_inits[1]"},
    /* methods */
    {"\"name\": \"count\", \"inputs\"", "\"name\": \"forward\", \"inputs\"",
     "two methods are named 'forward'"},
    {"\"name\": \"count\", \"inputs\"", "\"name\": \"\", \"inputs\"", "method 1 has no name"},
    {"{\"name\": \"x\", \"tensor\": {\"idx\": 2}}", "{\"name\": \"x\"}",
     "expected either a tensor or a value; input 'x'; method 'forward'"},
    {"{\"name\": \"x\", \"tensor\": {\"idx\": 2}}",
     "{\"name\": \"x\", \"tensor\": {\"idx\": 2}, \"value\": {\"idx\": 0}}",
     "either a tensor or a value"},
    {"{\"name\": \"x\", \"tensor\": {\"idx\": 2}}", "{\"name\": \"x\", \"tensor\": {\"idx\": 3}}",
     "'): expected input slot, got output slot; input 'x'; method 'forward'"},
    {"{\"name\": \"x\", \"tensor\": {\"idx\": 2}}", "{\"name\": \"x\", \"tensor\": {\"idx\": 77}}",
     "tensor 77 is out of range: the program has 11; input 'x'"},
    {"{\"name\": \"x\", \"tensor\": {\"idx\": 2}}",
     "{\"name\": \"x\", \"tensor\": {\"idx\": 2}}, {\"name\": \"z\", \"tensor\": {\"idx\": 2}}",
     "tensor 2 ('x') appears twice; input 'z'"},
    {"{\"name\": \"x\", \"tensor\": {\"idx\": 2}}",
     "{\"name\": \"x\", \"tensor\": {\"idx\": 2}}, {\"name\": \"x\", \"value\": {\"idx\": 1}}",
     "two inputs are named 'x'"},
    {"{\"name\": \"flag\", \"value\": {\"idx\": 1}}",
     "{\"name\": \"flag\", \"value\": {\"idx\": 8}}", "value 8 is out of range: the program has 2"},
    {"{\"name\": \"flag\", \"value\": {\"idx\": 1}}",
     "{\"name\": \"flag\", \"value\": {\"idx\": 1}}, {\"name\": \"f\", \"value\": {\"idx\": 1}}",
     "value 1 ('flag') is set twice; input 'f'"},
    {"\"outputs\": [{\"name\": \"y\", \"tensor\": {\"idx\": 3}}], ", "",
     "1 output slots are written, and the method has 0 outputs"},
    {"\"outputs\": [{\"name\": \"y\", \"tensor\": {\"idx\": 3}}]",
     "\"outputs\": [{\"name\": \"y\", \"tensor\": {\"idx\": 5}}]",
     "'): expected output slot, got temporary slot; output 'y'"},
    {"\"outputs\": [{\"name\": \"y\", \"tensor\": {\"idx\": 3}}]",
     "\"outputs\": [{\"name\": \"y\", \"value\": {\"idx\": 1}}]",
     "value 1 ('flag') is read before it is set; output 'y'"},
    {"\"updates\": [{\"state\": {\"idx\": 4}, \"value\": {\"idx\": 6}}]",
     "\"updates\": [{\"state\": {\"idx\": 3}, \"value\": {\"idx\": 6}}]",
     "tensor 3 ('y') is not a state; updates[0]; method 'forward'"},
    {"\"updates\": [{\"state\": {\"idx\": 4}, \"value\": {\"idx\": 6}}]",
     "\"updates\": [{\"state\": {\"idx\": 4}, \"value\": {\"idx\": 5}}]",
     "tensor 5 ('t5') differs in dtype or shape from the state that it updates"},
    {"\"updates\": [{\"state\": {\"idx\": 4}, \"value\": {\"idx\": 6}}]",
     "\"updates\": [{\"state\": {\"idx\": 4}, \"value\": {\"idx\": 10}}]",
     "tensor 10 ('t10') is read before it is written; updates[0]"},
    {"\"updates\": [{\"state\": {\"idx\": 4}, \"value\": {\"idx\": 6}}]",
     "\"updates\": [{\"state\": {\"idx\": 4}, \"value\": {\"idx\": 6}}, {\"state\": {\"idx\": 4}, "
     "\"value\": {\"idx\": 1}}]",
     "tensor 4 ('count') is updated twice; updates[1]"},
    /* chains */
    {"\"chain\": 1", "\"chain\": 0", "chain 0 is used twice; method 'count'"},
    {"\"chain\": 1", "\"chain\": 2",
     "tensor 10 ('t10') is read before it is written; updates[0]; method 'count'"},
    {"\"chain\": 1", "\"chain\": 9", "chain 9 is out of range: the program has 4; method 'count'"},
    {"\"then_chain\": 2", "\"then_chain\": 9",
     "then_chain is 9, the program has 4 chains; then_chain; node 0 (branch, if); "
     "method 'count'"},
    {"\"then_chain\": 2, \"else_chain\": 3", "\"then_chain\": 2, \"else_chain\": 2",
     "chain 2 is used twice; node 0 (branch, if)"},
    {"\"then_chain\": 2, \"else_chain\": 3", "\"then_chain\": 1, \"else_chain\": 3",
     "the chain's args: expected 1, got 0"},
    {"\"else\", \"instructions\": [",
     "\"else\", \"instructions\": [{\"op_type\": \"If\", \"op\": {\"condition\": {\"idx\": 1}, "
     "\"then_chain\": 3, \"else_chain\": 3, \"args\": [{\"idx\": 8}], \"results\": [{\"idx\": "
     "9}]}}, ",
     "chain 3 is used twice"},
    {"\"args\": [{\"idx\": 7}], \"results\": [{\"idx\": 7}]",
     "\"args\": [{\"idx\": 7}], \"results\": [{\"idx\": 99}]",
     "tensor 99 is out of range: the program has 11; chain 2"},
    {"\"args\": [{\"idx\": 7}], \"results\": [{\"idx\": 7}]",
     "\"args\": [{\"idx\": 7}], \"results\": [{\"idx\": 9}]",
     "tensor 9 ('t9') is read before it is written; results[0]; chain 2"},
    {"\"args\": [{\"idx\": 7}], \"results\": [{\"idx\": 7}]",
     "\"args\": [{\"idx\": 4}], \"results\": [{\"idx\": 4}]",
     "tensor 4 ('count'): expected temporary slot"},
    {"\"args\": [{\"idx\": 8}], \"results\": [{\"idx\": 9}]",
     "\"args\": [{\"idx\": 7}], \"results\": [{\"idx\": 7}]",
     "tensor 7 ('t7') is written twice; args[0]; chain 3"},
    {"\"x\": {\"idx\": 8}, \"out\": {\"idx\": 9}", "\"x\": {\"idx\": 7}, \"out\": {\"idx\": 9}",
     "tensor 7 ('t7') is written only inside another chain; x; node 0 (copy); chain 3; node 0 "
     "(branch, if); method 'count'"},
    {"\"value\": {\"idx\": 10}}], \"chain\": 1", "\"value\": {\"idx\": 9}}], \"chain\": 1",
     "is written only inside another chain; updates[0]"},
    /* instructions */
    {"\"out\": {\"idx\": 5}}, \"name\": \"mm\"", "\"out\": {\"idx\": 50}}, \"name\": \"mm\"",
     "tensor 50 is out of range: the program has 11; out; node 0 (mm, matmul); method 'forward'"},
    {"\"out\": {\"idx\": 5}}, \"name\": \"mm\"", "\"out\": {\"idx\": 0}}, \"name\": \"mm\"",
     "matmul); method 'forward'"},
    {"\"out\": {\"idx\": 5}}, \"name\": \"mm\"", "\"out\": {\"idx\": 3}}, \"name\": \"mm\"",
     "tensor 5 ('t5') is read before it is written; x; node 1 (sm, softmax)"},
    {"\"x\": {\"idx\": 5}, \"axis\": -1, \"out\": {\"idx\": 3}",
     "\"x\": {\"idx\": 5}, \"axis\": -1, \"out\": {\"idx\": 5}",
     "tensor 5 ('t5') is written twice; out; node 1 (sm, softmax)"},
    {"\"x\": {\"idx\": 5}, \"axis\": -1", "\"x\": {\"idx\": 5}, \"axis\": 2",
     "node 1 (sm, softmax); method 'forward'"},
    {"\"b\": {\"idx\": 0}", "\"b\": {\"idx\": 1}", "node 0 (mm, matmul); method 'forward'"},
    {"\"inputs\": [{\"idx\": 4}]", "\"inputs\": [{\"idx\": 1}]", NULL},
    {"\"out\": {\"idx\": 6}}, \"name\": \"inc\"", "\"out\": {\"idx\": 1}}, \"name\": \"inc\"",
     "tensor 1 ('start'): expected output or temporary slot, got constant slot"},
    {"\"out\": {\"idx\": 6}}, \"name\": \"inc\"", "\"out\": {\"idx\": 4}}, \"name\": \"inc\"",
     "tensor 4 ('count'): expected output or temporary slot, got state slot"},
    {"\"x\": {\"idx\": 8}, \"out\": {\"idx\": 9}", "\"x\": {\"idx\": 2}, \"out\": {\"idx\": 9}",
     "tensor 2 ('x') is not an input of this method"},
    {"\"condition\": {\"idx\": 1}", "\"condition\": {\"idx\": 5}",
     "value 5 is out of range: the program has 2; node 0 (branch, if)"},
    {"\"condition\": {\"idx\": 1}", "\"condition\": {\"idx\": 0}",
     "value 0 ('n') is read before it is set; node 0 (branch, if)"},
    {"{\"op_type\": \"Copy\", \"op\": {\"x\": {\"idx\": 8}",
     "{\"op_type\": \"IntScalar\", \"op\": {\"a\": {}, \"b\": {}, \"out\": {\"idx\": 0}}}, "
     "{\"op_type\": \"Copy\", \"op\": {\"x\": {\"idx\": 8}",
     NULL},
    {"{\"op_type\": \"Copy\", \"op\": {\"x\": {\"idx\": 8}",
     "{\"op_type\": \"Full\", \"op\": {\"value\": {\"literal\": 1}, \"out\": {\"idx\": 3}}}, "
     "{\"op_type\": \"Copy\", \"op\": {\"x\": {\"idx\": 8}",
     "tensor 3 ('y') is an output, which a body cannot write; out; node 0 (full); chain 3"},
    {"{\"op_type\": \"Matmul\"",
     "{\"op_type\": \"IntScalar\", \"op\": {\"a\": {}, \"b\": {}, \"out\": {\"idx\": 0}}}, "
     "{\"op_type\": \"Matmul\"",
     "value 0 ('n') is set twice; node 0 (int_scalar); method 'forward'"},
    {"\"source\": \"input\"}", "\"source\": \"value\", \"index\": 7}",
     "value 7 is out of range: the program has 2; node 2 (inc, elementwise)"},
    /* epilogues */
    {"{\"idx\": 5}}, \"name\": \"mm\"",
     "{\"idx\": 5}, \"epilogue\": [{\"kind\": \"exp\", \"operands\": [{}]}], \"epilogue_inputs\": "
     "[]}, \"name\": \"mm\"",
     NULL},
    {"{\"idx\": 5}}, \"name\": \"mm\"",
     "{\"idx\": 5}, \"epilogue\": [{\"kind\": \"add\", \"operands\": [{}, {\"index\": 1}]}], "
     "\"epilogue_inputs\": [{\"idx\": 0}]}, \"name\": \"mm\"",
     NULL},
    {"{\"idx\": 5}}, \"name\": \"mm\"",
     "{\"idx\": 5}, \"epilogue_inputs\": [{\"idx\": 0}]}, \"name\": \"mm\"",
     "there are 1 epilogue_inputs and no epilogue; node 0 (mm, matmul)"},
    {"{\"idx\": 5}}, \"name\": \"mm\"",
     "{\"idx\": 5}, \"epilogue\": [{\"kind\": \"exp\", \"operands\": [{}]}], \"epilogue_inputs\": "
     "[{\"idx\": 0}, {\"idx\": 0}, {\"idx\": 0}, {\"idx\": 0}, {\"idx\": 0}, {\"idx\": 0}, "
     "{\"idx\": 0}, {\"idx\": 0}]}, \"name\": \"mm\"",
     "8 epilogue_inputs, at most 7 are allowed; node 0 (mm, matmul)"},
    {"{\"idx\": 5}}, \"name\": \"mm\"",
     "{\"idx\": 5}, \"epilogue\": [{\"kind\": \"add\", \"operands\": [{}, {\"index\": 1}]}], "
     "\"epilogue_inputs\": []}, \"name\": \"mm\"",
     "operand 1 is input 1 of 1; step 0 (add); epilogue; node 0 (mm, matmul)"},
    {"{\"idx\": 5}}, \"name\": \"mm\"",
     "{\"idx\": 5}, \"epilogue\": [{\"kind\": \"add\", \"operands\": [{}, {\"index\": 1}]}], "
     "\"epilogue_inputs\": [{\"idx\": 4}]}, \"name\": \"mm\"",
     "operand 1: expected F32, got I64; step 0 (add); epilogue; node 0 (mm, matmul)"},
    {"{\"idx\": 5}}, \"name\": \"mm\"",
     "{\"idx\": 5}, \"epilogue\": [{\"kind\": \"cast\", \"dtype\": \"F16\", \"operands\": [{}]}], "
     "\"epilogue_inputs\": []}, \"name\": \"mm\"",
     "expected F16 (?, 4), got F32 (?, 4); epilogue; node 0 (mm, matmul)"},
    {"{\"idx\": 5}}, \"name\": \"mm\"",
     "{\"idx\": 5}, \"epilogue\": [{\"kind\": \"add\", \"operands\": [{}, {\"index\": 1}]}], "
     "\"epilogue_inputs\": [{\"idx\": 5}]}, \"name\": \"mm\"",
     "tensor 5"},
};

static void test_valid(void **state) {
  (void)state;
  program *program;
  expect_good(sample_program(SAMPLE_PROGRAM, &program));
  program_destroy(program);
}

static void test_edits(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
    char *changed = replace(SAMPLE_PROGRAM, edits[i].from, edits[i].to);
    program *program;
    clave_status st = sample_program(changed, &program);
    if (edits[i].error) {
      expect_error(st, edits[i].error);
      assert_null(program);
    } else {
      expect_good(st);
    }
    program_destroy(program);
    free(changed);
  }
}

#define IF(then, else, arg, result)                                                             \
  "{\"op_type\": \"If\", \"op\": {\"condition\": {\"idx\": 1}, \"then_chain\": " then           \
  ", \"else_chain\": " else ", \"args\": [{\"idx\": " arg "}], \"results\": [{\"idx\": " result \
                            "}]}}"

/* Nests `levels` Ifs in the sample's second body, which has tensors 8 and 9 and is in an If itself.
 * A body of level i has tensors 11 + 3i and following, and chains 4 + 2i and following. */
static char *nested_program(int levels) {
  text tensors = {0}, chains = {0};
  for (int i = 0; i < levels; i++) {
    int t = 11 + 3 * i, c = 6 + 2 * i;
    for (int k = 0; k < 3; k++)
      text_printf(&tensors, ", {\"dtype\": \"I64\", \"shape\": [{\"literal\": 2}]}");
    text_printf(&chains, ", {\"args\": [{\"idx\": %d}], \"instructions\": [", t);
    if (i + 1 < levels) text_printf(&chains, IF("%d", "%d", "%d", "%d"), c, c + 1, t, t + 2);
    text_printf(&chains, "], \"results\": [{\"idx\": %d}]}", i + 1 < levels ? t + 2 : t);
    text_printf(&chains, ", {\"args\": [{\"idx\": %d}], \"results\": [{\"idx\": %d}]}", t + 1,
                t + 1);
  }
  text_printf(&tensors, "],\n\"n_inputs\"");
  text_printf(&chains, "],\n\"methods\"");
  char *with_tensors = replace(SAMPLE_PROGRAM, "],\n\"n_inputs\"", tensors.data);
  char *with_chains = replace(with_tensors, "],\n\"methods\"", chains.data);
  char *nested = replace(
      with_chains, "{\"op_type\": \"Copy\", \"op\": {\"x\": {\"idx\": 8}, \"out\": {\"idx\": 9}}}",
      IF("4", "5", "8", "9"));
  free(with_tensors);
  free(with_chains);
  text_free(&tensors);
  text_free(&chains);
  return nested;
}

static void test_depth(void **state) {
  (void)state;
  for (int depth = LIMIT_CHAIN_DEPTH; depth <= LIMIT_CHAIN_DEPTH + 1; depth++) {
    char *nested = nested_program(depth - 2);
    program *program;
    clave_status st = sample_program(nested, &program);
    if (depth > LIMIT_CHAIN_DEPTH)
      expect_error(st, "chains are nested deeper than 16");
    else
      expect_good(st);
    program_destroy(program);
    free(nested);
  }
}

/* A state of two elements cannot be updated with a tensor of three. */
static void test_update_of_another_size(void **state) {
  (void)state;
  program *program;
  char *with_tensor = replace(
      SAMPLE_PROGRAM, "\"name\": \"t10\"}",
      "\"name\": \"t10\"}, {\"dtype\": \"I64\", \"shape\": [{\"literal\": 3}], \"name\": \"t11\"}");
  char *with_node = replace(
      with_tensor, "{\"op_type\": \"Matmul\"",
      "{\"op_type\": \"Full\", \"op\": {\"int_value\": {\"literal\": 1}, \"out\": {\"idx\": 11}}}, "
      "{\"op_type\": \"Matmul\"");
  char *text = replace(with_node, "\"value\": {\"idx\": 6}", "\"value\": {\"idx\": 11}");
  expect_error(sample_program(text, &program),
               "tensor 11 ('t11') differs in dtype or shape from the state that it updates");
  free(with_tensor);
  free(with_node);
  free(text);
}

static void test_versions(void **state) {
  (void)state;
  char *path = in_folder("v.json"), *good = NULL, *changed;
  static const edit versions[] = {
      {"\"version\": 1", "\"version\": 99",
       "the program needs schema version 99, and this build supports version "},
      {"\"name\": \"w\"}",
       "\"name\": \"w\", \"encoding\": {\"kind\": \"group_quantized\", \"bits\": 4}}",
       "an encoding needs schema version 3, the program says 1"},
      {"\"version\": 1", "\"version\": 0", "op matmul needs schema version 1, the program says 0"},
  };
  program *program;
  expect_good(sample_program(SAMPLE_PROGRAM, &program));
  expect_good(program_save(program, path));
  program_destroy(program);
  size_t n;
  good = read_bytes(path, &n);
  good[n] = '\0';
  for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
    changed = replace(good, versions[i].from, versions[i].to);
    write_bytes(path, changed, strlen(changed));
    expect_error(program_load(path, NULL, &program), versions[i].error);
    free(changed);
  }
  free(good);
  free(path);
}

/* A name of many bytes is refused; control characters of a name are escaped. */
static void test_names(void **state) {
  (void)state;
  char big[LIMIT_NAME + 10];
  memset(big, 'n', sizeof big);
  big[0] = big[sizeof big - 2] = '"';
  big[sizeof big - 1] = '\0';
  program *program;
  static const char *const names[] = {"\"mm\"", "\"t5\"", "\"start\"}],", "\"flag\", \"type\"",
                                      "\"forward\""};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char *to = replace(names[i], "\"", ""), *rest = strchr(to, '"') + 1,
         *value = malloc(sizeof big + strlen(rest) + 1);
    (void)snprintf(value, sizeof big + strlen(rest) + 1, "%s%s", big, rest);
    char *changed = replace(SAMPLE_PROGRAM, names[i], value);
    expect_error(sample_program(changed, &program), "bytes");
    free(to);
    free(value);
    free(changed);
  }
  char *changed = replace(SAMPLE_PROGRAM, "\"t5\"", "\"a\\nb\"");
  char *broken = replace(changed, "\"out\": {\"idx\": 5}", "\"out\": {\"idx\": 3}");
  expect_error(sample_program(broken, &program), "('a\\x0ab')");
  free(changed);
  free(broken);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_valid),    cmocka_unit_test(test_edits),
      cmocka_unit_test(test_depth),    cmocka_unit_test(test_update_of_another_size),
      cmocka_unit_test(test_versions), cmocka_unit_test(test_names),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
