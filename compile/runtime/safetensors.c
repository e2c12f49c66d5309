/* .safetensors files: an 8-byte length, a header in JSON, the tensors' bytes. */
#include "compile/runtime/safetensors.h"

#include <string.h>

#include "json/json.h"
#include "json/writer.h"

enum { LENGTH_BYTES = 8, HEADER_LIMIT = 100 << 20, DATA_ALIGNMENT = 64 };

/* ---------------------------------------------------------------- the header */

/* Where in the header: the depth of what is open, and of a tensor's entry the member. */
enum { AT_FILE = 1, AT_ENTRY, AT_ARRAY };
typedef enum member { MEMBER_OTHER, MEMBER_DTYPE, MEMBER_SHAPE, MEMBER_OFFSETS } member;

/* What an entry said. */
typedef struct entry {
  stored_tensor t;
  bool seen[MEMBER_OFFSETS + 1];
  int64_t range[2];
  int n_range;
} entry;

enum { BY_NAME, BY_OTHER, ANY, N_FOUND };
typedef struct finder {
  const char *names[ANY]; /* in their order */
  int depth;
  int which; /* of the entry that is read: BY_NAME, BY_OTHER, ANY; -1: it is none */
  member at; /* in it */
  entry now;
  entry found[N_FOUND];
  int n_found[N_FOUND];
  size_t size; /* of the data */
} finder;

static clave_status take_name(finder *f, span name) {
  f->which = ANY;
  if (name.size == 12 && memcmp(name.data, "__metadata__", 12) == 0) f->which = -1;
  for (int i = ANY - 1; i >= 0; i--)
    if (strlen(f->names[i]) == name.size && memcmp(f->names[i], name.data, name.size) == 0)
      f->which = i;
  f->now = (entry){0};
  return NULL;
}

static clave_status take_member(finder *f, span name) {
  static const char *const names[] = {"", "dtype", "shape", "data_offsets"};
  f->at = MEMBER_OTHER;
  for (int i = MEMBER_DTYPE; i <= MEMBER_OFFSETS; i++)
    if (strlen(names[i]) == name.size && memcmp(names[i], name.data, name.size) == 0)
      f->at = (member)i;
  if (f->at != MEMBER_OTHER && f->now.seen[f->at])
    return INVALID("an entry of its header has %s twice", names[f->at]);
  f->now.seen[f->at] = true;
  return NULL;
}

static clave_status take_dtype(finder *f, span word) {
  char name[16];
  if (word.size >= sizeof name) return INVALID("a dtype of its header is unknown");
  memcpy(name, word.data, word.size);
  name[word.size] = '\0';
  return dtype_from_name(name, &f->now.t.type) ? NULL : UNSUPPORTED("its dtype %s", name);
}

static clave_status take_number(finder *f, span word) {
  entry *e = &f->now;
  int64_t value = 0;
  for (size_t i = 0; i < word.size; i++) {
    if (word.data[i] < '0' || word.data[i] > '9' || value > (INT64_MAX - 9) / 10)
      return INVALID("a size of its header is none");
    value = value * 10 + (word.data[i] - '0');
  }
  if (f->at == MEMBER_SHAPE) {
    if (e->t.rank == MODEL_MAX_RANK) return UNSUPPORTED("more than 8 dimensions");
    e->t.dims[e->t.rank++] = value;
  } else {
    if (e->n_range == 2) return INVALID("data_offsets of its header are not [begin, end]");
    e->range[e->n_range++] = value;
  }
  return NULL;
}

static clave_status finish_entry(finder *f) {
  entry *e = &f->now;
  stored_tensor *t = &e->t;
  if (f->which < 0) return NULL;
  if (!e->seen[MEMBER_DTYPE] || !e->seen[MEMBER_SHAPE] || e->n_range < 2)
    return INVALID("an entry of its header has no dtype, shape or data_offsets");
  bool fits = e->range[0] <= e->range[1] && (uint64_t)e->range[1] <= f->size;
  t->bytes = fits ? (size_t)(e->range[1] - e->range[0]) : 0;
  size_t bytes = dtype_size(t->type);
  for (int i = 0; i < t->rank; i++) fits = fits && t->dims[i] >= 0;
  for (int i = 0; i < t->rank; i++)
    fits = fits && !__builtin_mul_overflow(bytes, t->dims[i], &bytes);
  if (!fits || bytes != t->bytes)
    return INVALID("a tensor's data_offsets do not fit its shape, or lie outside of the file");
  f->found[f->which] = *e;
  f->n_found[f->which]++;
  return NULL;
}

