#ifndef PARTS_H
#define PARTS_H
/* Of kernels that may cut the k of a product in n_parts of part_depth: group n_parts * z + part of
 * the third dimension has one, and writes the sums of a part to `parts` if there are several. */
#define PARTS_PARAMS \
  __global real *parts, const long parts_offset, const index_t n_parts, const index_t part_depth
#ifndef IN_PARTS
#define IN_PARTS 0
#endif

/* In a kernel with PARTS_PARAMS, of the PRODUCT_AT of a group: the element of `parts` that stands
 * for element (m, n) of out. */
#define PART_AT(at, m, n)                                                                   \
  (parts_offset +                                                                           \
   ((index_t)get_group_id(2) % n_parts) * ((index_t)get_num_groups(2) / n_parts * m_size) * \
       n_size +                                                                             \
   (index_t)(at).out + (m)*n_size + (n))
#endif
