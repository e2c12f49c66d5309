/* Values: the arena, strings with their masks, lists and dicts. */
#include "jinja/value.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/hash.h"

/* ---------------------------------------------------------------- the arena */

enum { VALUE_MAX_DEPTH = 400, BLOCK = 16384 };

clave_status arena_refuse_steps(void) { return INVALID("the template runs too many steps"); }

clave_status arena_enter(arena *arena) {
  return ++arena->depth > VALUE_MAX_DEPTH ? INVALID("values nested too deeply") : NULL;
}

/* Allocates from the pool, within the limit. */
static clave_status take_block(arena *arena, size_t bytes, void *out) {
  if (!arena->pool) TRY(mem_pool_create(&arena->pool));
  size_t used = mem_pool_bytes(arena->pool);
  if (bytes > arena->limit || used > arena->limit - bytes)
    return INVALID("the template uses too much memory");
  void *memory = mem_pool_alloc(arena->pool, bytes, 1);
  memcpy(out, &memory, sizeof memory);
  return memory ? NULL : status_no_memory();
}

clave_status arena_alloc_more(arena *arena, size_t count, size_t size, void *out) {
  size_t bytes;
  if (!mul_size(count, size, &bytes)) return INVALID("the template uses too much memory");
  TRY(arena_charge(arena, bytes / ARENA_BYTES_PER_STEP));
  if (bytes > BLOCK / 4) return take_block(arena, bytes, out);
  bytes = (bytes + ARENA_ALIGNMENT - (bytes > 0)) & ~(size_t)(ARENA_ALIGNMENT - 1);
  if (bytes > (size_t)(arena->end - arena->at)) {
    TRY(take_block(arena, BLOCK, &arena->at));
    arena->end = arena->at + BLOCK;
  }
  memset(arena->at, 0, bytes);
  memcpy(out, &arena->at, sizeof arena->at);
  arena->at += bytes;
  return NULL;
}

/* ---------------------------------------------------------------- strings */

/* Starts a mask for the text so far. */
static void start_mask(builder *builder) {
  if (builder->mask.size == builder->data.size) return;
  size_t n = builder->data.size;
  if (!array_reserve(&builder->mask.data, &builder->mask.capacity, n + 1, 1)) {
    builder->data.failed = true;
    return;
  }
  memset(builder->mask.data, builder->untrusted, n);
  builder->mask.size = n;
}

static void add_uniform(builder *builder, const char *bytes, size_t size, bool untrusted) {
  if (!size || builder->data.failed) return;
  if (builder->data.size == 0) builder->untrusted = untrusted;
  if (builder->mask.size == 0 && builder->untrusted == untrusted) {
    text_append(&builder->data, bytes, size);
    return;
  }
  start_mask(builder);
  text_append(&builder->data, bytes, size);
  if (builder->data.failed ||
      !array_reserve(&builder->mask.data, &builder->mask.capacity, builder->data.size + 1, 1)) {
    builder->data.failed = true;
    return;
  }
  memset(builder->mask.data + builder->mask.size, untrusted, size);
  builder->mask.size += size;
}

void builder_add(builder *builder, const string *string) {
  if (!string->mask) {
    add_uniform(builder, string->data, string->size, string->untrusted);
    return;
  }
  for (size_t i = 0, n; i < string->size; i += n) {
    for (n = 1; i + n < string->size && string->mask[i + n] == string->mask[i];) n++;
    add_uniform(builder, string->data + i, n, string->mask[i]);
  }
}

void builder_bytes(builder *builder, const char *bytes, size_t size) {
  add_uniform(builder, bytes, size, false);
}

static bool any_untrusted(const string *string) {
  return string &&
         (string->mask ? memchr(string->mask, 1, string->size) != NULL : string->untrusted);
}

void builder_like(builder *builder, const char *bytes, size_t size, const string *like) {
  add_uniform(builder, bytes, size, any_untrusted(like));
}

