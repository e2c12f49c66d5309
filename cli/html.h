#ifndef CLI_HTML_H
#define CLI_HTML_H
/* Self-contained HTML pages. */
#include "cli/page.h"

/* Appends text escaped for XML or HTML, attributes included; characters not allowed there are
 * written as "?". */
void page_markup(page *page, const char *text);
/* Write everything up to the heading, and the end of the page. */
void begin_html(page *out, const char *title);
void end_html(page *out);
/* Writes the frame around the drawing of a graph: its tools (search, zoom) and a box that scrolls.
 * With `has_folds` it holds two drawings, the folded one first, and a button swaps them. */
void begin_graph(page *out, bool has_folds);
void end_graph(page *out);

#endif
