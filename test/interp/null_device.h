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

/* A device that supports the nodes whose names' hash leaves no remainder; 1: all of them. */
typedef struct null_device {
  backend b;
  uint64_t modulus;
} null_device;

static inline bool null_supports(backend *b, const rule_context *c, const ir_instruction *ins,
                                 const char **reason) {
  (void)c;
  const null_device *d = (const null_device *)b;
  *reason = "not on this one";
  return hash_bytes(ins->name, strlen(ins->name)) % d->modulus == 0;
}

enum { NULL_SCRATCH = 1000 };

static inline clave_status null_record(backend *b, const node *n, bool fast, recording **out) {
  (void)b;
  (void)n;
  (void)fast;
  *out = calloc(1, sizeof **out);
  if (!*out) return status_no_memory();
  (*out)->scratch_bytes = NULL_SCRATCH;
  return NULL;
}

static inline void null_recording_destroy(backend *b, recording *r) {
  (void)b;
  free(r);
}

static const backend_vtable null_vtable = {
    .supports = null_supports, .record = null_record, .recording_destroy = null_recording_destroy};

/* The last of `n` devices supports everything. */
static inline device_set null_devices(null_device *d, int n) {
  device_set set = {.count = n};
  for (int i = 0; i < n; i++) {
    d[i] = (null_device){
        .b = {.vt = &null_vtable, .info = {.kind = i ? "cpu" : "null", .name = "null"}},
        .modulus = i == n - 1 ? 1 : (uint64_t)(i + 2)};
    d[i].b.info.alignment = 64;
    d[i].b.info.max_alloc = (uint64_t)1 << 40;
    set.backends[i] = &d[i].b;
  }
  return set;
}

/* ---------------------------------------------------------------- programs */

/* From JSON with ' for ". The program has no constants. */
static inline program *program_of(const char *text) {
  char *json = strdup(text);
  program *p;
  for (char *c = json; *c; c++)
    if (*c == '\'') *c = '"';
  good(program_new(&p));
  good(decode_json(json, strlen(json), p->pool, &p->ir));
  free(json);
  good(verify_program(p));
  return p;
}

/* A FlatBuffers file; NULL: it does not verify. */
static inline program *program_of_file(const char *path) {
  file_map m;
  program *p;
  good(file_map_open(path, &m));
  good(program_new(&p));
  clave_status st = decode_flatbuffer(m.data, m.size, p->pool, &p->ir);
  if (!st) st = verify_program(p);
  file_map_close(&m);
  if (!st) return p;
  status_free(st);
  program_destroy(p);
  return NULL;
}

/* Values as inputs of these sizes would set them: `size` more than the least that is allowed, for
 * dimensions and scalars alike. To be freed. */
static inline scalar_value *input_values(const program *p, uint32_t method, int64_t size) {
  scalar_value *values = calloc(p->ir.values.count + 1, sizeof *values);
  const ir_arguments *inputs = &p->ir.methods.items[method].inputs;
  for (uint32_t i = 0; i < inputs->count; i++) {
    const ir_argument *a = &inputs->items[i];
    const ir_int_or_vids *shape =
        a->tensor == IR_NONE ? NULL : &p->ir.tensors.items[a->tensor].shape;
    for (uint32_t k = 0; k < (shape ? shape->count : 1); k++) {
      uint32_t vid = shape ? shape->items[k].vid : a->value;
      if (vid == IR_NONE) continue;
      const ir_value *v = &p->ir.values.items[vid];
      int64_t low = v->min.present && v->min.value > 0 ? v->min.value : 0;
      int64_t n = low < INT32_MAX ? low + size : low;
      if (v->max.present && n > v->max.value) n = v->max.value;
      values[vid] = (scalar_value){.known = true, .type = v->type, .i = n, .f = (double)n};
    }
  }
  return values;
}

#endif
