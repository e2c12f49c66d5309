/* Arguments: made of tensors, read from a kernel's struct, checked by its signature, and as
 * clSetKernelArg takes them. */
#include "backend/opencl/program/args.h"

#include <string.h>

#include "backend/opencl/program/program.h"

/* Beyond this many elements int indices could overflow when a kernel rounds up to its tile. */
static const int64_t max_narrow = INT32_MAX - (1 << 20);

/* ---------------------------------------------------------------- given by an op */

/* Whether an index into the tensor, or its count of elements, may not fit an int. */
static bool needs_wide(const tensor *t) {
  int64_t count = 1, extent = 0;
  for (int i = 0; i < t->rank; i++) {
    count *= t->dims[i];
    extent += (t->dims[i] - 1) * (t->strides[i] < 0 ? -t->strides[i] : t->strides[i]);
  }
  return count > max_narrow || extent > max_narrow;
}

arg_buffer buffer_arg(const bound_tensor *t) {
  if (t->slot == RESULT_SLOT)
    return (arg_buffer){
        .value.kind = VALUE_RESULT, .offset = t->t.offset, .wide = needs_wide(&t->t)};
  return (arg_buffer){
      .value = {.kind = VALUE_OPERAND, .as.operand = {.slot = t->slot, .type = t->t.type}},
      .offset = t->t.offset,
      .wide = needs_wide(&t->t)};
}
arg_buffer absent_arg(void) { return (arg_buffer){.value.kind = VALUE_ABSENT}; }
arg_buffer optional_arg(const bound_tensor *t) { return t ? buffer_arg(t) : absent_arg(); }
arg_buffer scratch_arg(int64_t offset) {
  return (arg_buffer){.value.kind = VALUE_SCRATCH, .offset = offset};
}

arg_buffer packed_arg(int number) {
  return (arg_buffer){.value = {.kind = VALUE_PACKED, .as.i = number}};
}

arg_index8 index8_arg(const int64_t values[8]) {
  arg_index8 a;
  memcpy(a.v, values, sizeof a.v);
  return a;
}
arg_index8 dims_arg(const tensor *t) {
  arg_index8 a = {{1, 1, 1, 1, 1, 1, 1, 1}};
  for (int i = 0; i < t->rank; i++) a.v[i] = t->dims[t->rank - 1 - i];
  return a;
}
arg_index8 strides_arg(const tensor *t) {
  arg_index8 a = {{0}};
  for (int i = 0; i < t->rank; i++) a.v[i] = t->strides[t->rank - 1 - i];
  return a;
}

arg_image image_arg(int weight) { return (arg_image){weight}; }
arg_local local_arg(size_t bytes) { return (arg_local){bytes}; }

/* ---------------------------------------------------------------- taken by a launch */

static launch_value *add_value(launch *l, value_kind kind) {
  static launch_value nowhere;
  if (l->n_values == MAX_LAUNCH_ARGS) {
    l->overflow = true;
    return &nowhere;
  }
  launch_value *v = &l->values[l->n_values++];
  v->kind = kind;
  return v;
}

void launch_push_int(launch *l, int64_t value) { add_value(l, VALUE_INT)->as.i = value; }
void launch_push_float(launch *l, double value) { add_value(l, VALUE_FLOAT)->as.f = value; }
void launch_push_local(launch *l, size_t bytes) { add_value(l, VALUE_LOCAL)->as.bytes = bytes; }
void launch_push_index8(launch *l, arg_index8 a) {
  memcpy(add_value(l, VALUE_INDEX8)->as.i8, a.v, sizeof a.v);
}
void launch_push_buffer(launch *l, arg_buffer a) {
  if (a.wide || (l->always_wide && a.value.kind == VALUE_OPERAND)) l->wide = true;
  add_value(l, a.value.kind)->as = a.value.as;
  launch_push_int(l, a.offset);
}

