/* Sessions of the public API: resolves names to indices, reads options, and takes shared stores. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/float_env.h"
#include "clave_host.h"
#include "clave_opencl.h"

/* Reads CLAVE_MEMORY_BUDGET: bytes, with an optional K, M or G; 0 if unset. */
static clave_status read_budget(uint64_t *out) {
  const char *text = getenv("CLAVE_MEMORY_BUDGET");
  char *end;
  *out = 0;
  if (!text || !*text) return NULL;
  errno = 0;
  unsigned long long n = strtoull(text, &end, 10);
  const char *units = "KMG", *unit = *end ? strchr(units, *end) : NULL;
  int shift = unit ? 10 * (int)(unit - units + 1) : 0;
  bool good = *text >= '0' && *text <= '9' && !errno && n > 0 && n <= (UINT64_MAX >> shift) &&
              (!*end || (unit && !end[1]));
  if (!good)
    return INVALID(
        "CLAVE_MEMORY_BUDGET: expected a number of bytes such as 500000000, 500M or 4G, got '%s'",
        text);
  *out = (uint64_t)n << shift;
  return NULL;
}

static clave_status session_read_precision(bool *fast) {
  const char *text = getenv("CLAVE_PRECISION");
  if (!text || !*text || strcmp(text, "strict") == 0) return NULL;
  if (strcmp(text, "fast") != 0)
    return INVALID("CLAVE_PRECISION: expected strict or fast, got '%s'", text);
  *fast = true;
  return NULL;
}

static clave_status read_self_check(session_options *out) {
  const char *text = getenv("CLAVE_SELF_CHECK");
  if (!text || !*text || strcmp(text, "on") == 0) return NULL;
  out->strict_check = strcmp(text, "strict") == 0;
  if (out->strict_check) return NULL;
  out->unchecked = strcmp(text, "off") == 0;
  return out->unchecked ? NULL
                        : INVALID("CLAVE_SELF_CHECK: expected on, off or strict, got '%s'", text);
}

clave_status read_session_options(const clave_session_options *given, session_options *out) {
  clave_session_options options;
  TRY(sized_read(given, &options, SIZED(clave_session_options, seed)));
  *out = (session_options){.memory_budget = options.memory_budget,
                           .poison = options.poison,
                           .profile = options.profile,
                           .unchecked = options.unchecked,
                           .seed = options.seed,
                           .progress = options.progress,
                           .progress_ctx = options.progress_ctx,
                           .cancel = options.cancel,
                           .cancel_ctx = options.cancel_ctx};
  TRY(read_self_check(out));
  return out->memory_budget ? NULL : read_budget(&out->memory_budget);
}

clave_status read_executable_options(const clave_session_options *given, executable_options *out) {
  clave_session_options options;
  TRY(sized_read(given, &options, SIZED(clave_session_options, seed)));
  *out = (executable_options){.unfused = options.unfused,
                              .fast = options.fast,
                              .custom = options.allow_custom_kernels,
                              .wide = options.wide || options.unfused};
  if (options.strict && options.fast)
    return INVALID("strict and fast: expected at most one of them, got both");
  return options.strict ? NULL : session_read_precision(&out->fast);
}

static clave_status check_warm_up(const clave_session_options *options, const device_set *set) {
  if (options->warm_up != CLAVE_WARM_UP_WAIT && options->warm_up != CLAVE_WARM_UP_BACKGROUND)
    return INVALID("warm_up: expected 0 (wait) or 1 (background), got %d", (int)options->warm_up);
  if (options->warm_up == CLAVE_WARM_UP_WAIT || !set->no_fallback) return NULL;
  return INVALID(
      "warm_up: the CPU backend runs until the kernels are built, but the device was opened "
      "without fallback");
}

/* Creates a session on the CPU backend, which is one of the set, and a warm-up that prepares the
 * device's session in a thread. */
