/* Faults in the functions that run_faults does not call: programs described, changed, saved, made
 * from memory; states read, written and copied; runs observed and profiled; the cache on disk.
 *
 *   run_api_faults alloc|calls PROGRAM DATA DEVICE FOLDER [FIRST STEP]
 *
 * PROGRAM: a .clv with one method, "forward", whose first output does not depend on its state.
 * FOLDER: for files that are written. */
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

static const char *in_folder(const life *life, const char *name) {
  static char path[PATH_SIZE];
  snprintf(path, sizeof path, "%s/%s", life->folder, name);
  return path;
}

/* ---------------------------------------------------------------- programs */

static clave_status describe(const clave_program *program) {
  clave_program_info info = {.size = sizeof info};
  clave_method_info method_info = {.size = sizeof method_info};
  clave_tensor_info tensor_info = {.size = sizeof tensor_info};
  clave_node_info node = {.size = sizeof node};
  clave_tensor constant;
  TRY(clave_program_get_info(program, &info));
  TRY(clave_program_method(program, 0, &method_info));
  for (uint32_t i = 0; i < method_info.n_inputs; i++)
    TRY(clave_program_input(program, method_info.name, i, &tensor_info));
  for (uint32_t i = 0; i < method_info.n_outputs; i++)
    TRY(clave_program_output(program, method_info.name, i, &tensor_info));
  for (uint32_t i = 0; i < method_info.n_nodes; i++)
    TRY(clave_program_node(program, method_info.name, i, &node));
  for (uint32_t i = 0; i < info.n_slots; i++) TRY(clave_program_slot(program, i, &tensor_info));
  for (uint32_t i = 0; i < info.n_state; i++) TRY(clave_program_state(program, i, &tensor_info));
  for (uint32_t i = 0; i < info.n_constants; i++)
    TRY(clave_program_constant(program, i, &constant));
  return clave_program_check_hashes(program);
}

static clave_status optimize(life *life) {
  const clave_optimize_options options = {.size = sizeof options};
  clave_program *made;
  void *bytes;
  size_t n;
  TRY(clave_program_optimize(life->program, &options, &made));
  clave_status st = clave_program_encode(made, &bytes, &n);
  free(bytes);
  clave_program_destroy(made);
  return st;
}

static clave_status change_and_save(life *life) {
  TRY(clave_program_set_metadata(life->program, "{\"a\": 1}"));
  TRY(clave_program_save(life->program, in_folder(life, "saved.json")));
  TRY(clave_program_set_section(life->program, "TEST", "some bytes", 10));
  TRY(clave_program_set_section(life->program, "MORE", "x", 1));
  TRY(clave_program_set_section(life->program, "MORE", NULL, 0));
  return clave_program_save(life->program, in_folder(life, "saved.clv"));
}

/* The program's part of a .clv: its section has the tag, flags, offset and size
 * (docs/reference/formats.md).
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

/* The runner's own allocations do not fail: only the library is under test. */
static void *read_whole(const char *path, size_t *size) {
  static _Alignas(4096) uint8_t bytes[1 << 20];
  FILE *file = fopen(path, "rb");
  *size = file ? fread(bytes, 1, sizeof bytes, file) : 0;
  if (file) (void)fclose(file);
  return *size && *size < sizeof bytes ? bytes : NULL;
}

/* The constant of that name in the program that was loaded. */
static bool find_constant(void *ctx, const char *name, clave_tensor *constant) {
  const life *life = ctx;
  clave_tensor_info slot = {.size = sizeof slot};
  for (uint32_t i = 0; i < MAX_CONSTANTS; i++) {
    clave_status st = clave_program_slot(life->program, i, &slot);
    const bool found = !st && strcmp(slot.name, name) == 0;
    if (found) st = clave_program_constant(life->program, i, constant);
    clave_status_free(st);
    if (found || st) return found && !st;
  }
  return false;
}

static clave_status make_by_name(life *life, const uint8_t *flatbuffer, size_t size) {
  clave_program *program;
  TRY(clave_program_create_by_name(flatbuffer, size, find_constant, life, &program));
  clave_program_destroy(program);
  return NULL;
}

static clave_status make_program(life *life) {
  clave_tensor constants[MAX_CONSTANTS];
  clave_program_info info = {.size = sizeof info};
  TRY(clave_program_get_info(life->program, &info));
  for (uint32_t i = 0; i < info.n_constants; i++)
    TRY(clave_program_constant(life->program, i, &constants[i]));
  size_t size;
  const uint8_t *bytes = find_flatbuffer(read_whole(life->program_path, &size), &size);
  TRY(make_by_name(life, bytes, size));
  TRY(clave_program_create(bytes, size, constants, info.n_constants, &life->made));
  return clave_program_own_constants(life->made);
}

/* Reads the program in place, as executables that carry a program do. */
static clave_status load_bytes(const life *life) {
  clave_program *program;
  size_t size;
  const uint8_t *bytes = read_whole(life->program_path, &size);
  TRY(clave_program_load_bytes(bytes, size, life->program_path, &program));
  clave_status st = describe(program);
  clave_program_destroy(program);
  return st;
}

