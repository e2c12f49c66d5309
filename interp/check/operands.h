#ifndef INTERP_CHECK_OPERANDS_H
#define INTERP_CHECK_OPERANDS_H
/* Copies a node's operands and runs the CPU backend on the copies. */
#include "interp/check/checking.h"

/* Copies all that the node reads, or only what a part of the results depends on. The part is
 * checking->part if its count is set, else copy_operands chooses it. Sets *fits to false if the
 * operands are too large to copy. */
clave_status copy_operands(checking *checking, bool *fits) STATUS_CHECK;
/* Restores the copies to the operands' values before the node ran. */
clave_status restore_copies(checking *checking) STATUS_CHECK;
/* Runs the node on the copies. Sets *faulty if it found bad data. */
clave_status run_oracle(checking *checking, bool *faulty) STATUS_CHECK;
void free_copies(checking *checking);

#endif