static clave_status create_both(clave_session *session, const executable_options *options,
                                const session_options *session_options) {
  const device_set *all = &session->device->set;
  int cpu = 0;
  while (strcmp(all->backends[cpu]->info.kind, "cpu") != 0) cpu++;
  device_set alone = {.backends = {all->backends[cpu]}, .count = 1};
  TRY(program_take_executable(session->program, &alone, options, &session->warm_up_executable));
  TRY(session_create(session->warm_up_executable, &session->stores[cpu], session_options,
                     &session->session));
  return warm_up_create(session->executable, session->stores, session_options, &session->warm);
}

static clave_status init_session(clave_session *session, const clave_session_options *given) {
  session_options session_options;
  executable_options executable_options;
  clave_session_options options;
  TRY(sized_read(given, &options, SIZED(clave_session_options, seed)));
  TRY(check_warm_up(&options, &session->device->set));
  TRY(read_session_options(given, &session_options));
  TRY(read_executable_options(given, &executable_options));
  session_options.message = session->device->message;
  session_options.message_ctx = session->device->message_ctx;
  for (int b = 0; b < session->device->set.count; b++) {
    TRY(program_take_store(session->program, session->device->set.backends[b],
                           &session->stores[b]));
    session->n_stores++;
  }
  TRY(program_take_executable(session->program, &session->device->set, &executable_options,
                              &session->executable));
  if (options.warm_up == CLAVE_WARM_UP_BACKGROUND && strcmp(session->device->info.kind, "cpu") != 0)
    return create_both(session, &executable_options, &session_options);
  return session_create(session->executable, session->stores, &session_options, &session->session);
}

clave_status clave_session_create(clave_program *program, clave_device *device,
                                  const clave_session_options *options, clave_session **out) {
  OWN_FLOAT_ENV;
  *out = NULL;
  TRY(device_check_process(device));
  TRY(program_check_files(program->program));
  clave_session *session = calloc(1, sizeof *session);
  if (!session) return status_no_memory();
  session->program = program;
  session->device = clave_device_retain(device);
  program->holds++;
  clave_status st = init_session(session, options);
  if (st) {
    clave_session_destroy(session);
    return st;
  }
  *out = session;
  return NULL;
}

static void free_peaks(peak_list *list) {
  for (uint32_t i = 0; i < list->n; i++) free(list->items[i].device);
  free(list->items);
  *list = (peak_list){0};
}

void clave_session_destroy(clave_session *session) {
  if (!session || session->device->generation != process_generation()) return;
  warm_up_destroy(session->warm);
  session_destroy(session->session);
  program_release_executable(session->program, session->warm_up_executable);
  program_release_executable(session->program, session->executable);
  for (int b = 0; b < session->n_stores; b++)
    program_release_store(session->program, session->stores[b]);
  clave_program_destroy(session->program);
  clave_device_destroy(session->device);
  free_peaks(&session->peaks);
  free(session);
}

/* Checks dtype and rank of an input; session_set_input and session_bind_input check the rest. */
static clave_status session_check_tensor(uint32_t index, const clave_tensor *value) {
  if (!clave_dtype_name(value->dtype))
    return INVALID("input %u: unknown dtype %d", index, (int)value->dtype);
  if (value->rank < 0 || value->rank > CLAVE_MAX_RANK)
    return INVALID("input %u: expected rank 0 to %d, got %d", index, CLAVE_MAX_RANK, value->rank);
  return NULL;
}

clave_status clave_session_set_input(clave_session *session, const char *method, uint32_t index,
                                     const clave_tensor *value) {
  OWN_FLOAT_ENV;
  uint32_t m;
  TRY(device_check_process(session->device));
  TRY(program_find_method(session->program, method, &m));
  TRY(session_check_tensor(index, value));
  host_tensor tensor = {.t = tensor_from_public(value), .data = value->data};
  return session_set_input(session->session, m, index, &tensor);
}

clave_status clave_session_bind_input(clave_session *session, const char *method, uint32_t index,
                                      const clave_tensor *value) {
  uint32_t m;
  TRY(device_check_process(session->device));
  TRY(program_find_method(session->program, method, &m));
  if (!value) return session_bind_input(session->session, m, index, NULL);
  TRY(session_check_tensor(index, value));
  host_tensor tensor = {.t = tensor_from_public(value), .data = value->data};
  return session_bind_input(session->session, m, index, &tensor);
}

