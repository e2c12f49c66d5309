/* Makes the pairs of runs that are compared: values of one run beside those of the other. */
#include "cli/stages.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clave_builder.h"
#include "cli/progress.h"

/* ---------------------------------------------------------------- the CPU backend's run */

static int open_cpu(clave_program *program, const model *like, model *cpu) {
  const model_arguments on_cpu = {.device = "cpu"};
  *cpu = (model){.program = program, .method = like->method};
  TRY_EXIT(open_device(&on_cpu, cpu));
  return open_session(cpu, SESSION_UNFUSED);
}

static void close_cpu(model *cpu) {
  cpu->program = NULL; /* another's */
  close_model(cpu);
}

int begin_verification(verification *v) {
  size_t apart;
  TRY_EXIT(open_cpu(v->m->program, v->m, &v->cpu));
  TRY_EXIT(read_graph(v->m, &v->g));
  find_views(v->m, &v->g);
  show_progress("running on the CPU backend");
  TRY_EXIT(run_nodes(&v->cpu, &v->inputs, NULL, &v->base, &apart));
  clear_progress();
  return EXIT_GOOD;
}

static int begin_stage(verification *v, int which, stage words) {
  stage *s = &v->stages[which];
  *s = words;
  s->pointers = calloc(v->base.count + 1, sizeof *s->pointers);
  s->others = calloc((size_t)v->m->method.n_outputs + 1, sizeof *s->others);
  s->values = calloc(v->base.count + 1, sizeof *s->values);
  if (!s->pointers || !s->others || !s->values) return fail_memory();
  s->pair = (run_pair){.cpu = &v->cpu,
                       .g = &v->g,
                       .inputs = &v->inputs,
                       .base = &v->base,
                       .subject = s->pointers,
                       .others = s->others,
                       .n_others = v->m->method.n_outputs,
                       .subject_is_right = which == STAGE_REFERENCE};
  return EXIT_GOOD;
}

static int end_stage(stage *s) {
  for (size_t i = 0; i < s->pair.base->count; i++) s->compared += s->pointers[i] != NULL;
  return find_errors(&s->pair);
}

/* The fused run of the model's own session. */
static int run_plain(verification *v, stage *s) {
  const model *m = v->m;
  TRY_STATUS(clave_session_reset(m->session));
  TRY_EXIT(set_inputs(&v->inputs, m));
  TRY_STATUS(clave_session_run(m->session, m->method.name));
  for (uint32_t i = 0; i < m->method.n_outputs; i++)
    TRY_STATUS(clave_session_output(m->session, m->method.name, i, &s->others[i]));
  return EXIT_GOOD;
}

static size_t output_record(const verification *v, uint32_t index) {
  return v->base.count - v->m->method.n_outputs + index;
}

/* ---------------------------------------------------------------- the device */

/* Both runs are in program order: mostly it is the next one. */
static const clave_tensor *find_record(const records *r, size_t *next, const record *like) {
  for (size_t i = 0; i < r->count; i++) {
    const size_t at = (*next + i) % r->count;
    if (r->items[at].node != like->node || r->items[at].slot != like->slot) continue;
    *next = at + 1;
    return &r->items[at].value;
  }
  return NULL;
}

static int run_device(const verification *v, records *out) {
  model unfused = *v->m;
  size_t apart;
  unfused.session = NULL;
  TRY_EXIT(open_session(&unfused, SESSION_UNFUSED));
  show_progress("running on the device");
  int result = run_nodes(&unfused, &v->inputs, NULL, out, &apart);
  clear_progress();
  clave_session_destroy(unfused.session);
  return result;
}

int compare_device(verification *v) {
  stage *s = &v->stages[STAGE_DEVICE];
  size_t next = 0;
  TRY_EXIT(begin_stage(v, STAGE_DEVICE,
                       (stage){.name = "device", .against = "the CPU backend", .right = "cpu"}));
  TRY_EXIT(run_device(v, &s->subject));
  for (size_t i = 0; i < v->base.count; i++)
    s->pointers[i] = find_record(&s->subject, &next, &v->base.items[i]);
  TRY_EXIT(run_plain(v, s));
  return end_stage(s);
}

int compare_fusion(verification *v) {
  stage *s = &v->stages[STAGE_FUSION];
  TRY_EXIT(
      begin_stage(v, STAGE_FUSION,
                  (stage){.name = "fusion", .against = "the unfused run", .right = "unfused"}));
  s->pair.has_outputs_alone = true;
  TRY_EXIT(run_plain(v, s));
  for (uint32_t i = 0; i < v->m->method.n_outputs; i++)
    if (s->others[i].data) s->pointers[output_record(v, i)] = &s->others[i];
  return end_stage(s);
}

/* ---------------------------------------------------------------- by name */

/* A node's result `which` in another run; NULL: there is none. */
typedef const clave_tensor *(*find_fn)(void *ctx, const char *name, uint32_t which,
                                       clave_tensor *room);

/* A pass, or a lowering, gives all that it makes of a node the node's name: the last is the result.
 */
static bool is_last_of_name(const graph *g, uint32_t node) {
  for (uint32_t i = node + 1; i < g->n_nodes; i++)
    if (strcmp(g->nodes[i].name, g->nodes[node].name) == 0) return false;
  return true;
}

/* Records of each node, to be freed: more than it writes are those of a loop. */
static uint32_t *count_records(const records *r, uint32_t n_nodes) {
  uint32_t *counts = calloc((size_t)n_nodes + 1, sizeof *counts);
  for (size_t i = 0; counts && i < r->count; i++)
    if (r->items[i].node < n_nodes) counts[r->items[i].node]++;
  return counts;
}

