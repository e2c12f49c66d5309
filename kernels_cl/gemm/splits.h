#ifndef SPLITS_H
#define SPLITS_H
/* Parameters of kernels that may split the k of a product into n_splits of split_depth. Group
 * n_splits * z + split of the third dimension computes one split and writes its sums to `splits` if
 * there are several. */
#define SPLITS_PARAMS \
  __global real *splits, const long splits_offset, const index_t n_splits, const index_t split_depth
#ifndef IN_SPLITS
#define IN_SPLITS 0
#endif

/* Index in `splits` of element (m, n) of out, in a kernel with SPLITS_PARAMS. at: the PRODUCT_AT of
 * the group. */
#define SPLIT_AT(at, m, n)                                                                    \
  (splits_offset +                                                                            \
   ((index_t)get_group_id(2) % n_splits) * ((index_t)get_num_groups(2) / n_splits * m_size) * \
       n_size +                                                                               \
   (index_t)(at).out + (m)*n_size + (n))
#endif
