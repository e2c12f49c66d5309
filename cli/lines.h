#ifndef CLI_LINES_H
#define CLI_LINES_H
/* Messages that a person types on a terminal: with line editing and history where the tool was
 * built with libedit (editor.h), of one line or of several. */
#include "cli/page.h"
#include "cli/report.h"

typedef struct line_reader line_reader;

/* color: what is typed is green and bold. */
int open_lines(bool color, line_reader **out) CHECK;
/* A line; several where they end in a backslash, stand between lines of """, or were pasted
 * together. -1: the input has ended, or Ctrl-C was typed. */
int read_message(line_reader *reader, page *out) CHECK;
void close_lines(line_reader *reader); /* takes NULL */

#endif