static int pair_by_name(const verification *v, stage *s, find_fn find, void *ctx) {
  uint32_t *counts = count_records(&v->base, v->g.n_nodes);
  if (!counts) return fail_memory();
  for (size_t i = 0; i < v->base.count; i++) {
    const record *r = &v->base.items[i];
    if (r->node >= v->g.n_nodes) continue;
    const graph_node *n = &v->g.nodes[r->node];
    if (counts[r->node] > n->n_writes || !is_last_of_name(&v->g, r->node)) continue;
    for (uint32_t k = 0; k < n->n_writes; k++)
      if (node_writes(n)[k] == r->slot) s->pointers[i] = find(ctx, n->name, k, &s->values[i]);
    if (s->pointers[i] && !same_form(s->pointers[i], &r->value)) s->pointers[i] = NULL;
  }
  free(counts);
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- the passes */

typedef struct rewritten {
  graph g;
  records run;
  uint32_t *counts; /* owned */
} rewritten;

static const clave_tensor *find_rewritten(void *ctx, const char *name, uint32_t which,
                                          clave_tensor *room) {
  const rewritten *w = ctx;
  (void)room;
  for (uint32_t i = w->g.n_nodes; i-- > 0;) {
    const graph_node *n = &w->g.nodes[i];
    if (strcmp(n->name, name) != 0) continue;
    if (which >= n->n_writes || w->counts[i] > n->n_writes) return NULL;
    for (size_t k = 0; k < w->run.count; k++)
      if (w->run.items[k].node == i && w->run.items[k].slot == node_writes(n)[which])
        return &w->run.items[k].value;
    return NULL;
  }
  return NULL;
}

static int run_rewritten(const verification *v, clave_program *program, rewritten *w) {
  model cpu = {0}, like = {.program = program};
  size_t apart;
  TRY_EXIT(choose_method(&like, v->m->method.name));
  int result = open_cpu(program, &like, &cpu);
  if (!result) result = read_graph(&cpu, &w->g);
  if (!result) result = run_nodes(&cpu, &v->inputs, NULL, &w->run, &apart);
  close_cpu(&cpu);
  if (!result && !(w->counts = count_records(&w->run, w->g.n_nodes))) result = fail_memory();
  return result;
}

static int pair_rewritten(verification *v, stage *s, rewritten *w) {
  const uint32_t n = v->m->method.n_outputs;
  TRY_EXIT(pair_by_name(v, s, find_rewritten, w));
  for (uint32_t i = 0; i < n; i++)
    s->pointers[output_record(v, i)] = &w->run.items[w->run.count - n + i].value;
  return end_stage(s);
}

static void count_applied(void *ctx, const clave_pass_info *info) {
  *(uint32_t *)ctx += info->applied;
}

int compare_passes(verification *v) {
  stage *s = &v->stages[STAGE_PASSES];
  const stage words = {.name = "passes", .against = "the program as it is", .right = "without"};
  rewritten w = {0};
  clave_program *made = NULL;
  TRY_EXIT(begin_stage(v, STAGE_PASSES, words));
  const clave_optimize_options o = {
      .size = sizeof o, .report = count_applied, .report_ctx = &s->n_applied};
  show_progress("rewriting");
  TRY_STATUS(clave_program_optimize(v->m->program, &o, &made));
  int result = s->n_applied ? run_rewritten(v, made, &w) : EXIT_GOOD;
  clear_progress();
  if (!result && s->n_applied) result = pair_rewritten(v, s, &w);
  s->subject = w.run;
  free_graph(&w.g);
  free(w.counts);
  clave_program_destroy(made);
  return result;
}

/* ---------------------------------------------------------------- a file */

/* "node.relu"; further results of a node "node.topk.1". */
static const clave_tensor *find_in_file(void *ctx, const char *name, uint32_t which,
                                        clave_tensor *room) {
  page key = {0};
  text_printf(&key, "node.%s", name);
  if (which) text_printf(&key, ".%" PRIu32, which);
  const bool found = !key.failed && clave_tensors_find(ctx, key.data, room);
  text_free(&key);
  return found ? room : NULL;
}

int compare_reference(verification *v) {
  stage *s = &v->stages[STAGE_REFERENCE];
  const stage words = {.name = "reference", .against = "the reference", .right = "expected"};
  uint32_t n_outputs = 0;
  TRY_EXIT(begin_stage(v, STAGE_REFERENCE, words));
  TRY_EXIT(pair_by_name(v, s, find_in_file, v->inputs.file));
  for (uint32_t i = 0; i < v->m->method.n_outputs; i++) {
    char key[24];
    const size_t at = output_record(v, i);
    (void)snprintf(key, sizeof key, "output_%" PRIu32, i);
    if (!clave_tensors_find(v->inputs.file, key, &s->values[at])) continue;
    s->pointers[at] = &s->values[at];
    n_outputs++;
  }
  if (!n_outputs) return fail("the reference has none of the outputs (output_0...)");
  TRY_EXIT(run_plain(v, s));
  TRY_EXIT(end_stage(s));
  TRY_STATUS(clave_tensors_check(v->inputs.file));
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- the end */

void free_verification(verification *v) {
  for (int i = 0; i < N_STAGES; i++) {
    stage *s = &v->stages[i];
    free_errors(&s->pair);
    free_records(&s->subject);
    free(s->pointers);
    free(s->others);
    free(s->values);
  }
  free_records(&v->base);
  free_graph(&v->g);
  close_cpu(&v->cpu);
  free_inputs(&v->inputs);
}
