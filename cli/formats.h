#ifndef CLI_FORMATS_H
#define CLI_FORMATS_H
/* The ops that importers of other formats know. */
#include "cli/page.h"

/* Writes format, domain, op and first version of each op, as a table or as JSON. */
void write_import_ops(bool json, page *out);

#endif
