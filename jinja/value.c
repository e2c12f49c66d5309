/* Values: the arena, strings with their masks, lists and dicts. */
#include "jinja/value.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/hash.h"

/* ---------------------------------------------------------------- the arena */

enum { VALUE_MAX_DEPTH = 400, BLOCK = 16384 };

clave_status arena_refuse_steps(void) { return INVALID("the template takes too many steps"); }

clave_status arena_enter(arena *a) {
  return ++a->depth > VALUE_MAX_DEPTH ? INVALID("values nested too deeply") : NULL;
}

/* From the pool, within the limit. */
static clave_status take_block(arena *a, size_t bytes, void *out) {
  if (!a->pool) TRY(mem_pool_create(&a->pool));
  size_t used = mem_pool_bytes(a->pool);
  if (bytes > a->limit || used > a->limit - bytes)
    return INVALID("the template takes too much memory");
  void *p = mem_pool_alloc(a->pool, bytes, 1);
  memcpy(out, &p, sizeof p);
  return p ? NULL : status_no_memory();
}

clave_status arena_alloc_more(arena *a, size_t count, size_t size, void *out) {
  size_t bytes;
  if (!mul_size(count, size, &bytes)) return INVALID("the template takes too much memory");
  TRY(arena_charge(a, bytes / ARENA_BYTES_PER_STEP));
  if (bytes > BLOCK / 4) return take_block(a, bytes, out);
  bytes = (bytes + ARENA_ALIGNMENT - (bytes > 0)) & ~(size_t)(ARENA_ALIGNMENT - 1);
  if (bytes > (size_t)(a->end - a->at)) {
    TRY(take_block(a, BLOCK, &a->at));
    a->end = a->at + BLOCK;
  }
  memset(a->at, 0, bytes);
  memcpy(out, &a->at, sizeof a->at);
  a->at += bytes;
  return NULL;
}

/* ---------------------------------------------------------------- strings */

/* From here on there is a mask. */
static void start_mask(builder *b) {
  if (b->mask.size == b->data.size) return;
  size_t n = b->data.size;
  if (!array_reserve(&b->mask.data, &b->mask.capacity, n + 1, 1)) {
    b->data.failed = true;
    return;
  }
  memset(b->mask.data, b->written, n);
  b->mask.size = n;
}

static void add_uniform(builder *b, const char *bytes, size_t size, bool written) {
  if (!size || b->data.failed) return;
  if (b->data.size == 0) b->written = written;
  if (b->mask.size == 0 && b->written == written) {
    text_append(&b->data, bytes, size);
    return;
  }
  start_mask(b);
  text_append(&b->data, bytes, size);
  if (b->data.failed || !array_reserve(&b->mask.data, &b->mask.capacity, b->data.size + 1, 1)) {
    b->data.failed = true;
    return;
  }
  memset(b->mask.data + b->mask.size, written, size);
  b->mask.size += size;
}

void builder_add(builder *b, const string *s) {
  if (!s->mask) {
    add_uniform(b, s->data, s->size, s->written);
    return;
  }
  for (size_t i = 0, n; i < s->size; i += n) {
    for (n = 1; i + n < s->size && s->mask[i + n] == s->mask[i];) n++;
    add_uniform(b, s->data + i, n, s->mask[i]);
  }
}

void builder_bytes(builder *b, const char *bytes, size_t size) {
  add_uniform(b, bytes, size, false);
}

static bool any_written(const string *s) {
  return s && (s->mask ? memchr(s->mask, 1, s->size) != NULL : s->written);
}

void builder_like(builder *b, const char *bytes, size_t size, const string *like) {
  add_uniform(b, bytes, size, any_written(like));
}

void builder_puts(builder *b, const char *s) { add_uniform(b, s, strlen(s), false); }

void builder_free(builder *b) {
  text_free(&b->data);
  text_free(&b->mask);
}

static clave_status copy_bytes(arena *a, const char *bytes, size_t size, const char **out) {
  char *copy;
  TRY(arena_alloc(a, size + 1, 1, &copy));
  if (size) memcpy(copy, bytes, size);
  *out = copy;
  return NULL;
}

static clave_status take_builder(arena *a, const builder *b, value *out) {
  string *s;
  if (b->data.failed) return status_no_memory();
  TRY(arena_alloc(a, 1, sizeof *s, &s));
  s->size = b->data.size;
  s->written = b->written;
  TRY(copy_bytes(a, b->data.data, s->size, &s->data));
  if (b->mask.size) TRY(copy_bytes(a, b->mask.data, s->size, &s->mask));
  *out = value_string(s);
  return NULL;
}

clave_status builder_string(arena *a, builder *b, value *out) {
  clave_status st = take_builder(a, b, out);
  builder_free(b);
  return st;
}