clave_status clave_session_bind_output(clave_session *session, const char *method, uint32_t index,
                                       void *data, size_t size) {
  uint32_t m;
  TRY(device_check_process(session->device));
  TRY(program_find_method(session->program, method, &m));
  return session_bind_output(session->session, m, index, data, size);
}

clave_status session_check_answers(const clave_session *session, const char *what) {
  if (session_device(session->session) == &session->device->set.backends[0]->info) return NULL;
  return INVALID(
      "the CPU backend answers until the device's kernels are ready (warm_up); %s after that, see "
      "clave_session_answered_by",
      what);
}

/* Fails during a warm-up, while neither memory of the device nor memory that devices share can be
 * bound. */
static clave_status check_device_memory(const clave_session *session) {
  return session_check_answers(session, "memory of the device can be bound");
}

/* Binds an input to device memory; unbinds it if `given` is false. */
static clave_status bind_input_at(clave_session *session, const char *method, uint32_t index,
                                  const clave_tensor *shape, bool given, device_memory at) {
  uint32_t m;
  TRY(device_check_process(session->device));
  TRY(program_find_method(session->program, method, &m));
  if (!given) return session_bind_input(session->session, m, index, NULL);
  TRY(check_device_memory(session));
  TRY(session_check_tensor(index, shape));
  const tensor tensor = tensor_from_public(shape);
  return session_bind_input_memory(session->session, m, index, &tensor, at);
}

static clave_status bind_output_at(clave_session *session, const char *method, uint32_t index,
                                   bool given, device_memory at, size_t size) {
  uint32_t m;
  TRY(device_check_process(session->device));
  TRY(program_find_method(session->program, method, &m));
  if (!given) return session_bind_output(session->session, m, index, NULL, 0);
  TRY(check_device_memory(session));
  return session_bind_output_memory(session->session, m, index, at, size);
}

clave_status clave_session_bind_input_mem(clave_session *session, const char *method,
                                          uint32_t index, const clave_tensor *shape, void *memory,
                                          size_t offset) {
  const device_memory at = {.handle = memory, .offset = offset};
  return bind_input_at(session, method, index, shape, memory != NULL, at);
}
clave_status clave_session_bind_output_mem(clave_session *session, const char *method,
                                           uint32_t index, void *memory, size_t offset,
                                           size_t size) {
  const device_memory at = {.handle = memory, .offset = offset};
  return bind_output_at(session, method, index, memory != NULL, at, size);
}

clave_status clave_session_bind_input_dma_buf(clave_session *session, const char *method,
                                              uint32_t index, const clave_tensor *shape, int fd,
                                              size_t offset) {
  const device_memory at = {.is_dma_buf = true, .fd = fd, .offset = offset};
  return bind_input_at(session, method, index, shape, fd != -1, at);
}
clave_status clave_session_bind_output_dma_buf(clave_session *session, const char *method,
                                               uint32_t index, int fd, size_t offset, size_t size) {
  const device_memory at = {.is_dma_buf = true, .fd = fd, .offset = offset};
  return bind_output_at(session, method, index, fd != -1, at, size);
}

clave_status clave_session_run(clave_session *session, const char *method) {
  OWN_FLOAT_ENV;
  uint32_t m;
  TRY(device_check_process(session->device));
  TRY(program_find_method(session->program, method, &m));
  TRY(program_check_files(session->program->program));
  if (session->warm) warm_up_advance(session->warm, &session->session, m);
  clave_status st = session_run(session->session, m);
  TRY(program_check_after(session->program->program, st));
  session->answered_by = session_device(session->session)->kind;
  return NULL;
}

const char *clave_session_answered_by(const clave_session *session) { return session->answered_by; }

