/* Sessions of the public API: names to indices, options, and the stores of constants they share. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/float_env.h"
#include "clave_host.h"
#include "clave_opencl.h"

/* CLAVE_MEMORY_BUDGET: bytes, with an optional K, M or G. */
static clave_status read_budget(uint64_t *out) {
  const char *s = getenv("CLAVE_MEMORY_BUDGET");
  char *end;
  *out = 0;
  if (!s || !*s) return NULL;
  errno = 0;
  unsigned long long n = strtoull(s, &end, 10);
  const char *units = "KMG", *unit = *end ? strchr(units, *end) : NULL;
  int shift = unit ? 10 * (int)(unit - units + 1) : 0;
  bool good = *s >= '0' && *s <= '9' && !errno && n > 0 && n <= (UINT64_MAX >> shift) &&
              (!*end || (unit && !end[1]));
  if (!good)
    return INVALID(
        "CLAVE_MEMORY_BUDGET: expected a number of bytes such as 500000000, 500M or 4G, got '%s'",
        s);
  *out = (uint64_t)n << shift;
  return NULL;
}

static clave_status read_precision(bool *fast) {
  const char *s = getenv("CLAVE_PRECISION");
  if (!s || !*s || strcmp(s, "strict") == 0) return NULL;
  if (strcmp(s, "fast") != 0)
    return INVALID("CLAVE_PRECISION: expected strict or fast, got '%s'", s);
  *fast = true;
  return NULL;
}

static clave_status read_self_check(session_options *out) {
  const char *s = getenv("CLAVE_SELF_CHECK");
  if (!s || !*s || strcmp(s, "on") == 0) return NULL;
  out->strict_check = strcmp(s, "strict") == 0;
  if (out->strict_check) return NULL;
  out->unchecked = strcmp(s, "off") == 0;
  return out->unchecked ? NULL
                        : INVALID("CLAVE_SELF_CHECK: expected on, off or strict, got '%s'", s);
}

clave_status read_session_options(const clave_session_options *given, session_options *out) {
  clave_session_options o;
  TRY(sized_read(given, &o, SIZED(clave_session_options, seed)));
  *out = (session_options){.memory_budget = o.memory_budget,
                           .poison = o.poison,
                           .profile = o.profile,
                           .unchecked = o.unchecked,
                           .seed = o.seed,
                           .progress = o.progress,
                           .progress_ctx = o.progress_ctx,
                           .cancel = o.cancel,
                           .cancel_ctx = o.cancel_ctx};
  TRY(read_self_check(out));
  return out->memory_budget ? NULL : read_budget(&out->memory_budget);
}

clave_status read_executable_options(const clave_session_options *given, executable_options *out) {
  clave_session_options o;
  TRY(sized_read(given, &o, SIZED(clave_session_options, seed)));
  *out = (executable_options){.unfused = o.unfused,
                              .fast = o.fast,
                              .custom = o.allow_custom_kernels,
                              .wide = o.wide || o.unfused};
  if (o.strict && o.fast) return INVALID("strict and fast: expected at most one of them, got both");
  return o.strict ? NULL : read_precision(&out->fast);
}

static clave_status check_warm_up(const clave_session_options *o, const device_set *set) {
  if (o->warm_up != CLAVE_WARM_UP_WAIT && o->warm_up != CLAVE_WARM_UP_BACKGROUND)
    return INVALID("warm_up: expected 0 (wait) or 1 (background), got %d", (int)o->warm_up);
  if (o->warm_up == CLAVE_WARM_UP_WAIT || !set->no_fallback) return NULL;
  return INVALID(
      "warming up in the background needs the CPU backend to answer meanwhile, but the device was "
      "opened without fallback");
}

/* A session on the CPU backend, which is one of the set, and one behind it that is made ready. */
static clave_status create_both(clave_session *s, const executable_options *x,
                                const session_options *o) {
  const device_set *all = &s->device->set;
  int cpu = 0;
  while (strcmp(all->backends[cpu]->info.kind, "cpu") != 0) cpu++;
  device_set alone = {.backends = {all->backends[cpu]}, .count = 1};
  TRY(program_take_executable(s->program, &alone, x, &s->stand_in_x));
  TRY(session_create(s->stand_in_x, &s->stores[cpu], o, &s->s));
  return warm_up_create(s->x, s->stores, o, &s->warm);
}

