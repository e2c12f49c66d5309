/* Stable merge sort along a dimension, which keeps the first k elements. An entry is a key,
 * an unsigned integer that ascends in the wanted order, and the position of its element. Both form
 * a vector, so that one load and one store move it. Scratch memory holds `pitch` entries per row.
 *
 *   sort_runs    a work-item sorts a stretch of elements by insertion and keeps its first `keep` <=
 *                RUN entries
 *   sort_digits  a work-item sorts a stretch by digits of 8 bits, the lowest first (LSD radix
 *                sort), without entries whose highest digit comes after the first `keep` entries
 *   sort_merge   merges pairs of runs of `length` entries to runs of the first `keep` entries of
 *                both. A work-item writes `chunk` of them, from where its share begins in the two
 *                runs (the merge path)
 *   sort_store   writes out and indices from the positions */
#include "common.h"
#ifndef X_TYPE
#define X_TYPE F32
#endif
#ifndef TYPE
#define TYPE I32
#endif
#ifndef RUN
#define RUN 32
#endif
#ifndef DESCENDING
#define DESCENDING 0
#endif
#ifndef INDICES
#define INDICES 1
#endif
#ifndef LONG_KEY
#define LONG_KEY 0
#endif

#if LONG_KEY
typedef ulong sort_key;
typedef ulong2 sort_entry;
#define SIGN_BIT 0x8000000000000000ul
#define AS_KEY(v) as_ulong(v)
#define ELEMENT(p, i) ((real)(p)[i])
#else
typedef uint sort_key;
typedef uint2 sort_entry;
#define SIGN_BIT 0x80000000u
#define AS_KEY(v) as_uint((float)(v))
#define ELEMENT(p, i) LOAD(X_TYPE, p, i)
#endif

#define KEY y
#define PLACE x

/* Returns the key of element i. NaN is the greatest number; -0.0 has the key of 0.0. */
static inline sort_key key_of(const __global STORAGE(X_TYPE) * x, index_t i) {
#if IS_FLOAT(X_TYPE)
  const real v = ELEMENT(x, i);
  const sort_key bits = v == 0 ? 0 : AS_KEY(v);
  sort_key key = v != v ? ~(sort_key)0 : bits & SIGN_BIT ? ~bits : bits | SIGN_BIT;
#else
  sort_key key = (sort_key)LOAD(X_TYPE, x, i) ^ SIGN_BIT;
#endif
  return DESCENDING ? ~key : key;
}

#if ON_CPU && !LONG_KEY
#define MARGIN 16 /* elements before the keys and positions; key[-1] is 0, which sorts first */
/* Inserts e before the sorted keys that are greater, and keeps the first `keep` keys. Returns the
 * new number of keys. Entries of `key` after them have the greatest value. */
static inline int insert(sort_key *key, uint *place, int count, int keep, sort_key e, uint from) {
  if (count == keep && e >= key[keep - 1]) return count;
  if (e == UINT_MAX) {
    key[count] = e;
    place[count] = from;
    return count + 1;
  }
  for (int i = min(count, RUN - 1) / 16 * 16; i >= 0; i -= 16) {
    const uint16 keys = vload16(0, key + i), keys_before = vload16(0, key + i - 1);
    const uint16 places = vload16(0, place + i), places_before = vload16(0, place + i - 1);
    const int16 stays = keys <= e, follows = keys_before <= e;
    vstore16(select(select(keys_before, (uint16)e, follows), keys, stays), 0, key + i);
    vstore16(select(select(places_before, (uint16)from, follows), places, stays), 0, place + i);
  }
  return min(count + 1, keep);
}
#else
#define MARGIN 0
static inline int insert(sort_key *key, uint *place, int count, int keep, sort_key e, uint from) {
  int at = count;
  if (count == keep) {
    if (e >= key[keep - 1]) return count;
    at = keep - 1;
  } else {
    count++;
  }
  for (; at > 0 && key[at - 1] > e; at--) {
    key[at] = key[at - 1];
    place[at] = place[at - 1];
  }
  key[at] = e;
  place[at] = from;
  return count;
}
#endif

