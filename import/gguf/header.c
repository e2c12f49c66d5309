/* Reads the header of a GGUF file: the places of values and tensors, checked against its size. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/utf8.h"
#include "import/gguf/file.h"

enum { MIN_KEY = 13, MIN_TENSOR = 24, MAX_NAME = 65535, ALIGNMENT = 32 };

/* Reads the file in order. The place is what errors name. */
typedef struct cursor {
  gguf_file *file;
  uint64_t at;
  const char *place; /* see place_of */
  span name;         /* the key or tensor; NULL data: index and count say which it is */
  size_t index, count;
} cursor;

static const char *place_of(const cursor *cursor) {
  importer *im = cursor->file->im;
  if (cursor->name.data)
    return import_text(im, "%s %s", cursor->place, gguf_shown(im, cursor->name));
  return cursor->count ? import_text(im, "the name of %s %zu of %zu", cursor->place,
                                     cursor->index + 1, cursor->count)
                       : cursor->place;
}

/* Skips n bytes. *out: the first of them. */
static clave_status header_skip(cursor *cursor, uint64_t n, const uint8_t **out) {
  const uint64_t size = cursor->file->bytes.size;
  if (n > size - cursor->at) {
    uint64_t end;
    const bool fits = !__builtin_add_overflow(cursor->at, n, &end);
    return INVALID("expected %llu bytes or more, got %llu: it ends within %s",
                   fits ? (unsigned long long)end : UINT64_MAX, (unsigned long long)size,
                   place_of(cursor));
  }
  *out = (const uint8_t *)cursor->file->bytes.data + cursor->at;
  cursor->at += n;
  return NULL;
}

static clave_status header_read_u32(cursor *cursor, uint32_t *out) {
  const uint8_t *at;
  TRY(header_skip(cursor, sizeof *out, &at));
  memcpy(out, at, sizeof *out);
  return NULL;
}

static clave_status header_read_u64(cursor *cursor, uint64_t *out) {
  const uint8_t *at;
  TRY(header_skip(cursor, sizeof *out, &at));
  memcpy(out, at, sizeof *out);
  return NULL;
}

/* Reads the number of items, of at least `least` bytes each. */
static clave_status header_read_count(cursor *cursor, const char *what, size_t least,
                                      uint64_t *out) {
  TRY(header_read_u64(cursor, out));
  if (*out <= (cursor->file->bytes.size - cursor->at) / least) return NULL;
  return INVALID("has %zu bytes, too few for the %llu %s that it names", cursor->file->bytes.size,
                 (unsigned long long)*out, what);
}

static clave_status header_read_name(cursor *cursor, span *out) {
  uint64_t n;
  const uint8_t *at;
  TRY(header_read_u64(cursor, &n));
  if (n > MAX_NAME)
    return INVALID("%s: expected at most %d bytes, got %llu", place_of(cursor), MAX_NAME,
                   (unsigned long long)n);
  TRY(header_skip(cursor, n, &at));
  *out = (span){(const char *)at, (size_t)n};
  return utf8_valid(out->data, out->size) ? NULL : INVALID("%s is not UTF-8", place_of(cursor));
}

/* ---------------------------------------------------------------- keys */

static clave_status header_read_kind(cursor *cursor, gguf_kind *out) {
  uint32_t n;
  TRY(header_read_u32(cursor, &n));
  if (n >= GGUF_KINDS)
    return INVALID("%s: expected type 0 to %d, got %u", place_of(cursor), GGUF_KINDS - 1, n);
  *out = (gguf_kind)n;
  return NULL;
}

static clave_status skip_texts(cursor *cursor, uint64_t n) {
  uint64_t size;
  const uint8_t *at;
  for (uint64_t i = 0; i < n; i++) {
    TRY(header_read_u64(cursor, &size));
    TRY(header_skip(cursor, size, &at));
  }
  return NULL;
}

static clave_status header_read_value(cursor *cursor, gguf_key *key) {
  const uint8_t *at;
  TRY(header_read_kind(cursor, &key->kind));
  key->is_array = key->kind == GGUF_ARRAY;
  key->count = 1;
  if (key->is_array) {
    TRY(header_read_kind(cursor, &key->kind));
    if (key->kind == GGUF_ARRAY)
      return INVALID("%s is an array of arrays, which is not supported", place_of(cursor));
    const size_t least = key->kind == GGUF_TEXT ? sizeof(uint64_t) : gguf_kind_size(key->kind);
    clave_status st = header_read_count(cursor, "elements", least, &key->count);
    if (st) return status_while(st, "%s", place_of(cursor));
  }
  TRY(header_skip(cursor, 0, &at));
  key->data = at;
  return key->kind == GGUF_TEXT ? skip_texts(cursor, key->count)
                                : header_skip(cursor, key->count * gguf_kind_size(key->kind), &at);
}