clave_status clave_session_output(clave_session *session, const char *method, uint32_t index,
                                  clave_tensor *out) {
  OWN_FLOAT_ENV;
  uint32_t m;
  host_tensor tensor;
  *out = (clave_tensor){0};
  TRY(device_check_process(session->device));
  TRY(program_find_method(session->program, method, &m));
  TRY(session_output(session->session, m, index, &tensor));
  tensor_to_public(&tensor.t, tensor.data, out);
  return NULL;
}

clave_status clave_session_reset(clave_session *session) {
  TRY(device_check_process(session->device));
  return session_reset(session->session);
}

clave_status clave_session_read_state(clave_session *session, uint32_t index, void *data,
                                      size_t size) {
  TRY(device_check_process(session->device));
  return session_read_state(session->session, index, data, size);
}
clave_status clave_session_write_state(clave_session *session, uint32_t index, const void *data,
                                       size_t size) {
  TRY(device_check_process(session->device));
  return session_write_state(session->session, index, data, size);
}
clave_status clave_session_read_state_part(clave_session *session, uint32_t index, size_t from,
                                           void *data, size_t size) {
  TRY(device_check_process(session->device));
  return session_read_state_part(session->session, index, from, data, size);
}
clave_status clave_session_write_state_part(clave_session *session, uint32_t index, size_t from,
                                            const void *data, size_t size) {
  TRY(device_check_process(session->device));
  return session_write_state_part(session->session, index, from, data, size);
}
clave_status clave_session_copy_state_part(clave_session *session, uint32_t index, size_t from,
                                           size_t to, size_t size) {
  TRY(device_check_process(session->device));
  return session_copy_state_part(session->session, index, from, to, size);
}
clave_status clave_session_resize(clave_session *session, const char *size, int64_t n) {
  OWN_FLOAT_ENV;
  TRY(device_check_process(session->device));
  const ir_program *program = &session->program->program->ir;
  const uint32_t first = program->constants.count + program->n_inputs + program->n_outputs;
  for (uint32_t i = first; i < first + program->n_state; i++) {
    const ir_int_or_vids *shape = &program->tensors.items[i].shape;
    for (uint32_t k = 0; k < shape->count; k++) {
      uint32_t v = shape->items[k].vid;
      if (v != IR_NONE && strcmp(program->values.items[v].name, size) == 0)
        return session_resize(session->session, v, n);
    }
  }
  return INVALID("no state has a dimension named '%s'", size);
}

clave_status clave_session_copy_state(clave_session *to, clave_session *from) {
  TRY(device_check_process(to->device));
  TRY(device_check_process(from->device));
  return session_copy_state(to->session, from->session);
}

clave_status clave_session_memory(const clave_session *session, clave_memory_info *info) {
  session_memory memory;
  session_memory_use(session->session, &memory);
  clave_memory_info own = {.constant_bytes = memory.constant_bytes,
                           .state_bytes = memory.state_bytes,
                           .arena_bytes = memory.arena_bytes,
                           .constant_bytes_in_place = memory.constant_bytes_in_place};
  return sized_write(&own, info, SIZED(clave_memory_info, constant_bytes_in_place));
}

static bool relay_observation(void *ctx, uint32_t instruction, uint32_t tid,
                              const host_tensor *value, bool *edited) {
  clave_session *session = ctx;
  clave_tensor tensor;
  tensor_to_public(&value->t, value->data, &tensor);
  if (session->edit) return session->edit(session->observe_ctx, instruction, tid, &tensor, edited);
  return session->observe(session->observe_ctx, instruction, tid, &tensor);
}

static void let_watch(clave_session *session, clave_observe_fn observe, clave_edit_fn edit,
                      void *ctx) {
  session->observe = observe;
  session->edit = edit;
  session->observe_ctx = ctx;
  session_observe(session->session, observe || edit ? relay_observation : NULL, session);
}

clave_status clave_session_observe(clave_session *session, clave_observe_fn observe, void *ctx) {
  let_watch(session, observe, NULL, ctx);
  return NULL;
}

clave_status clave_session_edit(clave_session *session, clave_edit_fn edit, void *ctx) {
  let_watch(session, NULL, edit, ctx);
  return NULL;
}

