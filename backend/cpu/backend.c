/* The C backend's vtable: memory that is the host's own, streams that run each instruction at once,
 * the fault record. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/cpu/cpu.h"

enum { ALIGNMENT = 64 };

typedef struct cpu_backend {
  backend base;
  thread_pool *threads; /* owned */
  char name[128];
} cpu_backend;

typedef struct cpu_buffer {
  buffer base;
  void *data;
  bool owned;
} cpu_buffer;

/* A request that did not fit into the scratch block; its memory follows the header. */
typedef struct scratch_extra {
  struct scratch_extra *next;
} scratch_extra;

/* ---------------------------------------------------------------- memory */

static size_t round_up(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static void *alloc_aligned(size_t bytes) {
  if (bytes > SIZE_MAX - 2 * ALIGNMENT) return NULL;
  return aligned_alloc(ALIGNMENT, bytes == 0 ? ALIGNMENT : round_up(bytes));
}

static clave_status create_buffer(void *data, size_t bytes, bool owned, buffer **out) {
  *out = NULL;
  cpu_buffer *b = data ? calloc(1, sizeof *b) : NULL;
  if (!b) {
    if (owned) free(data);
    return status_no_memory();
  }
  b->base.bytes = bytes;
  b->data = data;
  b->owned = owned;
  *out = &b->base;
  return NULL;
}

static clave_status buffer_create(backend *b, size_t bytes, buffer **out) {
  (void)b;
  return create_buffer(alloc_aligned(bytes), bytes, true, out);
}

static clave_status buffer_wrap(backend *b, const void *host, size_t bytes, bool writable,
                                buffer **out) {
  (void)writable;
  if (bytes == 0) return buffer_create(b, 0, out);
  return create_buffer((void *)(uintptr_t)host, bytes, false, out);
}

static void buffer_destroy(backend *b, buffer *buf) {
  (void)b;
  if (!buf) return;
  cpu_buffer *c = (cpu_buffer *)buf;
  if (c->owned) free(c->data);
  free(c);
}

static char *buffer_data(const buffer *b) { return ((const cpu_buffer *)b)->data; }

/* ---------------------------------------------------------------- scratch */

static void *take_extra(cpu_scratch *c, size_t bytes) {
  char *memory = alloc_aligned(bytes + ALIGNMENT);
  if (!memory) return NULL;
  scratch_extra *extra = (scratch_extra *)(void *)memory;
  extra->next = c->extras;
  c->extras = extra;
  return memory + ALIGNMENT;
}

static void *take_scratch(void *pool, size_t bytes) {
  cpu_scratch *c = &((cpu_stream *)pool)->scratch;
  if (bytes > SIZE_MAX / 4 || c->wanted > SIZE_MAX / 4) return NULL;
  bytes = round_up(bytes > 0 ? bytes : 1);
  c->wanted += bytes;
  if (bytes > c->size - c->used) return take_extra(c, bytes);
  void *p = c->block + c->used;
  c->used += bytes;
  return p;
}

static void free_extras(cpu_scratch *c) {
  while (c->extras) {
    scratch_extra *next = c->extras->next;
    free(c->extras);
    c->extras = next;
  }
}

/* After a call that did not fit, the block grows to what it wanted. */
void cpu_free_scratch(cpu_stream *s) {
  cpu_scratch *c = &s->scratch;
  if (c->extras) {
    free_extras(c);
    free(c->block);
    c->block = alloc_aligned(c->wanted);
    c->size = c->block ? c->wanted : 0;
  }
  c->used = 0;
  c->wanted = 0;
}

/* ---------------------------------------------------------------- operands */

ktensor cpu_view(const bound_tensor *b, const tensor *t) {
  ktensor k = {.type = t->type, .rank = t->rank};
  int64_t offset = t->offset * (int64_t)dtype_size(t->type);
  k.data = buffer_data(b->buf) + b->buffer_offset + offset;
  for (int d = 0; d < t->rank; d++) {
    k.dims[d] = t->dims[d];
    k.strides[d] = t->strides[d];
  }
  return k;
}

ktensor cpu_bound_ktensor(const bound_tensor *b) { return cpu_view(b, &b->t); }

ktensor cpu_tensor(const node *n, uint32_t tid) { return cpu_bound_ktensor(&n->tensors[tid]); }

tensor cpu_broadcast(const bound_tensor *b, const tensor *shape) {
  tensor t;
  tensor_broadcast(&b->t, shape->rank, shape->dims, &t);
  return t;
}

ktensor cpu_axis_last(const ktensor *t, int axis) {
  ktensor k = *t;
  if (k.rank == 0) {
    k.rank = 1;
    k.dims[0] = k.strides[0] = 1;
    return k;
  }
  for (int d = axis; d + 1 < k.rank; d++) {
    k.dims[d] = t->dims[d + 1];
    k.strides[d] = t->strides[d + 1];
  }
  k.dims[k.rank - 1] = t->dims[axis];
  k.strides[k.rank - 1] = t->strides[axis];
  return k;
}

void cpu_align_right(const ir_i32s *from, int n, int64_t absent, int64_t out[SPATIAL_DIMS]) {
  for (int k = 0; k < SPATIAL_DIMS; k++) {
    int i = k - (SPATIAL_DIMS - n);
    out[k] = i >= 0 && (uint32_t)i < from->count ? from->items[i] : absent;
  }
}

void cpu_align_dims(const ktensor *t, int n, int64_t out[SPATIAL_DIMS]) {
  for (int k = 0; k < SPATIAL_DIMS; k++)
    out[k] = k < SPATIAL_DIMS - n ? 1 : t->dims[t->rank - SPATIAL_DIMS + k];
}

int64_t cpu_int(const node *n, const ir_int_or_vid *v) {
  if (v->vid == IR_NONE) return v->literal;
  const scalar_value *value = &n->values[v->vid];
  return value->type == IR_VALUE_TYPE_FLOAT ? (int64_t)value->f : value->i;
}

double cpu_float(const node *n, const ir_float_or_vid *v) {
  if (v->vid == IR_NONE) return v->literal;
  const scalar_value *value = &n->values[v->vid];
  return value->type == IR_VALUE_TYPE_FLOAT ? value->f : (double)value->i;
}

/* ---------------------------------------------------------------- streams */

static void run_parallel(void *pool, int64_t n, int64_t grain, kernel_body body, void *ctx) {
  if (n <= 0) return;
  if (n <= grain) {
    body(ctx, 0, n);
    return;
  }
  thread_pool_for(((cpu_stream *)pool)->threads, n, grain, body, ctx);
}

static clave_status stream_create(backend *b, stream **out) {
  *out = NULL;
  cpu_stream *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->base.owner = b;
  s->threads = ((cpu_backend *)b)->threads;
  s->kernel = (kernel_context){.parallel_for = run_parallel,
                               .pool = s,
                               .n_threads = thread_pool_size(s->threads),
                               .fault = &s->fault,
                               .scratch = take_scratch};
  *out = &s->base;
  return NULL;
}

static void stream_destroy(backend *b, stream *s) {
  (void)b;
  if (!s) return;
  cpu_stream *c = (cpu_stream *)s;
  free_extras(&c->scratch);
  free(c->scratch.block);
  free(c->spans);
  free(c);
}

static clave_status reserve_span(cpu_stream *s, uint32_t number) {
  if (number < s->n_spans) return NULL;
  uint32_t count = number < 512 ? 1024 : number * 2;
  cpu_span *spans = realloc(s->spans, count * sizeof *spans);
  if (!spans) return status_no_memory();
  memset(spans + s->n_spans, 0, (count - s->n_spans) * sizeof *spans);
  s->spans = spans;
  s->n_spans = count;
  return NULL;
}

static void record_fault(cpu_stream *s, uint32_t number) {
  if (s->fault.kind != KERNEL_FAULT_NONE && !s->first.present)
    s->first = (device_fault){.present = true, .node = number, .fault = s->fault};
  s->fault.kind = KERNEL_FAULT_NONE;
}

/* The op function runs each time, on the operands of the run. */
typedef struct cpu_recording {
  recording base;
  const ir_instruction *instruction;
  const scalar_value *values;
} cpu_recording;

static clave_status record(backend *b, const node *n, bool fast, recording **out) {
  (void)b;
  (void)fast;
  *out = NULL;
  ir_op op = n->instruction->op_type;
  if (op >= IR_OP_COUNT || !cpu_table[op])
    return UNSUPPORTED("op %d never runs on a backend", (int)op);
  cpu_recording *r = calloc(1, sizeof *r);
  if (!r) return status_no_memory();
  r->instruction = n->instruction;
  r->values = n->values;
  *out = &r->base;
  return NULL;
}

static void recording_destroy(backend *b, recording *r) {
  (void)b;
  free(r);
}

static clave_status run(stream *base, const recording *recorded, void **state,
                        const run_operands *o, uint32_t number) {
  (void)state;
  cpu_stream *s = (cpu_stream *)base;
  const cpu_recording *r = (const cpu_recording *)recorded;
  const node n = {.instruction = r->instruction, .tensors = o->tensors, .values = r->values};
  if (s->profile) TRY(reserve_span(s, number));
  int64_t start = s->profile ? clock_ns() : 0;
  s->random = o->random;
  clave_status st = cpu_table[r->instruction->op_type](s, &n);
  cpu_free_scratch(s);
  record_fault(s, number);
  if (s->profile) s->spans[number] = (cpu_span){start, clock_ns()};
  return st;
}

static clave_status write_buffer(stream *s, buffer *to, size_t offset, const void *from,
                                 size_t bytes) {
  (void)s;
  if (bytes > 0 && buffer_data(to) + offset != from) memcpy(buffer_data(to) + offset, from, bytes);
  return NULL;
}

static clave_status read_buffer(stream *s, const buffer *from, size_t offset, void *to,
                                size_t bytes) {
  (void)s;
  if (bytes > 0 && buffer_data(from) + offset != to) memcpy(to, buffer_data(from) + offset, bytes);
  return NULL;
}

static clave_status fill_zero(stream *s, buffer *to, size_t offset, size_t bytes) {
  (void)s;
  if (bytes > 0) memset(buffer_data(to) + offset, 0, bytes);
  return NULL;
}

static clave_status copy_buffer(stream *s, buffer *to, size_t to_offset, const buffer *from,
                                size_t from_offset, size_t bytes) {
  (void)s;
  if (bytes > 0) memcpy(buffer_data(to) + to_offset, buffer_data(from) + from_offset, bytes);
  return NULL;
}

static clave_status finish(stream *base, device_fault *fault) {
  cpu_stream *s = (cpu_stream *)base;
  if (fault) *fault = s->first;
  s->first = (device_fault){0};
  return NULL;
}

static clave_status profile(stream *base, bool on) {
  ((cpu_stream *)base)->profile = on;
  return NULL;
}

static clave_status times(stream *base, uint32_t number, int64_t *start_ns, int64_t *end_ns) {
  const cpu_stream *s = (const cpu_stream *)base;
  cpu_span span = number < s->n_spans ? s->spans[number] : (cpu_span){0, 0};
  *start_ns = span.start_ns;
  *end_ns = span.end_ns;
  return NULL;
}

/* ---------------------------------------------------------------- the device */

static bool supports(backend *b, const rule_context *c, const ir_instruction *ins,
                     const char **reason) {
  (void)b;
  (void)c;
  if (ins->op_type < IR_OP_COUNT && cpu_table[ins->op_type]) return true;
  *reason = "not an op of a backend";
  return false;
}

static void destroy(backend *b) {
  if (!b) return;
  cpu_backend *c = (cpu_backend *)b;
  thread_pool_destroy(c->threads);
  free(c);
}

/* The processor's name as Linux tells it; elsewhere, and where it does not, "CPU". */
static void read_cpu_name(char *name, size_t size) {
  (void)snprintf(name, size, "CPU");
  FILE *f = fopen("/proc/cpuinfo", "r");
  if (!f) return;
  char line[256];
  while (fgets(line, sizeof line, f)) {
    if (strncmp(line, "model name", 10) != 0) continue;
    const char *value = strchr(line, ':');
    if (!value) break;
    value += strspn(value, ": \t");
    (void)snprintf(name, size, "%.*s", (int)strcspn(value, "\n"), value);
    break;
  }
  (void)fclose(f);
}

static uint64_t total_memory(void) {
  long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}

static void fill_info(cpu_backend *b) {
  read_cpu_name(b->name, sizeof b->name);
  uint64_t memory = total_memory();
  b->base.info = (backend_info){.kind = "cpu",
                                .name = b->name,
                                .platform = "clave C backend",
                                .driver = "",
                                .type = "CPU",
                                .extensions = "",
                                .memory = memory,
                                .max_alloc = memory,
                                .alignment = ALIGNMENT,
                                .compute_units = (uint32_t)thread_pool_size(b->threads),
                                .clock_mhz = 0,
                                .shares_host_memory = true};
}

static const backend_vtable vtable = {
    .destroy = destroy,
    .buffer_create = buffer_create,
    .buffer_wrap = buffer_wrap,
    .buffer_destroy = buffer_destroy,
    .supports = supports,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .record = record,
    .recording_destroy = recording_destroy,
    .run = run,
    .write = write_buffer,
    .read = read_buffer,
    .enqueue_write = write_buffer,
    .enqueue_read = read_buffer,
    .fill_zero = fill_zero,
    .copy = copy_buffer,
    .finish = finish,
    .profile = profile,
    .times = times,
};

clave_status cpu_backend_create(int n_threads, backend **out) {
  *out = NULL;
  cpu_backend *b = calloc(1, sizeof *b);
  if (!b) return status_no_memory();
  clave_status st = thread_pool_create(n_threads, &b->threads);
  if (st) {
    destroy(&b->base);
    return st;
  }
  b->base.vt = &vtable;
  fill_info(b);
  *out = &b->base;
  return NULL;
}