static void take_buffer(launch *l, const void *field) {
  launch_push_buffer(l, *(const arg_buffer *)field);
}
static void take_index8(launch *l, const void *field) {
  launch_push_index8(l, *(const arg_index8 *)field);
}
static void take_local(launch *l, const void *field) {
  launch_push_local(l, ((const arg_local *)field)->bytes);
}
static void take_image(launch *l, const void *field) {
  add_value(l, VALUE_IMAGE)->as.i = ((const arg_image *)field)->weight;
}
static void take_int(launch *l, const void *field) { launch_push_int(l, *(const int64_t *)field); }
static void take_float(launch *l, const void *field) {
  launch_push_float(l, *(const double *)field);
}
static void take_seed(launch *l, const void *field) {
  (void)field;
  add_value(l, VALUE_SEED);
}
static void take_run(launch *l, const void *field) {
  (void)field;
  add_value(l, VALUE_RUN);
}

void launch_take(launch *l, const kernel_signature *g, const void *args) {
  static void (*const takers[])(launch *, const void *) = {
      [ARG_BUFFER] = take_buffer, [ARG_LOCAL] = take_local, [ARG_IMAGE] = take_image,
      [ARG_INT] = take_int,       [ARG_UINT] = take_int,    [ARG_LONG] = take_int,
      [ARG_ULONG] = take_int,     [ARG_FLOAT] = take_float, [ARG_DOUBLE] = take_float,
      [ARG_REAL] = take_float,    [ARG_INDEX] = take_int,   [ARG_INDEX8] = take_index8,
      [ARG_SEED] = take_seed,     [ARG_RUN] = take_run,     [ARG_FAULT] = NULL,
      [ARG_FAULT_NODE] = NULL};
  l->signature = g;
  l->stem = g->stem;
  l->kernel = g->kernel;
  l->n_values = 0;
  for (int i = 0; i < g->n_args; i++) {
    const arg_info *arg = &g->args[i];
    if (takers[arg->kind]) takers[arg->kind](l, (const char *)args + arg->at);
    if (arg->kind == ARG_BUFFER) i++; /* with its offset */
  }
}

/* ---------------------------------------------------------------- as the driver takes them */

bool arg_is_pointer(arg_kind kind) {
  return kind == ARG_BUFFER || kind == ARG_LOCAL || kind == ARG_IMAGE || kind == ARG_FAULT;
}

/* Bytes of a number, of an index8's each. */
static size_t number_size(arg_kind kind, bool wide, dtype compute) {
  bool is_large = kind == ARG_LONG || kind == ARG_ULONG || kind == ARG_DOUBLE || kind == ARG_SEED;
  if (kind == ARG_INDEX || kind == ARG_INDEX8) is_large = wide;
  if (kind == ARG_REAL) is_large = compute != DTYPE_F32;
  return is_large ? 8 : 4;
}

void args_place(const kernel_signature *g, bool wide, dtype compute, arg_places *out) {
  size_t at = 0, largest = 1;
  *out = (arg_places){0};
  for (int i = 0; i < g->n_args; i++) {
    arg_kind kind = g->args[i].kind;
    if (arg_is_pointer(kind)) {
      out->at[i] = out->n_pointers++;
      continue;
    }
    size_t size = number_size(kind, wide, compute);
    if (size > largest) largest = size;
    at = (at + size - 1) / size * size;
    out->at[i] = (uint16_t)at;
    at += kind == ARG_INDEX8 ? 8 * size : size;
  }
  out->end = (uint16_t)at;
  out->size = (uint16_t)((at + largest - 1) / largest * largest);
}

static const char *const number_types[] = {
    [ARG_INT] = "int",     [ARG_UINT] = "uint",     [ARG_LONG] = "long",
    [ARG_ULONG] = "ulong", [ARG_FLOAT] = "float",   [ARG_DOUBLE] = "double",
    [ARG_REAL] = "real",   [ARG_INDEX] = "index_t", [ARG_INDEX8] = "index_t",
    [ARG_SEED] = "ulong",  [ARG_RUN] = "uint",      [ARG_FAULT_NODE] = "uint"};