static clave_status use_programs(life *life) {
  TRY(clave_program_load(life->program_path, NULL, &life->program));
  TRY(describe(life->program));
  TRY(load_bytes(life));
  TRY(optimize(life));
  TRY(change_and_save(life));
  TRY(clave_program_load(in_folder(life, "saved.clv"), NULL, &life->saved));
  return make_program(life);
}

/* ---------------------------------------------------------------- sessions */

static bool observe(void *ctx, uint32_t node, uint32_t slot, const clave_tensor *value) {
  life *life = ctx;
  (void)node;
  (void)slot;
  life->n_observed += value->rank >= 0;
  return true;
}

static bool edit(void *ctx, uint32_t node, uint32_t slot, const clave_tensor *value, bool *edited) {
  *edited = true; /* with what it is */
  return observe(ctx, node, slot, value);
}

static clave_status open_sessions(life *life) {
  clave_session_options options = {.size = sizeof options, .profile = true};
  clave_device_options device = {.size = sizeof device, .n_threads = 2};
  clave_device_info info = {.size = sizeof info};
  clave_memory_info memory = {.size = sizeof memory};
  TRY(clave_device_open(life->device_name, &device, &life->device));
  TRY(clave_device_get_info(life->device, &info));
  clave_device_destroy(clave_device_retain(life->device));
  TRY(clave_session_create(life->made, life->device, &options, &life->session));
  TRY(clave_session_memory(life->session, &memory));
  return clave_session_create(life->made, life->device, &options, &life->other);
}

static clave_status read_places(const life *life) {
  clave_method_info method_info = {.size = sizeof method_info};
  clave_placement_info info = {.size = sizeof info};
  TRY(clave_program_method(life->made, 0, &method_info));
  for (uint32_t i = 0; i < method_info.n_nodes; i++)
    TRY(clave_placement_get(life->places, method_info.name, i, &info));
  return NULL;
}

static clave_status place(life *life) {
  TRY(clave_program_supported(life->made, life->device, NULL, &life->places));
  TRY(read_places(life));
  clave_placement_destroy(life->places);
  TRY(clave_session_placement(life->session, &life->places));
  return read_places(life);
}

static clave_status run(clave_session *session, const life *life) {
  TRY(set_inputs(session, life->data));
  return clave_session_run(session, "forward");
}

/* Copies each state through the host to the other session, and all of them back. */
static clave_status move_states(life *life) {
  clave_program_info info = {.size = sizeof info};
  TRY(clave_program_get_info(life->made, &info));
  for (uint32_t i = 0; i < info.n_state && i < MAX_STATES; i++) {
    static char bytes[1 << 16];
    clave_tensor_info tensor_info = {.size = sizeof tensor_info};
    TRY(clave_program_state(life->made, i, &tensor_info));
    size_t size = clave_dtype_size(tensor_info.dtype);
    for (int k = 0; k < tensor_info.rank; k++) size *= (size_t)tensor_info.max_dims[k];
    TRY(clave_session_read_state(life->session, i, bytes, size));
    TRY(clave_session_write_state_part(life->other, i, size / 2, bytes, size / 2));
    TRY(clave_session_copy_state_part(life->other, i, 0, size / 2, size / 2));
    TRY(clave_session_read_state_part(life->session, i, 0, bytes, size / 2));
    TRY(clave_session_write_state(life->other, i, bytes, size));
  }
  TRY(clave_session_resize(life->session, "context", 9));
  TRY(clave_session_resize(life->other, "context", 11));
  return clave_session_copy_state(life->session, life->other);
}

static clave_status describe_packed_weights(const clave_program *program) {
  clave_packed_weight_info form = {.size = sizeof form};
  for (uint32_t i = 0; i < clave_program_count_packed_weights(program); i++)
    TRY(clave_program_packed_weight(program, i, &form));
  return NULL;
}

/* Loads a separate program, since sessions use the others. */
static clave_status pack(life *life) {
  clave_program *program = NULL, *back = NULL;
  TRY(clave_program_load(life->program_path, NULL, &program));
  clave_status st = clave_program_pack(program, life->device, NULL);
  if (!st) st = describe_packed_weights(program);
  if (!st) st = clave_program_save(program, in_folder(life, "packed.clv"));
  if (!st) st = clave_program_unpack(program);
  if (!st) st = clave_program_load(in_folder(life, "packed.clv"), NULL, &back);
  if (!st) st = clave_program_check_hashes(back);
  clave_program_destroy(program);
  clave_program_destroy(back);
  return st;
}

static clave_status describe_blocks(const clave_session *session) {
  clave_block_info block = {.size = sizeof block};
  uint32_t n, commands;
  TRY(clave_session_count_blocks(session, "forward", &n, &commands));
  for (uint32_t i = 0; i < n; i++) TRY(clave_session_block(session, "forward", i, &block));
  return NULL;
}

