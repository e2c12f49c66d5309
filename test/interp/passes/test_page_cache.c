/* A language model with caches is rewritten to use pages, with the same logits whatever else is in
 * a run; near misses stay unchanged. */
#include <math.h>
#include <string.h>

#include "api/expect.h"
#include "clave_builder.h"

enum { D = 4, VOCAB = 7, CONTEXT = 64, LAYERS = 2, PAGE_ROWS = 32 };

typedef enum variant {
  SLICED,   /* the last token's logits, selected by a slice */
  SELECTED, /* by a selection */
  ALL,      /* the logits of all tokens */
  N_PAGED,
  UNEQUAL = N_PAGED, /* the second layer's cache is longer */
  TWO_TEXTS,         /* caches of two sequences */
  OTHER_STATE,       /* a state that is not a cache */
  SHIFTED,           /* tokens are at position + 1 and following */
  EVERY_SECOND,      /* at position, position + 2, ... */
  BELOW,             /* at position - arange */
  COUNTED,           /* at a constant + arange, independent of the tokens' positions */
  READ,              /* another op reads the position, too */
  FIRST,             /* the logits of the first token */
  MIXED,             /* an op without a paged version follows the last token */
  TWO_OUTPUTS,
  THREE_INPUTS,
  NAMED, /* a size has the pages' name */
  N_VARIANTS
} variant;
static const char *const names[] = {"sliced",    "selected",    "all",          "unequal",
                                    "two texts", "other state", "shifted",      "every second",
                                    "below",     "counted",     "read",         "first",
                                    "mixed",     "two outputs", "three inputs", "named"};

typedef struct building {
  clave_builder *b;
  variant how;
  clave_id length, tokens, position;
} building;

/* ---------------------------------------------------------------- programs */

/* Adds a tensor. In dims, 0 stands for the number of tokens. */
static clave_id tensor(const building *building, clave_slot_kind kind, const char *name,
                       clave_dtype dtype, int rank, const int64_t *dims) {
  clave_id values[4] = {0};
  for (int i = 0; i < rank; i++) values[i] = dims[i] ? 0 : building->length;
  return clave_builder_tensor(building->b, kind, name, dtype, rank, dims, values);
}

static clave_id temporary(const building *building, int rank, const int64_t *dims) {
  return tensor(building, CLAVE_SLOT_TEMPORARY, "", CLAVE_F32, rank, dims);
}

static clave_id table(const building *building, const char *name, int64_t rows, int64_t columns) {
  float data[(CONTEXT + 2) * D];
  for (int i = 0; i < rows * columns; i++) data[i] = (float)sin(1.3 * i + name[0]);
  const clave_tensor tensor =
      clave_tensor_make(CLAVE_F32, 2, (const int64_t[]){rows, columns}, data);
  return clave_builder_constant(building->b, name, &tensor, true);
}

/* Adds out = a `step` b, of one dtype. */
static void add_step(const building *building, const char *step, clave_dtype dtype, clave_id a,
                     clave_id b, clave_id out) {
  const clave_id inputs[] = {a, b};
  const clave_operand operands[] = {{.source = CLAVE_OPERAND_INPUT},
                                    {.source = CLAVE_OPERAND_INPUT, .index = 1}};
  clave_builder_op(building->b, "Elementwise", step);
  clave_builder_set_tensors(building->b, "inputs", inputs, 2);
  clave_builder_step(building->b, step, dtype, operands, 2);
  clave_builder_set_tensor(building->b, "out", out);
}

/* () 2 */
static clave_id two(const building *building) {
  int64_t data = 2;
  const clave_tensor tensor = clave_tensor_make(CLAVE_I64, 0, NULL, &data);
  return clave_builder_constant(building->b, "two", &tensor, true);
}

