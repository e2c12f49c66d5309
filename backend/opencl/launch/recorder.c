/* The recorder, which each op function receives. It has the properties of the device and collects
 * the op's launches in a recording. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/launch/stream.h"

const device_traits *recorder_traits(const cl_recorder *recorder) {
  return &recorder->device->entry->traits;
}

bool recorder_accepts_work_groups(const cl_recorder *recorder, int64_t n) {
  return (uint64_t)n <= recorder_traits(recorder)->max_groups;
}

bool recorder_is_fast(const cl_recorder *recorder) { return recorder->fast; }

void recorder_rounds(cl_recorder *recorder, rounding how) { recorder->out->base.rounds = how; }

const char *recorder_type(const cl_recorder *recorder) { return recorder->device->base.info.type; }

tuning_key recorder_key(const cl_recorder *recorder) {
  tuning_key key = tuning_key_begin(recorder->device->base.tuning, recorder->choices);
  if (recorder->fast) tuning_key_int(&key, "fast", 1);
  return key;
}

/* Returns true if the family has a row of finite cost that is neither excluded nor `taken`. */
static bool has_other_row(const variants *left, const kernel_variant *taken) {
  const kernel_variant *without[MAX_ROW_CHOICES + 1];
  variants others = *left;
  for (int i = 0; i < left->n_excluded; i++) without[i] = left->excluded[i];
  without[left->n_excluded] = taken;
  others.excluded = without;
  others.n_excluded++;
  return variant_by_cost(&others) != NULL;
}

const kernel_variant *recorder_choose(cl_recorder *recorder, const variants *all,
                                      const tuning_key *key) {
  const tuning *tuning = recorder->device->base.tuning;
  row_choices *rows = recorder->rows;
  if (!rows) return tuning_choose(tuning, recorder->choices, all, key);
  variants left = *all;
  left.excluded = rows->excluded;
  left.n_excluded = rows->n_excluded;
  const kernel_variant *taken = tuning_choose(tuning, recorder->choices, &left, key);
  const bool is_left = taken;
  if (!is_left) taken = tuning_choose(tuning, recorder->choices, all, key);
  if (!taken || rows->n_chosen == MAX_ROW_CHOICES) return taken;
  rows->chosen[rows->n_chosen].row = taken;
  rows->chosen[rows->n_chosen++].has_others = is_left && has_other_row(&left, taken);
  return taken;
}

void recorder_note_refused(cl_recorder *recorder, kernel_program *program) {
  row_choices *rows = recorder->rows;
  if (rows && rows->n_at_refusal < 0) rows->n_at_refusal = rows->n_chosen;
  recorder->refused = program;
}

clave_status recorder_scratch(cl_recorder *recorder, size_t bytes) {
  if (bytes > recorder->device->base.info.max_alloc)
    return UNSUPPORTED("a workspace of %zu bytes exceeds the device's largest buffer", bytes);
  size_t *most = &recorder->out->base.scratch_bytes;
  if (bytes > *most) *most = bytes;
  return NULL;
}

bool recorder_may_pack(const cl_recorder *recorder, const bound_tensor *tensor) {
  return tensor->is_constant && recorder->out->base.n_weights < MAX_PACKED_WEIGHTS;
}

/* Appends the request and returns its number. Takes ownership of `pack`, which may be NULL. */
static int opencl_recorder_request_weight(cl_recorder *recorder, const pack_request *request,
                                          recording *pack) {
  recording *recording = &recorder->out->base;
  assert(recording->n_weights < MAX_PACKED_WEIGHTS);
  recording->weights[recording->n_weights] =
      (packed_weight_request){.constant = request->x->constant,
                              .view = request->x->tensor,
                              .kind = (int)request->kind,
                              .bytes = request->bytes,
                              .pack = pack};
  memcpy(recording->weights[recording->n_weights].size, request->size, sizeof request->size);
  return recording->n_weights++;
}

int recorder_packed_by_others(cl_recorder *recorder, const pack_request *request) {
  return opencl_recorder_request_weight(recorder, request, NULL);
}

clave_status recorder_pack(cl_recorder *recorder, const pack_request *request, int *number,
                           cl_recorder **pack) {
  if (request->bytes > recorder->device->base.info.max_alloc)
    return UNSUPPORTED("a packed weight of %zu bytes exceeds the device's largest buffer",
                       request->bytes);
  cl_recording *out = calloc(1, sizeof *out);
  if (!out) return status_no_memory();
  *number = opencl_recorder_request_weight(recorder, request, &out->base);
  recorder->pack->out = out;
  *pack = recorder->pack;
  return NULL;
}

clave_status recorder_add(cl_recorder *recorder, const recorded_launch *launch,
                          const launch_value *values) {
  cl_recording *recording = recorder->out;
  size_t bytes = sizeof *values * (size_t)launch->n_values;
  launch_value *copy = malloc(bytes + 1);
  if (!copy || !array_reserve(&recording->launches, &recording->capacity, (size_t)recording->n + 1,
                              sizeof *recording->launches)) {
    free(copy);
    free(launch->blas);
    if (launch->instead) opencl_recording_destroy(&recorder->device->base, &launch->instead->base);
    return status_no_memory();
  }
  if (bytes) memcpy(copy, values, bytes);
  recording->launches[recording->n] = *launch;
  recording->launches[recording->n].estimated_ns = recording->estimated_ns;
  recording->launches[recording->n++].values = copy;
  return NULL;
}

void opencl_recording_destroy(backend *backend, recording *base) {
  cl_recording *recorded = (cl_recording *)base;
  if (!recorded) return;
  for (int i = 0; i < recorded->n; i++) {
    const recorded_launch *launch = &recorded->launches[i];
    free(launch->values);
    free(launch->blas);
    if (launch->instead) opencl_recording_destroy(backend, &launch->instead->base);
  }
  for (int i = 0; i < recorded->base.n_weights; i++)
    opencl_recording_destroy(backend, recorded->base.weights[i].pack);
  free(recorded->launches);
  free(recorded);
}
