#ifndef CLI_HTML_H
#define CLI_HTML_H
/* Pages that need nothing beside them. */
#include "cli/page.h"

/* As text within XML or HTML, in attributes too; what is no character of those is a question mark.
 */
void page_markup(page *t, const char *s);
/* Everything up to the heading, and from there on. */
void begin_html(page *out, const char *title);
void end_html(page *out);
/* The box of a graph, up to its <svg>, with a field to find nodes by and buttons that zoom. */
void begin_graph(page *out);

#endif