void builder_puts(builder *builder, const char *text) {
  add_uniform(builder, text, strlen(text), false);
}

void builder_free(builder *builder) {
  text_free(&builder->data);
  text_free(&builder->mask);
}

static clave_status value_copy_bytes(arena *arena, const char *bytes, size_t size,
                                     const char **out) {
  char *copy;
  TRY(arena_alloc(arena, size + 1, 1, &copy));
  if (size) memcpy(copy, bytes, size);
  *out = copy;
  return NULL;
}

static clave_status take_builder(arena *arena, const builder *builder, value *out) {
  string *string;
  if (builder->data.failed) return status_no_memory();
  TRY(arena_alloc(arena, 1, sizeof *string, &string));
  string->size = builder->data.size;
  string->untrusted = builder->untrusted;
  TRY(value_copy_bytes(arena, builder->data.data, string->size, &string->data));
  if (builder->mask.size)
    TRY(value_copy_bytes(arena, builder->mask.data, string->size, &string->mask));
  *out = value_string(string);
  return NULL;
}

clave_status builder_string(arena *arena, builder *builder, value *out) {
  clave_status st = take_builder(arena, builder, out);
  builder_free(builder);
  return st;
}

/* Allocates a string followed by its bytes and a NUL. */
static clave_status alloc_string(arena *arena, size_t size, string **out, char **bytes) {
  TRY(arena_alloc(arena, 1, sizeof **out + size + 1, out));
  *bytes = (char *)(*out + 1);
  (*out)->data = *bytes;
  (*out)->size = size;
  return NULL;
}

clave_status make_copy(arena *arena, const char *bytes, size_t size, bool untrusted, value *out) {
  string *string;
  char *copy;
  TRY(alloc_string(arena, size, &string, &copy));
  if (size) memcpy(copy, bytes, size);
  string->untrusted = untrusted;
  *out = value_string(string);
  return NULL;
}

clave_status make_string(arena *arena, const char *bytes, size_t size, value *out) {
  return make_copy(arena, bytes, size, false, out);
}

clave_status concat_strings(arena *arena, const string *left, const string *right, value *out) {
  bool uniform = !left->mask && !right->mask && left->untrusted == right->untrusted &&
                 !left->escaped && !right->escaped;
  builder builder = {0};
  string *string;
  char *bytes;
  if (!uniform) {
    builder_add(&builder, left);
    builder_add(&builder, right);
    return builder_string(arena, &builder, out);
  }
  TRY(alloc_string(arena, left->size + right->size, &string, &bytes));
  if (left->size) memcpy(bytes, left->data, left->size);
  if (right->size) memcpy(bytes + left->size, right->data, right->size);
  string->untrusted = left->untrusted;
  *out = value_string(string);
  return NULL;
}

/* Sets the members one by one, because copying a struct of this size right after filling it in
 * stalls. */
clave_status make_borrowed(arena *arena, const char *bytes, size_t size, bool untrusted,
                           value *out) {
  string *string;
  TRY(arena_alloc(arena, 1, sizeof *string, &string));
  string->data = bytes;
  string->size = size;
  string->untrusted = untrusted;
  *out = value_string(string);
  return NULL;
}

clave_status make_text(arena *arena, const char *text, value *out) {
  return make_borrowed(arena, text, strlen(text), false, out);
}

clave_status make_part(arena *arena, const string *str, size_t at, size_t size, value *out) {
  string *part;
  if (size == str->size) {
    *out = value_string(str);
    return NULL;
  }
  TRY(arena_alloc(arena, 1, sizeof *part, &part));
  part->data = str->data + at;
  part->size = size;
  part->mask = str->mask ? str->mask + at : NULL;
  part->untrusted = str->untrusted;
  *out = value_string(part);
  return NULL;
}

bool string_equal(const string *left, const string *right) {
  return left->size == right->size && memcmp(left->data, right->data, left->size) == 0;
}

