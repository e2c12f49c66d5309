/* A program's constants on one device. They are used in place if the device shares host memory,
 * else uploaded once. Encoded constants that are decoded for ops that cannot read codes are stored
 * under the output slot of their Dequantize. The store also owns the packed weights, which come
 * from the program's file or are packed by the backend. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "interp/graph/graph.h"
#include "interp/interp.h"

struct constant_store {
  const program *prog; /* borrowed */
  backend *owner;      /* borrowed */
  mutex *lock;
  buffer **buffers; /* (n_slots) owned; NULL: not used yet, or not a constant */
  void **decoded;   /* (n_slots) owned; the host memory of a decoded constant whose buffer uses that
                       memory */
  packed_weight *packed; /* owned; a linked list, newest first */
  uint64_t bytes, packed_bytes, in_place_bytes;
  bool *is_whole; /* owned, (the program's n_packed_weights): true if the packed weight is intact
                     and for this device; NULL: unchecked */
};

clave_status constant_store_create(const program *program, backend *backend, constant_store **out) {
  *out = NULL;
  constant_store *store = calloc(1, sizeof *store);
  if (!store) return status_no_memory();
  store->prog = program;
  store->owner = backend;
  store->buffers = calloc((size_t)slot_count(program) + 1, sizeof *store->buffers);
  store->decoded = calloc((size_t)slot_count(program) + 1, sizeof *store->decoded);
  clave_status st =
      store->buffers && store->decoded ? mutex_create(&store->lock) : status_no_memory();
  if (st) {
    constant_store_destroy(store);
    return st;
  }
  *out = store;
  return NULL;
}

static void free_packed(const constant_store *store, packed_weight *weight) {
  store->owner->vt->buffer_destroy(store->owner, weight->buf);
  free(weight);
}

void constant_store_destroy(constant_store *store) {
  if (!store) return;
  for (uint32_t i = 0; store->buffers && i < slot_count(store->prog); i++)
    store->owner->vt->buffer_destroy(store->owner, store->buffers[i]);
  for (uint32_t i = 0; store->decoded && i < slot_count(store->prog); i++) free(store->decoded[i]);
  free(store->buffers);
  free(store->decoded);
  for (packed_weight *w = store->packed, *next; w; w = next) {
    next = w->next;
    free_packed(store, w);
  }
  free(store->is_whole);
  mutex_destroy(store->lock);
  free(store);
}

const backend *constant_store_backend(const constant_store *store) { return store->owner; }

uint64_t constant_store_bytes(const constant_store *store) {
  mutex_lock(store->lock);
  uint64_t bytes = store->bytes + store->packed_bytes;
  mutex_unlock(store->lock);
  return bytes;
}

uint64_t constant_store_packed_bytes(const constant_store *store) {
  mutex_lock(store->lock);
  uint64_t bytes = store->packed_bytes;
  mutex_unlock(store->lock);
  return bytes;
}

uint64_t constant_store_in_place_bytes(const constant_store *store) {
  mutex_lock(store->lock);
  uint64_t bytes = store->in_place_bytes;
  mutex_unlock(store->lock);
  return bytes;
}

bool constant_store_has(const constant_store *store, uint32_t tid) {
  mutex_lock(store->lock);
  bool has = store->buffers[tid] != NULL;
  mutex_unlock(store->lock);
  return has;
}

const void *constant_store_host(const constant_store *store, const buffer *buffer) {
  const void *found = NULL;
  mutex_lock(store->lock);
  for (uint32_t i = 0; buffer && i < store->prog->ir.constants.count && !found; i++)
    if (store->buffers[i] == buffer) found = store->prog->constants[i];
  mutex_unlock(store->lock);
  return found;
}

/* Releases mapped pages of a constant that the device has copied or packed. */
static void release_pages(const program *program, const void *data, size_t bytes) {
  const uintptr_t at = (uintptr_t)data;
  for (; program; program = program->base) {
    for (size_t i = 0; i < program->n_files; i++) {
      const file_map *map = &program->files[i].map;
      uintptr_t start = (uintptr_t)map->data;
      if (map->data && at >= start && at < start + map->size)
        file_map_release(map, at - start, bytes);
    }
  }
}