static clave_status header_read_keys(cursor *cursor, size_t n) {
  gguf_file *file = cursor->file;
  gguf_key *keys = mem_pool_alloc(file->im->pool, n + 1, sizeof *keys);
  if (!keys) return status_no_memory();
  for (size_t i = 0; i < n; i++) {
    cursor->place = "key";
    cursor->name = (span){0};
    cursor->index = i;
    cursor->count = n;
    TRY(header_read_name(cursor, &keys[i].name));
    cursor->name = keys[i].name;
    TRY(header_read_value(cursor, &keys[i]));
  }
  qsort(keys, n, sizeof *keys, gguf_by_name);
  for (size_t i = 1; i < n; i++)
    if (gguf_by_name(&keys[i - 1], &keys[i]) == 0)
      return INVALID("has key %s twice", gguf_shown(file->im, keys[i].name));
  file->keys = keys;
  file->n_keys = n;
  return NULL;
}

/* ---------------------------------------------------------------- tensors */

static const gguf_type types[] = {
#define TYPE(number, name, elements, bytes) {number, #name, elements, bytes},
#include "import/gguf/types.def"
#undef TYPE
};
static const struct {
  uint32_t number;
  const char *name;
} removed_types[] = {{4, "Q4_2"},      {5, "Q4_3"},      {31, "Q4_0_4_4"},
                     {32, "Q4_0_4_8"}, {33, "Q4_0_8_8"}, {36, "IQ4_NL_4_4"}};

static clave_status header_read_type(cursor *cursor, const gguf_type **out) {
  uint32_t n;
  const char *name = NULL;
  TRY(header_read_u32(cursor, &n));
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    *out = &types[i];
    if (types[i].number == n) return NULL;
  }
  for (size_t i = 0; i < sizeof removed_types / sizeof *removed_types; i++)
    if (removed_types[i].number == n) name = removed_types[i].name;
  return name
             ? INVALID("%s is of type %u (%s, which llama.cpp no longer reads), which is not known",
                       place_of(cursor), n, name)
             : INVALID("%s is of type %u, which is not known", place_of(cursor), n);
}

/* Reads the entry of a tensor. *offset: in bytes, from the start of all tensors' data. */
static clave_status header_read_info(cursor *cursor, gguf_tensor *tensor, uint64_t *offset) {
  uint32_t rank;
  uint64_t dim;
  TRY(header_read_name(cursor, &tensor->name));
  cursor->place = "tensor";
  cursor->name = tensor->name;
  TRY(header_read_u32(cursor, &rank));
  if (rank > GGUF_MAX_RANK)
    return INVALID("%s: expected at most %d dimensions, got %u", place_of(cursor), GGUF_MAX_RANK,
                   rank);
  tensor->rank = (int)rank;
  for (int i = tensor->rank; i-- > 0;) {
    TRY(header_read_u64(cursor, &dim));
    tensor->dims[i] = dim > INT64_MAX ? INT64_MAX : (int64_t)dim;
  }
  TRY(header_read_type(cursor, &tensor->type));
  return header_read_u64(cursor, offset);
}

static clave_status header_set_size(const cursor *cursor, gguf_tensor *tensor) {
  const gguf_type *type = tensor->type;
  const int64_t width = tensor->rank ? tensor->dims[tensor->rank - 1] : 1;
  int64_t n = 1;
  if (width % type->elements)
    return INVALID("%s has rows of %lld, %s needs a multiple of %d", place_of(cursor),
                   (long long)width, type->name, type->elements);
  bool fits = true; /* a larger size exceeds the file, too */
  for (int i = 0; i < tensor->rank; i++) fits = fits && mul_i64(n, tensor->dims[i], &n);
  if (!fits || !mul_size((size_t)type->bytes, (uint64_t)(n / type->elements), &tensor->size))
    tensor->size = SIZE_MAX;
  return NULL;
}

/* Sets the place of a tensor's data. start: of the data of all tensors. */
static clave_status place_tensor(cursor *cursor, uint64_t start, uint32_t alignment,
                                 uint64_t offset, gguf_tensor *tensor) {
  const uint64_t size = cursor->file->bytes.size;
  uint64_t at, end;
  cursor->name = tensor->name;
  if (offset % alignment)
    return INVALID("%s: expected a multiple of the alignment %u as offset, got %llu",
                   place_of(cursor), alignment, (unsigned long long)offset);
  TRY(header_set_size(cursor, tensor));
  if (__builtin_add_overflow(start, offset, &at) || __builtin_add_overflow(at, tensor->size, &end))
    end = UINT64_MAX;
  if (end > size)
    return INVALID("expected %llu bytes or more, got %llu: it ends before %s does",
                   (unsigned long long)end, (unsigned long long)size, place_of(cursor));
  tensor->data = (const uint8_t *)cursor->file->bytes.data + at;
  return NULL;
}

