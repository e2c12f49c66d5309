/* Faults in what a life of run_faults does not call: programs described, changed, saved, made from
 * memory; states read, written and copied; runs observed and profiled; the cache on disk.
 *
 *   run_api_faults alloc|calls PROGRAM DATA DEVICE FOLDER [FIRST STEP]
 *
 * PROGRAM: a .clv with one method, "forward", whose first output does not
 * depend on its state. FOLDER: for what is written. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clave_builder.h"
#include "clave_debug.h"
#include "clave_files.h"
#include "clave_host.h"
#include "test/fault/net.h"

enum { MAX_CONSTANTS = 64, MAX_STATES = 8, PATH_SIZE = 512 };

typedef struct life {
  const char *program_path, *data_path, *device_name, *folder;
  clave_device *device;
  clave_program *program, *saved, *made;
  clave_tensors *data;
  clave_session *session, *other;
  clave_placement *places;
  uint32_t n_observed, n_timings;
  float result[1024]; /* the first output, bound */
} life;

static const char *in_folder(const life *l, const char *name) {
  static char path[PATH_SIZE];
  snprintf(path, sizeof path, "%s/%s", l->folder, name);
  return path;
}

/* ---------------------------------------------------------------- programs */

static clave_status describe(const clave_program *p) {
  clave_program_info info = {.size = sizeof info};
  clave_method_info m = {.size = sizeof m};
  clave_tensor_info t = {.size = sizeof t};
  clave_node_info node = {.size = sizeof node};
  clave_tensor constant;
  TRY(clave_program_get_info(p, &info));
  TRY(clave_program_method(p, 0, &m));
  for (uint32_t i = 0; i < m.n_inputs; i++) TRY(clave_program_input(p, m.name, i, &t));
  for (uint32_t i = 0; i < m.n_outputs; i++) TRY(clave_program_output(p, m.name, i, &t));
  for (uint32_t i = 0; i < m.n_nodes; i++) TRY(clave_program_node(p, m.name, i, &node));
  for (uint32_t i = 0; i < info.n_slots; i++) TRY(clave_program_slot(p, i, &t));
  for (uint32_t i = 0; i < info.n_state; i++) TRY(clave_program_state(p, i, &t));
  for (uint32_t i = 0; i < info.n_constants; i++) TRY(clave_program_constant(p, i, &constant));
  return clave_program_check_hashes(p);
}

static clave_status optimize(life *l) {
  const clave_optimize_options o = {.size = sizeof o};
  clave_program *made;
  void *bytes;
  size_t n;
  TRY(clave_program_optimize(l->program, &o, &made));
  clave_status st = clave_program_encode(made, &bytes, &n);
  free(bytes);
  clave_program_destroy(made);
  return st;
}

static clave_status change_and_save(life *l) {
  TRY(clave_program_set_metadata(l->program, "{\"a\": 1}"));
  TRY(clave_program_save(l->program, in_folder(l, "saved.json")));
  TRY(clave_program_set_section(l->program, "TEST", "some bytes", 10));
  TRY(clave_program_set_section(l->program, "MORE", "x", 1));
  TRY(clave_program_set_section(l->program, "MORE", NULL, 0));
  return clave_program_save(l->program, in_folder(l, "saved.clv"));
}

/* The program's part of a .clv: its section has the tag, flags, offset and size (docs/format.md).
 */
static const uint8_t *find_flatbuffer(const uint8_t *file, size_t *size) {
  enum { SECTIONS = 64, SECTION = 32 };
  uint64_t offset = 0, bytes = 0;
  for (const uint8_t *s = file + SECTIONS; !bytes; s += SECTION) {
    if (memcmp(s, "PROG", 4) != 0) continue;
    memcpy(&offset, s + 8, sizeof offset);
    memcpy(&bytes, s + 16, sizeof bytes);
  }
  *size = (size_t)bytes;
  return file + offset;
}

/* The runner's own allocations do not fail: they are the driver's to test, not ours. */
static void *read_whole(const char *path, size_t *size) {
  static _Alignas(4096) uint8_t bytes[1 << 20];
  FILE *f = fopen(path, "rb");
  *size = f ? fread(bytes, 1, sizeof bytes, f) : 0;
  if (f) (void)fclose(f);
  return *size && *size < sizeof bytes ? bytes : NULL;
}

