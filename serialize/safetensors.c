/* The safetensors reader. A file is an 8-byte length, a JSON header, and the tensors' bytes
 * without gaps or overlaps. */
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
  char *path; /* in pool; NULL for bytes in memory */
  mem_pool *pool;
  const tensor_entry **by_name; /* sorted by name */
};

/* State while a file is read. */
typedef struct reader {
  const uint8_t *data; /* the bytes after the header */
  size_t size;
  mem_pool *pool;
  size_t *begins; /* (count) start of each tensor's bytes */
  tensor_entry *tensors;
  const char **metadata;
} reader;

/* True for every dtype of the format, including those that clave lacks, which are rejected by
 * name. */
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

static clave_status read_dtype(const json *json, dtype *out) {
  if (!json || json_kind_of(json) != JSON_STRING) return INVALID("the entry has no dtype");
  const char *name = json_string(json);
  if (dtype_from_name(name, out)) return NULL;
  if (is_dtype_of_format(name)) return UNSUPPORTED("dtype %s is not supported", name);
  return INVALID("'%.60s' is not a dtype of the safetensors format", name);
}

/* Reads a size, which the format writes as digits without sign or quotes. */
static bool safetensors_read_size(const json *json, int64_t *out) {
  return json_kind_of(json) == JSON_NUMBER && !signbit(json_number(json)) && json_i64(json, out);
}

static clave_status safetensors_read_shape(const json *value, tensor_entry *entry) {
  if (!value || json_kind_of(value) != JSON_ARRAY) return INVALID("the entry has no shape");
  size_t numel = 1;
  for (const json *d = json_first(value); d; d = json_next(d)) {
    if (entry->rank == MAX_RANK)
      return UNSUPPORTED("expected rank 0 to %d, got %u", (int)MAX_RANK, json_count(value));
    int64_t *dim = &entry->dims[entry->rank++];
    if (!safetensors_read_size(d, dim))
      return INVALID("dimension %d of the shape is not a size", entry->rank - 1);
  }
  for (int i = 0; i < entry->rank; i++) {
    if (!mul_size(numel, (uint64_t)entry->dims[i], &numel))
      return INVALID("the size of the tensor overflows");
  }
  return mul_size(numel, dtype_size(entry->type), &entry->bytes)
             ? NULL
             : INVALID("the size of the tensor overflows");
}

static clave_status read_offsets(const reader *reader, const json *value,
                                 const tensor_entry *tensor_entry, size_t *begin) {
  int64_t range[2] = {0, 0};
  bool good = value && json_kind_of(value) == JSON_ARRAY && json_count(value) == 2;
  const json *entry = good ? json_first(value) : NULL;
  for (int i = 0; entry; entry = json_next(entry))
    good = good && safetensors_read_size(entry, &range[i++]);
  if (!good || range[1] < range[0]) return INVALID("data_offsets: expected [begin, end]");
  if ((uint64_t)range[1] > reader->size) {
    return INVALID("the data of the tensor ends at %lld, and the data of the file ends at %zu",
                   (long long)range[1], reader->size);
  }
  *begin = (size_t)range[0];
  size_t bytes = (size_t)(range[1] - range[0]);
  return bytes == tensor_entry->bytes
             ? NULL
             : INVALID("the tensor has %zu bytes of data, and its shape and dtype need %zu", bytes,
                       tensor_entry->bytes);
}

/* Binds the tensor to its bytes in place, or to a copy if they are not aligned. */
static clave_status bind_data(const reader *reader, size_t begin, tensor_entry *entry) {
  if (entry->bytes == 0) return NULL;
  entry->data = reader->data + begin;
  if ((uintptr_t)entry->data % dtype_size(entry->type) == 0) return NULL;
  void *copy = mem_pool_alloc(reader->pool, entry->bytes, 1);
  if (!copy) return status_no_memory();
  entry->data = memcpy(copy, reader->data + begin, entry->bytes);
  return NULL;
}

static clave_status safetensors_copy_name(const reader *reader, const char *name,
                                          const char **out) {
  size_t n = strlen(name);
  if (n > LIMIT_NAME)
    return INVALID("expected a name of at most %d bytes, got %zu", (int)LIMIT_NAME, n);
  *out = mem_pool_strdup(reader->pool, name, n);
  return *out ? NULL : status_no_memory();
}

