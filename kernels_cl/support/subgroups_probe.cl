/* Tests that the driver's compiler accepts the functions of subgroups.h and that sub-groups work:
 * each sub-group sums its own words, and together they sum those of the group. */
#include "common.h"
#include "subgroups.h"
#define GROUP 64

/* sums: GROUP results, each the sum of all GROUP input words, which follow and are in [0, 255].
 * Launched with one group of GROUP work-items. */
__kernel void subgroups_probe(__global int *sums, const long sums_offset) {
#if SUBGROUPS
  __local int parts[GROUP];
  const int item = (int)get_local_id(0);
  sums += sums_offset;
  const int part = (int)sub_group_reduce_add((float)sums[GROUP + item]);
  if (get_sub_group_local_id() == 0) parts[get_sub_group_id()] = part;
  barrier(CLK_LOCAL_MEM_FENCE);
  int all = 0;
  for (int i = 0; i < (int)get_num_sub_groups(); i++) all += parts[i];
  sums[item] = all;
#endif
}