/* Returns the Dequantize that writes the slot; NULL if none exists. */
static const ir_dequantize *decoder_of(const program *program, uint32_t tid) {
  for (uint32_t c = 0; c < program->ir.chains.count; c++) {
    const ir_instructions *all = &program->ir.chains.items[c].instructions;
    for (uint32_t i = 0; i < all->count; i++) {
      const ir_dequantize *op = all->items[i].op;
      if (all->items[i].op_type == IR_OP_DEQUANTIZE && op->out == tid) return op;
    }
  }
  return NULL;
}

/* Returns the constant that is stored in the slot or decoded to it. */
static uint32_t interp_constants_source_of(const program *program, uint32_t tid) {
  return is_slot(program, tid, SLOT_CONSTANT) ? tid : decoder_of(program, tid)->x;
}

/* Stores n floats as F32, F16 or BF16. */
static void store_floats(const float *values, int n, dtype type, void *to) {
  uint16_t *halves = to;
  if (type == DTYPE_F32) memcpy(to, values, (size_t)n * sizeof *values);
  for (int i = 0; i < n && type == DTYPE_F16; i++) halves[i] = f32_to_f16(values[i]);
  for (int i = 0; i < n && type == DTYPE_BF16; i++) halves[i] = f32_to_bf16(values[i]);
}

static void interp_constants_decode_row(const encoding *encoding, code_bytes row, int64_t elements,
                                        dtype type, char *to) {
  float x[DECODED_AT_ONCE];
  for (int64_t first = 0; first < elements; first += DECODED_AT_ONCE) {
    const int64_t left = elements - first;
    encoding_decode(encoding, row, elements, first / DECODED_AT_ONCE, x);
    store_floats(x, (int)(left < DECODED_AT_ONCE ? left : DECODED_AT_ONCE), type,
                 to + (size_t)first * dtype_size(type));
  }
}

static clave_status decode(constant_store *store, uint32_t tid, size_t *bytes) {
  const uint32_t x = decoder_of(store->prog, tid)->x;
  tensor tensor = store->prog->types[x];
  const int64_t rows = tensor_rows(&tensor), elements = tensor_row(&tensor);
  const encoding code = tensor.encoding;
  const size_t row_bytes = encoding_row_bytes(&code, elements);
  tensor.encoding = (encoding){0};
  tensor.type = store->prog->types[tid].type;
  TRY(known_bytes(&tensor, bytes));
  char *made = memory_alloc(*bytes + 1);
  if (!made) return status_no_memory();
  for (int64_t r = 0; r < rows; r++)
    interp_constants_decode_row(
        &code, (code_bytes)store->prog->constants[x] + (size_t)r * row_bytes, elements, tensor.type,
        made + (size_t)(r * elements) * dtype_size(tensor.type));
  store->decoded[tid] = made;
  return NULL;
}

static clave_status interp_constants_wrap(constant_store *store, uint32_t tid, size_t *bytes) {
  const bool is_decoded = !is_slot(store->prog, tid, SLOT_CONSTANT);
  TRY(is_decoded ? decode(store, tid, bytes) : known_bytes(&store->prog->types[tid], bytes));
  const void *data = is_decoded ? store->decoded[tid] : store->prog->constants[tid];
  clave_status st =
      store->owner->vt->buffer_wrap(store->owner, data, *bytes, false, &store->buffers[tid]);
  if (st) return st;
  if (backend_wraps_in_place(&store->owner->info, data, *bytes, false)) {
    store->in_place_bytes += *bytes;
    return NULL;
  }
  if (!is_decoded) release_pages(store->prog, data, *bytes);
  free(store->decoded[tid]);
  store->decoded[tid] = NULL;
  return NULL;
}