#if ON_CPU && !LONG_KEY && IS_FLOAT(X_TYPE)
#define SIXTEEN 1
/* Vector version of key_of. */
static inline uint16 keys_of_16(const __global STORAGE(X_TYPE) * x) {
  const uint16 bits = as_uint16(LOAD16F(X_TYPE, x)), size = bits & 0x7fffffffu;
  uint16 keys = bits ^ (as_uint16(as_int16(bits) >> 31) | SIGN_BIT);
  keys = select(keys, (uint16)SIGN_BIT, size == 0);
  keys = select(keys, ~(uint16)0, size > 0x7f800000u);
  return DESCENDING ? ~keys : keys;
}

/* Inserts the elements among 16 neighbours that sort before the last of `keep` keys. All keys must
 * be in use. The first neighbour is at position `from`. */
static inline void insert_16(const __global STORAGE(X_TYPE) * x, sort_key *key, uint *place,
                             int keep, uint from) {
  const uint16 keys = keys_of_16(x);
  const int16 below = keys < key[keep - 1];
  const int8 eight = below.lo | below.hi;
  const long2 two = as_long2(eight.lo | eight.hi);
  sort_key all[16];
  int is_below[16], found = 0;
  uint which[16];
  if ((two.x | two.y) == 0) return;
  vstore16(keys, 0, all);
  vstore16(below, 0, is_below);
  for (uint i = 0; i < 16; i++) {
    which[found] = i;
    found -= is_below[i];
  }
  for (int i = 0; i < found; i++) insert(key, place, keep, keep, all[which[i]], from + which[i]);
}
#else
#define SIXTEEN 0
#endif

__kernel void sort_runs(const __global STORAGE(X_TYPE) * x, const long x_offset,
                        __global sort_entry *entries, const long entries_offset,
                        const index8 kept_dims, const index8 x_strides, const index_t items,
                        const index_t per_row, const index_t pitch, const index_t n,
                        const index_t stride, const index_t stretch, const int keep) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t row = item / per_row, run = item % per_row, from = run * stretch;
  const index_t end = from + stretch < n ? from + stretch : n;
  x += x_offset + strided_offset(row, kept_dims, x_strides);
  sort_key with_margin[MARGIN + RUN], *key = with_margin + MARGIN;
  uint place_with_margin[MARGIN + RUN], *place = place_with_margin + MARGIN;
  int count = 0;
#if MARGIN
  for (int i = 0; i < RUN; i++) key[i] = UINT_MAX;
  key[-1] = 0;
#endif
  for (index_t i = from; i < end;) {
#if SIXTEEN
    if (count == keep && stride == 1 && end - i >= 16) {
      insert_16(x + i, key, place, keep, (uint)i);
      i += 16;
      continue;
    }
#endif
    count = insert(key, place, count, keep, key_of(x, i * stride), (uint)i);
    i++;
  }
  entries += entries_offset + row * pitch + run * keep;
  for (int i = 0; i < count; i++) entries[i] = (sort_entry)(place[i], key[i]);
}

#define DIGITS 256
#define N_DIGITS (LONG_KEY ? 8 : 4)
#define DIGIT_OF(key, d) ((int)((key) >> 8 * (d)) & (DIGITS - 1))

/* Replaces the count of each digit by the position of its first entry. Returns 0 if all n entries
 * have the same digit. */
static inline int place_digits(uint *counts, uint n) {
  uint sum = 0;
  for (int i = 0; i < DIGITS; i++) {
    const uint count = counts[i];
    if (count == n) return 0;
    counts[i] = sum;
    sum += count;
  }
  return 1;
}

/* Returns the digit of the keep-th entry and zeroes the counts of greater digits. */
static inline int last_digit(uint *counts, uint keep) {
  uint sum = 0;
  int last = 0;
  while (last < DIGITS - 1 && (sum += counts[last]) < keep) last++;
  for (int i = last + 1; i < DIGITS; i++) counts[i] = 0;
  return last;
}

