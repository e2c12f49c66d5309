#ifndef CLI_EDITOR_H
#define CLI_EDITOR_H
/* Line editing and history on a terminal. editor.c has it by libedit; where the build finds no
 * libedit, no_editor.c says that there is none. */
#include "cli/page.h"

extern const bool has_editor; /* of this build */

typedef struct editor editor;
editor *open_editor(void); /* NULL: there is none */
/* A line, or what was pasted with several, without its end. -1: the input has ended, or Ctrl-C was
 * typed on an empty line. */
int edit_line(editor *editor, const char *prompt, page *line) __attribute__((warn_unused_result));
void close_editor(editor *editor); /* takes NULL */

#endif
