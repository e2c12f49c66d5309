/* Stores new rows of k and v in their caches from row `position` on, modulo the rows of a ring.
 * PAGED: each row goes to its own position of its sequence. */
#include "attention.h"

/* The second global index selects x: 0 is k, 1 is v. items: batch, head, new row, chunk of columns.
 * Strides of k and v as in attention. */
__kernel void attention_store(
    const __global STORAGE(X_TYPE) * k, const long k_offset, const __global STORAGE(X_TYPE) * v,
    const long v_offset, __global STORAGE(KEY_TYPE) * key_cache, const long key_cache_offset,
    __global STORAGE(KEY_TYPE) * value_cache, const long value_cache_offset,
    __global float *k_scale, const long k_scale_offset, __global float *v_scale,
    const long v_scale_offset, const __global long *position, const long position_offset,
    const index8 k_strides, const index8 v_strides, const index_t items, const index_t n_chunks,
    const index_t chunk, const index_t n_kv, const index_t n_new, const index_t n_keys,
    const index_t head_dim, const index_t v_dim, const index_t total, const index_t skip,
    const __global int *sequence, const long sequence_offset, const __global int *page_table,
    const long page_table_offset, const index_t n_sequences, const index_t max_pages,
    const index_t n_pages, const index_t page_shift, FAULT_PARAMS) {
  const index_t item = (index_t)get_global_id(0);
  const bool is_value = get_global_id(1) > 0;
  if (item >= items) return;
  const index_t i = item / n_chunks % n_new, head = item / n_chunks / n_new, group = head % n_kv,
                batch = head / n_kv;
#if PAGED
  const long at = position[position_offset + i];
  const int of = sequence[sequence_offset + i];
  page_table += page_table_offset;
  const bool all = !is_value && group == 0 && item % n_chunks == 0; /* true once per token */
  if (!is_placed(at, of, page_table, n_keys, n_sequences, max_pages, n_pages, page_shift, all,
                 fault, fault_node))
    return;
  const long page = page_table[of * (long)max_pages + (at >> page_shift)],
             row = ((page * n_kv + group) << page_shift) + (at & ((1 << page_shift) - 1));
#else
  const long at = position[position_offset];
  if (at < 0 || at > last_position(total, n_keys)) {
    set_fault(fault, fault_node, FAULT_ROWS, at, total, n_keys);
    return;
  }
  const long row = head * (long)n_keys + (at + skip + i) % n_keys;
#endif
  const index8 strides = is_value ? v_strides : k_strides;
  const index_t size = is_value ? v_dim : head_dim, begin = item % n_chunks * chunk;
  x_pointer x = is_value ? v + v_offset : k + k_offset;
  __global STORAGE(KEY_TYPE) *to =
      is_value ? value_cache + value_cache_offset : key_cache + key_cache_offset;
  __global float *scale = is_value ? v_scale + v_scale_offset : k_scale + k_scale_offset;
  x += batch * strides.s2 + group * strides.s1 + i * strides.s0;
  store_columns(x, to + row * size, scale + row, begin, min(begin + chunk, size));
}
