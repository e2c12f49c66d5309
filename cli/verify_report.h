#ifndef CLI_VERIFY_REPORT_H
#define CLI_VERIFY_REPORT_H
/* All nodes of the comparisons that clave verify made: as a table, as JSON, as a page. */
#include "cli/files.h"
#include "cli/stages.h"

void write_errors_table(const verification *verification, page *out);
void write_errors_json(const verification *verification, page *out);
/* A page that needs nothing else: the graph, coloured by error, and the table. title: the program.
 */
int write_error_page(verification *verification, const char *title, const char *path) CHECK;

#endif
