#ifndef CLI_HTML_H
#define CLI_HTML_H
/* Pages that need nothing beside them. */
#include "cli/page.h"

/* As text within XML or HTML, in attributes too; what is no character of those is a question mark.
 */
void page_markup(page *page, const char *text);
/* Everything up to the heading, and from there on. */
void begin_html(page *out, const char *title);
void end_html(page *out);
/* Writes the frame around the drawing of a graph: its tools (search, zoom) and a box that scrolls.
 * With `has_folds` it holds two drawings, the folded one first, and a button swaps them. */
void begin_graph(page *out, bool has_folds);
void end_graph(page *out);

#endif