static clave_status name_constant(clave_status st, const char *what, const constant_store *store,
                                  uint32_t tid) {
  return status_while(
      st, "%s'%s'", what,
      store->prog->ir.constants.items[interp_constants_source_of(store->prog, tid)].name);
}

clave_status constant_store_get(constant_store *store, uint32_t tid, buffer **out) {
  clave_status st = NULL;
  mutex_lock(store->lock);
  if (!store->buffers[tid]) {
    size_t bytes = 0;
    st = interp_constants_wrap(store, tid, &bytes);
    if (!st) store->bytes += bytes;
    if (st) st = name_constant(st, "constant ", store, tid);
  }
  *out = store->buffers[tid];
  mutex_unlock(store->lock);
  return st;
}

/* ---------------------------------------------------------------- packed weights */

static packed_weight *interp_constants_find_packed(const constant_store *store,
                                                   const packed_weight_request *request) {
  packed_weight *weight = store->packed;
  while (weight && !packed_weights_equal(&weight->request, request)) weight = weight->next;
  return weight;
}

static packed_weight *find_serving(const constant_store *store,
                                   const packed_weight_request *request) {
  packed_weight *weight = store->packed;
  while (weight && !packed_weight_serves(&weight->request, request)) weight = weight->next;
  return weight;
}

/* Returns the request as an entry of a program file, to look it up. */
static program_packed_weight packed_weight_for(const backend *owner,
                                               const packed_weight_request *request) {
  program_packed_weight desc = {.constant = request->constant,
                                .kind = request->kind,
                                .view = request->view,
                                .bytes = request->bytes};
  memcpy(desc.size, request->size, sizeof desc.size);
  if (owner->info.weight_layout)
    (void)snprintf(desc.layout, sizeof desc.layout, "%s", owner->info.weight_layout);
  return desc;
}

static void check_some(void *ctx, int64_t begin, int64_t end) {
  const constant_store *store = ctx;
  for (int64_t i = begin; i < end; i++) {
    const program_packed_weight *desc = &store->prog->packed_weights[i];
    store->is_whole[i] = strcmp(desc->layout, store->owner->info.weight_layout) == 0 &&
                         program_packed_weight_is_whole(desc);
  }
}

/* Verifies all packed weights of the file that are for this device. It runs in parallel, because
 * this takes most of the time of loading. */
static clave_status interp_constants_check_file(constant_store *store) {
  thread_pool *pool;
  if (store->is_whole) return NULL;
  TRY(thread_pool_create(0, &pool));
  store->is_whole = calloc(store->prog->n_packed_weights, sizeof *store->is_whole);
  if (!store->is_whole) {
    thread_pool_destroy(pool);
    return status_no_memory();
  }
  thread_pool_for(pool, (int64_t)store->prog->n_packed_weights, 1, check_some, store);
  thread_pool_destroy(pool);
  return NULL;
}

/* Sets *out to the packed weight in the program's file, or to NULL if the file has no matching one
 * or it is damaged. */
static clave_status interp_constants_find_in_file(constant_store *store,
                                                  const packed_weight_request *request, bool checks,
                                                  const program_packed_weight **out,
                                                  bool *is_damaged) {
  *out = NULL;
  if (!store->owner->info.weight_layout || !is_slot(store->prog, request->constant, SLOT_CONSTANT))
    return NULL;
  const program_packed_weight wanted = packed_weight_for(store->owner, request),
                              *found = program_find_packed_weight(store->prog, &wanted);
  if (found && checks) {
    TRY(interp_constants_check_file(store));
    *is_damaged = !store->is_whole[found - store->prog->packed_weights];
  }
  if (!*is_damaged) *out = found;
  return NULL;
}

static clave_status interp_constants_take_from_file(constant_store *store,
                                                    const program_packed_weight *desc,
                                                    packed_weight *made) {
  TRY(store->owner->vt->buffer_wrap(store->owner, desc->data, desc->bytes, false, &made->buf));
  if (backend_wraps_in_place(&store->owner->info, desc->data, desc->bytes, false))
    store->in_place_bytes += desc->bytes;
  else
    release_pages(store->prog, desc->data, desc->bytes);
  return NULL;
}

