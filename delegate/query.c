/* Reports which nodes a device runs: each node of a graph by itself, the nodes of a program by
 * their placement. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "delegate/objects.h"

static void write_answer(clave_delegate_answer *answer, bool supported, const char *where,
                         const char *reason) {
  *answer = (clave_delegate_answer){.supported = supported};
  (void)snprintf(answer->where, sizeof answer->where, "%s", where);
  (void)snprintf(answer->reason, sizeof answer->reason, "%s", reason ? reason : "");
}

static clave_status query_answer_node(const clave_placement *placement, const char *method,
                                      uint32_t index, clave_delegate_answer *answer) {
  clave_placement_info info = {.size = sizeof info};
  TRY_CLAVE(clave_placement_get(placement, method, index, &info));
  write_answer(answer, info.supported, info.where, info.reason);
  return NULL;
}

/* Writes the answers for the first n nodes of a method. */
static clave_status query_program(clave_program *program, clave_device *device, const char *method,
                                  clave_delegate_answer *answers, uint32_t n) {
  const clave_session_options options = {.size = sizeof options, .unfused = true};
  clave_placement *placement;
  TRY_CLAVE(clave_program_supported(program, device, &options, &placement));
  clave_status st = NULL;
  for (uint32_t i = 0; i < n && !st; i++) st = query_answer_node(placement, method, i, &answers[i]);
  clave_placement_destroy(placement);
  return st;
}

/* Writes the answer for one node. If the node cannot be built, the answer is that no device runs
 * it. */
static clave_status query_node(const clave_delegate_graph *graph, uint32_t node,
                               clave_device *device, clave_delegate_answer *answer) {
  clave_program *program;
  void *borrowed;
  clave_status st = graph_build_node(graph, node, &borrowed, &program);
  if (!st) st = query_program(program, device, NULL, answer, 1);
  clave_program_destroy(program);
  free(borrowed);
  const status_code code = status_code_of(st);
  if (code != STATUS_INVALID && code != STATUS_UNSUPPORTED) return st;
  write_answer(answer, false, "none", status_message(st));
  status_free(st);
  return NULL;
}

clave_status delegate_query(clave_delegate_handle device, const clave_delegate_graph *graph,
                            clave_delegate_answer *answers) {
  clave_delegate_graph described;
  delegate_device *delegate_device;
  TRY(graph_check(graph, &described));
  if (described.n_nodes) TRY_GIVEN(answers);
  TRY(handle_acquire(HANDLE_DEVICE, device, &delegate_device));
  clave_status st = NULL;
  for (uint32_t i = 0; i < described.n_nodes && !st; i++)
    st = query_node(&described, i, delegate_device->device, &answers[i]);
  object_release(&delegate_device->object);
  return st;
}

clave_status delegate_find_method(const clave_program *program, const char *method,
                                  clave_method_info *out) {
  clave_program_info info = {.size = sizeof info};
  TRY_CLAVE(clave_program_get_info(program, &info));
  for (uint32_t i = 0; i < info.n_methods; i++) {
    *out = (clave_method_info){.size = sizeof *out};
    TRY_CLAVE(clave_program_method(program, i, out));
    if (!method || strcmp(out->name, method) == 0) return NULL;
  }
  return INVALID("unknown method '%.200s'", method ? method : "");
}

clave_status delegate_query_program(clave_delegate_handle device, clave_delegate_handle program,
                                    const char *method, clave_delegate_answer *answers,
                                    uint32_t n) {
  delegate_device *delegate_device;
  delegate_program *delegate_program = NULL;
  clave_method_info info;
  if (n) TRY_GIVEN(answers);
  TRY(handle_acquire(HANDLE_DEVICE, device, &delegate_device));
  clave_status st = handle_acquire(HANDLE_PROGRAM, program, &delegate_program);
  if (!st) st = delegate_find_method(delegate_program->program, method, &info);
  if (!st && n != info.n_nodes)
    st = INVALID("expected %u answers, one per node of method '%.200s', got memory for %u",
                 info.n_nodes, info.name, n);
  if (!st)
    st = query_program(delegate_program->program, delegate_device->device, method, answers, n);
  object_release(delegate_program ? &delegate_program->object : NULL);
  object_release(&delegate_device->object);
  return st;
}
