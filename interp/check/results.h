#ifndef INTERP_CHECK_RESULTS_H
#define INTERP_CHECK_RESULTS_H
/* Compares results. */
#include "interp/check/checking.h"

clave_status compare_results(checking *checking) STATUS_CHECK; /* sets checking->verdict */
void free_results(checking *checking);

#endif