/* A string with its bytes behind it, and a NUL. */
static clave_status alloc_string(arena *a, size_t size, string **out, char **bytes) {
  TRY(arena_alloc(a, 1, sizeof **out + size + 1, out));
  *bytes = (char *)(*out + 1);
  (*out)->data = *bytes;
  (*out)->size = size;
  return NULL;
}

clave_status make_written(arena *a, const char *bytes, size_t size, bool written, value *out) {
  string *s;
  char *copy;
  TRY(alloc_string(a, size, &s, &copy));
  if (size) memcpy(copy, bytes, size);
  s->written = written;
  *out = value_string(s);
  return NULL;
}

clave_status make_string(arena *a, const char *bytes, size_t size, value *out) {
  return make_written(a, bytes, size, false, out);
}

clave_status concat_strings(arena *a, const string *x, const string *y, value *out) {
  bool uniform = !x->mask && !y->mask && x->written == y->written && !x->escaped && !y->escaped;
  builder b = {0};
  string *s;
  char *bytes;
  if (!uniform) {
    builder_add(&b, x);
    builder_add(&b, y);
    return builder_string(a, &b, out);
  }
  TRY(alloc_string(a, x->size + y->size, &s, &bytes));
  if (x->size) memcpy(bytes, x->data, x->size);
  if (y->size) memcpy(bytes + x->size, y->data, y->size);
  s->written = x->written;
  *out = value_string(s);
  return NULL;
}

/* Field by field: a struct of this size that is copied right after it was filled in stalls. */
clave_status make_borrowed(arena *a, const char *bytes, size_t size, bool written, value *out) {
  string *s;
  TRY(arena_alloc(a, 1, sizeof *s, &s));
  s->data = bytes;
  s->size = size;
  s->written = written;
  *out = value_string(s);
  return NULL;
}

clave_status make_puts(arena *a, const char *s, value *out) {
  return make_borrowed(a, s, strlen(s), false, out);
}

clave_status make_part(arena *a, const string *s, size_t at, size_t size, value *out) {
  string *part;
  if (size == s->size) {
    *out = value_string(s);
    return NULL;
  }
  TRY(arena_alloc(a, 1, sizeof *part, &part));
  part->data = s->data + at;
  part->size = size;
  part->mask = s->mask ? s->mask + at : NULL;
  part->written = s->written;
  *out = value_string(part);
  return NULL;
}