static clave_status pack_on_device(const constant_store *store, const packing_means *means,
                                   const packed_weight_request *request, packed_weight *made) {
  const backend_vtable *vt = store->owner->vt;
  made->is_packed_here = true;
  TRY(vt->buffer_create(store->owner, request->bytes, &made->buf));
  return vt->pack(means->stream, request, means->operands, means->clears, made->buf);
}

static clave_status add_packed(constant_store *store, const packing_means *means,
                               const packed_weight_request *request, packed_weight **out,
                               bool *is_damaged) {
  const program_packed_weight *file;
  TRY(interp_constants_find_in_file(store, request, means->checks, &file, is_damaged));
  packed_weight *made = calloc(1, sizeof *made);
  if (!made) return status_no_memory();
  made->request = *request;
  made->request.pack = NULL;
  clave_status st = file ? interp_constants_take_from_file(store, file, made)
                         : pack_on_device(store, means, request, made);
  if (st) {
    free_packed(store, made);
    return st;
  }
  made->next = store->packed;
  *out = store->packed = made;
  store->packed_bytes += request->bytes;
  const buffer *plain = store->buffers[request->constant];
  if (plain && is_slot(store->prog, request->constant, SLOT_CONSTANT))
    release_pages(store->prog, store->prog->constants[request->constant], plain->bytes);
  return NULL;
}

clave_status constant_store_pack(constant_store *store, const packing_means *means,
                                 const packed_weight_request *request, const packed_weight **out,
                                 bool *is_damaged) {
  clave_status st = NULL;
  *is_damaged = false;
  mutex_lock(store->lock);
  packed_weight *found =
      request->pack ? interp_constants_find_packed(store, request) : find_serving(store, request);
  if (!found && request->pack) st = add_packed(store, means, request, &found, is_damaged);
  mutex_unlock(store->lock);
  *out = found;
  return st ? name_constant(st, "a packed weight of constant ", store, request->constant) : NULL;
}

bool constant_store_has_packed(const constant_store *store, const packed_weight_request *request) {
  mutex_lock(store->lock);
  bool has = interp_constants_find_packed(store, request) != NULL;
  mutex_unlock(store->lock);
  return has;
}

static clave_status keep_packed(const constant_store *store, stream *queue,
                                const packed_weight *weight, program *to) {
  program_packed_weight kept = packed_weight_for(store->owner, &weight->request);
  kept.data = kept.own = memory_alloc(weight->request.bytes);
  if (!kept.own) return status_no_memory();
  clave_status st = store->owner->vt->read(queue, weight->buf, 0, kept.own, weight->request.bytes);
  if (!st) return program_add_packed_weight(to, &kept);
  memory_free(kept.own);
  return st;
}

/* Moves one weight at a time, so that at most one is in memory twice. */
static clave_status keep_all(constant_store *store, stream *queue, program *to) {
  for (packed_weight *weight; (weight = store->packed);) {
    if (weight->is_packed_here && is_slot(store->prog, weight->request.constant, SLOT_CONSTANT))
      TRY(keep_packed(store, queue, weight, to));
    store->packed = weight->next;
    free_packed(store, weight);
  }
  return NULL;
}

/* Reverses the list, so that the oldest weight comes first. */
static void reverse_packed(constant_store *store) {
  packed_weight *made = NULL;
  for (packed_weight *weight = store->packed, *next; weight; weight = next) {
    next = weight->next;
    weight->next = made;
    made = weight;
  }
  store->packed = made;
}

clave_status constant_store_keep_packed(constant_store *store, program *to) {
  stream *queue;
  if (!store->packed || !store->owner->info.weight_layout) return NULL;
  TRY(store->owner->vt->stream_create(store->owner, &queue));
  reverse_packed(store); /* so that the file has them in the order in which runs read them */
  clave_status st = keep_all(store, queue, to);
  store->owner->vt->stream_destroy(store->owner, queue);
  return st;
}
