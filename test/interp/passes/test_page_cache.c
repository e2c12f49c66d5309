/* A language model over caches becomes one over pages, with the same logits whoever else is in a
 * run; near misses stay as they are. */
#include <math.h>
#include <string.h>

#include "api/expect.h"
#include "clave_builder.h"

enum { D = 4, VOCAB = 7, CONTEXT = 64, LAYERS = 2, PAGE_ROWS = 32 };

typedef enum variant {
  SLICED,   /* the last token's logits, by a slice */
  SELECTED, /* by a selection */
  ALL,      /* the logits of all tokens */
  N_PAGED,
  UNEQUAL = N_PAGED, /* the second layer's cache is longer */
  TWO_TEXTS,         /* caches of two sequences */
  OTHER_STATE,       /* state that is no cache */
  SHIFTED,           /* tokens stand from position + 1 on */
  EVERY_SECOND,      /* at position, position + 2, ... */
  BELOW,             /* at position - arange */
  COUNTED,           /* at a constant + arange, wherever the tokens stand */
  READ,              /* the position is read otherwise, too */
  FIRST,             /* the logits of the first token */
  MIXED,             /* an op that pages do not know follows the last token */
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

/* 0 stands for the number of tokens. */
static clave_id tensor(const building *g, clave_slot_kind kind, const char *name, clave_dtype dtype,
                       int rank, const int64_t *dims) {
  clave_id values[4] = {0};
  for (int i = 0; i < rank; i++) values[i] = dims[i] ? 0 : g->length;
  return clave_builder_tensor(g->b, kind, name, dtype, rank, dims, values);
}

static clave_id temporary(const building *g, int rank, const int64_t *dims) {
  return tensor(g, CLAVE_SLOT_TEMPORARY, "", CLAVE_F32, rank, dims);
}

static clave_id table(const building *g, const char *name, int64_t rows, int64_t columns) {
  float data[(CONTEXT + 2) * D];
  for (int i = 0; i < rows * columns; i++) data[i] = (float)sin(1.3 * i + name[0]);
  const clave_tensor t = clave_tensor_make(CLAVE_F32, 2, (const int64_t[]){rows, columns}, data);
  return clave_builder_constant(g->b, name, &t, true);
}

/* a `step` b, elements of one dtype. */
static void add_step(const building *g, const char *step, clave_dtype dtype, clave_id a, clave_id b,
                     clave_id out) {
  const clave_id inputs[] = {a, b};
  const clave_operand operands[] = {{.source = CLAVE_OPERAND_INPUT},
                                    {.source = CLAVE_OPERAND_INPUT, .index = 1}};
  clave_builder_op(g->b, "Elementwise", step);
  clave_builder_set_tensors(g->b, "inputs", inputs, 2);
  clave_builder_step(g->b, step, dtype, operands, 2);
  clave_builder_set_tensor(g->b, "out", out);
}

/* () 2 */
static clave_id two(const building *g) {
  int64_t data = 2;
  const clave_tensor t = clave_tensor_make(CLAVE_I64, 0, NULL, &data);
  return clave_builder_constant(g->b, "two", &t, true);
}

/* (L) where each token stands. */
static clave_id places(const building *g) {
  const int64_t dims[] = {0};
  clave_id counter = tensor(g, CLAVE_SLOT_TEMPORARY, "", CLAVE_I64, 1, dims);
  clave_id out = tensor(g, CLAVE_SLOT_TEMPORARY, "", CLAVE_I64, 1, dims);
  clave_builder_op(g->b, "Arange", "counter");
  clave_builder_set_int(g->b, "start", g->how == SHIFTED);
  clave_builder_set_int(g->b, "step", g->how == EVERY_SECOND ? 2 : 1);
  clave_builder_set_tensor(g->b, "out", counter);
  if (g->how == COUNTED)
    add_step(g, "add", CLAVE_I64, counter, two(g), out);
  else
    add_step(g, g->how == BELOW ? "sub" : "add", CLAVE_I64, g->position, counter, out);
  return out;
}

static clave_id rows_of(const building *g, clave_id from, clave_id index) {
  clave_id out = temporary(g, 2, (const int64_t[]){0, D});
  clave_builder_op(g->b, "IndexSelect", "rows");
  clave_builder_set_tensor(g->b, "x", from);
  clave_builder_set_int(g->b, "axis", 0);
  clave_builder_set_tensor(g->b, "index", index);
  clave_builder_set_tensor(g->b, "out", out);
  return out;
}

static clave_id reshape(const building *g, clave_id x, int rank, const int64_t *dims) {
  clave_id out = temporary(g, rank, dims), values[4] = {0};
  for (int i = 0; i < rank; i++) values[i] = dims[i] ? 0 : g->length;
  clave_builder_op(g->b, "Reshape", "reshape");
  clave_builder_set_tensor(g->b, "x", x);
  clave_builder_set_sizes(g->b, "shape", dims, values, (uint32_t)rank);
  clave_builder_set_tensor(g->b, "out", out);
  return out;
}

/* x: (1, 1, L, D). */
static clave_id attend(const building *g, clave_id x, int layer) {
  static const char *const state_names[][LAYERS] = {{"k0", "k1"}, {"v0", "v1"}};
  static const char *const fields[][2] = {{"key_cache", "key_cache_out"},
                                          {"value_cache", "value_cache_out"}};
  const int64_t context = g->how == UNEQUAL && layer ? 2 * CONTEXT : CONTEXT,
                n = g->how == TWO_TEXTS ? 2 : 1, cache[] = {n, 1, context, D},
                dims[] = {n, 1, 0, D};
  clave_id out = temporary(g, 4, dims), states[2], after[2];
  clave_builder_op(g->b, "AttentionCached", "attention");
  clave_builder_set_tensor(g->b, "q", x);
  clave_builder_set_tensor(g->b, "k", x);
  clave_builder_set_tensor(g->b, "v", x);
  clave_builder_set_tensor(g->b, "position", g->position);
  for (int i = 0; i < 2; i++) {
    states[i] = tensor(g, CLAVE_SLOT_STATE, state_names[i][layer], CLAVE_F32, 4, cache);
    after[i] = temporary(g, 4, cache);
    clave_builder_set_tensor(g->b, fields[i][0], states[i]);
    clave_builder_set_tensor(g->b, fields[i][1], after[i]);
  }
  clave_builder_set_tensor(g->b, "out", out);
  for (int i = 0; i < 2; i++) clave_builder_update(g->b, states[i], after[i]);
  return out;
}

/* (1, D), or (L, D) of all tokens. */
static clave_id chosen(const building *g, clave_id x) {
  const int64_t one[] = {1, D}, all[] = {0, D}, sliced[] = {1, 1, 1, D}, selected[] = {1, 1, D};
  if (g->how == ALL) return reshape(g, x, 2, all);
  bool select = g->how == SELECTED;
  clave_id out = select ? temporary(g, 3, selected) : temporary(g, 4, sliced);
  clave_builder_op(g->b, select ? "Select" : "Slice", "last");
  clave_builder_set_tensor(g->b, "x", x);
  clave_builder_set_int(g->b, "axis", 2);
  clave_builder_set_int(g->b, select ? "index" : "start", g->how == FIRST ? 0 : -1);
  if (!select) clave_builder_set_int(g->b, "stop", g->how == FIRST ? 1 : INT64_MAX);
  if (!select) clave_builder_set_int(g->b, "step", 1);
  clave_builder_set_tensor(g->b, "out", out);
  return reshape(g, out, 2, one);
}

static clave_id softmax(const building *g, clave_id x) {
  clave_id out = temporary(g, 2, (const int64_t[]){1, D});
  clave_builder_op(g->b, "Softmax", "softmax");
  clave_builder_set_tensor(g->b, "x", x);
  clave_builder_set_int(g->b, "axis", 0);
  clave_builder_set_tensor(g->b, "out", out);
  return out;
}

static void add_logits(const building *g, clave_id x, const char *name) {
  clave_id out = tensor(g, CLAVE_SLOT_OUTPUT, name, CLAVE_F32, 2,
                        (const int64_t[]){g->how == ALL ? 0 : 1, VOCAB});
  clave_builder_op(g->b, "Matmul", "logits");
  clave_builder_set_tensor(g->b, "a", x);
  clave_builder_set_tensor(g->b, "b", table(g, name, D, VOCAB));
  clave_builder_set_tensor(g->b, "out", out);
  clave_builder_output(g->b, name, out);
}

static void add_others(const building *g) {
  const int64_t none[1] = {1};
  if (g->how == THREE_INPUTS)
    clave_builder_input(g->b, "more", tensor(g, CLAVE_SLOT_INPUT, "more", CLAVE_F32, 1, none));
  if (g->how == OTHER_STATE) {
    clave_id state = tensor(g, CLAVE_SLOT_STATE, "other", CLAVE_F32, 1, none);
    clave_id after = temporary(g, 1, none);
    add_step(g, "add", CLAVE_F32, state, state, after);
    clave_builder_update(g->b, state, after);
  }
  if (g->how == READ) {
    clave_id out = tensor(g, CLAVE_SLOT_TEMPORARY, "", CLAVE_I64, 0, none);
    add_step(g, "add", CLAVE_I64, g->position, g->position, out);
  }
}

static void add_method(building *g) {
  const int64_t tokens[] = {0}, heads[] = {1, 1, 0, D}, texts[] = {2, 1, 0, D};
  clave_builder_method(g->b, "forward");
  g->tokens = tensor(g, CLAVE_SLOT_INPUT, "tokens", CLAVE_I64, 1, tokens);
  g->position = tensor(g, CLAVE_SLOT_INPUT, "position", CLAVE_I64, 0, tokens);
  clave_builder_input(g->b, "tokens", g->tokens);
  clave_builder_input(g->b, "position", g->position);
  add_others(g);
  clave_id x = temporary(g, 2, (const int64_t[]){0, D});
  add_step(g, "add", CLAVE_F32, rows_of(g, table(g, "embedding", VOCAB, D), g->tokens),
           rows_of(g, table(g, "places", CONTEXT + 2, D), places(g)), x);
  x = reshape(g, x, 4, heads);
  if (g->how == TWO_TEXTS) {
    clave_id both = temporary(g, 4, texts);
    const clave_id parts[] = {x, x};
    clave_builder_op(g->b, "Cat", "texts");
    clave_builder_set_tensors(g->b, "xs", parts, 2);
    clave_builder_set_int(g->b, "axis", 0);
    clave_builder_set_tensor(g->b, "out", both);
    x = both;
  }
  for (int i = 0; i < LAYERS; i++) x = attend(g, x, i);
  if (g->how == TWO_TEXTS) {
    clave_id first = temporary(g, 4, heads);
    clave_builder_op(g->b, "Slice", "first");
    clave_builder_set_tensor(g->b, "x", x);
    clave_builder_set_int(g->b, "axis", 0);
    clave_builder_set_int(g->b, "stop", 1);
    clave_builder_set_int(g->b, "step", 1);
    clave_builder_set_tensor(g->b, "out", first);
    x = first;
  }
  x = chosen(g, x);
  if (g->how == MIXED) x = softmax(g, x);
  add_logits(g, x, "y");
  if (g->how == TWO_OUTPUTS) add_logits(g, x, "z");
}

static clave_program *build(variant how) {
  building g = {.how = how};
  clave_program *p;
  good(clave_builder_create(&g.b));
  g.length = clave_builder_value(g.b, how == NAMED ? "pages" : "length", CLAVE_I64, 1, CONTEXT);
  add_method(&g);
  clave_status st = clave_builder_finish(g.b, &p);
  if (st) print_error("%s\n", names[how]);
  good(st);
  clave_builder_destroy(g.b);
  return p;
}

/* ---------------------------------------------------------------- the pass */

static void note(void *ctx, const clave_pass_info *info) {
  if (info->refused) fail_msg("%s: %s", info->name, info->refused);
  *(uint32_t *)ctx += info->applied;
}

static clave_program *paged(clave_program *p, uint32_t *applied) {
  static const char *const passes[] = {"page_cache"};
  clave_program *made;
  *applied = 0;
  const clave_optimize_options o = {sizeof o, passes, 1, note, applied};
  good(clave_program_optimize(p, &o, &made));
  return made;
}

static void expect_signature(const clave_program *p, variant how) {
  static const char *const inputs[] = {"tokens", "position", "sequence", "page_table", "rows"};
  clave_method_info m = {.size = sizeof m};
  good(clave_program_method(p, 0, &m));
  assert_int_equal(m.n_inputs, how == ALL ? 4 : 5);
  for (uint32_t i = 0; i < m.n_inputs; i++) {
    clave_tensor_info t = {.size = sizeof t};
    good(clave_program_input(p, "forward", i, &t));
    assert_string_equal(t.name, inputs[i]);
  }
  for (uint32_t i = 0; i < 2 * LAYERS; i++) {
    clave_tensor_info t = {.size = sizeof t};
    good(clave_program_state(p, i, &t));
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

static void set(clave_session *s, uint32_t input, clave_dtype dtype, int rank, const int64_t *dims,
                void *data) {
  const clave_tensor t = clave_tensor_make(dtype, rank, dims, data);
  good(clave_session_set_input(s, NULL, input, &t));
}

/* Logits of the last row, after the next n tokens. */
static void run_cached(clave_session *s, text *t, int n, float *out) {
  int64_t position = t->n_run;
  clave_tensor y;
  set(s, 0, CLAVE_I64, 1, (const int64_t[]){n}, t->tokens + t->n_run);
  set(s, 1, CLAVE_I64, 0, NULL, &position);
  good(clave_session_run(s, NULL));
  good(clave_session_output(s, NULL, 0, &y));
  memcpy(out, (const float *)y.data + (y.dims[0] - 1) * VOCAB, VOCAB * sizeof *out);
  t->n_run += n;
}

/* The same of the next n[i] tokens of each of two texts, in one run; n[1] may be 0. */
static void run_paged(clave_session *s, variant how, text *texts, const int *n, float *out) {
  int64_t tokens[2 * CONTEXT], position[2 * CONTEXT], rows[2];
  int32_t sequence[2 * CONTEXT], pages[4];
  int64_t count = 0, n_rows = n[1] ? 2 : 1;
  clave_tensor y;
  for (int i = 0; i < 2; i++) {
    for (int k = 0; k < n[i]; k++, count++) {
      tokens[count] = texts[i].tokens[texts[i].n_run];
      position[count] = texts[i].n_run++;
      sequence[count] = i;
    }
    rows[i] = count - 1;
    memcpy(pages + 2 * i, texts[i].pages, sizeof texts[i].pages);
  }
  set(s, 0, CLAVE_I64, 1, &count, tokens);
  set(s, 1, CLAVE_I64, 1, &count, position);
  set(s, 2, CLAVE_I32, 1, &count, sequence);
  set(s, 3, CLAVE_I32, 2, (const int64_t[]){2, 2}, pages);
  if (how != ALL) set(s, 4, CLAVE_I64, 1, &n_rows, rows);
  good(clave_session_run(s, NULL));
  good(clave_session_output(s, NULL, 0, &y));
  assert_int_equal(y.dims[0], how == ALL ? count : n_rows);
  for (int i = 0; i < n_rows; i++) {
    int64_t row = how == ALL ? rows[i] : i;
    memcpy(out + i * VOCAB, (const float *)y.data + row * VOCAB, VOCAB * sizeof *out);
  }
}

/* Logits of magnitude 1 and less: sums in another order. NaN is near nothing. */
static void expect_near(const float *got, const float *want) {
  for (int i = 0; i < VOCAB; i++) assert_true(fabsf(got[i] - want[i]) <= 1e-5F);
}

static text make_text(int seed, int32_t first, int32_t second) {
  text t = {.pages = {first, second}};
  for (int i = 0; i < CONTEXT; i++) t.tokens[i] = (i * i + seed * i + seed) % VOCAB;
  return t;
}

/* Two texts, alone over caches and together over pages in any order: prompts, one of which is
 * longer than a page, a token of each, more of one. */
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
    clave_program *p = build(how), *made = paged(p, &applied);
    if (applied != 1) fail_msg("%s is not paged", names[how]);
    expect_signature(made, how);
    compare_runs(p, made, how);
    clave_program_destroy(made);
    clave_program_destroy(p);
  }
}

static void near_misses_are_left(void **state) {
  (void)state;
  for (variant how = N_PAGED; how < N_VARIANTS; how++) {
    uint32_t applied;
    clave_method_info m = {.size = sizeof m};
    clave_program *p = build(how), *made = paged(p, &applied);
    if (applied) fail_msg("%s is paged", names[how]);
    good(clave_program_method(made, 0, &m));
    assert_int_equal(m.n_inputs, how == THREE_INPUTS ? 3 : 2);
    clave_program_destroy(made);
    clave_program_destroy(p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(models_over_caches_get_pages),
      cmocka_unit_test(near_misses_are_left),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