static clave_status init_session(clave_session *s, const clave_session_options *given) {
  session_options o;
  executable_options x;
  clave_session_options options;
  TRY(sized_read(given, &options, SIZED(clave_session_options, seed)));
  TRY(check_warm_up(&options, &s->device->set));
  TRY(read_session_options(given, &o));
  TRY(read_executable_options(given, &x));
  o.message = s->device->message;
  o.message_ctx = s->device->message_ctx;
  for (int b = 0; b < s->device->set.count; b++) {
    TRY(program_take_store(s->program, s->device->set.backends[b], &s->stores[b]));
    s->n_stores++;
  }
  TRY(program_take_executable(s->program, &s->device->set, &x, &s->x));
  if (options.warm_up == CLAVE_WARM_UP_BACKGROUND && strcmp(s->device->info.kind, "cpu") != 0)
    return create_both(s, &x, &o);
  return session_create(s->x, s->stores, &o, &s->s);
}

clave_status clave_session_create(clave_program *p, clave_device *device,
                                  const clave_session_options *options, clave_session **out) {
  OWN_FLOAT_ENV;
  *out = NULL;
  TRY(device_check_process(device));
  TRY(program_check_files(p->p));
  clave_session *s = calloc(1, sizeof *s);
  if (!s) return status_no_memory();
  s->program = p;
  s->device = clave_device_retain(device);
  p->holds++;
  clave_status st = init_session(s, options);
  if (st) {
    clave_session_destroy(s);
    return st;
  }
  *out = s;
  return NULL;
}

static void free_peaks(peak_list *l) {
  for (uint32_t i = 0; i < l->n; i++) free(l->items[i].device);
  free(l->items);
  *l = (peak_list){0};
}

void clave_session_destroy(clave_session *s) {
  if (!s || s->device->generation != process_generation()) return;
  warm_up_destroy(s->warm);
  session_destroy(s->s);
  program_release_executable(s->program, s->stand_in_x);
  program_release_executable(s->program, s->x);
  for (int b = 0; b < s->n_stores; b++) program_release_store(s->program, s->stores[b]);
  clave_program_destroy(s->program);
  clave_device_destroy(s->device);
  free_peaks(&s->peaks);
  free(s);
}

/* Of an input, which session_set_input and session_bind_input check by the program. */
static clave_status check_tensor(uint32_t index, const clave_tensor *value) {
  if (!clave_dtype_name(value->dtype))
    return INVALID("input %u has no known dtype (%d)", index, (int)value->dtype);
  if (value->rank < 0 || value->rank > CLAVE_MAX_RANK)
    return INVALID("input %u: expected rank 0 to %d, got %d", index, CLAVE_MAX_RANK, value->rank);
  return NULL;
}

clave_status clave_session_set_input(clave_session *s, const char *method, uint32_t index,
                                     const clave_tensor *value) {
  OWN_FLOAT_ENV;
  uint32_t m;
  TRY(device_check_process(s->device));
  TRY(program_find_method(s->program, method, &m));
  TRY(check_tensor(index, value));
  host_tensor h = {.t = tensor_from_public(value), .data = value->data};
  return session_set_input(s->s, m, index, &h);
}

clave_status clave_session_bind_input(clave_session *s, const char *method, uint32_t index,
                                      const clave_tensor *value) {
  uint32_t m;
  TRY(device_check_process(s->device));
  TRY(program_find_method(s->program, method, &m));
  if (!value) return session_bind_input(s->s, m, index, NULL);
  TRY(check_tensor(index, value));
  host_tensor h = {.t = tensor_from_public(value), .data = value->data};
  return session_bind_input(s->s, m, index, &h);
}

clave_status clave_session_bind_output(clave_session *s, const char *method, uint32_t index,
                                       void *data, size_t size) {
  uint32_t m;
  TRY(device_check_process(s->device));
  TRY(program_find_method(s->program, method, &m));
  return session_bind_output(s->s, m, index, data, size);
}

clave_status session_check_answers(const clave_session *s, const char *what) {
  if (session_device(s->s) == &s->device->set.backends[0]->info) return NULL;
  return INVALID(
      "the CPU backend answers until the device's kernels are ready (warm_up); %s from then on, "
      "see "
      "clave_session_answered_by",
      what);
}

/* Of a session's device alone, or of what several share. */
static clave_status check_device_memory(const clave_session *s) {
  return session_check_answers(s, "memory of the device can be bound");
}

/* given: else it is none. */
static clave_status bind_input_at(clave_session *s, const char *method, uint32_t index,
                                  const clave_tensor *shape, bool given, device_memory at) {
  uint32_t m;
  TRY(device_check_process(s->device));
  TRY(program_find_method(s->program, method, &m));
  if (!given) return session_bind_input(s->s, m, index, NULL);
  TRY(check_device_memory(s));
  TRY(check_tensor(index, shape));
  const tensor t = tensor_from_public(shape);
  return session_bind_input_memory(s->s, m, index, &t, at);
}

