/* The safetensors reader: an 8-byte length, a JSON header, then the tensors' bytes without gap or
 * overlap. */
#include "serialize/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/file.h"
#include "base/memory.h"
#include "json/json.h"
#include "serialize/limits.h"

enum { LENGTH_BYTES = 8 };

struct tensor_file_owned {
  file_map map;
  char *path; /* in the pool; NULL: of bytes in memory */
  mem_pool *pool;
  const tensor_entry **by_name; /* sorted */
};

/* The file while it is read. */
typedef struct reader {
  const uint8_t *data; /* after the header */
  size_t size;
  mem_pool *pool;
  size_t *begins; /* (count) where each tensor's bytes begin */
  tensor_entry *tensors;
  const char **metadata;
} reader;

/* Everything the format has; those beyond ours are refused by name. */
static bool is_dtype_of_format(const char *name) {
  static const char *const names[] = {
      "BOOL",    "U8",      "I8",      "I16",     "U16",         "F16",         "BF16", "I32",
      "U32",     "F32",     "F64",     "I64",     "U64",         "C64",         "F4",   "F6_E2M3",
      "F6_E3M2", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ",
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(names[i], name) == 0) return true;
  }
  return false;
}

static clave_status read_dtype(const json *v, dtype *out) {
  if (!v || json_kind_of(v) != JSON_STRING) return INVALID("it has no dtype");
  const char *name = json_string(v);
  if (dtype_from_name(name, out)) return NULL;
  if (is_dtype_of_format(name)) return UNSUPPORTED("dtype %s is not one of this build's", name);
  return INVALID("'%.60s' is no dtype of the format", name);
}

/* What the format writes: digits, neither a sign nor quotes. */
static bool read_size(const json *v, int64_t *out) {
  return json_kind_of(v) == JSON_NUMBER && !signbit(json_number(v)) && json_i64(v, out);
}

static clave_status read_shape(const json *v, tensor_entry *t) {
  if (!v || json_kind_of(v) != JSON_ARRAY) return INVALID("it has no shape");
  size_t numel = 1;
  for (const json *d = json_first(v); d; d = json_next(d)) {
    if (t->rank == MAX_RANK)
      return UNSUPPORTED("expected rank 0 to %d, got %u", (int)MAX_RANK, json_count(v));
    int64_t *dim = &t->dims[t->rank++];
    if (!read_size(d, dim)) return INVALID("dimension %d of its shape is no size", t->rank - 1);
  }
  for (int i = 0; i < t->rank; i++) {
    if (!mul_size(numel, (uint64_t)t->dims[i], &numel)) return INVALID("its size overflows");
  }
  return mul_size(numel, dtype_size(t->type), &t->bytes) ? NULL : INVALID("its size overflows");
}

static clave_status read_offsets(const reader *r, const json *v, const tensor_entry *t,
                                 size_t *begin) {
  int64_t range[2] = {0, 0};
  bool good = v && json_kind_of(v) == JSON_ARRAY && json_count(v) == 2;
  const json *entry = good ? json_first(v) : NULL;
  for (int i = 0; entry; entry = json_next(entry)) good = good && read_size(entry, &range[i++]);
  if (!good || range[1] < range[0]) return INVALID("its data_offsets are not [begin, end]");
  if ((uint64_t)range[1] > r->size) {
    return INVALID("its data ends at %lld, the file's data at %zu", (long long)range[1], r->size);
  }
  *begin = (size_t)range[0];
  size_t bytes = (size_t)(range[1] - range[0]);
  return bytes == t->bytes
             ? NULL
             : INVALID("it has %zu bytes of data, its shape and dtype need %zu", bytes, t->bytes);
}

/* The tensor's bytes in place, or a copy where they are not aligned. */
static clave_status bind_data(const reader *r, size_t begin, tensor_entry *t) {
  if (t->bytes == 0) return NULL;
  t->data = r->data + begin;
  if ((uintptr_t)t->data % dtype_size(t->type) == 0) return NULL;
  void *copy = mem_pool_alloc(r->pool, t->bytes, 1);
  if (!copy) return status_no_memory();
  t->data = memcpy(copy, r->data + begin, t->bytes);
  return NULL;
}

