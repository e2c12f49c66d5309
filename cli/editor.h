#ifndef CLI_EDITOR_H
#define CLI_EDITOR_H
/* Line editing and history on a terminal. editor.c uses libedit; no_editor.c is the substitute for
 * builds without libedit. */
#include "cli/page.h"

extern const bool has_editor; /* true if this build has libedit */

typedef struct editor editor;
editor *open_editor(void); /* NULL: not available */
/* Reads a line, or several pasted lines, without the final newline. Returns -1 if the input has
 * ended or Ctrl-C was typed on an empty line. */
int edit_line(editor *editor, const char *prompt, page *line) __attribute__((warn_unused_result));
void close_editor(editor *editor); /* accepts NULL */

#endif