/* The constant of that name in the program that was loaded. */
static bool find_constant(void *ctx, const char *name, clave_tensor *constant) {
  const life *l = ctx;
  clave_tensor_info slot = {.size = sizeof slot};
  for (uint32_t i = 0; i < MAX_CONSTANTS; i++) {
    clave_status st = clave_program_slot(l->program, i, &slot);
    const bool found = !st && strcmp(slot.name, name) == 0;
    if (found) st = clave_program_constant(l->program, i, constant);
    clave_status_free(st);
    if (found || st) return found && !st;
  }
  return false;
}

static clave_status make_by_name(life *l, const uint8_t *flatbuffer, size_t size) {
  clave_program *p;
  TRY(clave_program_create_by_name(flatbuffer, size, find_constant, l, &p));
  clave_program_destroy(p);
  return NULL;
}

static clave_status make_program(life *l) {
  clave_tensor constants[MAX_CONSTANTS];
  clave_program_info info = {.size = sizeof info};
  TRY(clave_program_get_info(l->program, &info));
  for (uint32_t i = 0; i < info.n_constants; i++)
    TRY(clave_program_constant(l->program, i, &constants[i]));
  size_t size;
  const uint8_t *bytes = find_flatbuffer(read_whole(l->program_path, &size), &size);
  TRY(make_by_name(l, bytes, size));
  TRY(clave_program_create(bytes, size, constants, info.n_constants, &l->made));
  return clave_program_own_constants(l->made);
}

/* In place, as executables that carry a program have it. */
static clave_status load_bytes(const life *l) {
  clave_program *p;
  size_t size;
  const uint8_t *bytes = read_whole(l->program_path, &size);
  TRY(clave_program_load_bytes(bytes, size, l->program_path, &p));
  clave_status st = describe(p);
  clave_program_destroy(p);
  return st;
}

static clave_status use_programs(life *l) {
  TRY(clave_program_load(l->program_path, NULL, &l->program));
  TRY(describe(l->program));
  TRY(load_bytes(l));
  TRY(optimize(l));
  TRY(change_and_save(l));
  TRY(clave_program_load(in_folder(l, "saved.clv"), NULL, &l->saved));
  return make_program(l);
}

/* ---------------------------------------------------------------- sessions */

static bool observe(void *ctx, uint32_t node, uint32_t slot, const clave_tensor *value) {
  life *l = ctx;
  (void)node;
  (void)slot;
  l->n_observed += value->rank >= 0;
  return true;
}

static bool edit(void *ctx, uint32_t node, uint32_t slot, const clave_tensor *value, bool *edited) {
  *edited = true; /* with what it is */
  return observe(ctx, node, slot, value);
}

static clave_status open_sessions(life *l) {
  clave_session_options o = {.size = sizeof o, .profile = true};
  clave_device_options device = {.size = sizeof device, .n_threads = 2};
  clave_device_info info = {.size = sizeof info};
  clave_memory_info memory = {.size = sizeof memory};
  TRY(clave_device_open(l->device_name, &device, &l->device));
  TRY(clave_device_get_info(l->device, &info));
  clave_device_destroy(clave_device_retain(l->device));
  TRY(clave_session_create(l->made, l->device, &o, &l->session));
  TRY(clave_session_memory(l->session, &memory));
  return clave_session_create(l->made, l->device, &o, &l->other);
}

static clave_status read_places(const life *l) {
  clave_method_info m = {.size = sizeof m};
  clave_placement_info info = {.size = sizeof info};
  TRY(clave_program_method(l->made, 0, &m));
  for (uint32_t i = 0; i < m.n_nodes; i++) TRY(clave_placement_get(l->places, m.name, i, &info));
  return NULL;
}

static clave_status place(life *l) {
  TRY(clave_program_supported(l->made, l->device, NULL, &l->places));
  TRY(read_places(l));
  clave_placement_destroy(l->places);
  TRY(clave_session_placement(l->session, &l->places));
  return read_places(l);
}

static clave_status run(clave_session *s, const life *l) {
  TRY(set_inputs(s, l->data));
  return clave_session_run(s, "forward");
}

