/* The table of ops, from ops.def. */
#include <string.h>

#include "import/onnx/converters.h"
#include "import/onnx/onnx.h"

static const onnx_op rows[] = {
#define OP(domain, name, since, function, kind) {domain, name, since, function, kind},
#include "import/onnx/ops.def"
#undef OP
};

/* Leaves out rows that only say why an op is refused. */
bool onnx_op_at(uint32_t index, import_op *out) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (rows[i].convert == onnx_refuse || index-- > 0) continue;
    *out = (import_op){.domain = rows[i].domain, .name = rows[i].name, .since = rows[i].since};
    return true;
  }
  return false;
}

const onnx_op *onnx_find_op(const char *domain, const char *name, int64_t version) {
  const onnx_op *best = NULL;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (strcmp(rows[i].name, name) != 0 || strcmp(rows[i].domain, domain) != 0) continue;
    if (rows[i].since <= version && (!best || rows[i].since > best->since)) best = &rows[i];
  }
  return best;
}