static clave_status bind_output_at(clave_session *s, const char *method, uint32_t index, bool given,
                                   device_memory at, size_t size) {
  uint32_t m;
  TRY(device_check_process(s->device));
  TRY(program_find_method(s->program, method, &m));
  if (!given) return session_bind_output(s->s, m, index, NULL, 0);
  TRY(check_device_memory(s));
  return session_bind_output_memory(s->s, m, index, at, size);
}

clave_status clave_session_bind_input_mem(clave_session *s, const char *method, uint32_t index,
                                          const clave_tensor *shape, void *memory, size_t offset) {
  const device_memory at = {.handle = memory, .offset = offset};
  return bind_input_at(s, method, index, shape, memory != NULL, at);
}
clave_status clave_session_bind_output_mem(clave_session *s, const char *method, uint32_t index,
                                           void *memory, size_t offset, size_t size) {
  const device_memory at = {.handle = memory, .offset = offset};
  return bind_output_at(s, method, index, memory != NULL, at, size);
}

clave_status clave_session_bind_input_dma_buf(clave_session *s, const char *method, uint32_t index,
                                              const clave_tensor *shape, int fd, size_t offset) {
  const device_memory at = {.is_dma_buf = true, .fd = fd, .offset = offset};
  return bind_input_at(s, method, index, shape, fd != -1, at);
}
clave_status clave_session_bind_output_dma_buf(clave_session *s, const char *method, uint32_t index,
                                               int fd, size_t offset, size_t size) {
  const device_memory at = {.is_dma_buf = true, .fd = fd, .offset = offset};
  return bind_output_at(s, method, index, fd != -1, at, size);
}

clave_status clave_session_run(clave_session *s, const char *method) {
  OWN_FLOAT_ENV;
  uint32_t m;
  TRY(device_check_process(s->device));
  TRY(program_find_method(s->program, method, &m));
  TRY(program_check_files(s->program->p));
  if (s->warm) warm_up_step(s->warm, &s->s, m);
  clave_status st = session_run(s->s, m);
  TRY(program_check_after(s->program->p, st));
  s->answered_by = session_device(s->s)->kind;
  return NULL;
}

const char *clave_session_answered_by(const clave_session *s) { return s->answered_by; }

clave_status clave_session_output(clave_session *s, const char *method, uint32_t index,
                                  clave_tensor *out) {
  OWN_FLOAT_ENV;
  uint32_t m;
  host_tensor h;
  *out = (clave_tensor){0};
  TRY(device_check_process(s->device));
  TRY(program_find_method(s->program, method, &m));
  TRY(session_output(s->s, m, index, &h));
  tensor_to_public(&h.t, h.data, out);
  return NULL;
}

clave_status clave_session_reset(clave_session *s) {
  TRY(device_check_process(s->device));
  return session_reset(s->s);
}

clave_status clave_session_read_state(clave_session *s, uint32_t index, void *data, size_t size) {
  TRY(device_check_process(s->device));
  return session_read_state(s->s, index, data, size);
}
clave_status clave_session_write_state(clave_session *s, uint32_t index, const void *data,
                                       size_t size) {
  TRY(device_check_process(s->device));
  return session_write_state(s->s, index, data, size);
}
clave_status clave_session_read_state_part(clave_session *s, uint32_t index, size_t from,
                                           void *data, size_t size) {
  TRY(device_check_process(s->device));
  return session_read_state_part(s->s, index, from, data, size);
}
clave_status clave_session_write_state_part(clave_session *s, uint32_t index, size_t from,
                                            const void *data, size_t size) {
  TRY(device_check_process(s->device));
  return session_write_state_part(s->s, index, from, data, size);
}
clave_status clave_session_copy_state_part(clave_session *s, uint32_t index, size_t from, size_t to,
                                           size_t size) {
  TRY(device_check_process(s->device));
  return session_copy_state_part(s->s, index, from, to, size);
}
clave_status clave_session_resize(clave_session *s, const char *size, int64_t n) {
  OWN_FLOAT_ENV;
  TRY(device_check_process(s->device));
  const ir_program *p = &s->program->p->ir;
  const uint32_t first = p->constants.count + p->n_inputs + p->n_outputs;
  for (uint32_t i = first; i < first + p->n_state; i++) {
    const ir_int_or_vids *shape = &p->tensors.items[i].shape;
    for (uint32_t k = 0; k < shape->count; k++) {
      uint32_t v = shape->items[k].vid;
      if (v != IR_NONE && strcmp(p->values.items[v].name, size) == 0)
        return session_resize(s->s, v, n);
    }
  }
  return INVALID("no state has a size '%s'", size);
}

clave_status clave_session_copy_state(clave_session *to, clave_session *from) {
  TRY(device_check_process(to->device));
  TRY(device_check_process(from->device));
  return session_copy_state(to->s, from->s);
}

