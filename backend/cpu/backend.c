/* The vtable of the CPU backend. Buffers are host memory, a stream runs each instruction
 * immediately, and the first fault is reported by finish. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

enum { LAYOUTS_VERSION = 5 }; /* increment when a kernel packs differently: test_packed_files.py */

/* ---------------------------------------------------------------- streams */

/* Returns the running recording's scratch memory; NULL if a kernel requests more than its
 * scratch_bytes. */
static void *cpu_backend_get_scratch(void *pool, size_t bytes) {
  static char nothing;
  cpu_stream *stream = pool;
  size_t size = kernel_scratch_size(bytes);
  if (bytes == 0) return &nothing;
  if (bytes > stream->scratch_size || size > stream->scratch_size - stream->scratch_used)
    return NULL;
  void *memory = stream->scratch + stream->scratch_used;
  stream->scratch_used += size;
  return memory;
}

static void cpu_backend_run_parallel(void *pool, int64_t n, int64_t grain, kernel_body body,
                                     void *ctx) {
  const cpu_stream *stream = pool;
  thread_pool_for_some(stream->threads, stream->kernel.n_threads, n, grain, body, ctx);
}

static clave_status stream_create(backend *backend, stream **out) {
  *out = NULL;
  cpu_stream *queue = calloc(1, sizeof *queue);
  if (!queue) return status_no_memory();
  queue->base.owner = backend;
  queue->threads = ((cpu_backend *)backend)->threads;
  queue->kernel = cpu_kernel_context(backend);
  queue->kernel.parallel_for = cpu_backend_run_parallel;
  queue->kernel.pool = queue;
  queue->kernel.fault = &queue->fault;
  queue->kernel.scratch = cpu_backend_get_scratch;
  *out = &queue->base;
  return NULL;
}

static void stream_destroy(backend *backend, stream *stream) {
  (void)backend;
  if (!stream) return;
  cpu_stream *queue = (cpu_stream *)stream;
  free(queue->spans);
  free(queue);
}

static clave_status reserve_span(cpu_stream *stream, uint32_t number) {
  if (number < stream->n_spans) return NULL;
  uint32_t count = number < 512 ? 1024 : number * 2;
  cpu_span *spans = realloc(stream->spans, count * sizeof *spans);
  if (!spans) return status_no_memory();
  memset(spans + stream->n_spans, 0, (count - stream->n_spans) * sizeof *spans);
  stream->spans = spans;
  stream->n_spans = count;
  return NULL;
}

static void record_fault(cpu_stream *stream, uint32_t number) {
  if (stream->fault.kind != KERNEL_FAULT_NONE && !stream->first.present)
    stream->first = (device_fault){.present = true, .node = number, .fault = stream->fault};
  stream->fault.kind = KERNEL_FAULT_NONE;
}

static clave_status cpu_backend_run(stream *base, const recording *recorded, void **state,
                                    const run_operands *operands, uint32_t number) {
  cpu_stream *queue = (cpu_stream *)base;
  if (queue->profile) TRY(reserve_span(queue, number));
  int64_t start = queue->profile ? clock_ns() : 0;
  queue->kernel.seed = operands->random.seed;
  queue->kernel.stretch = operands->random.run;
  clave_status st = cpu_run_commands(queue, recorded, state, operands);
  record_fault(queue, number);
  if (queue->profile) queue->spans[number] = (cpu_span){start, clock_ns()};
  return st;
}

static clave_status cpu_backend_write_buffer(stream *stream, buffer *to, size_t offset,
                                             const void *from, size_t bytes) {
  (void)stream;
  if (bytes > 0 && cpu_buffer_data(to) + offset != from)
    memcpy(cpu_buffer_data(to) + offset, from, bytes);
  return NULL;
}

static clave_status cpu_backend_read_buffer(stream *stream, const buffer *from, size_t offset,
                                            void *to, size_t bytes) {
  (void)stream;
  if (bytes > 0 && cpu_buffer_data(from) + offset != to)
    memcpy(to, cpu_buffer_data(from) + offset, bytes);
  return NULL;
}

static clave_status fill_zero(stream *stream, buffer *to, size_t offset, size_t bytes) {
  (void)stream;
  if (bytes > 0) memset(cpu_buffer_data(to) + offset, 0, bytes);
  return NULL;
}

static clave_status copy_buffer(stream *stream, buffer *to, size_t to_offset, const buffer *from,
                                size_t from_offset, size_t bytes) {
  (void)stream;
  if (bytes > 0)
    memcpy(cpu_buffer_data(to) + to_offset, cpu_buffer_data(from) + from_offset, bytes);
  return NULL;
}