clave_status clave_session_count_blocks(const clave_session *session, const char *method,
                                        uint32_t *blocks, uint32_t *commands) {
  uint32_t m;
  *blocks = *commands = 0;
  TRY(program_find_method(session->program, method, &m));
  return session_count_blocks(session->session, m, blocks, commands);
}

clave_status clave_session_block(const clave_session *session, const char *method, uint32_t index,
                                 clave_block_info *info) {
  uint32_t m;
  session_block block;
  TRY(program_find_method(session->program, method, &m));
  TRY(session_find_block(session->session, m, index, &block));
  clave_tensor_info tensor_info = {
      .size = sizeof tensor_info, .name = "", .kind = CLAVE_SLOT_TEMPORARY};
  if (block.slot != IR_NONE) TRY(clave_program_slot(session->program, block.slot, &tensor_info));
  clave_block_info own = {.device = block.device,
                          .name = tensor_info.name,
                          .kind = tensor_info.kind,
                          .chunk = block.chunk,
                          .offset = block.offset,
                          .bytes = block.bytes,
                          .first = block.first,
                          .last = block.last,
                          .node = block.node};
  return sized_write(&own, info, SIZED(clave_block_info, node));
}

static clave_status read_peak(const clave_peak *given, device_peak *out) {
  clave_peak peak;
  TRY(sized_read(given, &peak, SIZED(clave_peak, bytes_a_second)));
  if (!peak.device) return INVALID("a peak: the device is NULL");
  if (!clave_dtype_name(peak.dtype)) return INVALID("a peak: unknown dtype %d", (int)peak.dtype);
  if (!(peak.flops_a_second >= 0) || !(peak.bytes_a_second >= 0) || isinf(peak.flops_a_second) ||
      isinf(peak.bytes_a_second))
    return INVALID(
        "a peak of '%s': expected finite numbers of at least 0, got %g FLOP and %g bytes per "
        "second",
        peak.device, peak.flops_a_second, peak.bytes_a_second);
  *out = (device_peak){strdup(peak.device), (dtype)peak.dtype, peak.flops_a_second,
                       peak.bytes_a_second};
  return out->device ? NULL : status_no_memory();
}

clave_status clave_session_set_peaks(clave_session *session, const clave_peak *peaks, size_t n) {
  peak_list made = {.items = calloc(n + 1, sizeof *made.items)};
  clave_status st = made.items && n < UINT32_MAX ? NULL : status_no_memory();
  const char *at = (const char *)peaks;
  for (size_t i = 0; i < n && !st; i++) {
    const clave_peak *given = (const clave_peak *)(const void *)at;
    st = read_peak(given, &made.items[i]);
    made.n += !st;
    at += given->size;
  }
  if (st) {
    free_peaks(&made);
    return st;
  }
  free_peaks(&session->peaks);
  session->peaks = made;
  return NULL;
}

typedef struct timing_reader {
  clave_timing_fn each;
  void *ctx;
} timing_reader;

static void session_relay_timing(void *ctx, const session_timing *timing) {
  const timing_reader *reader = ctx;
  const clave_timing own = {.size = sizeof own,
                            .kind = (clave_timing_kind)timing->kind,
                            .node = timing->node,
                            .op = timing->op,
                            .name = timing->name,
                            .device = timing->device,
                            .start_ns = timing->start_ns,
                            .end_ns = timing->end_ns,
                            .shapes = timing->shapes,
                            .dtype = (clave_dtype)timing->type,
                            .flops = timing->flops,
                            .bytes = timing->bytes,
                            .compute_ns = timing->compute_ns,
                            .memory_ns = timing->memory_ns};
  reader->each(reader->ctx, &own);
}

clave_status clave_session_timings(const clave_session *session, clave_timing_fn each, void *ctx) {
  OWN_FLOAT_ENV;
  timing_reader reader = {each, ctx};
  return session_timings(session->session, &session->peaks, session_relay_timing, &reader);
}

clave_status clave_session_write_profile(const clave_session *session, const char *path) {
  OWN_FLOAT_ENV;
  return session_write_trace(session->session, &session->peaks, path);
}
