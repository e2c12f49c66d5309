/* New rows of k and v go to their caches, from row `position` on: of a ring, modulo its rows. */
#include "attention.h"

/* x: k for second index 0, v for 1. items: batch, head, new row, chunk of columns. Strides of k and
 * v as in attention. */
__kernel void attention_store(const __global STORAGE(X_TYPE) * k, const long k_offset,
                              const __global STORAGE(X_TYPE) * v, const long v_offset,
                              __global STORAGE(KEY_TYPE) * key_cache, const long key_cache_offset,
                              __global STORAGE(KEY_TYPE) * value_cache,
                              const long value_cache_offset, __global float *k_scale,
                              const long k_scale_offset, __global float *v_scale,
                              const long v_scale_offset, const __global long *position,
                              const long position_offset, const index8 k_strides,
                              const index8 v_strides, const index_t items, const index_t n_chunks,
                              const index_t chunk, const index_t n_kv, const index_t n_new,
                              const index_t n_keys, const index_t head_dim, const index_t v_dim,
                              const index_t total, const index_t skip, FAULT_PARAMS) {
  const index_t item = (index_t)get_global_id(0);
  const bool is_value = get_global_id(1) > 0;
  if (item >= items) return;
  const long at = position[position_offset];
  if (at < 0 || at > last_position(total, n_keys)) {
    set_fault(fault, fault_node, FAULT_ROWS, at, total, n_keys);
    return;
  }
  const index_t i = item / n_chunks % n_new, head = item / n_chunks / n_new, group = head % n_kv,
                batch = head / n_kv;
  const index8 strides = is_value ? v_strides : k_strides;
  const index_t size = is_value ? v_dim : head_dim, begin = item % n_chunks * chunk;
  const long row = head * (long)n_keys + (at + skip + i) % n_keys;
  x_pointer x = is_value ? v + v_offset : k + k_offset;
  __global STORAGE(KEY_TYPE) *to =
      is_value ? value_cache + value_cache_offset : key_cache + key_cache_offset;
  __global float *scale = is_value ? v_scale + v_scale_offset : k_scale + k_scale_offset;
  x += batch * strides.s2 + group * strides.s1 + i * strides.s0;
  store_columns(x, to + row * size, scale + row, begin, min(begin + chunk, size));
}