bool string_equal(const string *a, const string *b) {
  return a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

size_t string_length(const string *s) {
  size_t n = 0;
  for (size_t i = 0; i < s->size; i++) n += ((unsigned char)s->data[i] & 0xC0) != 0x80;
  return n;
}

/* ---------------------------------------------------------------- lists */

clave_status make_list(arena *a, value_kind kind, size_t capacity, value *out) {
  list *l;
  TRY(arena_alloc(a, 1, sizeof *l, &l));
  *l = (list){.capacity = capacity};
  if (capacity) TRY(arena_alloc(a, capacity, sizeof *l->items, &l->items));
  *out = (value){kind, {.list = l}};
  return NULL;
}

clave_status list_add(arena *a, list *l, value v) {
  if (l->count == l->capacity) {
    size_t capacity = l->capacity ? 2 * l->capacity : 4;
    value *grown;
    TRY(arena_alloc(a, capacity, sizeof *grown, &grown));
    if (l->count) memcpy(grown, l->items, l->count * sizeof *grown);
    l->items = grown;
    l->capacity = capacity;
  }
  l->items[l->count++] = v;
  return NULL;
}

clave_status make_pair(arena *a, value first, value second, value *out) {
  TRY(make_list(a, VALUE_TUPLE, 2, out));
  TRY(list_add(a, out->u.list, first));
  return list_add(a, out->u.list, second);
}

clave_status make_range(arena *a, int64_t start, int64_t stop, int64_t step, value *out) {
  range_value *r;
  TRY(arena_alloc(a, 1, sizeof *r, &r));
  *r = (range_value){.start = start, .stop = stop, .step = step};
  uint64_t size = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
  uint64_t distance =
      step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
  if (step > 0 ? stop > start : stop < start) r->count = (distance - 1) / size + 1;
  *out = (value){VALUE_RANGE, {.range = r}};
  return NULL;
}

/* ---------------------------------------------------------------- dicts */

enum { DICT_LINEAR = 8 };

static uint64_t mix(uint64_t h) {
  h ^= h >> 33;
  h *= 0xFF51AFD7ED558CCDU;
  return h ^ h >> 33;
}

/* Equal numbers of all types have equal hashes. */
static uint64_t hash_number(value v) {
  double d = value_real(v);
  uint64_t bits;
  if (d == 0) d = 0;
  memcpy(&bits, &d, sizeof bits);
  return mix(bits);
}

static clave_status hash_key(value v, int depth, uint64_t *out) {
  *out = (uint64_t)v.kind;
  if (depth > VALUE_MAX_DEPTH) return INVALID("values nested too deeply");
  if (value_number(v)) *out = hash_number(v);
  if (v.kind == VALUE_STRING) *out = hash_bytes(v.u.text->data, v.u.text->size);
  const bool is_set = v.kind == VALUE_VIEW && v.u.view->kind != VIEW_VALUES;
  if (v.kind == VALUE_LIST || v.kind == VALUE_DICT || is_set)
    return INVALID("unhashable type: '%s'", value_type(v));
  for (size_t i = 0; v.kind == VALUE_TUPLE && i < v.u.list->count; i++) {
    uint64_t item;
    TRY(hash_key(v.u.list->items[i], depth + 1, &item));
    *out = mix(*out * 31 + item);
  }
  return NULL;
}

clave_status make_dict(arena *a, value_kind kind, value *out) {
  dict *d;
  TRY(arena_alloc(a, 1, sizeof *d, &d));
  *d = (dict){0};
  *out = (value){kind, {.dict = d}};
  return NULL;
}

static bool same_key(value x, value y) {
  if (x.kind == VALUE_STRING && y.kind == VALUE_STRING) return string_equal(x.u.text, y.u.text);
  arena none = {.steps = INT64_MAX};
  bool equal = false;
  status_free(value_equal(&none, x, y, &equal)); /* too deep: not the same */
  return equal;
}

/* Few entries are compared without their hashes. */
static dict_entry *find_entry(const dict *d, value key, uint64_t hash) {
  for (size_t i = 0; !d->index && i < d->count; i++) {
    if (same_key(d->entries[i].key, key)) return &d->entries[i];
  }
  for (size_t i = (size_t)mix(hash); d->index; i++) {
    uint32_t at = d->index[i & (d->index_size - 1)];
    if (!at) break;
    dict_entry *e = &d->entries[at - 1];
    if (e->hash == hash && same_key(e->key, key)) return e;
  }
  return NULL;
}

static void index_entry(dict *d, size_t at) {
  size_t i = (size_t)mix(d->entries[at].hash);
  while (d->index[i & (d->index_size - 1)]) i++;
  d->index[i & (d->index_size - 1)] = (uint32_t)at + 1;
}

static clave_status index_entries(arena *a, dict *d) {
  d->index_size = 2 * d->capacity;
  TRY(arena_alloc(a, d->index_size, sizeof *d->index, &d->index));
  for (size_t i = 0; i < d->count; i++) {
    TRY(hash_key(d->entries[i].key, 0, &d->entries[i].hash));
    index_entry(d, i);
  }
  return NULL;
}

static clave_status grow_dict(arena *a, dict *d) {
  size_t capacity = d->capacity ? 2 * d->capacity : 4;
  dict_entry *grown;
  TRY(arena_alloc(a, capacity, sizeof *grown, &grown));
  if (d->count) memcpy(grown, d->entries, d->count * sizeof *grown);
  d->entries = grown;
  d->capacity = capacity;
  return capacity > DICT_LINEAR ? index_entries(a, d) : NULL;
}

/* The hash where one is needed; any other key than a text may be none. */
static clave_status check_key(const dict *d, value key, uint64_t *hash) {
  *hash = 0;
  return d->index || key.kind != VALUE_STRING ? hash_key(key, 0, hash) : NULL;
}

static clave_status add_entry(arena *a, dict *d, value key, value v, uint64_t hash) {
  if (d->count == d->capacity) {
    TRY(grow_dict(a, d));
    TRY(check_key(d, key, &hash));
  }
  dict_entry *e = &d->entries[d->count++];
  e->key = key;
  e->value = v;
  e->hash = hash;
  if (d->index) index_entry(d, d->count - 1);
  return NULL;
}

clave_status dict_set(arena *a, dict *d, value key, value v) {
  uint64_t hash;
  TRY(check_key(d, key, &hash));
  dict_entry *e = find_entry(d, key, hash);
  if (!e) return add_entry(a, d, key, v, hash);
  e->value = v;
  return NULL;
}

clave_status dict_add(arena *a, dict *d, value key, value v, bool *added) {
  uint64_t hash;
  TRY(check_key(d, key, &hash));
  *added = !find_entry(d, key, hash);
  return *added ? add_entry(a, d, key, v, hash) : NULL;
}

clave_status dict_find(const dict *d, value key, value **out) {
  uint64_t hash;
  *out = NULL;
  TRY(check_key(d, key, &hash));
  dict_entry *e = find_entry(d, key, hash);
  if (e) *out = &e->value;
  return NULL;
}

value *dict_find_text(const dict *d, const string *key) {
  if (d->index) {
    dict_entry *e = find_entry(d, value_string(key), hash_bytes(key->data, key->size));
    return e ? &e->value : NULL;
  }
  for (size_t i = 0; i < d->count; i++) {
    value k = d->entries[i].key;
    if (k.kind == VALUE_STRING && string_equal(k.u.text, key)) return &d->entries[i].value;
  }
  return NULL;
}
