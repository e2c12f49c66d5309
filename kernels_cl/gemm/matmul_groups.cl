/* Computes the tiles of a grouped product: a tile is at most tile_rows neighbouring rows of one
 * group. ends: the end of each group. A work-item writes one tile: its first row, its number of
 * rows (0 after the last tile) and its group, -1 for rows after the last group. An end out of range
 * is reported and its group left out. */
#include "common.h"
#ifndef INDEX_TYPE
#define INDEX_TYPE I64
#endif

__kernel void group_tiles(const __global STORAGE(INDEX_TYPE) * ends, const long ends_offset,
                          __global long *tiles, const long tiles_offset, const index_t n_tiles,
                          const index_t groups, const index_t end_stride, const long rows,
                          const long tile_rows, FAULT_PARAMS) {
  const index_t z = (index_t)get_global_id(0);
  if (z >= n_tiles) return;
  long start = 0, before = 0, first = 0, count = 0, group = -1;
  for (index_t e = 0; e <= groups; e++) {
    long end = e < groups ? ends[ends_offset + e * end_stride] : rows;
    if (end < start || end > rows) {
      set_fault(fault, fault_node, FAULT_INDEX, end, start, rows);
      end = start;
    }
    const long n = (end - start + tile_rows - 1) / tile_rows;
    if (z >= before && z < before + n) {
      first = start + (z - before) * tile_rows;
      count = min(tile_rows, end - first);
      group = e < groups ? e : -1;
    }
    before += n;
    start = end;
  }
  __global long *tile = tiles + tiles_offset + 3 * (long)z;
  tile[0] = first;
  tile[1] = count;
  tile[2] = group;
}
