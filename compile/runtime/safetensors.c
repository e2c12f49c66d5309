/* .safetensors files: an 8-byte length, a JSON header, the tensors' bytes. */
#include "compile/runtime/safetensors.h"

#include <string.h>

#include "json/json.h"
#include "json/writer.h"

enum { LENGTH_BYTES = 8, HEADER_LIMIT = 100 << 20, DATA_ALIGNMENT = 64 };

/* ---------------------------------------------------------------- the header */

/* Position in the header: nesting depth, and the member of a tensor's entry. */
enum { AT_FILE = 1, AT_ENTRY, AT_ARRAY };
typedef enum member { MEMBER_OTHER, MEMBER_DTYPE, MEMBER_SHAPE, MEMBER_OFFSETS } member;

/* A parsed entry. */
typedef struct entry {
  stored_tensor tensor;
  bool seen[MEMBER_OFFSETS + 1];
  int64_t range[2];
  int n_range;
} entry;

enum { BY_NAME, BY_OTHER, ANY, N_FOUND };
typedef struct finder {
  const char *names[ANY]; /* in order of preference */
  int depth;
  int which; /* index in `found` of the current entry: BY_NAME, BY_OTHER, ANY; -1: not wanted */
  member at; /* within the entry */
  entry now;
  entry found[N_FOUND];
  int n_found[N_FOUND];
  size_t size; /* bytes of the data */
} finder;

static clave_status begin_entry(finder *finder, span name) {
  finder->which = ANY;
  if (name.size == 12 && memcmp(name.data, "__metadata__", 12) == 0) finder->which = -1;
  for (int i = ANY - 1; i >= 0; i--)
    if (strlen(finder->names[i]) == name.size &&
        memcmp(finder->names[i], name.data, name.size) == 0)
      finder->which = i;
  finder->now = (entry){0};
  return NULL;
}

static clave_status runtime_safetensors_begin_member(finder *finder, span name) {
  static const char *const names[] = {"", "dtype", "shape", "data_offsets"};
  finder->at = MEMBER_OTHER;
  for (int i = MEMBER_DTYPE; i <= MEMBER_OFFSETS; i++)
    if (strlen(names[i]) == name.size && memcmp(names[i], name.data, name.size) == 0)
      finder->at = (member)i;
  if (finder->at != MEMBER_OTHER && finder->now.seen[finder->at])
    return INVALID("an entry of the header has %s twice", names[finder->at]);
  finder->now.seen[finder->at] = true;
  return NULL;
}

static clave_status parse_dtype(finder *finder, span word) {
  char name[16];
  if (word.size >= sizeof name) return INVALID("the header has an unknown dtype");
  memcpy(name, word.data, word.size);
  name[word.size] = '\0';
  return dtype_from_name(name, &finder->now.tensor.type)
             ? NULL
             : UNSUPPORTED("unsupported dtype %s", name);
}

static clave_status runtime_safetensors_parse_number(finder *finder, span word) {
  entry *entry = &finder->now;
  int64_t value = 0;
  for (size_t i = 0; i < word.size; i++) {
    if (word.data[i] < '0' || word.data[i] > '9' || value > (INT64_MAX - 9) / 10)
      return INVALID("a size in the header is out of range");
    value = value * 10 + (word.data[i] - '0');
  }
  if (finder->at == MEMBER_SHAPE) {
    if (entry->tensor.rank == MODEL_MAX_RANK)
      return UNSUPPORTED("a tensor has more than 8 dimensions");
    entry->tensor.dims[entry->tensor.rank++] = value;
  } else {
    if (entry->n_range == 2) return INVALID("data_offsets in the header: expected [begin, end]");
    entry->range[entry->n_range++] = value;
  }
  return NULL;
}

static clave_status finish_entry(finder *finder) {
  entry *entry = &finder->now;
  stored_tensor *tensor = &entry->tensor;
  if (finder->which < 0) return NULL;
  if (!entry->seen[MEMBER_DTYPE] || !entry->seen[MEMBER_SHAPE] || entry->n_range < 2)
    return INVALID("an entry of the header has no dtype, shape or data_offsets");
  bool fits = entry->range[0] <= entry->range[1] && (uint64_t)entry->range[1] <= finder->size;
  tensor->bytes = fits ? (size_t)(entry->range[1] - entry->range[0]) : 0;
  size_t bytes = dtype_size(tensor->type);
  for (int i = 0; i < tensor->rank; i++) fits = fits && tensor->dims[i] >= 0;
  for (int i = 0; i < tensor->rank; i++)
    fits = fits && !__builtin_mul_overflow(bytes, tensor->dims[i], &bytes);
  if (!fits || bytes != tensor->bytes)
    return INVALID("the data_offsets of a tensor do not fit its shape, or are outside the file");
  finder->found[finder->which] = *entry;
  finder->n_found[finder->which]++;
  return NULL;
}

