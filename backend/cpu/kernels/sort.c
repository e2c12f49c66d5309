/* Stable sorting of rows, by words of 64 bits: the high half is 32 bits of a key, an unsigned
 * integer in the order wanted; the low half is the element's place, which the sort takes along.
 * Keys of 64 bits are sorted by their low half first, then by their high half. Where few elements
 * are wanted, only those are kept while a row is read. */
#include "backend/cpu/kernels/sort.h"

#include <string.h>

#include "backend/cpu/kernels/sort_words.h"
#include "backend/cpu/kernels/support/counts.h"
#include "backend/cpu/kernels/support/rows.h"
#include "backend/cpu/kernels/support/slots.h"
#include "backend/cpu/kernels/support/vec4.h"
#include "backend/cpu/kernels/support/walk.h"

enum {
  ROW_WORK = 4096,      /* elements that are worth a thread */
  FEW = 8,              /* k is few where it is less than n / FEW */
  LEAST_KEPT = 256,     /* candidates */
  GROUP = 16,           /* keys that are compared at once */
  LEAST_PART = 1 << 15, /* elements of a row that are worth a thread of their own */
  MOST_PARTS = 64
};
static const uint64_t HIGH = UINT64_C(0xffffffff) << 32;

/* ---------------------------------------------------------------- keys */

static bool is_long(dtype t) { return t == DTYPE_F64 || t == DTYPE_I64; }

/* NaN is the greatest number; -0.0 has the key of 0.0. */
static uint32_t key_of_f32(uint32_t bits) {
  const uint32_t size = bits & 0x7fffffffu, sign = 0x80000000u;
  const uint32_t key = size == 0 ? sign : bits & sign ? ~bits : bits | sign;
  return size > 0x7f800000u ? UINT32_MAX : key;
}

