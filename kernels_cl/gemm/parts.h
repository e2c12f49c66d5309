#ifndef PARTS_H
#define PARTS_H
/* For kernels that may split the k of a product into n_parts of part_depth. Group n_parts * z +
 * part of the third dimension computes one part and writes its sums to `parts` if there are
 * several. */
#define PARTS_PARAMS \
  __global real *parts, const long parts_offset, const index_t n_parts, const index_t part_depth
#ifndef IN_PARTS
#define IN_PARTS 0
#endif

/* Index in `parts` of element (m, n) of out, in a kernel with PARTS_PARAMS. at: the PRODUCT_AT of
 * the group. */
#define PART_AT(at, m, n)                                                                   \
  (parts_offset +                                                                           \
   ((index_t)get_group_id(2) % n_parts) * ((index_t)get_num_groups(2) / n_parts * m_size) * \
       n_size +                                                                             \
   (index_t)(at).out + (m)*n_size + (n))
#endif
