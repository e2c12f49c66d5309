/* Substitute for builds without libedit: there is no line editing. */
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