static clave_status safetensors_read_tensor(const reader *reader, const json *json,
                                            tensor_entry *entry, size_t *begin) {
  TRY(safetensors_copy_name(reader, json_key(json), &entry->name));
  if (json_kind_of(json) != JSON_OBJECT)
    return INVALID("the entry is %s: expected an object", json_kind_name(json_kind_of(json)));
  TRY(read_dtype(json_member(json, "dtype"), &entry->type));
  TRY(safetensors_read_shape(json_member(json, "shape"), entry));
  TRY(read_offsets(reader, json_member(json, "data_offsets"), entry, begin));
  return bind_data(reader, *begin, entry);
}

static clave_status read_metadata(reader *reader, const json *value, uint32_t *count) {
  if (json_kind_of(value) != JSON_OBJECT)
    return INVALID("__metadata__ is %s: expected an object", json_kind_name(json_kind_of(value)));
  reader->metadata =
      mem_pool_alloc(reader->pool, (size_t)json_count(value) * 2, sizeof *reader->metadata);
  if (!reader->metadata) return status_no_memory();
  for (const json *m = json_first(value); m; m = json_next(m)) {
    if (json_kind_of(m) != JSON_STRING)
      return INVALID("__metadata__ \"%.200s\" is not a string", json_key(m));
    const char *parts[2] = {json_key(m), json_string(m)};
    for (int i = 0; i < 2; i++) {
      const char *copy = mem_pool_strdup(reader->pool, parts[i], strlen(parts[i]));
      if (!copy) return status_no_memory();
      reader->metadata[2 * *count + (uint32_t)i] = copy;
    }
    ++*count;
  }
  return NULL;
}

typedef struct byte_range {
  size_t begin, bytes;
  const char *name;
} byte_range;

static int compare_spans(const void *left, const void *right) {
  const byte_range *a = left, *b = right;
  if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
  return a->bytes < b->bytes ? -1 : a->bytes > b->bytes; /* empty first */
}

/* Checks that every byte belongs to exactly one tensor. */
static clave_status check_coverage(const reader *reader, uint32_t count) {
  byte_range *spans = calloc((size_t)count + 1, sizeof *spans);
  if (!spans) return status_no_memory();
  for (uint32_t i = 0; i < count; i++)
    spans[i] = (byte_range){reader->begins[i], reader->tensors[i].bytes, reader->tensors[i].name};
  qsort(spans, count, sizeof *spans, compare_spans);
  clave_status st = NULL;
  size_t end = 0;
  for (uint32_t i = 0; i < count && !st; i++) {
    const byte_range *range = &spans[i];
    if (range->begin < end)
      st = INVALID("the data of tensor '%.200s' overlaps that of another tensor at %zu",
                   range->name, range->begin);
    if (range->begin > end)
      st = INVALID("%zu bytes before the data of tensor '%.200s' belong to no tensor",
                   range->begin - end, range->name);
    end = range->begin + range->bytes;
  }
  free(spans);
  if (st || end == reader->size) return st;
  return INVALID("the last %zu bytes belong to no tensor", reader->size - end);
}

static int safetensors_compare_names(const void *left, const void *right) {
  return strcmp((*(const tensor_entry *const *)left)->name,
                (*(const tensor_entry *const *)right)->name);
}

static clave_status index_names(tensor_file *file) {
  file->owned->by_name =
      mem_pool_alloc(file->owned->pool, file->count, sizeof *file->owned->by_name);
  if (!file->owned->by_name) return status_no_memory();
  for (uint32_t i = 0; i < file->count; i++) file->owned->by_name[i] = &file->tensors[i];
  qsort(file->owned->by_name, file->count, sizeof *file->owned->by_name, safetensors_compare_names);
  return NULL;
}