/* Parses a member of an entry, and checks its nesting and kind. */
static clave_status parse_entry(finder *finder, json_event event, span word) {
  const bool is_list = finder->at == MEMBER_SHAPE || finder->at == MEMBER_OFFSETS;
  if (finder->which < 0 || (finder->depth > AT_ENTRY && !is_list)) return NULL;
  if (finder->depth == AT_ENTRY && event == JSON_EVENT_KEY)
    return runtime_safetensors_begin_member(finder, word);
  if (finder->at == MEMBER_OTHER || event == JSON_EVENT_END) return NULL;
  if (finder->at == MEMBER_DTYPE && event == JSON_EVENT_STRING) return parse_dtype(finder, word);
  if (is_list && finder->depth == AT_ENTRY && event == JSON_EVENT_ARRAY) return NULL;
  if (is_list && finder->depth == AT_ARRAY && event == JSON_EVENT_NUMBER)
    return runtime_safetensors_parse_number(finder, word);
  return INVALID("a dtype, shape or data_offsets in the header has the wrong JSON type");
}

static clave_status runtime_safetensors_parse_event(void *ctx, json_event event, span word) {
  finder *finder = ctx;
  const bool opens = event == JSON_EVENT_OBJECT || event == JSON_EVENT_ARRAY;
  if (event == JSON_EVENT_END) finder->depth--;
  if (event == JSON_EVENT_END && finder->depth == AT_FILE) return finish_entry(finder);
  if (finder->depth == 0 && event == JSON_EVENT_ARRAY)
    return INVALID("the header is not a JSON object");
  if (finder->depth == AT_FILE && event == JSON_EVENT_KEY) return begin_entry(finder, word);
  if (finder->depth == AT_FILE && event != JSON_EVENT_OBJECT && event != JSON_EVENT_END)
    return INVALID("an entry of the header is not a JSON object");
  if (finder->depth >= AT_ENTRY) TRY(parse_entry(finder, event, word));
  finder->depth += opens;
  return NULL;
}

/* ---------------------------------------------------------------- reading */

static clave_status runtime_safetensors_choose(const finder *finder, const uint8_t *data,
                                               stored_tensor *out) {
  const int n = finder->n_found[BY_NAME] + finder->n_found[BY_OTHER] + finder->n_found[ANY];
  int which = BY_NAME;
  while (which < ANY && !finder->n_found[which]) which++;
  if (finder->n_found[which] == 0 || (which == ANY && n > 1))
    return INVALID("the file has no tensor '%s' or '%s' among its %d tensors", finder->names[0],
                   finder->names[1], n);
  if (finder->n_found[which] > 1)
    return INVALID("the file has tensor '%s' twice", finder->names[which]);
  *out = finder->found[which].tensor;
  out->data = data + finder->found[which].range[0];
  return NULL;
}

clave_status stored_tensor_find(const void *file, size_t size, const char *name, const char *other,
                                stored_tensor *out) {
  const uint8_t *bytes = file;
  uint64_t length = 0;
  if (size >= LENGTH_BYTES) memcpy(&length, bytes, sizeof length);
  if (size < LENGTH_BYTES || length > HEADER_LIMIT || length > size - LENGTH_BYTES)
    return INVALID("not a safetensors file, or the file is cut off");
  finder finder = {.names = {name, other}, .size = size - LENGTH_BYTES - (size_t)length};
  const char *header = (const char *)bytes + LENGTH_BYTES;
  if (length == 0 || header[0] != '{') return INVALID("the header is not a JSON object");
  TRY(json_walk(header, (size_t)length, 0, runtime_safetensors_parse_event, &finder));
  return runtime_safetensors_choose(&finder, bytes + LENGTH_BYTES + length, out);
}

/* ---------------------------------------------------------------- writing */

static void runtime_safetensors_write_entry(json_writer *writer, const stored_tensor *tensor,
                                            const char *name, size_t begin) {
  emit_object(writer, name);
  emit_string(writer, "dtype", dtype_name(tensor->type));
  emit_array(writer, "shape");
  for (int i = 0; i < tensor->rank; i++) emit_integer(writer, NULL, tensor->dims[i]);
  emit_end_array(writer);
  emit_array(writer, "data_offsets");
  emit_size(writer, NULL, begin);
  emit_size(writer, NULL, begin + tensor->bytes);
  emit_end_array(writer);
  emit_end_object(writer);
}

/* Writes larger elements first, so that the offset of each is a multiple of its size. */
static clave_status runtime_safetensors_write_header(const stored_tensor *tensors,
                                                     const char *const *names, int n, text *to) {
  json_writer writer = {.out = to, .compact = true};
  size_t begin = 0;
  emit_object(&writer, NULL);
  for (size_t unit = 8; unit > 0; unit /= 2) {
    for (int i = 0; i < n; i++) {
      if (dtype_size(tensors[i].type) != unit) continue;
      runtime_safetensors_write_entry(&writer, &tensors[i], names[i], begin);
      begin += tensors[i].bytes;
    }
  }
  emit_end_object(&writer);
  while (!to->failed && (to->size + LENGTH_BYTES) % DATA_ALIGNMENT) text_puts(to, " ");
  return text_status(to);
}

clave_status stored_tensors_write(file_writer *writer, const stored_tensor *tensors,
                                  const char *const *names, int n) {
  text header = {0};
  clave_status st = runtime_safetensors_write_header(tensors, names, n, &header);
  const uint64_t length = header.size;
  if (!st) st = file_writer_append(writer, &length, sizeof length);
  if (!st) st = file_writer_append(writer, header.data, header.size);
  for (size_t unit = 8; unit > 0; unit /= 2)
    for (int i = 0; i < n && !st; i++)
      if (dtype_size(tensors[i].type) == unit)
        st = file_writer_append(writer, tensors[i].data, tensors[i].bytes);
  text_free(&header);
  return st;
}