/* A float that has the key. */
static float f32_of_key(uint32_t key) {
  const uint32_t sign = 0x80000000u, bits = key & sign ? key ^ sign : ~key;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static uint64_t key_of_f64(uint64_t bits) {
  const uint64_t sign = UINT64_C(1) << 63, size = bits & ~sign;
  const uint64_t key = size == 0 ? sign : bits & sign ? ~bits : bits | sign;
  return size > UINT64_C(0x7ff) << 52 ? UINT64_MAX : key;
}

/* Keys of a block of a row, of which type says which are there. */
typedef union key_block {
  uint32_t bits[ROW_BLOCK];
  uint64_t long_bits[ROW_BLOCK];
  row_block x;
} key_block;

/* Of the elements in b. */
static void make_keys(compute_class c, int64_t n, uint32_t turned, key_block *b) {
  uint32_t *to = b->bits;
  if (c == COMPUTE_F32)
    for (int64_t i = 0; i < n; i++) to[i] = key_of_f32(to[i]) ^ turned;
  else
    for (int64_t i = 0; i < n; i++) to[i] = (uint32_t)b->long_bits[i] ^ 0x80000000u ^ turned;
}

static void make_long_keys(compute_class c, int64_t n, uint64_t turned, uint64_t *to) {
  if (c == COMPUTE_F64)
    for (int64_t i = 0; i < n; i++) to[i] = key_of_f64(to[i]) ^ turned;
  else
    for (int64_t i = 0; i < n; i++) to[i] ^= UINT64_C(1) << 63 ^ turned;
}

/* Of elements [first, first + n) of the row at x, n <= ROW_BLOCK. */
static void load_keys(const sort_args *t, const char *x, int64_t first, int64_t n, key_block *to) {
  const compute_class c = compute_class_of(t->x.type);
  const int64_t stride = t->x.strides[t->x.rank - 1];
  load_row(c, t->x.type, element_at(x, t->x.type, first * stride), stride, n, &to->x);
  if (is_long(t->x.type))
    make_long_keys(c, n, t->descending ? UINT64_MAX : 0, to->long_bits);
  else
    make_keys(c, n, t->descending ? UINT32_MAX : 0, to);
}

/* ---------------------------------------------------------------- sorting keys */

/* Where the memory of a sort of at most n elements lies. */
typedef struct sort_room {
  uint64_t *keys, *a, *b; /* (n) each; keys: whole keys, elsewhere than in rows only if long */
} sort_room;

static size_t room_bytes(int64_t n, bool with_keys) {
  size_t bytes;
  if (__builtin_mul_overflow((size_t)n, (with_keys ? 3 : 2) * sizeof(uint64_t), &bytes))
    return SIZE_MAX / 2; /* more than there is */
  return bytes;
}

static sort_room room_at(char *scratch, int64_t n) {
  uint64_t *a = (uint64_t *)(void *)scratch;
  return (sort_room){.a = a, .b = a + n, .keys = a + 2 * n};
}

/* Of words by the low half of their keys, those by the high half. */
static void next_half(const uint64_t *keys, int64_t n, uint64_t *words) {
  for (int64_t i = 0; i < n; i++) {
    const uint64_t place = words[i] & ~HIGH;
    words[i] = (keys[place] & HIGH) | place;
  }
}

/* The words in r->a (n) sorted, in r->a or r->b. p NULL: on the thread that calls. */
static const uint64_t *sorted_words(const sort_room *r, int64_t n, bool long_keys,
                                    const sort_pool *p) {
  uint64_t *now = sort_words(r->a, r->b, n, p);
  if (!long_keys) return now;
  next_half(r->keys, n, now);
  return sort_words(now, now == r->a ? r->b : r->a, n, p);
}

/* The word of an element by its key, of long ones by the low half. */
static uint64_t first_word(uint64_t key, int64_t place) { return key << 32 | (uint64_t)place; }

/* Reads elements [from, end) of a row; r as of the whole row. */
static void read_row(const sort_args *t, const char *x, int64_t from, int64_t end,
                     const sort_room *r) {
  const bool long_keys = is_long(t->x.type);
  key_block block;
  for (int64_t at = from; at < end; at += ROW_BLOCK) {
    const int64_t n = least(ROW_BLOCK, end - at);
    load_keys(t, x, at, n, &block);
    if (long_keys) {
      memcpy(r->keys + at, block.long_bits, (size_t)n * sizeof *r->keys);
      for (int64_t i = 0; i < n; i++) r->a[at + i] = first_word(block.long_bits[i], at + i);
    } else {
      for (int64_t i = 0; i < n; i++) r->a[at + i] = first_word(block.bits[i], at + i);
    }
  }
}

/* ---------------------------------------------------------------- the first few */

/* The first elements of those that were read. */
typedef struct kept {
  uint64_t *keys, *places; /* (capacity) each */
  uint64_t last;           /* once k are there, the key that another one must be below */
  int64_t count, k, capacity;
  bool long_keys, full;
  sort_room room; /* keys: as above */
} kept;

static int64_t capacity_of(int64_t k) { return k < LEAST_KEPT / 2 ? LEAST_KEPT : 2 * k; }
static size_t kept_bytes(int64_t k) {
  const size_t three = room_bytes(capacity_of(k), true);
  return three + three / 3;
}

static kept kept_at(const sort_args *t, char *scratch) {
  const int64_t capacity = capacity_of(t->k);
  const sort_room room = room_at(scratch, capacity);
  return (kept){.keys = room.keys,
                .places = room.keys + capacity,
                .k = t->k,
                .capacity = capacity,
                .long_keys = is_long(t->x.type),
                .room = room};
}

/* Leaves the first k, in order. */
static void settle(kept *s) {
  for (int64_t i = 0; i < s->count; i++) s->room.a[i] = first_word(s->keys[i], i);
  const uint64_t *words = sorted_words(&s->room, s->count, s->long_keys, NULL);
  uint64_t *keys = words == s->room.a ? s->room.b : s->room.a, *places = (uint64_t *)words;
  const int64_t n = least(s->count, s->k);
  for (int64_t i = 0; i < n; i++) {
    const uint64_t from = words[i] & ~HIGH;
    keys[i] = s->keys[from];
    places[i] = s->places[from];
  }
  memcpy(s->keys, keys, (size_t)n * sizeof *keys);
  memcpy(s->places, places, (size_t)n * sizeof *places);
  s->count = n;
  s->full = n == s->k;
  s->last = keys[n - 1];
}

static void keep(kept *s, uint64_t key, uint64_t place) {
  s->keys[s->count] = key;
  s->places[s->count++] = place;
  if (s->count == s->capacity) settle(s);
}

static void offer(kept *s, uint64_t key, int64_t place) {
  if (!s->full || key < s->last) keep(s, key, (uint64_t)place);
}

/* GROUP keys, the first at place at. */
static void offer_group(kept *s, const uint32_t *keys, int64_t at) {
  if (s->count > s->capacity - GROUP) settle(s);
  const uint64_t last = s->full ? s->last : UINT64_MAX;
  for (int64_t i = 0; i < GROUP; i++) {
    s->keys[s->count] = keys[i];
    s->places[s->count] = (uint64_t)(at + i);
    s->count += keys[i] < last;
  }
}

/* Whether none of GROUP keys would be kept. */
static bool passes(const kept *s, const uint32_t *keys) {
  const int4 zero = {0}, sign = zero + INT32_MIN, last = (zero + (int32_t)s->last) ^ sign;
  int4 below = zero;
  uint64_t any[2];
  for (int i = 0; i < GROUP; i += 4) {
    int4 four;
    memcpy(&four, keys + i, sizeof four);
    below |= (four ^ sign) < last;
  }
  memcpy(any, &below, sizeof any);
  return s->full && !(any[0] | any[1]);
}

static void keep_keys(const uint32_t *keys, int64_t n, int64_t at, kept *s) {
  int64_t i = 0;
  for (; i + GROUP <= n; i += GROUP)
    if (!passes(s, keys + i)) offer_group(s, keys + i, at + i);
  for (; i < n; i++) offer(s, keys[i], at + i);
}

/* How many groups of x (n) are ahead of the first that may have an element to keep, which a NaN may
 * always be: without a key of each. */
static int64_t groups_to_pass(const kept *s, const float *x, int64_t n, uint32_t turned) {
  const float last = f32_of_key((uint32_t)s->last ^ turned);
  const vec4 sign = vec4_fill(turned ? -1 : 1), bound = vec4_fill(last) * sign;
  int64_t i = 0;
  for (; i + GROUP <= n; i += GROUP) {
    int4 above = {-1, -1, -1, -1};
    uint64_t all[2];
    for (int64_t k = i; k < i + GROUP; k += 4) above &= vec4_load(x + k) * sign >= bound;
    memcpy(all, &above, sizeof all);
    if ((all[0] & all[1]) != UINT64_MAX) break;
  }
  return i / GROUP;
}

static void keep_floats(const float *x, int64_t from, int64_t end, uint32_t turned, kept *s) {
  key_block block;
  for (int64_t at = from; at < end;) {
    if (s->full) at += groups_to_pass(s, x + at, end - at, turned) * GROUP;
    const int64_t n = least(GROUP, end - at);
    memcpy(block.bits, x + at, (size_t)n * sizeof *x);
    make_keys(COMPUTE_F32, n, turned, &block);
    keep_keys(block.bits, n, at, s);
    at += n;
  }
}

/* Of equal keys the first that were read stay. */
static void keep_blocks(const sort_args *t, const char *x, int64_t from, int64_t end, kept *s) {
  key_block block;
  for (int64_t at = from; at < end; at += ROW_BLOCK) {
    const int64_t n = least(ROW_BLOCK, end - at);
    load_keys(t, x, at, n, &block);
    if (s->long_keys)
      for (int64_t i = 0; i < n; i++) offer(s, block.long_bits[i], at + i);
    else
      keep_keys(block.bits, n, at, s);
  }
}

static void keep_row(const sort_args *t, const char *x, int64_t from, int64_t end, kept *s) {
  if (t->x.type == DTYPE_F32 && t->x.strides[t->x.rank - 1] == 1)
    keep_floats((const float *)(const void *)x, from, end, t->descending ? UINT32_MAX : 0, s);
  else
    keep_blocks(t, x, from, end, s);
  if (s->count > 0) settle(s);
}

/* ---------------------------------------------------------------- rows */

typedef struct row_at {
  const char *x;
  char *out;
  int64_t *indices; /* NULL: not wanted */
} row_at;

static row_at find_row(const sort_args *t, int64_t row) {
  walk w = {.rank = t->x.rank - 1, .dims = t->x.dims};
  walk_add(&w, t->x.strides);
  walk_add(&w, t->out.strides);
  walk_seek(&w, row);
  return (row_at){element_at(t->x.data, t->x.type, w.offset[0]),
                  element_at(t->out.data, t->out.type, w.offset[1]),
                  t->indices.data ? (int64_t *)t->indices.data + w.offset[1] : NULL};
}

/* Results [from, end) of a row, whose places are the low halves of words. */
static void store_row_results(const sort_args *t, const row_at *r, const uint64_t *words,
                              int64_t from, int64_t end) {
  const int64_t size = (int64_t)dtype_size(t->x.type), x_step = t->x.strides[t->x.rank - 1] * size,
                out_step = t->out.strides[t->out.rank - 1];
  if (size == 4)
    for (int64_t i = from; i < end; i++)
      memcpy(r->out + i * out_step * 4, r->x + (int64_t)(words[i] & ~HIGH) * x_step, 4);
  else
    for (int64_t i = from; i < end; i++)
      memcpy(r->out + i * out_step * size, r->x + (int64_t)(words[i] & ~HIGH) * x_step,
             (size_t)size);
  if (!r->indices) return;
  for (int64_t i = from; i < end; i++) r->indices[i * out_step] = (int64_t)(words[i] & ~HIGH);
}

static void sort_one(const void *user, int64_t row, char *scratch) {
  const sort_args *t = user;
  const row_at r = find_row(t, row);
  const sort_room room = room_at(scratch, t->n);
  read_row(t, r.x, 0, t->n, &room);
  store_row_results(t, &r, sorted_words(&room, t->n, is_long(t->x.type), NULL), 0, t->k);
}

static void keep_one(const void *user, int64_t row, char *scratch) {
  const sort_args *t = user;
  const row_at r = find_row(t, row);
  kept s = kept_at(t, scratch);
  keep_row(t, r.x, 0, t->n, &s);
  store_row_results(t, &r, s.places, 0, t->k);
}

/* ---------------------------------------------------------------- a row by several threads */

typedef struct row_parts {
  const sort_args *t;
  row_at at;
  sort_room room;
  const uint64_t *words; /* once sorted */
  char *scratch;         /* kept_bytes of each part */
  int64_t parts;
} row_parts;

static int64_t part_begin(const row_parts *p, int64_t n, int64_t part) {
  return share_begin(n, p->parts, part);
}

static void read_parts(void *ctx, int64_t begin, int64_t end) {
  const row_parts *p = ctx;
  const int64_t from = part_begin(p, p->t->n, begin);
  read_row(p->t, p->at.x, from, part_begin(p, p->t->n, end), &p->room);
}

static void store_parts(void *ctx, int64_t begin, int64_t end) {
  const row_parts *p = ctx;
  store_row_results(p->t, &p->at, p->words, part_begin(p, p->t->k, begin),
                    part_begin(p, p->t->k, end));
}

static void sort_by_parts(const kernel_context *ctx, row_parts *p, uint32_t *counts) {
  const sort_pool pool = {ctx, p->parts, counts};
  ctx->parallel_for(ctx->pool, p->parts, 1, read_parts, p);
  p->words = sorted_words(&p->room, p->t->n, is_long(p->t->x.type), &pool);
  ctx->parallel_for(ctx->pool, p->parts, 1, store_parts, p);
}

static void keep_parts(void *ctx, int64_t begin, int64_t end) {
  const row_parts *p = ctx;
  for (int64_t i = begin; i < end; i++) {
    kept s = kept_at(p->t, p->scratch + (size_t)i * kept_bytes(p->t->k));
    keep_row(p->t, p->at.x, part_begin(p, p->t->n, i), part_begin(p, p->t->n, i + 1), &s);
  }
}

/* Each part leaves its first k; those of all, in the order of the parts, go through one more. */
static void keep_by_parts(const kernel_context *ctx, row_parts *p) {
  const size_t bytes = kept_bytes(p->t->k);
  ctx->parallel_for(ctx->pool, p->parts, 1, keep_parts, p);
  kept all = kept_at(p->t, p->scratch + (size_t)p->parts * bytes);
  for (int64_t part = 0; part < p->parts; part++) {
    const kept s = kept_at(p->t, p->scratch + (size_t)part * bytes);
    const int64_t n = part_begin(p, p->t->n, part + 1) - part_begin(p, p->t->n, part);
    for (int64_t i = 0; i < least(n, s.k); i++) offer(&all, s.keys[i], (int64_t)s.places[i]);
  }
  settle(&all);
  store_row_results(p->t, &p->at, all.places, 0, p->t->k);
}

/* ---------------------------------------------------------------- the kernel */

static int64_t work_of(const sort_args *t) { return t->n_rows * t->n / ROW_WORK; }
static int64_t tasks_of(const sort_args *t) { return t->k > 0 ? t->n_rows : 0; }
static bool wants_few(const sort_args *t) { return t->k < t->n / FEW; }

/* Of each row; 1 where rows are tasks. */
static int64_t parts_of(const kernel_context *ctx, const sort_args *t) {
  if (tasks_of(t) >= ctx->n_threads) return 1;
  const int64_t parts = least(least(ctx->n_threads, MOST_PARTS), t->n / LEAST_PART);
  return parts > 1 ? parts : 1;
}

static size_t row_bytes(const sort_args *t) {
  return wants_few(t) ? kept_bytes(t->k) : room_bytes(t->n, is_long(t->x.type));
}

static size_t counts_bytes(int64_t parts) { return (size_t)parts * SORT_DIGITS * sizeof(uint32_t); }

static size_t parts_bytes(const sort_args *t, int64_t parts) {
  if (wants_few(t)) return (size_t)(parts + 1) * kept_bytes(t->k);
  return row_bytes(t) + counts_bytes(parts);
}

static size_t sort_scratch(const kernel_context *ctx, const void *args) {
  const sort_args *t = args;
  const int64_t parts = parts_of(ctx, t);
  return parts > 1 ? kernel_scratch_size(parts_bytes(t, parts))
                   : slots_bytes(ctx, tasks_of(t), work_of(t), row_bytes(t));
}

static bool run_parts(const kernel_context *ctx, const sort_args *t, int64_t parts) {
  char *scratch = ctx->scratch(ctx->pool, parts_bytes(t, parts));
  if (!scratch) return false;
  row_parts p = {.t = t, .parts = parts, .scratch = scratch, .room = room_at(scratch, t->n)};
  for (int64_t row = 0; row < tasks_of(t); row++) {
    p.at = find_row(t, row);
    if (wants_few(t))
      keep_by_parts(ctx, &p);
    else
      sort_by_parts(ctx, &p, (uint32_t *)(void *)(scratch + row_bytes(t)));
  }
  return true;
}

static bool sort(const kernel_context *ctx, const void *args) {
  const sort_args *t = args;
  const int64_t parts = parts_of(ctx, t);
  if (parts > 1) return run_parts(ctx, t, parts);
  return run_slots(ctx, tasks_of(t), work_of(t), row_bytes(t), wants_few(t) ? keep_one : sort_one,
                   t);
}

const kernel_desc kernel_sort = {
    .name = "sort",
    .run = sort,
    .scratch = sort_scratch,
    .args_size = sizeof(sort_args),
    .operands = {OPERAND(sort_args, x), OPERAND(sort_args, out), OPERAND(sort_args, indices)}};