static clave_status safetensors_read_entries(reader *reader, const json *header,
                                             tensor_file *file) {
  if (json_kind_of(header) != JSON_OBJECT)
    return INVALID("the header is %s: expected an object", json_kind_name(json_kind_of(header)));
  uint32_t members = json_count(header);
  reader->tensors = mem_pool_alloc(reader->pool, members, sizeof *reader->tensors);
  reader->begins = mem_pool_alloc(reader->pool, members, sizeof *reader->begins);
  if (!reader->tensors || !reader->begins) return status_no_memory();
  for (const json *v = json_first(header); v; v = json_next(v)) {
    if (strcmp(json_key(v), "__metadata__") == 0) {
      TRY(read_metadata(reader, v, &file->n_metadata));
      continue;
    }
    clave_status st = safetensors_read_tensor(reader, v, &reader->tensors[file->count],
                                              &reader->begins[file->count]);
    if (st) return status_while(st, "tensor '%.200s'", json_key(v));
    file->count++;
  }
  file->tensors = reader->tensors;
  file->metadata = reader->metadata;
  TRY(check_coverage(reader, file->count));
  return index_names(file);
}

static clave_status safetensors_read_file(const uint8_t *bytes, size_t size, tensor_file *file) {
  uint64_t length;
  if (size < LENGTH_BYTES) return INVALID("not a safetensors file: %zu bytes", size);
  memcpy(&length, bytes, sizeof length);
  if (length > LIMIT_TENSORS_HEADER || length > size - LENGTH_BYTES) {
    return INVALID(
        "not a safetensors file, or a file that is cut off: the header has %llu bytes, and the "
        "file %zu",
        (unsigned long long)length, size);
  }
  const char *header = (const char *)bytes + LENGTH_BYTES;
  if (length == 0 || header[0] != '{')
    return INVALID("not a safetensors file: the header is not a JSON object");
  json *document;
  TRY(json_parse_integers(header, (size_t)length, &document));
  reader reader = {.data = bytes + LENGTH_BYTES + length,
                   .size = size - LENGTH_BYTES - (size_t)length,
                   .pool = file->owned->pool};
  clave_status st = safetensors_read_entries(&reader, document, file);
  json_free(document);
  return st;
}

/* Creates a file object that owns nothing yet. */
static clave_status create_file(tensor_file **out) {
  *out = NULL;
  tensor_file *file = calloc(1, sizeof *file);
  if (!file) return status_no_memory();
  file->owned = calloc(1, sizeof *file->owned);
  clave_status st = file->owned ? mem_pool_create(&file->owned->pool) : status_no_memory();
  if (st) {
    tensor_file_destroy(file);
    return st;
  }
  *out = file;
  return NULL;
}

/* Stores `from` in *out if st is OK, otherwise destroys it. */
static clave_status finish_file(clave_status st, tensor_file *from, tensor_file **out) {
  if (st) {
    tensor_file_destroy(from);
    return st;
  }
  *out = from;
  return NULL;
}

clave_status tensor_file_parse(const void *bytes, size_t size, tensor_file **out) {
  tensor_file *file;
  *out = NULL;
  TRY(create_file(&file));
  return finish_file(safetensors_read_file(bytes, size, file), file, out);
}

clave_status tensor_file_open(const char *path, tensor_file **out) {
  tensor_file *file;
  *out = NULL;
  TRY(create_file(&file));
  struct tensor_file_owned *owned = file->owned;
  owned->path = mem_pool_strdup(owned->pool, path, strlen(path));
  clave_status st = owned->path ? file_map_open(path, &owned->map) : status_no_memory();
  if (!st)
    st = status_while(safetensors_read_file(owned->map.data, owned->map.size, file), "%s", path);
  return finish_file(status_first(tensor_file_check(file), st), file, out);
}

clave_status tensor_file_check(const tensor_file *file) {
  return file_map_check(&file->owned->map, file->owned->path, NULL);
}

void tensor_file_destroy(tensor_file *file) {
  if (!file) return;
  if (file->owned) {
    mem_pool_destroy(file->owned->pool);
    file_map_close(&file->owned->map);
    free(file->owned);
  }
  free(file);
}

const tensor_entry *tensor_file_find(const tensor_file *file, const char *name) {
  const tensor_entry wanted = {.name = name}, *key = &wanted;
  if (file->count == 0) return NULL;
  const tensor_entry **found = bsearch(&key, file->owned->by_name, file->count,
                                       sizeof *file->owned->by_name, safetensors_compare_names);
  return found ? *found : NULL;
}

const char *tensor_file_metadata(const tensor_file *file, const char *key) {
  for (uint32_t i = 0; i < file->n_metadata; i++) {
    if (strcmp(file->metadata[2 * i], key) == 0) return file->metadata[2 * i + 1];
  }
  return NULL;
}
