/* Whether the driver's compiler takes the functions of subgroups.h, and sub-groups are what they
 * should be: each sum is of the words of one sub-group, and all of them together are the group's.
 */
#include "common.h"
#include "subgroups.h"
#define GROUP 64

/* sums: of the words behind them, GROUP of 0 to 255, all; then GROUP times that of a work-item's
 * sub-group. A group of GROUP. */
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