static clave_status copy_name(const reader *r, const char *name, const char **out) {
  size_t n = strlen(name);
  if (n > LIMIT_NAME)
    return INVALID("expected a name of at most %d bytes, got %zu", (int)LIMIT_NAME, n);
  *out = mem_pool_strdup(r->pool, name, n);
  return *out ? NULL : status_no_memory();
}

static clave_status read_tensor(const reader *r, const json *v, tensor_entry *t, size_t *begin) {
  TRY(copy_name(r, json_key(v), &t->name));
  if (json_kind_of(v) != JSON_OBJECT)
    return INVALID("its entry is %s", json_kind_name(json_kind_of(v)));
  TRY(read_dtype(json_member(v, "dtype"), &t->type));
  TRY(read_shape(json_member(v, "shape"), t));
  TRY(read_offsets(r, json_member(v, "data_offsets"), t, begin));
  return bind_data(r, *begin, t);
}

static clave_status read_metadata(reader *r, const json *v, uint32_t *count) {
  if (json_kind_of(v) != JSON_OBJECT)
    return INVALID("__metadata__ is %s", json_kind_name(json_kind_of(v)));
  r->metadata = mem_pool_alloc(r->pool, (size_t)json_count(v) * 2, sizeof *r->metadata);
  if (!r->metadata) return status_no_memory();
  for (const json *m = json_first(v); m; m = json_next(m)) {
    if (json_kind_of(m) != JSON_STRING)
      return INVALID("__metadata__ \"%.200s\" is not a string", json_key(m));
    const char *parts[2] = {json_key(m), json_string(m)};
    for (int i = 0; i < 2; i++) {
      const char *copy = mem_pool_strdup(r->pool, parts[i], strlen(parts[i]));
      if (!copy) return status_no_memory();
      r->metadata[2 * *count + (uint32_t)i] = copy;
    }
    ++*count;
  }
  return NULL;
}

typedef struct byte_range {
  size_t begin, bytes;
  const char *name;
} byte_range;

static int compare_spans(const void *a, const void *b) {
  const byte_range *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return x->bytes < y->bytes ? -1 : x->bytes > y->bytes; /* empty ones first */
}

/* Every byte belongs to exactly one tensor. */
static clave_status check_coverage(const reader *r, uint32_t count) {
  byte_range *spans = calloc((size_t)count + 1, sizeof *spans);
  if (!spans) return status_no_memory();
  for (uint32_t i = 0; i < count; i++)
    spans[i] = (byte_range){r->begins[i], r->tensors[i].bytes, r->tensors[i].name};
  qsort(spans, count, sizeof *spans, compare_spans);
  clave_status st = NULL;
  size_t end = 0;
  for (uint32_t i = 0; i < count && !st; i++) {
    const byte_range *s = &spans[i];
    if (s->begin < end)
      st = INVALID("the data of tensor '%.200s' overlaps another's at %zu", s->name, s->begin);
    if (s->begin > end)
      st = INVALID("%zu bytes before the data of tensor '%.200s' belong to none", s->begin - end,
                   s->name);
    end = s->begin + s->bytes;
  }
  free(spans);
  if (st || end == r->size) return st;
  return INVALID("the last %zu bytes belong to no tensor", r->size - end);
}

static int compare_names(const void *a, const void *b) {
  return strcmp((*(const tensor_entry *const *)a)->name, (*(const tensor_entry *const *)b)->name);
}

static clave_status index_names(tensor_file *f) {
  f->owned->by_name = mem_pool_alloc(f->owned->pool, f->count, sizeof *f->owned->by_name);
  if (!f->owned->by_name) return status_no_memory();
  for (uint32_t i = 0; i < f->count; i++) f->owned->by_name[i] = &f->tensors[i];
  qsort(f->owned->by_name, f->count, sizeof *f->owned->by_name, compare_names);
  return NULL;
}

