/* Stable merge sort along a dimension, of which the first k elements are wanted. An entry is a key,
 * an unsigned integer in the order wanted, and the place of its element. Scratch holds `pitch`
 * entries a row.
 *
 *   sort_runs    a work-item sorts a stretch of elements by insertion and keeps its first `keep` <=
 *                RUN entries
 *   sort_merge   pairs of runs of `length` entries become runs of the first `keep` entries of both.
 *                A work-item makes `chunk` of them, from where its part begins in the two runs (the
 *                merge path)
 *   sort_store   out and indices from the places */
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
#define SIGN_BIT 0x8000000000000000ul
#define AS_KEY(v) as_ulong(v)
#define ELEMENT(p, i) ((real)(p)[i])
#else
typedef uint sort_key;
#define SIGN_BIT 0x80000000u
#define AS_KEY(v) as_uint((float)(v))
#define ELEMENT(p, i) LOAD(X_TYPE, p, i)
#endif

/* NaN is the greatest number; -0.0 has the key of 0.0. */
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

__kernel void sort_runs(const __global STORAGE(X_TYPE) * x, const long x_offset,
                        __global sort_key *keys, const long keys_offset, __global uint *places,
                        const long places_offset, const index8 kept_dims, const index8 x_strides,
                        const index_t items, const index_t per_row, const index_t pitch,
                        const index_t n, const index_t step, const index_t stretch,
                        const int keep) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t row = item / per_row, run = item % per_row, from = run * stretch;
  const index_t end = from + stretch < n ? from + stretch : n;
  x += x_offset + strided_offset(row, kept_dims, x_strides);
  sort_key key[RUN];
  uint place[RUN];
  int count = 0;
  for (index_t i = from; i < end; i++) {
    const sort_key e = key_of(x, i * step);
    int at = count;
    if (count == keep) {
      if (e >= key[keep - 1]) continue;
      at = keep - 1;
    } else {
      count++;
    }
    for (; at > 0 && key[at - 1] > e; at--) {
      key[at] = key[at - 1];
      place[at] = place[at - 1];
    }
    key[at] = e;
    place[at] = (uint)i;
  }
  keys += keys_offset + row * pitch + run * keep;
  places += places_offset + row * pitch + run * keep;
  for (int i = 0; i < count; i++) {
    keys[i] = key[i];
    places[i] = place[i];
  }
}

/* m: entries of a row before, in runs of `length` (the last one shorter). per_row: pairs of runs,
 * each in per_pair chunks. */
__kernel void sort_merge(const __global sort_key *keys, const long keys_offset,
                         const __global uint *places, const long places_offset,
                         __global sort_key *keys_out, const long keys_out_offset,
                         __global uint *places_out, const long places_out_offset,
                         const index_t items, const index_t per_row, const index_t per_pair,
                         const index_t pitch, const index_t m, const index_t length,
                         const index_t keep, const index_t chunk) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t row = item / (per_row * per_pair), pair = item / per_pair % per_row;
  const index_t a = pair * 2 * length, n_a = min(length, m - a), n_b = min(length, m - a - n_a);
  const index_t size = min(keep, n_a + n_b), from = item % per_pair * chunk;
  const index_t end = min(from + chunk, size);
  if (from >= end) return;
  keys += keys_offset + row * pitch + a;
  places += places_offset + row * pitch + a;
  keys_out += keys_out_offset + row * pitch + pair * keep;
  places_out += places_out_offset + row * pitch + pair * keep;
  index_t low = max((index_t)0, from - n_b), high = min(from, n_a);
  while (low < high) {
    const index_t mid = (low + high) / 2;
    if (keys[mid] <= keys[n_a + from - 1 - mid])
      low = mid + 1;
    else
      high = mid;
  }
  index_t i = low, j = n_a + from - low;
  for (index_t o = from; o < end; o++) {
    const int first = i < n_a && (j >= n_a + n_b || keys[i] <= keys[j]);
    const index_t take = first ? i : j;
    keys_out[o] = keys[take];
    places_out[o] = places[take];
    i += first;
    j += !first;
  }
}

__kernel void sort_store(const __global STORAGE(TYPE) * x, const long x_offset,
                         const __global uint *places, const long places_offset,
                         __global STORAGE(TYPE) * out, const long out_offset,
                         __global long *indices, const long indices_offset, const index8 kept_dims,
                         const index8 x_strides, const index8 out_strides, const index_t items,
                         const index_t k, const index_t pitch, const index_t x_step,
                         const index_t out_step) {
  const index_t item = (index_t)get_global_id(0);
  if (item >= items) return;
  const index_t row = item / k, i = item % k;
  const uint place = places[places_offset + row * pitch + i];
  const index_t to = strided_offset(row, kept_dims, out_strides) + i * out_step;
  out[out_offset + to] =
      x[x_offset + strided_offset(row, kept_dims, x_strides) + (index_t)place * x_step];
#if INDICES
  indices[indices_offset + to] = place;
#endif
}