/* Each state goes through the host to the other session, and all of it back. */
static clave_status move_states(life *l) {
  clave_program_info info = {.size = sizeof info};
  TRY(clave_program_get_info(l->made, &info));
  for (uint32_t i = 0; i < info.n_state && i < MAX_STATES; i++) {
    static char bytes[1 << 16];
    clave_tensor_info t = {.size = sizeof t};
    TRY(clave_program_state(l->made, i, &t));
    size_t size = clave_dtype_size(t.dtype);
    for (int k = 0; k < t.rank; k++) size *= (size_t)t.max_dims[k];
    TRY(clave_session_read_state(l->session, i, bytes, size));
    TRY(clave_session_write_state_part(l->other, i, size / 2, bytes, size / 2));
    TRY(clave_session_copy_state_part(l->other, i, 0, size / 2, size / 2));
    TRY(clave_session_read_state_part(l->session, i, 0, bytes, size / 2));
    TRY(clave_session_write_state(l->other, i, bytes, size));
  }
  TRY(clave_session_resize(l->session, "context", 9));
  TRY(clave_session_resize(l->other, "context", 11));
  return clave_session_copy_state(l->session, l->other);
}

static clave_status describe_forms(const clave_program *p) {
  clave_form_info form = {.size = sizeof form};
  for (uint32_t i = 0; i < clave_program_count_forms(p); i++) TRY(clave_program_form(p, i, &form));
  return NULL;
}

/* A program of its own, since sessions use the others. */
static clave_status pack(life *l) {
  clave_program *p = NULL, *back = NULL;
  TRY(clave_program_load(l->program_path, NULL, &p));
  clave_status st = clave_program_pack(p, l->device, NULL);
  if (!st) st = describe_forms(p);
  if (!st) st = clave_program_save(p, in_folder(l, "packed.clv"));
  if (!st) st = clave_program_unpack(p);
  if (!st) st = clave_program_load(in_folder(l, "packed.clv"), NULL, &back);
  if (!st) st = clave_program_check_hashes(back);
  clave_program_destroy(p);
  clave_program_destroy(back);
  return st;
}

static clave_status describe_blocks(const clave_session *s) {
  clave_block_info block = {.size = sizeof block};
  uint32_t n, commands;
  TRY(clave_session_count_blocks(s, "forward", &n, &commands));
  for (uint32_t i = 0; i < n; i++) TRY(clave_session_block(s, "forward", i, &block));
  return NULL;
}

static void count_timing(void *ctx, const clave_timing *t) {
  life *l = ctx;
  l->n_timings += t->end_ns >= t->start_ns;
}

static clave_status set_peaks(clave_session *s) {
  const clave_peak one = {.size = sizeof one, .device = "cpu", .flops_a_second = 1e9};
  const clave_peak two[] = {one, one};
  TRY(clave_session_set_peaks(s, two, 2));
  return clave_session_set_peaks(s, &one, 1);
}

static clave_status use_sessions(life *l) {
  TRY(open_sessions(l));
  TRY(pack(l));
  TRY(clave_session_observe(l->session, observe, l));
  TRY(run(l->session, l));
  TRY(clave_session_edit(l->session, edit, l));
  TRY(run(l->session, l));
  TRY(describe_blocks(l->session));
  TRY(set_peaks(l->session));
  TRY(clave_session_timings(l->session, count_timing, l));
  TRY(clave_session_write_profile(l->session, in_folder(l, "profile.json")));
  TRY(clave_session_observe(l->session, NULL, NULL));
  TRY(place(l));
  TRY(move_states(l));
  TRY(run(l->other, l));
  TRY(clave_session_bind_output(l->session, "forward", 0, l->result, sizeof l->result));
  return run(l->session, l);
}

/* A process of another version asks for kernels: it is refused. */
static clave_status serve_stranger(void) {
  enum { HEAD = 4, GREETING = 40, KIND_GREETING = 1 };
  uint32_t asked[HEAD + GREETING / 4] = {KIND_GREETING, 0, GREETING};
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || write(pair[0], asked, sizeof asked) < 0) abort();
  clave_status st = clave_serve_builds(pair[1]);
  close(pair[0]);
  close(pair[1]);
  if (!st) abort();
  if (clave_status_code(st) != CLAVE_INVALID) return st;
  clave_status_free(st);
  return NULL;
}

