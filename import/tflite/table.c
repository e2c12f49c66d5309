/* The table of ops, from ops.def, and the names of all builtin ops by their codes. */
#include <string.h>

#include "import/tflite/converters.h"
#include "import/tflite/tflite.h"

static const tflite_op rows[] = {
#define OP(name, function, kind, flags) {name, function, kind, flags},
#include "import/tflite/ops.def"
#undef OP
};

static const char *const names[] = {
#include "import/tflite/names.def"
};
enum { CUSTOM = 32 };

bool tflite_op_at(uint32_t index, import_op *out) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (rows[i].convert == tflite_refused || index-- > 0) continue;
    *out = (import_op){.domain = "", .name = rows[i].name, .since = 1};
    return true;
  }
  return false;
}

const tflite_op *tflite_find_op(const char *name) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].name, name) == 0) return &rows[i];
  return NULL;
}

const char *tflite_op_name(importer *im, int64_t code, const char *custom) {
  if (code == CUSTOM) return custom;
  if (code >= 0 && code < (int64_t)(sizeof names / sizeof *names)) return names[code];
  return import_text(im, "builtin op %lld", (long long)code);
}
