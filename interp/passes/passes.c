/* The table of passes. */
#include "interp/passes/passes.h"

static const struct {
  const char *name;
  clave_status (*run)(graph *g);
} passes[] = {
    {"fuse elementwise", fuse_elementwise},
};

clave_status run_passes(graph *g, bool fuse) {
  for (size_t i = 0; fuse && i < sizeof passes / sizeof passes[0]; i++) {
    TRY(status_while(passes[i].run(g), "pass '%s'", passes[i].name));
    TRY(graph_compact(g));
  }
  graph_find_uses(g);
  return NULL;
}
