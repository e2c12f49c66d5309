#ifndef INTERP_CHECK_OPERANDS_H
#define INTERP_CHECK_OPERANDS_H
/* Copies a node's operands and runs the CPU backend on the copies. */
#include "interp/check/checking.h"

/* Copies all operands that the node reads, or only the rows that some rows of the results depend
 * on: those of checking->compared if its count is set, else copy_operands chooses them. Sets *fits
 * to false if the operands are too large to copy, but not if checking->is_whole. */
clave_status copy_operands(checking *checking, bool *fits) STATUS_CHECK;
/* Restores the copies to the operands' values before the node ran. */
clave_status restore_copies(checking *checking) STATUS_CHECK;
/* Runs the node on the copies. Sets *fault if data are invalid, such as an index out of range. */
clave_status run_oracle(checking *checking, device_fault *fault) STATUS_CHECK;
void free_copies(checking *checking);

#endif