static clave_status header_read_alignment(const gguf_file *file, uint32_t *out) {
  const gguf_key *found = gguf_find_key(file, "general.alignment");
  *out = ALIGNMENT;
  if (!found) return NULL;
  if (found->is_array || found->kind != GGUF_U32)
    return INVALID("key 'general.alignment': expected uint32, got %s",
                   gguf_kind_name(found->is_array ? GGUF_ARRAY : found->kind));
  memcpy(out, found->data, sizeof *out);
  if (*out >= 8 && !(*out & (*out - 1))) return NULL;
  return INVALID("key 'general.alignment': expected a power of two, at least 8, got %u", *out);
}

static int header_by_place(const void *left, const void *right) {
  const gguf_tensor *x = left, *y = right;
  return x->data != y->data ? (x->data > y->data) - (x->data < y->data)
                            : (x->size > y->size) - (x->size < y->size);
}

/* Fails if the data of two tensors overlap, or if two have one name. */
static clave_status check_disjoint(gguf_file *file) {
  gguf_tensor *tensors = file->tensors;
  const gguf_tensor *last = NULL;
  qsort(tensors, file->n_tensors, sizeof *tensors, header_by_place);
  for (size_t i = 0; i < file->n_tensors; i++) {
    if (!tensors[i].size) continue;
    if (last && tensors[i].data < last->data + last->size)
      return INVALID("tensors %s and %s overlap, from byte %zu on",
                     gguf_shown(file->im, last->name), gguf_shown(file->im, tensors[i].name),
                     (size_t)(tensors[i].data - (const uint8_t *)file->bytes.data));
    last = &tensors[i];
  }
  qsort(tensors, file->n_tensors, sizeof *tensors, gguf_by_name);
  for (size_t i = 1; i < file->n_tensors; i++)
    if (gguf_by_name(&tensors[i - 1], &tensors[i]) == 0)
      return INVALID("has tensor %s twice", gguf_shown(file->im, tensors[i].name));
  return NULL;
}

static clave_status header_read_tensors(cursor *cursor, size_t n) {
  gguf_file *file = cursor->file;
  uint32_t alignment;
  gguf_tensor *tensors = mem_pool_alloc(file->im->pool, n + 1, sizeof *tensors);
  uint64_t *offsets = mem_pool_alloc(file->im->pool, n + 1, sizeof *offsets);
  if (!tensors || !offsets) return status_no_memory();
  for (size_t i = 0; i < n; i++) {
    cursor->place = "tensor";
    cursor->name = (span){0};
    cursor->index = i;
    cursor->count = n;
    TRY(header_read_info(cursor, &tensors[i], &offsets[i]));
  }
  TRY(header_read_alignment(file, &alignment));
  const uint64_t start = (cursor->at + alignment - 1) / alignment * alignment;
  for (size_t i = 0; i < n; i++)
    TRY(place_tensor(cursor, start, alignment, offsets[i], &tensors[i]));
  file->tensors = tensors;
  file->n_tensors = n;
  return check_disjoint(file);
}

/* ---------------------------------------------------------------- the file */

/* Reads the magic number and the version. */
static clave_status header_read_start(cursor *cursor) {
  uint32_t version;
  const uint8_t *at;
  const span bytes = cursor->file->bytes;
  if (bytes.size < 4 || memcmp(bytes.data, "GGUF", 4) != 0)
    return INVALID(
        "is not a GGUF file: expected 'GGUF' at its start, got %s",
        gguf_shown(cursor->file->im, (span){bytes.data, bytes.size < 4 ? bytes.size : 4}));
  TRY(header_skip(cursor, 4, &at));
  TRY(header_read_u32(cursor, &version));
  if (version && !(version & 0xFFFF)) return INVALID("expected little-endian, got big-endian");
  return version == 2 || version == 3 ? NULL
                                      : INVALID("expected version 2 or 3 of GGUF, got %u", version);
}

clave_status gguf_file_open(importer *im, span bytes, gguf_file *out) {
  uint64_t n_tensors, n_keys;
  cursor start = {.file = out, .place = "the header"};
  *out = (gguf_file){.im = im, .bytes = bytes, .architecture = ""};
  TRY(header_read_start(&start));
  TRY(header_read_count(&start, "tensors", MIN_TENSOR, &n_tensors));
  TRY(header_read_count(&start, "keys", MIN_KEY, &n_keys));
  TRY(header_read_keys(&start, (size_t)n_keys));
  return header_read_tensors(&start, (size_t)n_tensors);
}