/* An index8 is eight of index_t: a vector in a struct wants more alignment than drivers have been
 * seen to give. */
static void write_struct(text *t, const kernel_signature *g) {
  text_printf(t, "typedef struct %s_numbers {\n", g->kernel);
  for (int i = 0; i < g->n_args; i++) {
    const arg_info *a = &g->args[i];
    if (!arg_is_pointer(a->kind))
      text_printf(t, "  %s %s%s;\n", number_types[a->kind], a->name,
                  a->kind == ARG_INDEX8 ? "[8]" : "");
  }
  text_printf(t, "} %s_numbers;\n", g->kernel);
}

static void write_names(text *t, const kernel_signature *g) {
  for (int i = 0; i < g->n_args; i++) {
    const arg_info *a = &g->args[i];
    if (a->kind == ARG_INDEX8)
      text_printf(t, "  %s %s = vload8(0, numbers.%s);\n", a->type, a->name, a->name);
    else if (!arg_is_pointer(a->kind))
      text_printf(t, "  %s %s = numbers.%s;\n", a->type, a->name, a->name);
  }
}

void args_write_head(text *t, const kernel_signature *g) {
  write_struct(t, g);
  text_printf(t, "__kernel void %s(", g->kernel);
  for (int i = 0; i < g->n_args; i++)
    if (arg_is_pointer(g->args[i].kind))
      text_printf(t, "%s %s, ", g->args[i].type, g->args[i].name);
  text_printf(t, "const %s_numbers numbers) {\n", g->kernel);
  write_names(t, g);
}

/* ---------------------------------------------------------------- checked */

static const char *const arg_kind_names[] = {[ARG_BUFFER] = "a buffer",
                                             [ARG_LOCAL] = "local memory",
                                             [ARG_IMAGE] = "an image",
                                             [ARG_INT] = "int",
                                             [ARG_UINT] = "uint",
                                             [ARG_LONG] = "long",
                                             [ARG_ULONG] = "ulong",
                                             [ARG_FLOAT] = "float",
                                             [ARG_DOUBLE] = "double",
                                             [ARG_REAL] = "real",
                                             [ARG_INDEX] = "index_t",
                                             [ARG_INDEX8] = "index8",
                                             [ARG_SEED] = "the seed",
                                             [ARG_RUN] = "the run",
                                             [ARG_FAULT] = "the error record",
                                             [ARG_FAULT_NODE] = "the node's number"};
static const char *const value_kind_names[] = {
    [VALUE_OPERAND] = "a buffer", [VALUE_SCRATCH] = "a buffer",     [VALUE_PACKED] = "a buffer",
    [VALUE_RESULT] = "a buffer",  [VALUE_ABSENT] = "a buffer",      [VALUE_IMAGE] = "an image",
    [VALUE_SEED] = "the seed",    [VALUE_RUN] = "the run",          [VALUE_INT] = "an integer",
    [VALUE_FLOAT] = "a float",    [VALUE_INDEX8] = "eight indices", [VALUE_LOCAL] = "local memory"};

static bool raw_int(raw_arg *r, int64_t v) {
  r->as.i = (int32_t)v;
  r->size = sizeof r->as.i;
  return v >= INT32_MIN && v <= INT32_MAX;
}
static bool raw_uint(raw_arg *r, int64_t v) {
  r->as.i = (int32_t)(uint32_t)v;
  r->size = sizeof r->as.i;
  return v >= 0 && v <= UINT32_MAX;
}
static bool raw_long(raw_arg *r, int64_t v) {
  r->as.l = v;
  r->size = sizeof r->as.l;
  return true;
}
static bool raw_float(raw_arg *r, double v) {
  r->as.f = (float)v;
  r->size = sizeof r->as.f;
  return true;
}
static bool raw_double(raw_arg *r, double v) {
  r->as.d = v;
  r->size = sizeof r->as.d;
  return true;
}