/* Each pass moves the entries between `entries` and entries_b. The result is in `entries`. */
__kernel void sort_digits(const __global STORAGE(X_TYPE) * x, const long x_offset,
                          __global sort_entry *entries, const long entries_offset,
                          __global sort_entry *entries_b, const long entries_b_offset,
                          const index8 kept_dims, const index8 x_strides, const index_t items,
                          const index_t per_row, const index_t n, const index_t stride,
                          const index_t stretch, const index_t keep) {
  enum { HIGHEST = N_DIGITS - 1 };
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t row = item / per_row, from = item % per_row * stretch;
  const uint size = (uint)min(stretch, n - from);
  x += x_offset + strided_offset(row, kept_dims, x_strides) + from * stride;
  entries += entries_offset + row * n + from;
  entries_b += entries_b_offset + row * n + from;
  uint counts[N_DIGITS][DIGITS];
  for (int d = 0; d < N_DIGITS; d++)
    for (int i = 0; i < DIGITS; i++) counts[d][i] = 0;
  for (uint i = 0; i < size; i++)
    counts[HIGHEST][DIGIT_OF(key_of(x, (index_t)i * stride), HIGHEST)]++;
  const int last = last_digit(counts[HIGHEST], (uint)min(keep, (index_t)size));
  uint kept = 0;
  for (uint i = 0; i < size; i++) {
    const sort_key key = key_of(x, (index_t)i * stride);
    const uint stays = DIGIT_OF(key, HIGHEST) <= last;
    entries[kept] = (sort_entry)((uint)from + i, key);
    for (int d = 0; d < HIGHEST; d++) counts[d][DIGIT_OF(key, d)] += stays;
    kept += stays;
  }
  __global sort_entry *here = entries, *there = entries_b;
  for (int d = 0; d < N_DIGITS; d++) {
    if (!place_digits(counts[d], kept)) continue;
    for (uint i = 0; i < kept; i++) {
      const sort_entry e = here[i];
      there[counts[d][DIGIT_OF(e.KEY, d)]++] = e;
    }
    __global sort_entry *swap = here;
    here = there;
    there = swap;
  }
  if (here == entries_b)
    for (uint i = 0; i < kept; i++) entries[i] = entries_b[i];
}

/* m: entries of an input row, in runs of `length` (the last may be shorter). per_row: pairs of runs
 * in a row. per_pair: chunks of a pair. */
__kernel void sort_merge(const __global sort_entry *entries, const long entries_offset,
                         __global sort_entry *out, const long out_offset, const index_t items,
                         const index_t per_row, const index_t per_pair, const index_t pitch,
                         const index_t m, const index_t length, const index_t keep,
                         const index_t chunk) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t row = item / (per_row * per_pair), pair = item / per_pair % per_row;
  const index_t a = pair * 2 * length, n_a = min(length, m - a), n_b = min(length, m - a - n_a);
  const index_t size = min(keep, n_a + n_b), from = item % per_pair * chunk;
  const index_t end = min(from + chunk, size);
  if (from >= end) return;
  entries += entries_offset + row * pitch + a;
  out += out_offset + row * pitch + pair * keep;
  index_t low = max((index_t)0, from - n_b), high = min(from, n_a);
  while (low < high) {
    const index_t mid = (low + high) / 2;
    if (entries[mid].KEY <= entries[n_a + from - 1 - mid].KEY)
      low = mid + 1;
    else
      high = mid;
  }
  index_t i = low, j = n_a + from - low;
  for (index_t o = from; o < end; o++) {
    const int first = i < n_a && (j >= n_a + n_b || entries[i].KEY <= entries[j].KEY);
    out[o] = entries[first ? i : j];
    i += first;
    j += !first;
  }
}

__kernel void sort_store(const __global STORAGE(TYPE) * x, const long x_offset,
                         const __global sort_entry *entries, const long entries_offset,
                         __global STORAGE(TYPE) * out, const long out_offset,
                         __global long *indices, const long indices_offset, const index8 kept_dims,
                         const index8 x_strides, const index8 out_strides, const index_t items,
                         const index_t k, const index_t pitch, const index_t x_stride,
                         const index_t out_stride) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t row = item / k, i = item % k;
  const index_t place = (index_t)entries[entries_offset + row * pitch + i].PLACE;
  const index_t to = strided_offset(row, kept_dims, out_strides) + i * out_stride;
  out[out_offset + to] = x[x_offset + strided_offset(row, kept_dims, x_strides) + place * x_stride];
#if INDICES
  indices[indices_offset + to] = place;
#endif
}