static void count_timing(void *ctx, const clave_timing *timing) {
  life *life = ctx;
  life->n_timings += timing->end_ns >= timing->start_ns;
}

static clave_status set_peaks(clave_session *session) {
  const clave_peak one = {.size = sizeof one, .device = "cpu", .flops_a_second = 1e9};
  const clave_peak two[] = {one, one};
  TRY(clave_session_set_peaks(session, two, 2));
  return clave_session_set_peaks(session, &one, 1);
}

static clave_status use_sessions(life *life) {
  TRY(open_sessions(life));
  TRY(pack(life));
  TRY(clave_session_observe(life->session, observe, life));
  TRY(run(life->session, life));
  TRY(clave_session_edit(life->session, edit, life));
  TRY(run(life->session, life));
  TRY(describe_blocks(life->session));
  TRY(set_peaks(life->session));
  TRY(clave_session_timings(life->session, count_timing, life));
  TRY(clave_session_write_profile(life->session, in_folder(life, "profile.json")));
  TRY(clave_session_observe(life->session, NULL, NULL));
  TRY(place(life));
  TRY(move_states(life));
  TRY(run(life->other, life));
  TRY(clave_session_bind_output(life->session, "forward", 0, life->result, sizeof life->result));
  return run(life->session, life);
}

/* A process of another version requests kernels and is refused. */
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

/* Guards whole pages of the host's, which are never truncated. */
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
  life *life = ctx;
  uint64_t removed;
  clave_cache_info info = {.size = sizeof info};
  int n_devices;
  clave_device_info device = {.size = sizeof device};
  TRY(clave_devices_count(&n_devices));
  TRY(clave_devices_get(n_devices - 1, &device));
  TRY(clave_tensors_load(life->data_path, &life->data));
  TRY(use_programs(life));
  TRY(use_sessions(life));
  TRY(serve_stranger());
  TRY(guard_pages());
  TRY(clave_tensors_check(life->data));
  TRY(clave_cache_get_info(&info));
  return clave_cache_trim(info.limit_bytes, &removed);
}

/* ---------------------------------------------------------------- invariants */

static const char *wrong_life(void *ctx) {
  const life *life = ctx;
  size_t size = 0;
  const void *section = clave_program_section(life->saved, "TEST", &size);
  clave_program_info info = {.size = sizeof info};
  if (clave_program_get_info(life->saved, &info)) return "no info";
  if (size != 10 || memcmp(section, "some bytes", 10) != 0) return "the section is not the one set";
  if (strcmp(info.metadata, "{\"a\": 1}") != 0) return "the metadata is not what was set";
  if (clave_program_section(life->saved, "MORE", &size)) return "a removed section is there";
  if (!life->n_observed) return "nothing was observed";
  if (!life->n_timings) return "no times";
  if (!right_output(life->session, life->data)) return "the output is wrong";
  return right_output(life->other, life->data) ? NULL : "the other session's output is wrong";
}

/* Files that exist are complete, and sessions run as before the failure. */
static clave_status resume(void *ctx) {
  life *life = ctx;
  clave_program *program = NULL;
  clave_session *sessions[2] = {life->session, life->other};
  for (int i = 0; i < 2; i++) {
    const char *path = in_folder(life, i ? "saved.clv" : "saved.json");
    if (access(path, F_OK)) continue;
    TRY(clave_program_load(path, NULL, &program));
    clave_program_destroy(program);
  }
  for (int i = 0; i < 2; i++) {
    if (!sessions[i]) continue;
    TRY(clave_session_observe(sessions[i], NULL, NULL));
    TRY(clave_session_reset(sessions[i]));
    TRY(run(sessions[i], life));
    if (!right_output(sessions[i], life->data)) abort();
  }
  return NULL;
}

static void end_life(void *ctx) {
  static const char *const files[] = {"saved.clv", "saved.json", "consts.safetensors",
                                      "profile.json", "packed.clv"};
  life *alive = ctx;
  clave_placement_destroy(alive->places);
  clave_session_destroy(alive->session);
  clave_session_destroy(alive->other);
  clave_tensors_destroy(alive->data);
  clave_program_destroy(alive->made);
  clave_program_destroy(alive->saved);
  clave_program_destroy(alive->program);
  clave_device_destroy(alive->device);
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) unlink(in_folder(alive, files[i]));
  *alive = (life){.program_path = alive->program_path,
                  .data_path = alive->data_path,
                  .device_name = alive->device_name,
                  .folder = alive->folder};
}

int main(int argc, char **argv) {
  if (argc < 6) {
    fprintf(stderr, "usage: run_api_faults alloc|calls PROGRAM DATA DEVICE FOLDER [FIRST STEP]\n");
    return 2;
  }
  life life = {
      .program_path = argv[2], .data_path = argv[3], .device_name = argv[4], .folder = argv[5]};
  const fault_test test = {&life, run_life, wrong_life, resume, end_life};
  return fault_loop(&test, argv[1], argc > 6 ? atol(argv[6]) : 0, argc > 7 ? atol(argv[7]) : 1);
}