static bool raw_index8(raw_arg *r, const int64_t v[8], bool wide) {
  if (wide) {
    memcpy(r->as.l8, v, sizeof r->as.l8);
    r->size = sizeof r->as.l8;
    return true;
  }
  r->size = sizeof r->as.i8;
  bool fits = true;
  for (int i = 0; i < 8; i++) {
    r->as.i8[i] = (int32_t)v[i];
    fits = fits && v[i] >= INT32_MIN && v[i] <= INT32_MAX;
  }
  return fits;
}

/* real is what COMPUTE says; a long one has whole numbers. */
static bool raw_real(raw_arg *r, double v, arg_kind kind, dtype compute) {
  if (kind == ARG_REAL && compute == DTYPE_I64) return raw_long(r, (int64_t)v);
  bool is_double = kind == ARG_DOUBLE || (kind == ARG_REAL && compute == DTYPE_F64);
  return is_double ? raw_double(r, v) : raw_float(r, v);
}

static bool raw_integer(raw_arg *r, int64_t v, arg_kind kind, bool wide) {
  if (kind == ARG_INT || (kind == ARG_INDEX && !wide)) return raw_int(r, v);
  return kind == ARG_UINT ? raw_uint(r, v) : raw_long(r, v);
}

static bool is_real(arg_kind k) { return k == ARG_FLOAT || k == ARG_DOUBLE || k == ARG_REAL; }
static bool is_integer(arg_kind k) { return (k >= ARG_INT && k <= ARG_ULONG) || k == ARG_INDEX; }

bool launch_raw(const launch_value *v, arg_kind kind, bool wide, dtype compute, raw_arg *r) {
  r->data = &r->as;
  switch (v->kind) {
    case VALUE_OPERAND:
    case VALUE_SCRATCH:
    case VALUE_RESULT:
    case VALUE_PACKED:
    case VALUE_ABSENT:
      return kind == ARG_BUFFER;
    case VALUE_IMAGE:
      return kind == ARG_IMAGE;
    case VALUE_SEED:
      return kind == ARG_SEED;
    case VALUE_RUN:
      return kind == ARG_RUN;
    case VALUE_LOCAL:
      r->data = NULL;
      r->size = v->as.bytes;
      return kind == ARG_LOCAL;
    case VALUE_INDEX8:
      return kind == ARG_INDEX8 && raw_index8(r, v->as.i8, wide);
    case VALUE_FLOAT:
      return is_real(kind) && raw_real(r, v->as.f, kind, compute);
    default:
      return is_integer(kind) && raw_integer(r, v->as.i, kind, wide);
  }
}

static clave_status wrong_arg(const launch *l, const arg_info *arg, int i, const launch_value *v) {
  if (v->kind == VALUE_INT)
    return INVALID("kernel %s argument %d (%s) is %s, got %lld", l->kernel, i, arg->name,
                   arg_kind_names[arg->kind], (long long)v->as.i);
  return INVALID("kernel %s argument %d (%s) is %s, got %s", l->kernel, i, arg->name,
                 arg_kind_names[arg->kind], value_kind_names[v->kind]);
}

static int expected_values(const kernel_signature *g) {
  int n = g->n_args;
  while (n > 0 && (g->args[n - 1].kind == ARG_FAULT || g->args[n - 1].kind == ARG_FAULT_NODE)) n--;
  return n;
}

clave_status launch_check(const launch *l, const kernel_signature *g, dtype compute) {
  int n = expected_values(g);
  if (l->n_values < n)
    return INVALID("kernel %s argument %d (%s) is missing", l->kernel, l->n_values,
                   g->args[l->n_values].name);
  if (l->n_values > n)
    return INVALID("kernel %s takes %d arguments, got %d", l->kernel, n, l->n_values);
  for (int i = 0; i < n; i++) {
    raw_arg r;
    if (!launch_raw(&l->values[i], g->args[i].kind, l->wide, compute, &r))
      return wrong_arg(l, &g->args[i], i, &l->values[i]);
  }
  return NULL;
}