/* In an entry: its members are where they belong, and of the kinds that they have. */
static clave_status take_entry(finder *f, json_event event, span word) {
  const bool is_list = f->at == MEMBER_SHAPE || f->at == MEMBER_OFFSETS;
  if (f->which < 0 || (f->depth > AT_ENTRY && !is_list)) return NULL;
  if (f->depth == AT_ENTRY && event == JSON_EVENT_KEY) return take_member(f, word);
  if (f->at == MEMBER_OTHER || event == JSON_EVENT_END) return NULL;
  if (f->at == MEMBER_DTYPE && event == JSON_EVENT_STRING) return take_dtype(f, word);
  if (is_list && f->depth == AT_ENTRY && event == JSON_EVENT_ARRAY) return NULL;
  if (is_list && f->depth == AT_ARRAY && event == JSON_EVENT_NUMBER) return take_number(f, word);
  return INVALID("a dtype, shape or data_offsets of its header is of another kind");
}

static clave_status take_event(void *ctx, json_event event, span word) {
  finder *f = ctx;
  const bool opens = event == JSON_EVENT_OBJECT || event == JSON_EVENT_ARRAY;
  if (event == JSON_EVENT_END) f->depth--;
  if (event == JSON_EVENT_END && f->depth == AT_FILE) return finish_entry(f);
  if (f->depth == 0 && event == JSON_EVENT_ARRAY) return INVALID("its header is no JSON object");
  if (f->depth == AT_FILE && event == JSON_EVENT_KEY) return take_name(f, word);
  if (f->depth == AT_FILE && event != JSON_EVENT_OBJECT && event != JSON_EVENT_END)
    return INVALID("an entry of its header is no object");
  if (f->depth >= AT_ENTRY) TRY(take_entry(f, event, word));
  f->depth += opens;
  return NULL;
}

/* ---------------------------------------------------------------- reading */

static clave_status choose(const finder *f, const uint8_t *data, stored_tensor *out) {
  const int n = f->n_found[BY_NAME] + f->n_found[BY_OTHER] + f->n_found[ANY];
  int which = BY_NAME;
  while (which < ANY && !f->n_found[which]) which++;
  if (f->n_found[which] == 0 || (which == ANY && n > 1))
    return INVALID("holds no tensor '%s' or '%s' among its %d", f->names[0], f->names[1], n);
  if (f->n_found[which] > 1) return INVALID("holds tensor '%s' twice", f->names[which]);
  *out = f->found[which].t;
  out->data = data + f->found[which].range[0];
  return NULL;
}

clave_status stored_tensor_find(const void *file, size_t size, const char *name, const char *other,
                                stored_tensor *out) {
  const uint8_t *bytes = file;
  uint64_t length = 0;
  if (size >= LENGTH_BYTES) memcpy(&length, bytes, sizeof length);
  if (size < LENGTH_BYTES || length > HEADER_LIMIT || length > size - LENGTH_BYTES)
    return INVALID("not a safetensors file, or cut off");
  finder f = {.names = {name, other}, .size = size - LENGTH_BYTES - (size_t)length};
  const char *header = (const char *)bytes + LENGTH_BYTES;
  if (length == 0 || header[0] != '{') return INVALID("its header is no JSON object");
  TRY(json_walk(header, (size_t)length, 0, take_event, &f));
  return choose(&f, bytes + LENGTH_BYTES + length, out);
}

/* ---------------------------------------------------------------- writing */

static void write_entry(json_writer *j, const stored_tensor *t, const char *name, size_t begin) {
  emit_object(j, name);
  emit_string(j, "dtype", dtype_name(t->type));
  emit_array(j, "shape");
  for (int i = 0; i < t->rank; i++) emit_integer(j, NULL, t->dims[i]);
  emit_end_array(j);
  emit_array(j, "data_offsets");
  emit_size(j, NULL, begin);
  emit_size(j, NULL, begin + t->bytes);
  emit_end_array(j);
  emit_end_object(j);
}

/* Larger elements come first, so that each lies at a multiple of its size. */
static clave_status write_header(const stored_tensor *tensors, const char *const *names, int n,
                                 text *to) {
  json_writer j = {.out = to, .compact = true};
  size_t begin = 0;
  emit_object(&j, NULL);
  for (size_t unit = 8; unit > 0; unit /= 2) {
    for (int i = 0; i < n; i++) {
      if (dtype_size(tensors[i].type) != unit) continue;
      write_entry(&j, &tensors[i], names[i], begin);
      begin += tensors[i].bytes;
    }
  }
  emit_end_object(&j);
  while (!to->failed && (to->size + LENGTH_BYTES) % DATA_ALIGNMENT) text_puts(to, " ");
  return text_status(to);
}

clave_status stored_tensors_write(file_writer *w, const stored_tensor *tensors,
                                  const char *const *names, int n) {
  text header = {0};
  clave_status st = write_header(tensors, names, n, &header);
  const uint64_t length = header.size;
  if (!st) st = file_writer_append(w, &length, sizeof length);
  if (!st) st = file_writer_append(w, header.data, header.size);
  for (size_t unit = 8; unit > 0; unit /= 2)
    for (int i = 0; i < n && !st; i++)
      if (dtype_size(tensors[i].type) == unit)
        st = file_writer_append(w, tensors[i].data, tensors[i].bytes);
  text_free(&header);
  return st;
}