size_t string_length(const string *string) {
  size_t n = 0;
  for (size_t i = 0; i < string->size; i++) n += ((unsigned char)string->data[i] & 0xC0) != 0x80;
  return n;
}

/* ---------------------------------------------------------------- lists */

clave_status make_list(arena *arena, value_kind kind, size_t capacity, value *out) {
  list *items;
  TRY(arena_alloc(arena, 1, sizeof *items, &items));
  *items = (list){.capacity = capacity};
  if (capacity) TRY(arena_alloc(arena, capacity, sizeof *items->items, &items->items));
  *out = (value){kind, {.list = items}};
  return NULL;
}

clave_status list_add(arena *arena, list *list, value result) {
  if (list->count == list->capacity) {
    size_t capacity = list->capacity ? 2 * list->capacity : 4;
    value *grown;
    TRY(arena_alloc(arena, capacity, sizeof *grown, &grown));
    if (list->count) memcpy(grown, list->items, list->count * sizeof *grown);
    list->items = grown;
    list->capacity = capacity;
  }
  list->items[list->count++] = result;
  return NULL;
}

clave_status make_pair(arena *arena, value first, value second, value *out) {
  TRY(make_list(arena, VALUE_TUPLE, 2, out));
  TRY(list_add(arena, out->u.list, first));
  return list_add(arena, out->u.list, second);
}

clave_status make_range(arena *arena, int64_t start, int64_t stop, int64_t step, value *out) {
  range_value *range;
  TRY(arena_alloc(arena, 1, sizeof *range, &range));
  *range = (range_value){.start = start, .stop = stop, .step = step};
  uint64_t size = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
  uint64_t distance =
      step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
  if (step > 0 ? stop > start : stop < start) range->count = (distance - 1) / size + 1;
  *out = (value){VALUE_RANGE, {.range = range}};
  return NULL;
}

/* ---------------------------------------------------------------- dicts */

enum { DICT_LINEAR = 8 };

static uint64_t mix(uint64_t h) {
  h ^= h >> 33;
  h *= 0xFF51AFD7ED558CCDU;
  return h ^ h >> 33;
}

/* Equal numbers of different types have equal hashes. */
static uint64_t hash_number(value value) {
  double d = value_real(value);
  uint64_t bits;
  if (d == 0) d = 0;
  memcpy(&bits, &d, sizeof bits);
  return mix(bits);
}

static clave_status hash_key(value value, int depth, uint64_t *out) {
  *out = (uint64_t)value.kind;
  if (depth > VALUE_MAX_DEPTH) return INVALID("values nested too deeply");
  if (value_number(value)) *out = hash_number(value);
  if (value.kind == VALUE_STRING) *out = hash_bytes(value.u.text->data, value.u.text->size);
  const bool is_set = value.kind == VALUE_VIEW && value.u.view->kind != VIEW_VALUES;
  if (value.kind == VALUE_LIST || value.kind == VALUE_DICT || is_set)
    return INVALID("unhashable type: '%s'", value_type(value));
  for (size_t i = 0; value.kind == VALUE_TUPLE && i < value.u.list->count; i++) {
    uint64_t item;
    TRY(hash_key(value.u.list->items[i], depth + 1, &item));
    *out = mix(*out * 31 + item);
  }
  return NULL;
}

clave_status make_dict(arena *arena, value_kind kind, value *out) {
  dict *entries;
  TRY(arena_alloc(arena, 1, sizeof *entries, &entries));
  *entries = (dict){0};
  *out = (value){kind, {.dict = entries}};
  return NULL;
}

static bool value_same_key(value left, value right) {
  if (left.kind == VALUE_STRING && right.kind == VALUE_STRING)
    return string_equal(left.u.text, right.u.text);
  arena none = {.steps = INT64_MAX};
  bool equal = false;
  status_free(value_equal(&none, left, right, &equal)); /* nested too deeply: counts as different */
  return equal;
}

