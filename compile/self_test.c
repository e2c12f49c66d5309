/* What a compiled program computes of drawn inputs, as the interpreter does. */
#include "compile/self_test.h"

#include <stdlib.h>
#include <string.h>

#include "compile/fields.h"
#include "interp/interp.h"
#include "interp/scalar.h"

static size_t bytes_of(const tensor *t) { return (size_t)tensor_numel(t) * dtype_size(t->type); }

size_t self_test_bytes(const compile_plan *k) {
  const ir_arguments *all = &k->g->method->inputs;
  size_t bytes = 0;
  for (uint32_t i = 0; i < all->count; i++)
    if (all->items[i].tensor != IR_NONE)
      bytes += plan_aligned(bytes_of(&k->p->types[all->items[i].tensor]));
  return bytes;
}

/* ---------------------------------------------------------------- inputs */

/* A method under test. */
typedef struct self_test {
  const program *p;
  const compile_options *o;
  session *s;
  uint32_t method;
  uint64_t seed;
} self_test;

static dtype scalar_dtype(const ir_value *v) {
  return v->type == IR_VALUE_TYPE_FLOAT  ? DTYPE_F64
         : v->type == IR_VALUE_TYPE_BOOL ? DTYPE_BOOL
                                         : DTYPE_I64;
}

/* A fixed one is none of the program's inputs: nothing is drawn for it. */
static clave_status set_scalar(self_test *t, uint32_t i, const ir_argument *a) {
  const ir_value *v = &t->p->ir.values.items[a->value];
  const compile_dim *fixed = plan_find_dim(t->o, v->name);
  unsigned char bytes[8] = {0};
  host_tensor h = {.t = {.type = scalar_dtype(v)}, .data = bytes};
  if (fixed) {
    scalar_value value = {.known = true, .type = v->type, .i = fixed->size};
    if (v->type == IR_VALUE_TYPE_FLOAT) value.f = (double)fixed->size;
    scalar_to_bytes(&value, &h.t, bytes);
  } else {
    draw_elements(h.t.type, 1, bytes, &t->seed);
  }
  return session_set_input(t->s, t->method, i, &h);
}

static int64_t choose_dim(const self_test *t, const ir_int_or_vid *d) {
  if (d->vid == IR_NONE) return d->literal;
  const ir_value *v = &t->p->ir.values.items[d->vid];
  const compile_dim *fixed = plan_find_dim(t->o, v->name);
  if (fixed) return fixed->size;
  return drawn_size(v->min.present ? v->min.value : 0, v->max.present ? v->max.value : INT64_MAX);
}

static clave_status set_tensor(self_test *t, uint32_t i, const ir_argument *a) {
  const ir_tensor *of = &t->p->ir.tensors.items[a->tensor];
  host_tensor h = {.t = {.type = t->p->types[a->tensor].type, .rank = (int)of->shape.count}};
  size_t bytes = dtype_size(h.t.type);
  for (uint32_t k = 0; k < of->shape.count; k++) {
    h.t.dims[k] = choose_dim(t, &of->shape.items[k]);
    if (__builtin_mul_overflow(bytes, (size_t)h.t.dims[k], &bytes)) return status_no_memory();
  }
  tensor_set_contiguous(&h.t);
  h.data = malloc(bytes + 1);
  if (!h.data) return status_no_memory();
  draw_elements(h.t.type, bytes / dtype_size(h.t.type), h.data, &t->seed);
  clave_status st = session_set_input(t->s, t->method, i, &h);
  free(h.data);
  return st;
}

/* ---------------------------------------------------------------- runs */

static clave_status take_output(const self_test *t, uint32_t i, test_output *out, text *elements) {
  static const char zeros[MEMORY_ALIGNMENT];
  host_tensor h;
  TRY(session_output(t->s, t->method, i, &h));
  *out = (test_output){.bytes = bytes_of(&h.t)};
  digest_elements(h.t.type, (size_t)tensor_numel(&h.t), h.data, out->digest);
  if (!elements) return NULL;
  out->offset = elements->size;
  text_append(elements, h.data, out->bytes);
  text_append(elements, zeros, plan_aligned(out->bytes) - out->bytes);
  return text_status(elements);
}

static clave_status run(self_test *t, test_output *out, text *elements) {
  const ir_method *m = &t->p->ir.methods.items[t->method];
  for (uint32_t i = 0; i < m->inputs.count; i++) {
    const ir_argument *a = &m->inputs.items[i];
    TRY(a->tensor == IR_NONE ? set_scalar(t, i, a) : set_tensor(t, i, a));
  }
  TRY(session_run(t->s, t->method));
  for (uint32_t i = 0; i < m->outputs.count; i++) TRY(take_output(t, i, &out[i], elements));
  return NULL;
}

clave_status self_test_run(const program *p, const compile_options *o, executable *x,
                           constant_store *store, uint32_t number, test_output *out,
                           text *elements) {
  self_test t = {.p = p, .o = o, .method = number, .seed = DRAWN_SEED};
  clave_status st = session_create(x, &store, &(session_options){0}, &t.s);
  if (!st) st = run(&t, out, elements);
  session_destroy(t.s);
  return status_while(st, "running method '%s' on drawn inputs, whose results --verify would keep",
                      p->ir.methods.items[number].name);
}

/* ---------------------------------------------------------------- the bench */

static clave_status set_up(const program *p, test_bench *b) {
  TRY(cpu_backend_create(0, &b->cpu));
  const device_set devices = {.backends = {b->cpu}, .count = 1};
  TRY(executable_create(p, &devices, &(executable_options){0}, &b->x));
  return constant_store_create(p, b->cpu, &b->store);
}

clave_status test_bench_create(const program *p, test_bench *out) {
  *out = (test_bench){0};
  clave_status st = set_up(p, out);
  if (st) test_bench_destroy(out);
  return st;
}

void test_bench_destroy(test_bench *b) {
  constant_store_destroy(b->store);
  executable_destroy(b->x);
  if (b->cpu) b->cpu->vt->destroy(b->cpu);
  *b = (test_bench){0};
}

void write_digests(const test_output *kept, uint32_t n, uint32_t number, text *to) {
  text_printf(to, "static const char *const digests_%u[] = {\n", number);
  for (uint32_t i = 0; i < n; i++) text_printf(to, "  \"%s\",\n", kept[i].digest);
  text_puts(to, "  NULL};\n");
}

void write_processor(const backend *cpu, text *to) {
  text_puts(to, "static const char processor[] = ");
  write_string(to, cpu->info.weight_layout);
  text_puts(to, ";\n\n");
}
