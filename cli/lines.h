#ifndef CLI_LINES_H
#define CLI_LINES_H
/* Reads messages typed on a terminal, of one or several lines, with line editing and history if the
 * tool was built with libedit (editor.h). */
#include "cli/page.h"
#include "cli/report.h"

typedef struct line_reader line_reader;

/* color: typed text is shown in bold green. */
int open_lines(bool color, line_reader **out) CHECK;
/* Reads a line, or several lines that end in a backslash, are enclosed by lines of """, or were
 * pasted together. Returns -1 if the input has ended or Ctrl-C was typed. */
int read_message(line_reader *reader, page *out) CHECK;
void close_lines(line_reader *reader); /* accepts NULL */

#endif
