#ifndef TEST_INTERP_NULL_DEVICE_H
#define TEST_INTERP_NULL_DEVICE_H
/* Devices that plan and run nothing, programs for them, and values for their inputs. */
#include <cmocka.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "interp/plan/schedule_cache.h"
#include "serialize/decode.h"
#include "serialize/program_files.h"
#include "serialize/verify.h"

static inline void good(clave_status st) {
  if (st) print_error("%s\n", status_message(st));
  assert_null(st);
}

/* A device that supports the nodes whose names' hash is divisible by `modulus`; 1: all nodes. */
typedef struct null_device {
  backend b;
  uint64_t modulus;
} null_device;

static inline bool null_supports(backend *backend, const rule_context *context,
                                 const ir_instruction *ins, const char **reason) {
  (void)context;
  const null_device *device = (const null_device *)backend;
  *reason = "not on this one";
  return hash_bytes(ins->name, strlen(ins->name)) % device->modulus == 0;
}

enum { NULL_SCRATCH = 1000 };

static inline clave_status null_record(backend *backend, const node *node, bool fast,
                                       recording **out) {
  (void)backend;
  (void)node;
  (void)fast;
  *out = calloc(1, sizeof **out);
  if (!*out) return status_no_memory();
  (*out)->scratch_bytes = NULL_SCRATCH;
  return NULL;
}

static inline void null_recording_destroy(backend *backend, recording *recording) {
  (void)backend;
  free(recording);
}

static const backend_vtable null_vtable = {
    .supports = null_supports, .record = null_record, .recording_destroy = null_recording_destroy};

/* The last of `n` devices supports everything. */
static inline device_set null_devices(null_device *device, int n) {
  device_set set = {.count = n};
  for (int i = 0; i < n; i++) {
    device[i] = (null_device){
        .b = {.vt = &null_vtable, .info = {.kind = i ? "cpu" : "null", .name = "null"}},
        .modulus = i == n - 1 ? 1 : (uint64_t)(i + 2)};
    device[i].b.info.alignment = 64;
    device[i].b.info.max_alloc = (uint64_t)1 << 40;
    set.backends[i] = &device[i].b;
  }
  return set;
}

/* ---------------------------------------------------------------- programs */

/* Makes a program from JSON with ' in place of ". It has no constants. */
static inline program *program_of(const char *text) {
  char *json = strdup(text);
  program *program;
  for (char *c = json; *c; c++)
    if (*c == '\'') *c = '"';
  good(program_new(&program));
  good(decode_json(json, strlen(json), program->pool, &program->ir));
  free(json);
  good(verify_program(program));
  return program;
}

/* Loads a FlatBuffers file; NULL if it does not verify. */
static inline program *program_of_file(const char *path) {
  file_map map;
  program *program;
  good(file_map_open(path, &map));
  good(program_new(&program));
  clave_status st = decode_flatbuffer(map.data, map.size, program->pool, &program->ir);
  if (!st) st = verify_program(program);
  file_map_close(&map);
  if (!st) return program;
  status_free(st);
  program_destroy(program);
  return NULL;
}

/* Returns the values that inputs of these sizes would set: `size` more than the least allowed, for
 * dimensions and scalars alike. The caller frees them. */
static inline scalar_value *input_values(const program *program, uint32_t method, int64_t size) {
  scalar_value *values = calloc(program->ir.values.count + 1, sizeof *values);
  const ir_arguments *inputs = &program->ir.methods.items[method].inputs;
  for (uint32_t i = 0; i < inputs->count; i++) {
    const ir_argument *argument = &inputs->items[i];
    const ir_int_or_vids *shape =
        argument->tensor == IR_NONE ? NULL : &program->ir.tensors.items[argument->tensor].shape;
    for (uint32_t k = 0; k < (shape ? shape->count : 1); k++) {
      uint32_t vid = shape ? shape->items[k].vid : argument->value;
      if (vid == IR_NONE) continue;
      const ir_value *value = &program->ir.values.items[vid];
      int64_t low = value->min.present && value->min.value > 0 ? value->min.value : 0;
      int64_t n = low < INT32_MAX ? low + size : low;
      if (value->max.present && n > value->max.value) n = value->max.value;
      values[vid] = (scalar_value){.known = true, .type = value->type, .i = n, .f = (double)n};
    }
  }
  return values;
}

#endif