/* (L) where each token stands. */
static clave_id places(const building *building) {
  const int64_t dims[] = {0};
  clave_id counter = tensor(building, CLAVE_SLOT_TEMPORARY, "", CLAVE_I64, 1, dims);
  clave_id out = tensor(building, CLAVE_SLOT_TEMPORARY, "", CLAVE_I64, 1, dims);
  clave_builder_op(building->b, "Arange", "counter");
  clave_builder_set_int(building->b, "start", building->how == SHIFTED);
  clave_builder_set_int(building->b, "step", building->how == EVERY_SECOND ? 2 : 1);
  clave_builder_set_tensor(building->b, "out", counter);
  if (building->how == COUNTED)
    add_step(building, "add", CLAVE_I64, counter, two(building), out);
  else
    add_step(building, building->how == BELOW ? "sub" : "add", CLAVE_I64, building->position,
             counter, out);
  return out;
}

static clave_id rows_of(const building *building, clave_id from, clave_id index) {
  clave_id out = temporary(building, 2, (const int64_t[]){0, D});
  clave_builder_op(building->b, "IndexSelect", "rows");
  clave_builder_set_tensor(building->b, "x", from);
  clave_builder_set_int(building->b, "axis", 0);
  clave_builder_set_tensor(building->b, "index", index);
  clave_builder_set_tensor(building->b, "out", out);
  return out;
}

static clave_id reshape(const building *building, clave_id x, int rank, const int64_t *dims) {
  clave_id out = temporary(building, rank, dims), values[4] = {0};
  for (int i = 0; i < rank; i++) values[i] = dims[i] ? 0 : building->length;
  clave_builder_op(building->b, "Reshape", "reshape");
  clave_builder_set_tensor(building->b, "x", x);
  clave_builder_set_sizes(building->b, "shape", dims, values, (uint32_t)rank);
  clave_builder_set_tensor(building->b, "out", out);
  return out;
}

/* x: (1, 1, L, D). */
static clave_id attend(const building *building, clave_id x, int layer) {
  static const char *const state_names[][LAYERS] = {{"k0", "k1"}, {"v0", "v1"}};
  static const char *const fields[][2] = {{"key_cache", "key_cache_out"},
                                          {"value_cache", "value_cache_out"}};
  const int64_t context = building->how == UNEQUAL && layer ? 2 * CONTEXT : CONTEXT,
                n = building->how == TWO_TEXTS ? 2 : 1, cache[] = {n, 1, context, D},
                dims[] = {n, 1, 0, D};
  clave_id out = temporary(building, 4, dims), states[2], after[2];
  clave_builder_op(building->b, "AttentionCached", "attention");
  clave_builder_set_tensor(building->b, "q", x);
  clave_builder_set_tensor(building->b, "k", x);
  clave_builder_set_tensor(building->b, "v", x);
  clave_builder_set_tensor(building->b, "position", building->position);
  for (int i = 0; i < 2; i++) {
    states[i] = tensor(building, CLAVE_SLOT_STATE, state_names[i][layer], CLAVE_F32, 4, cache);
    after[i] = temporary(building, 4, cache);
    clave_builder_set_tensor(building->b, fields[i][0], states[i]);
    clave_builder_set_tensor(building->b, fields[i][1], after[i]);
  }
  clave_builder_set_tensor(building->b, "out", out);
  for (int i = 0; i < 2; i++) clave_builder_update(building->b, states[i], after[i]);
  return out;
}

/* Returns the last token's row of x (1, D), or x (L, D) if all tokens have logits. */
static clave_id chosen(const building *building, clave_id x) {
  const int64_t one[] = {1, D}, all[] = {0, D}, sliced[] = {1, 1, 1, D}, selected[] = {1, 1, D};
  if (building->how == ALL) return reshape(building, x, 2, all);
  bool select = building->how == SELECTED;
  clave_id out = select ? temporary(building, 3, selected) : temporary(building, 4, sliced);
  clave_builder_op(building->b, select ? "Select" : "Slice", "last");
  clave_builder_set_tensor(building->b, "x", x);
  clave_builder_set_int(building->b, "axis", 2);
  clave_builder_set_int(building->b, select ? "index" : "start", building->how == FIRST ? 0 : -1);
  if (!select) clave_builder_set_int(building->b, "stop", building->how == FIRST ? 1 : INT64_MAX);
  if (!select) clave_builder_set_int(building->b, "step", 1);
  clave_builder_set_tensor(building->b, "out", out);
  return reshape(building, out, 2, one);
}

