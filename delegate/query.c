/* What a device takes: of a host's graph, each node by itself; of a program, its placement. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "delegate/objects.h"

static void write_answer(clave_delegate_answer *a, bool supported, const char *where,
                         const char *reason) {
  *a = (clave_delegate_answer){.supported = supported};
  (void)snprintf(a->where, sizeof a->where, "%s", where);
  (void)snprintf(a->reason, sizeof a->reason, "%s", reason ? reason : "");
}

static clave_status read_placement(const clave_placement *placement, const char *method,
                                   uint32_t index, clave_delegate_answer *answer) {
  clave_placement_info info = {.size = sizeof info};
  TRY_CLAVE(clave_placement_get(placement, method, index, &info));
  write_answer(answer, info.supported, info.where, info.reason);
  return NULL;
}

/* Of the first n nodes of a method. */
static clave_status ask_program(clave_program *p, clave_device *d, const char *method,
                                clave_delegate_answer *answers, uint32_t n) {
  const clave_session_options options = {.size = sizeof options, .unfused = true};
  clave_placement *placement;
  TRY_CLAVE(clave_program_supported(p, d, &options, &placement));
  clave_status st = NULL;
  for (uint32_t i = 0; i < n && !st; i++) st = read_placement(placement, method, i, &answers[i]);
  clave_placement_destroy(placement);
  return st;
}

/* A node that cannot be built is one that no device takes: that is an answer. */
static clave_status ask_node(const clave_delegate_graph *g, uint32_t node, clave_device *d,
                             clave_delegate_answer *answer) {
  clave_program *p;
  void *borrowed;
  clave_status st = graph_build_node(g, node, &borrowed, &p);
  if (!st) st = ask_program(p, d, NULL, answer, 1);
  clave_program_destroy(p);
  free(borrowed);
  const status_code code = status_code_of(st);
  if (code != STATUS_INVALID && code != STATUS_UNSUPPORTED) return st;
  write_answer(answer, false, "none", status_message(st));
  status_free(st);
  return NULL;
}

clave_status delegate_query(clave_delegate_handle device, const clave_delegate_graph *graph,
                            clave_delegate_answer *answers) {
  clave_delegate_graph g;
  delegate_device *d;
  TRY(graph_check(graph, &g));
  if (g.n_nodes) TRY_GIVEN(answers);
  TRY(handle_take(HANDLE_DEVICE, device, &d));
  clave_status st = NULL;
  for (uint32_t i = 0; i < g.n_nodes && !st; i++) st = ask_node(&g, i, d->d, &answers[i]);
  object_release(&d->o);
  return st;
}

clave_status find_method(const clave_program *p, const char *method, clave_method_info *out) {
  clave_program_info info = {.size = sizeof info};
  TRY_CLAVE(clave_program_get_info(p, &info));
  for (uint32_t i = 0; i < info.n_methods; i++) {
    *out = (clave_method_info){.size = sizeof *out};
    TRY_CLAVE(clave_program_method(p, i, out));
    if (!method || strcmp(out->name, method) == 0) return NULL;
  }
  return INVALID("no method '%.200s'", method ? method : "");
}

clave_status delegate_query_program(clave_delegate_handle device, clave_delegate_handle program,
                                    const char *method, clave_delegate_answer *answers,
                                    uint32_t n) {
  delegate_device *d;
  delegate_program *p = NULL;
  clave_method_info info;
  if (n) TRY_GIVEN(answers);
  TRY(handle_take(HANDLE_DEVICE, device, &d));
  clave_status st = handle_take(HANDLE_PROGRAM, program, &p);
  if (!st) st = find_method(p->p, method, &info);
  if (!st && n != info.n_nodes)
    st = INVALID("room for %u answers, method '%.200s' has %u nodes", n, info.name, info.n_nodes);
  if (!st) st = ask_program(p->p, d->d, method, answers, n);
  object_release(p ? &p->o : NULL);
  object_release(&d->o);
  return st;
}