static clave_status cpu_backend_finish(stream *base, device_fault *fault) {
  cpu_stream *queue = (cpu_stream *)base;
  if (fault) *fault = queue->first;
  queue->first = (device_fault){0};
  return NULL;
}

static clave_status profile(stream *base, bool on) {
  ((cpu_stream *)base)->profile = on;
  return NULL;
}

static clave_status cpu_backend_times(stream *base, uint32_t number, int64_t *start_ns,
                                      int64_t *end_ns) {
  const cpu_stream *queue = (const cpu_stream *)base;
  cpu_span of = number < queue->n_spans ? queue->spans[number] : (cpu_span){0, 0};
  *start_ns = of.start_ns;
  *end_ns = of.end_ns;
  return NULL;
}

/* ---------------------------------------------------------------- the device */

static bool supports(backend *backend, const rule_context *context, const ir_instruction *ins,
                     const char **reason) {
  (void)backend;
  (void)context;
  if (ins->op_type < IR_OP_COUNT && cpu_table[ins->op_type]) return true;
  *reason = ins->op_type == IR_OP_CUSTOM ? "custom kernels are for OpenCL devices"
                                         : "not an op of a backend";
  return false;
}

static void cpu_backend_destroy(backend *backend) {
  if (!backend) return;
  cpu_backend *created = (cpu_backend *)backend;
  thread_pool_destroy(created->threads);
  free(created);
}

/* Copies the processor's name from Linux's /proc/cpuinfo; "CPU" if none exists. */
static void read_cpu_name(char *name, size_t size) {
  (void)snprintf(name, size, "CPU");
  FILE *file = fopen("/proc/cpuinfo", "r");
  if (!file) return;
  char line[256];
  while (fgets(line, sizeof line, file)) {
    if (strncmp(line, "model name", 10) != 0) continue;
    const char *value = strchr(line, ':');
    if (!value) break;
    value += strspn(value, ": \t");
    (void)snprintf(name, size, "%.*s", (int)strcspn(value, "\n"), value);
    break;
  }
  (void)fclose(file);
}

static void fill_info(cpu_backend *cpu_backend) {
  read_cpu_name(cpu_backend->name, sizeof cpu_backend->name);
  (void)snprintf(cpu_backend->weight_layout, sizeof cpu_backend->weight_layout, "cpu %d %s",
                 (int)LAYOUTS_VERSION, cpu_level_name());
  uint64_t memory = memory_total();
  cpu_backend->base.info =
      (backend_info){.kind = "cpu",
                     .name = cpu_backend->name,
                     .platform = "clave C backend",
                     .driver = "",
                     .version = "",
                     .type = "CPU",
                     .extensions = "",
                     .memory = memory,
                     .max_alloc = memory,
                     .alignment = MEMORY_ALIGNMENT,
                     .compute_units = (uint32_t)thread_pool_size(cpu_backend->threads),
                     .clock_mhz = 0,
                     .shares_host_memory = true,
                     .wrap_alignment = 1,
                     .wrap_multiple = 1,
                     .runs_on_host = true,
                     .weight_layout = cpu_backend->weight_layout};
}

static const backend_profile profiling = {.enable = profile, .times = cpu_backend_times};
static const backend_precision precision = {.supports_bf16 = cpu_supports_bf16};
static const backend_vtable vtable = {
    .destroy = cpu_backend_destroy,
    .buffer_create = cpu_buffer_create,
    .buffer_wrap = cpu_buffer_wrap,
    .buffer_destroy = cpu_buffer_destroy,
    .supports = supports,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .record = cpu_record,
    .recording_destroy = cpu_recording_destroy,
    .run = cpu_backend_run,
    .state_destroy = cpu_state_destroy,
    .pack = cpu_pack,
    .write = cpu_backend_write_buffer,
    .read = cpu_backend_read_buffer,
    .fill_zero = fill_zero,
    .copy = copy_buffer,
    .finish = cpu_backend_finish,
    .profile = &profiling,
    .precision = &precision,
};

static void use_portable(void) { cpu_use_at_most(CPU_PORTABLE); }
static void use_avx2(void) { cpu_use_at_most(CPU_AVX2); }
static void use_avx512(void) { cpu_use_at_most(CPU_AVX512); }
static void use_all(void) {}

/* Chooses the instruction sets for the kernels of this process. They cannot change later, because
 * weights are packed for them. */
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
  cpu_backend *cpu_backend = calloc(1, sizeof *cpu_backend);
  if (!cpu_backend) return status_no_memory();
  clave_status st = thread_pool_create(n_threads, &cpu_backend->threads);
  if (st) {
    cpu_backend_destroy(&cpu_backend->base);
    return st;
  }
  cpu_backend->base.vt = &vtable;
  fill_info(cpu_backend);
  *out = &cpu_backend->base;
  return NULL;
}
