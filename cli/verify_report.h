#ifndef CLI_VERIFY_REPORT_H
#define CLI_VERIFY_REPORT_H
/* Reports of clave verify on all nodes: as a table, as JSON and as an HTML page. */
#include "cli/files.h"
#include "cli/stages.h"

void write_errors_table(const verification *verification, page *out);
void write_errors_json(const verification *verification, page *out);
/* Writes a self-contained page with the graph, coloured by error, and the table. title: the
 * program. */
int write_error_page(verification *verification, const char *title, const char *path) CHECK;

#endif