/* Finds an entry; dicts with few entries have no index and compare keys directly. */
static dict_entry *value_find_entry(const dict *dict, value key, uint64_t hash) {
  for (size_t i = 0; !dict->index && i < dict->count; i++) {
    if (value_same_key(dict->entries[i].key, key)) return &dict->entries[i];
  }
  for (size_t i = (size_t)mix(hash); dict->index; i++) {
    uint32_t at = dict->index[i & (dict->index_size - 1)];
    if (!at) break;
    dict_entry *entry = &dict->entries[at - 1];
    if (entry->hash == hash && value_same_key(entry->key, key)) return entry;
  }
  return NULL;
}

static void index_entry(dict *dict, size_t at) {
  size_t i = (size_t)mix(dict->entries[at].hash);
  while (dict->index[i & (dict->index_size - 1)]) i++;
  dict->index[i & (dict->index_size - 1)] = (uint32_t)at + 1;
}

static clave_status index_entries(arena *arena, dict *dict) {
  dict->index_size = 2 * dict->capacity;
  TRY(arena_alloc(arena, dict->index_size, sizeof *dict->index, &dict->index));
  for (size_t i = 0; i < dict->count; i++) {
    TRY(hash_key(dict->entries[i].key, 0, &dict->entries[i].hash));
    index_entry(dict, i);
  }
  return NULL;
}

static clave_status grow_dict(arena *arena, dict *dict) {
  size_t capacity = dict->capacity ? 2 * dict->capacity : 4;
  dict_entry *grown;
  TRY(arena_alloc(arena, capacity, sizeof *grown, &grown));
  if (dict->count) memcpy(grown, dict->entries, dict->count * sizeof *grown);
  dict->entries = grown;
  dict->capacity = capacity;
  return capacity > DICT_LINEAR ? index_entries(arena, dict) : NULL;
}

/* Computes the hash if it is needed: to search the index, and to check that a key other than text
 * is hashable. */
static clave_status check_key(const dict *dict, value key, uint64_t *hash) {
  *hash = 0;
  return dict->index || key.kind != VALUE_STRING ? hash_key(key, 0, hash) : NULL;
}

static clave_status value_add_entry(arena *arena, dict *dict, value key, value item,
                                    uint64_t hash) {
  if (dict->count == dict->capacity) {
    TRY(grow_dict(arena, dict));
    TRY(check_key(dict, key, &hash));
  }
  dict_entry *entry = &dict->entries[dict->count++];
  entry->key = key;
  entry->value = item;
  entry->hash = hash;
  if (dict->index) index_entry(dict, dict->count - 1);
  return NULL;
}

clave_status dict_set(arena *arena, dict *dict, value key, value item) {
  uint64_t hash;
  TRY(check_key(dict, key, &hash));
  dict_entry *entry = value_find_entry(dict, key, hash);
  if (!entry) return value_add_entry(arena, dict, key, item, hash);
  entry->value = item;
  return NULL;
}

clave_status dict_add(arena *arena, dict *dict, value key, value item, bool *added) {
  uint64_t hash;
  TRY(check_key(dict, key, &hash));
  *added = !value_find_entry(dict, key, hash);
  return *added ? value_add_entry(arena, dict, key, item, hash) : NULL;
}

clave_status dict_find(const dict *dict, value key, value **out) {
  uint64_t hash;
  *out = NULL;
  TRY(check_key(dict, key, &hash));
  dict_entry *entry = value_find_entry(dict, key, hash);
  if (entry) *out = &entry->value;
  return NULL;
}

value *dict_find_text(const dict *dict, const string *key) {
  if (dict->index) {
    dict_entry *entry = value_find_entry(dict, value_string(key), hash_bytes(key->data, key->size));
    return entry ? &entry->value : NULL;
  }
  for (size_t i = 0; i < dict->count; i++) {
    value value = dict->entries[i].key;
    if (value.kind == VALUE_STRING && string_equal(value.u.text, key))
      return &dict->entries[i].value;
  }
  return NULL;
}
