/* The C backend's vtable: memory that is the host's own, streams that run each instruction at once,
 * the fault record. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/support/features.h"
#include "base/clock.h"
#include "base/device_class.h"
#include "base/memory.h"

typedef struct cpu_backend {
  backend base;
  thread_pool *threads; /* owned */
  char name[128], weight_layout[32];
} cpu_backend;

enum { LAYOUTS_VERSION = 4 }; /* grows when a kernel packs otherwise: test_packed_files.py */

/* ---------------------------------------------------------------- streams */

/* What the recording that runs has asked for holds all that its kernels take. */
static void *take_scratch(void *pool, size_t bytes) {
  static char nothing;
  cpu_stream *s = pool;
  size_t size = kernel_scratch_size(bytes);
  if (bytes == 0) return &nothing;
  if (bytes > s->scratch_size || size > s->scratch_size - s->scratch_used) return NULL;
  void *p = s->scratch + s->scratch_used;
  s->scratch_used += size;
  return p;
}

static void run_parallel(void *pool, int64_t n, int64_t grain, kernel_body body, void *ctx) {
  const cpu_stream *s = pool;
  thread_pool_for_some(s->threads, s->kernel.n_threads, n, grain, body, ctx);
}

static clave_status stream_create(backend *b, stream **out) {
  *out = NULL;
  cpu_stream *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->base.owner = b;
  s->threads = ((cpu_backend *)b)->threads;
  s->kernel = cpu_kernel_context(b);
  s->kernel.parallel_for = run_parallel;
  s->kernel.pool = s;
  s->kernel.fault = &s->fault;
  s->kernel.scratch = take_scratch;
  *out = &s->base;
  return NULL;
}

static void stream_destroy(backend *b, stream *s) {
  (void)b;
  if (!s) return;
  cpu_stream *c = (cpu_stream *)s;
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

static clave_status run(stream *base, const recording *recorded, void **state,
                        const run_operands *o, uint32_t number) {
  cpu_stream *s = (cpu_stream *)base;
  if (s->profile) TRY(reserve_span(s, number));
  int64_t start = s->profile ? clock_ns() : 0;
  s->kernel.seed = o->random.seed;
  s->kernel.stretch = o->random.run;
  clave_status st = cpu_run_commands(s, recorded, state, o);
  record_fault(s, number);
  if (s->profile) s->spans[number] = (cpu_span){start, clock_ns()};
  return st;
}

static clave_status write_buffer(stream *s, buffer *to, size_t offset, const void *from,
                                 size_t bytes) {
  (void)s;
  if (bytes > 0 && cpu_buffer_data(to) + offset != from)
    memcpy(cpu_buffer_data(to) + offset, from, bytes);
  return NULL;
}

static clave_status read_buffer(stream *s, const buffer *from, size_t offset, void *to,
                                size_t bytes) {
  (void)s;
  if (bytes > 0 && cpu_buffer_data(from) + offset != to)
    memcpy(to, cpu_buffer_data(from) + offset, bytes);
  return NULL;
}

static clave_status fill_zero(stream *s, buffer *to, size_t offset, size_t bytes) {
  (void)s;
  if (bytes > 0) memset(cpu_buffer_data(to) + offset, 0, bytes);
  return NULL;
}

static clave_status copy_buffer(stream *s, buffer *to, size_t to_offset, const buffer *from,
                                size_t from_offset, size_t bytes) {
  (void)s;
  if (bytes > 0)
    memcpy(cpu_buffer_data(to) + to_offset, cpu_buffer_data(from) + from_offset, bytes);
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
  cpu_span of = number < s->n_spans ? s->spans[number] : (cpu_span){0, 0};
  *start_ns = of.start_ns;
  *end_ns = of.end_ns;
  return NULL;
}

/* ---------------------------------------------------------------- the device */

static bool supports(backend *b, const rule_context *c, const ir_instruction *ins,
                     const char **reason) {
  (void)b;
  (void)c;
  if (ins->op_type < IR_OP_COUNT && cpu_table[ins->op_type]) return true;
  *reason = ins->op_type == IR_OP_CUSTOM ? "custom kernels are for OpenCL devices"
                                         : "not an op of a backend";
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
  (void)snprintf(b->weight_layout, sizeof b->weight_layout, "cpu %d %s", (int)LAYOUTS_VERSION,
                 cpu_level_name());
  uint64_t memory = total_memory();
  b->base.info = (backend_info){.kind = "cpu",
                                .name = b->name,
                                .platform = "clave C backend",
                                .driver = "",
                                .type = "CPU",
                                .extensions = "",
                                .memory = memory,
                                .max_alloc = memory,
                                .alignment = MEMORY_ALIGNMENT,
                                .compute_units = (uint32_t)thread_pool_size(b->threads),
                                .clock_mhz = 0,
                                .shares_host_memory = true,
                                .runs_on_host = true,
                                .weight_layout = b->weight_layout};
}

static const backend_profile profiling = {.enable = profile, .times = times};
static const backend_precision precision = {.supports_bf16 = cpu_supports_bf16};
static const backend_vtable vtable = {
    .destroy = destroy,
    .buffer_create = cpu_buffer_create,
    .buffer_wrap = cpu_buffer_wrap,
    .buffer_destroy = cpu_buffer_destroy,
    .supports = supports,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .record = cpu_record,
    .recording_destroy = cpu_recording_destroy,
    .run = run,
    .state_destroy = cpu_state_destroy,
    .pack = cpu_pack,
    .write = write_buffer,
    .read = read_buffer,
    .fill_zero = fill_zero,
    .copy = copy_buffer,
    .finish = finish,
    .profile = &profiling,
    .precision = &precision,
};

static void use_portable(void) { cpu_use_at_most(CPU_PORTABLE); }
static void use_avx2(void) { cpu_use_at_most(CPU_AVX2); }
static void use_avx512(void) { cpu_use_at_most(CPU_AVX512); }
static void use_all(void) {}

/* What the kernels of a process use, once and for all: weights are packed for it. */
static clave_status choose_level(void) {
  static once chosen;
  device_class given;
  TRY(device_class_read(&given));
  once_run(&chosen, given.portable ? use_portable
                    : given.avx2   ? use_avx2
                    : given.avx512 ? use_avx512
                                   : use_all);
  return NULL;
}

clave_status cpu_backend_create(int n_threads, backend **out) {
  *out = NULL;
  TRY(choose_level());
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
