/* Built without libedit: lines are read as the terminal gives them. */
#include "cli/editor.h"

const bool has_editor = false;

editor *open_editor(void) { return NULL; }
int edit_line(editor *editor, const char *prompt, page *line) {
  (void)editor;
  (void)prompt;
  (void)line;
  return -1;
}
void close_editor(editor *editor) { (void)editor; }