static clave_id softmax(const building *building, clave_id x) {
  clave_id out = temporary(building, 2, (const int64_t[]){1, D});
  clave_builder_op(building->b, "Softmax", "softmax");
  clave_builder_set_tensor(building->b, "x", x);
  clave_builder_set_int(building->b, "axis", 0);
  clave_builder_set_tensor(building->b, "out", out);
  return out;
}

static void add_logits(const building *building, clave_id x, const char *name) {
  clave_id out = tensor(building, CLAVE_SLOT_OUTPUT, name, CLAVE_F32, 2,
                        (const int64_t[]){building->how == ALL ? 0 : 1, VOCAB});
  clave_builder_op(building->b, "Matmul", "logits");
  clave_builder_set_tensor(building->b, "a", x);
  clave_builder_set_tensor(building->b, "b", table(building, name, D, VOCAB));
  clave_builder_set_tensor(building->b, "out", out);
  clave_builder_output(building->b, name, out);
}

static void add_others(const building *building) {
  const int64_t none[1] = {1};
  if (building->how == THREE_INPUTS)
    clave_builder_input(building->b, "more",
                        tensor(building, CLAVE_SLOT_INPUT, "more", CLAVE_F32, 1, none));
  if (building->how == OTHER_STATE) {
    clave_id state = tensor(building, CLAVE_SLOT_STATE, "other", CLAVE_F32, 1, none);
    clave_id after = temporary(building, 1, none);
    add_step(building, "add", CLAVE_F32, state, state, after);
    clave_builder_update(building->b, state, after);
  }
  if (building->how == READ) {
    clave_id out = tensor(building, CLAVE_SLOT_TEMPORARY, "", CLAVE_I64, 0, none);
    add_step(building, "add", CLAVE_I64, building->position, building->position, out);
  }
}

static void add_method(building *building) {
  const int64_t tokens[] = {0}, heads[] = {1, 1, 0, D}, texts[] = {2, 1, 0, D};
  clave_builder_method(building->b, "forward");
  building->tokens = tensor(building, CLAVE_SLOT_INPUT, "tokens", CLAVE_I64, 1, tokens);
  building->position = tensor(building, CLAVE_SLOT_INPUT, "position", CLAVE_I64, 0, tokens);
  clave_builder_input(building->b, "tokens", building->tokens);
  clave_builder_input(building->b, "position", building->position);
  add_others(building);
  clave_id x = temporary(building, 2, (const int64_t[]){0, D});
  add_step(building, "add", CLAVE_F32,
           rows_of(building, table(building, "embedding", VOCAB, D), building->tokens),
           rows_of(building, table(building, "places", CONTEXT + 2, D), places(building)), x);
  x = reshape(building, x, 4, heads);
  if (building->how == TWO_TEXTS) {
    clave_id both = temporary(building, 4, texts);
    const clave_id parts[] = {x, x};
    clave_builder_op(building->b, "Cat", "texts");
    clave_builder_set_tensors(building->b, "xs", parts, 2);
    clave_builder_set_int(building->b, "axis", 0);
    clave_builder_set_tensor(building->b, "out", both);
    x = both;
  }
  for (int i = 0; i < LAYERS; i++) x = attend(building, x, i);
  if (building->how == TWO_TEXTS) {
    clave_id first = temporary(building, 4, heads);
    clave_builder_op(building->b, "Slice", "first");
    clave_builder_set_tensor(building->b, "x", x);
    clave_builder_set_int(building->b, "axis", 0);
    clave_builder_set_int(building->b, "stop", 1);
    clave_builder_set_int(building->b, "step", 1);
    clave_builder_set_tensor(building->b, "out", first);
    x = first;
  }
  x = chosen(building, x);
  if (building->how == MIXED) x = softmax(building, x);
  add_logits(building, x, "y");
  if (building->how == TWO_OUTPUTS) add_logits(building, x, "z");
}