clave_status clave_session_memory(const clave_session *s, clave_memory_info *info) {
  session_memory m;
  session_memory_use(s->s, &m);
  clave_memory_info own = {.constant_bytes = m.constant_bytes,
                           .state_bytes = m.state_bytes,
                           .arena_bytes = m.arena_bytes,
                           .constant_bytes_in_place = m.constant_bytes_in_place};
  return sized_write(&own, info, SIZED(clave_memory_info, constant_bytes_in_place));
}

static bool relay_observation(void *ctx, uint32_t instruction, uint32_t tid,
                              const host_tensor *value, bool *edited) {
  clave_session *s = ctx;
  clave_tensor t;
  tensor_to_public(&value->t, value->data, &t);
  if (s->edit) return s->edit(s->observe_ctx, instruction, tid, &t, edited);
  return s->observe(s->observe_ctx, instruction, tid, &t);
}

static void let_watch(clave_session *s, clave_observe_fn observe, clave_edit_fn edit, void *ctx) {
  s->observe = observe;
  s->edit = edit;
  s->observe_ctx = ctx;
  session_observe(s->s, observe || edit ? relay_observation : NULL, s);
}

clave_status clave_session_observe(clave_session *s, clave_observe_fn observe, void *ctx) {
  let_watch(s, observe, NULL, ctx);
  return NULL;
}

clave_status clave_session_edit(clave_session *s, clave_edit_fn edit, void *ctx) {
  let_watch(s, NULL, edit, ctx);
  return NULL;
}

clave_status clave_session_count_blocks(const clave_session *s, const char *method,
                                        uint32_t *blocks, uint32_t *commands) {
  uint32_t m;
  *blocks = *commands = 0;
  TRY(program_find_method(s->program, method, &m));
  return session_count_blocks(s->s, m, blocks, commands);
}

clave_status clave_session_block(const clave_session *s, const char *method, uint32_t index,
                                 clave_block_info *info) {
  uint32_t m;
  session_block b;
  TRY(program_find_method(s->program, method, &m));
  TRY(session_find_block(s->s, m, index, &b));
  clave_tensor_info t = {.size = sizeof t, .name = "", .kind = CLAVE_SLOT_TEMPORARY};
  if (b.slot != IR_NONE) TRY(clave_program_slot(s->program, b.slot, &t));
  clave_block_info own = {.device = b.device,
                          .name = t.name,
                          .kind = t.kind,
                          .chunk = b.chunk,
                          .offset = b.offset,
                          .bytes = b.bytes,
                          .first = b.first,
                          .last = b.last,
                          .node = b.node};
  return sized_write(&own, info, SIZED(clave_block_info, node));
}

static clave_status read_peak(const clave_peak *given, device_peak *out) {
  clave_peak p;
  TRY(sized_read(given, &p, SIZED(clave_peak, bytes_a_second)));
  if (!p.device) return INVALID("a peak has no device");
  if (!clave_dtype_name(p.dtype)) return INVALID("a peak has dtype %d", (int)p.dtype);
  if (!(p.flops_a_second >= 0) || !(p.bytes_a_second >= 0) || isinf(p.flops_a_second) ||
      isinf(p.bytes_a_second))
    return INVALID(
        "a peak of '%s': expected finite numbers from 0 on, got %g FLOP and %g bytes a second",
        p.device, p.flops_a_second, p.bytes_a_second);
  *out = (device_peak){strdup(p.device), (dtype)p.dtype, p.flops_a_second, p.bytes_a_second};
  return out->device ? NULL : status_no_memory();
}

clave_status clave_session_set_peaks(clave_session *s, const clave_peak *peaks, size_t n) {
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
  free_peaks(&s->peaks);
  s->peaks = made;
  return NULL;
}

typedef struct timing_reader {
  clave_timing_fn each;
  void *ctx;
} timing_reader;

static void relay_timing(void *ctx, const session_timing *t) {
  const timing_reader *r = ctx;
  const clave_timing own = {.size = sizeof own,
                            .kind = (clave_timing_kind)t->kind,
                            .node = t->node,
                            .op = t->op,
                            .name = t->name,
                            .device = t->device,
                            .start_ns = t->start_ns,
                            .end_ns = t->end_ns,
                            .shapes = t->shapes,
                            .dtype = (clave_dtype)t->type,
                            .flops = t->flops,
                            .bytes = t->bytes,
                            .compute_ns = t->compute_ns,
                            .memory_ns = t->memory_ns};
  r->each(r->ctx, &own);
}

clave_status clave_session_timings(const clave_session *s, clave_timing_fn each, void *ctx) {
  OWN_FLOAT_ENV;
  timing_reader r = {each, ctx};
  return session_timings(s->s, &s->peaks, relay_timing, &r);
}

clave_status clave_session_write_profile(const clave_session *s, const char *path) {
  return session_write_trace(s->s, &s->peaks, path);
}