static clave_status read_entries(reader *r, const json *header, tensor_file *f) {
  if (json_kind_of(header) != JSON_OBJECT)
    return INVALID("its header is %s", json_kind_name(json_kind_of(header)));
  uint32_t members = json_count(header);
  r->tensors = mem_pool_alloc(r->pool, members, sizeof *r->tensors);
  r->begins = mem_pool_alloc(r->pool, members, sizeof *r->begins);
  if (!r->tensors || !r->begins) return status_no_memory();
  for (const json *v = json_first(header); v; v = json_next(v)) {
    if (strcmp(json_key(v), "__metadata__") == 0) {
      TRY(read_metadata(r, v, &f->n_metadata));
      continue;
    }
    clave_status st = read_tensor(r, v, &r->tensors[f->count], &r->begins[f->count]);
    if (st) return status_while(st, "tensor '%.200s'", json_key(v));
    f->count++;
  }
  f->tensors = r->tensors;
  f->metadata = r->metadata;
  TRY(check_coverage(r, f->count));
  return index_names(f);
}

static clave_status read_file(const uint8_t *bytes, size_t size, tensor_file *f) {
  uint64_t length;
  if (size < LENGTH_BYTES) return INVALID("not a safetensors file: %zu bytes", size);
  memcpy(&length, bytes, sizeof length);
  if (length > LIMIT_TENSORS_HEADER || length > size - LENGTH_BYTES) {
    return INVALID("not a safetensors file, or cut off: header of %llu bytes, file of %zu",
                   (unsigned long long)length, size);
  }
  const char *header = (const char *)bytes + LENGTH_BYTES;
  if (length == 0 || header[0] != '{')
    return INVALID("not a safetensors file: its header is no JSON object");
  json *document;
  TRY(json_parse_integers(header, (size_t)length, &document));
  reader r = {.data = bytes + LENGTH_BYTES + length,
              .size = size - LENGTH_BYTES - (size_t)length,
              .pool = f->owned->pool};
  clave_status st = read_entries(&r, document, f);
  json_free(document);
  return st;
}

/* An object that owns nothing yet. */
static clave_status create_file(tensor_file **out) {
  *out = NULL;
  tensor_file *f = calloc(1, sizeof *f);
  if (!f) return status_no_memory();
  f->owned = calloc(1, sizeof *f->owned);
  clave_status st = f->owned ? mem_pool_create(&f->owned->pool) : status_no_memory();
  if (st) {
    tensor_file_destroy(f);
    return st;
  }
  *out = f;
  return NULL;
}

/* Keeps `f` as *out if all is well so far, else destroys it. */
static clave_status finish_file(clave_status st, tensor_file *f, tensor_file **out) {
  if (st) {
    tensor_file_destroy(f);
    return st;
  }
  *out = f;
  return NULL;
}

clave_status tensor_file_parse(const void *bytes, size_t size, tensor_file **out) {
  tensor_file *f;
  *out = NULL;
  TRY(create_file(&f));
  return finish_file(read_file(bytes, size, f), f, out);
}

clave_status tensor_file_open(const char *path, tensor_file **out) {
  tensor_file *f;
  *out = NULL;
  TRY(create_file(&f));
  struct tensor_file_owned *o = f->owned;
  o->path = mem_pool_strdup(o->pool, path, strlen(path));
  clave_status st = o->path ? file_map_open(path, &o->map) : status_no_memory();
  if (!st) st = status_while(read_file(o->map.data, o->map.size, f), "%s", path);
  return finish_file(status_first(tensor_file_check(f), st), f, out);
}

clave_status tensor_file_check(const tensor_file *f) {
  return file_map_check(&f->owned->map, f->owned->path, NULL);
}

void tensor_file_destroy(tensor_file *f) {
  if (!f) return;
  if (f->owned) {
    mem_pool_destroy(f->owned->pool);
    file_map_close(&f->owned->map);
    free(f->owned);
  }
  free(f);
}

const tensor_entry *tensor_file_find(const tensor_file *f, const char *name) {
  const tensor_entry wanted = {.name = name}, *key = &wanted;
  if (f->count == 0) return NULL;
  const tensor_entry **found =
      bsearch(&key, f->owned->by_name, f->count, sizeof *f->owned->by_name, compare_names);
  return found ? *found : NULL;
}

const char *tensor_file_metadata(const tensor_file *f, const char *key) {
  for (uint32_t i = 0; i < f->n_metadata; i++) {
    if (strcmp(f->metadata[2 * i], key) == 0) return f->metadata[2 * i + 1];
  }
  return NULL;
}