static clave_program *build(variant how) {
  building building = {.how = how};
  clave_program *program;
  good(clave_builder_create(&building.b));
  building.length =
      clave_builder_value(building.b, how == NAMED ? "pages" : "length", CLAVE_I64, 1, CONTEXT);
  add_method(&building);
  clave_status st = clave_builder_finish(building.b, &program);
  if (st) print_error("%s\n", names[how]);
  good(st);
  clave_builder_destroy(building.b);
  return program;
}

/* ---------------------------------------------------------------- the pass */

static void note(void *ctx, const clave_pass_info *info) {
  if (info->refused) fail_msg("%s: %s", info->name, info->refused);
  *(uint32_t *)ctx += info->applied;
}

static clave_program *paged(clave_program *program, uint32_t *applied) {
  static const char *const passes[] = {"page_cache"};
  clave_program *made;
  *applied = 0;
  const clave_optimize_options options = {sizeof options, passes, 1, note, applied};
  good(clave_program_optimize(program, &options, &made));
  return made;
}

static void expect_signature(const clave_program *program, variant how) {
  static const char *const inputs[] = {"tokens", "position", "sequence", "page_table", "rows"};
  clave_method_info info = {.size = sizeof info};
  good(clave_program_method(program, 0, &info));
  assert_int_equal(info.n_inputs, how == ALL ? 4 : 5);
  for (uint32_t i = 0; i < info.n_inputs; i++) {
    clave_tensor_info tensor_info = {.size = sizeof tensor_info};
    good(clave_program_input(program, "forward", i, &tensor_info));
    assert_string_equal(tensor_info.name, inputs[i]);
  }
  for (uint32_t i = 0; i < 2 * LAYERS; i++) {
    clave_tensor_info t = {.size = sizeof t};
    good(clave_program_state(program, i, &t));
    assert_string_equal(t.dim_names[0], "pages");
    assert_int_equal(t.dims[2], PAGE_ROWS);
  }
}

/* ---------------------------------------------------------------- runs */

typedef struct text {
  int64_t tokens[CONTEXT];
  int32_t pages[2];
  int n_run;
} text;

static void set(clave_session *session, uint32_t input, clave_dtype dtype, int rank,
                const int64_t *dims, void *data) {
  const clave_tensor tensor = clave_tensor_make(dtype, rank, dims, data);
  good(clave_session_set_input(session, NULL, input, &tensor));
}

/* Sets out to the logits of the last row after the next n tokens. */
static void run_cached(clave_session *session, text *text, int n, float *out) {
  int64_t position = text->n_run;
  clave_tensor tensor;
  set(session, 0, CLAVE_I64, 1, (const int64_t[]){n}, text->tokens + text->n_run);
  set(session, 1, CLAVE_I64, 0, NULL, &position);
  good(clave_session_run(session, NULL));
  good(clave_session_output(session, NULL, 0, &tensor));
  memcpy(out, (const float *)tensor.data + (tensor.dims[0] - 1) * VOCAB, VOCAB * sizeof *out);
  text->n_run += n;
}

/* Sets out to the logits of the last row after the next taken[i] tokens of each of two texts, in
 * one run; taken[1] may be 0. */