/* Whole pages of the host's, which nobody cuts short. */
static clave_status guard_pages(void) {
  static _Alignas(64 << 10) char pages[64 << 10]; /* the largest pages that processors have */
  volatile bool is_cut = false;
  clave_guard *guard = NULL;
  TRY(clave_guard_create(pages, sizeof pages, &is_cut, &guard));
  clave_guard_destroy(guard);
  if (is_cut) abort();
  return NULL;
}

static clave_status run_life(void *ctx) {
  life *l = ctx;
  uint64_t removed;
  clave_cache_info info = {.size = sizeof info};
  int n_devices;
  clave_device_info device = {.size = sizeof device};
  TRY(clave_devices_count(&n_devices));
  TRY(clave_devices_get(n_devices - 1, &device));
  TRY(clave_tensors_load(l->data_path, &l->data));
  TRY(use_programs(l));
  TRY(use_sessions(l));
  TRY(serve_stranger());
  TRY(guard_pages());
  TRY(clave_tensors_check(l->data));
  TRY(clave_cache_get_info(&info));
  return clave_cache_trim(info.limit_bytes, &removed);
}

/* ---------------------------------------------------------------- what must hold */

static const char *wrong_life(void *ctx) {
  const life *l = ctx;
  size_t size = 0;
  const void *section = clave_program_section(l->saved, "TEST", &size);
  clave_program_info info = {.size = sizeof info};
  if (clave_program_get_info(l->saved, &info)) return "no info";
  if (size != 10 || memcmp(section, "some bytes", 10) != 0) return "the section is not the one set";
  if (strcmp(info.metadata, "{\"a\": 1}") != 0) return "the metadata is not what was set";
  if (clave_program_section(l->saved, "MORE", &size)) return "a removed section is there";
  if (!l->n_observed) return "nothing was observed";
  if (!l->n_timings) return "no times";
  if (!right_output(l->session, l->data)) return "the output is wrong";
  return right_output(l->other, l->data) ? NULL : "the other session's output is wrong";
}

/* A file that is there is whole, and sessions run as if nothing had been. */
static clave_status resume(void *ctx) {
  life *l = ctx;
  clave_program *p = NULL;
  clave_session *sessions[2] = {l->session, l->other};
  for (int i = 0; i < 2; i++) {
    const char *path = in_folder(l, i ? "saved.clv" : "saved.json");
    if (access(path, F_OK)) continue;
    TRY(clave_program_load(path, NULL, &p));
    clave_program_destroy(p);
  }
  for (int i = 0; i < 2; i++) {
    if (!sessions[i]) continue;
    TRY(clave_session_observe(sessions[i], NULL, NULL));
    TRY(clave_session_reset(sessions[i]));
    TRY(run(sessions[i], l));
    if (!right_output(sessions[i], l->data)) abort();
  }
  return NULL;
}

static void end_life(void *ctx) {
  static const char *const files[] = {"saved.clv", "saved.json", "consts.safetensors",
                                      "profile.json", "packed.clv"};
  life *l = ctx;
  clave_placement_destroy(l->places);
  clave_session_destroy(l->session);
  clave_session_destroy(l->other);
  clave_tensors_destroy(l->data);
  clave_program_destroy(l->made);
  clave_program_destroy(l->saved);
  clave_program_destroy(l->program);
  clave_device_destroy(l->device);
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) unlink(in_folder(l, files[i]));
  *l = (life){.program_path = l->program_path,
              .data_path = l->data_path,
              .device_name = l->device_name,
              .folder = l->folder};
}

int main(int argc, char **argv) {
  if (argc < 6) {
    fprintf(stderr, "usage: run_api_faults alloc|calls PROGRAM DATA DEVICE FOLDER [FIRST STEP]\n");
    return 2;
  }
  life l = {
      .program_path = argv[2], .data_path = argv[3], .device_name = argv[4], .folder = argv[5]};
  const fault_test test = {&l, run_life, wrong_life, resume, end_life};
  return fault_loop(&test, argv[1], argc > 6 ? atol(argv[6]) : 0, argc > 7 ? atol(argv[7]) : 1);
}
