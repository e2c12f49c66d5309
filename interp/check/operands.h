#ifndef INTERP_CHECK_OPERANDS_H
#define INTERP_CHECK_OPERANDS_H
/* Copies of a node's operands, and the CPU backend's run on them. */
#include "interp/check/checking.h"

/* Copies what the node reads, all or a part that results can be made of. *fits: false if that is
 * too much. With checking->part.count set: that part. */
clave_status copy_operands(checking *checking, bool *fits) STATUS_CHECK;
/* The operands' copies as they were before the node ran. */
clave_status restore_copies(checking *checking) STATUS_CHECK;
/* Runs the node on the copies. *faulty: it found bad data. */
clave_status run_oracle(checking *checking, bool *faulty) STATUS_CHECK;
void free_copies(checking *checking);

#endif