static void run_paged(clave_session *session, variant how, text *texts, const int *taken,
                      float *out) {
  int64_t tokens[2 * CONTEXT], position[2 * CONTEXT], rows[2];
  int32_t sequence[2 * CONTEXT], pages[4];
  int64_t count = 0, n_rows = taken[1] ? 2 : 1;
  clave_tensor tensor;
  for (int i = 0; i < 2; i++) {
    for (int k = 0; k < taken[i]; k++, count++) {
      tokens[count] = texts[i].tokens[texts[i].n_run];
      position[count] = texts[i].n_run++;
      sequence[count] = i;
    }
    rows[i] = count - 1;
    memcpy(pages + 2 * i, texts[i].pages, sizeof texts[i].pages);
  }
  set(session, 0, CLAVE_I64, 1, &count, tokens);
  set(session, 1, CLAVE_I64, 1, &count, position);
  set(session, 2, CLAVE_I32, 1, &count, sequence);
  set(session, 3, CLAVE_I32, 2, (const int64_t[]){2, 2}, pages);
  if (how != ALL) set(session, 4, CLAVE_I64, 1, &n_rows, rows);
  good(clave_session_run(session, NULL));
  good(clave_session_output(session, NULL, 0, &tensor));
  assert_int_equal(tensor.dims[0], how == ALL ? count : n_rows);
  for (int i = 0; i < n_rows; i++) {
    int64_t row = how == ALL ? rows[i] : i;
    memcpy(out + i * VOCAB, (const float *)tensor.data + row * VOCAB, VOCAB * sizeof *out);
  }
}

/* Expects logits, of magnitude 1 and less, within the error of sums in another order. */
static void expect_near(const float *got, const float *want) {
  for (int i = 0; i < VOCAB; i++) assert_true(fabsf(got[i] - want[i]) <= 1e-5F);
}

static text make_text(int seed, int32_t first, int32_t second) {
  text text = {.pages = {first, second}};
  for (int i = 0; i < CONTEXT; i++) text.tokens[i] = (i * i + seed * i + seed) % VOCAB;
  return text;
}

/* Compares two texts that run alone over caches with a joint run over pages: prompts, one longer
 * than a page, a token of each, more of one. */
static void compare_runs(clave_program *before, clave_program *after, variant how) {
  static const int steps[][2] = {{40, 3}, {1, 1}, {5, 0}, {1, 20}};
  clave_device *device;
  clave_session *alone[2], *together;
  text cached[2] = {make_text(1, 0, 0), make_text(4, 0, 0)},
       in_pages[2] = {make_text(1, 3, 0), make_text(4, 1, 2)};
  good(clave_device_open("cpu", NULL, &device));
  for (int i = 0; i < 2; i++) good(clave_session_create(before, device, NULL, &alone[i]));
  good(clave_session_create(after, device, NULL, &together));
  good(clave_session_resize(together, "pages", 4));
  for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
    float want[2 * VOCAB], got[2 * VOCAB];
    for (int i = 0; i < 2 && steps[k][i]; i++)
      run_cached(alone[i], &cached[i], steps[k][i], want + i * VOCAB);
    run_paged(together, how, in_pages, steps[k], got);
    for (int i = 0; i < 2 && steps[k][i]; i++) expect_near(got + i * VOCAB, want + i * VOCAB);
  }
  for (int i = 0; i < 2; i++) clave_session_destroy(alone[i]);
  clave_session_destroy(together);
  clave_device_destroy(device);
}

/* ---------------------------------------------------------------- tests */

static void models_over_caches_get_pages(void **state) {
  (void)state;
  for (variant how = 0; how < N_PAGED; how++) {
    uint32_t applied;
    clave_program *program = build(how), *made = paged(program, &applied);
    if (applied != 1) fail_msg("%s is not paged", names[how]);
    expect_signature(made, how);
    compare_runs(program, made, how);
    clave_program_destroy(made);
    clave_program_destroy(program);
  }
}

static void near_misses_are_left(void **state) {
  (void)state;
  for (variant how = N_PAGED; how < N_VARIANTS; how++) {
    uint32_t applied;
    clave_method_info info = {.size = sizeof info};
    clave_program *program = build(how), *made = paged(program, &applied);
    if (applied) fail_msg("%s is paged", names[how]);
    good(clave_program_method(made, 0, &info));
    assert_int_equal(info.n_inputs, how == THREE_INPUTS ? 3 : 2);
    clave_program_destroy(made);
    clave_program_destroy(program);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(models_over_caches_get_pages),
      cmocka_unit_test(near_misses_are_left),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
