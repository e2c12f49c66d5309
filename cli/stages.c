/* Makes the pairs of runs to compare, and matches values of one run with those of the other. */
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
  cpu->program = NULL; /* owned by the other model */
  close_model(cpu);
}

int begin_verification(verification *verification) {
  size_t diverged_at;
  TRY_EXIT(open_cpu(verification->model->program, verification->model, &verification->cpu));
  TRY_EXIT(read_graph(verification->model, &verification->graph));
  find_views(verification->model, &verification->graph);
  show_progress("running on the CPU backend");
  TRY_EXIT(run_nodes(&verification->cpu, &verification->inputs, NULL, &verification->base,
                     &diverged_at));
  clear_progress();
  return EXIT_GOOD;
}

static int begin_stage(verification *verification, int which, stage words) {
  stage *stage = &verification->stages[which];
  *stage = words;
  stage->pointers = calloc(verification->base.count + 1, sizeof *stage->pointers);
  stage->others = calloc((size_t)verification->model->method.n_outputs + 1, sizeof *stage->others);
  stage->values = calloc(verification->base.count + 1, sizeof *stage->values);
  if (!stage->pointers || !stage->others || !stage->values) return fail_memory();
  stage->pair = (run_pair){.cpu = &verification->cpu,
                           .graph = &verification->graph,
                           .inputs = &verification->inputs,
                           .base = &verification->base,
                           .subject = stage->pointers,
                           .others = stage->others,
                           .n_others = verification->model->method.n_outputs,
                           .subject_is_right = which == STAGE_REFERENCE};
  return EXIT_GOOD;
}

static int end_stage(stage *stage) {
  for (size_t i = 0; i < stage->pair.base->count; i++)
    stage->compared += stage->pointers[i] != NULL;
  return find_errors(&stage->pair);
}

/* Runs the model's own session, which fuses nodes, and keeps its outputs. */
static int run_plain(verification *verification, stage *stage) {
  const model *model = verification->model;
  TRY_STATUS(clave_session_reset(model->session));
  TRY_EXIT(set_inputs(&verification->inputs, model));
  TRY_STATUS(clave_session_run(model->session, model->method.name));
  for (uint32_t i = 0; i < model->method.n_outputs; i++)
    TRY_STATUS(clave_session_output(model->session, model->method.name, i, &stage->others[i]));
  return EXIT_GOOD;
}

static size_t output_record(const verification *verification, uint32_t index) {
  return verification->base.count - verification->model->method.n_outputs + index;
}

/* ---------------------------------------------------------------- the device */

/* Both runs are in program order, so the match is usually the next record. */
static const clave_tensor *find_record(const records *records, size_t *next, const record *like) {
  for (size_t i = 0; i < records->count; i++) {
    const size_t at = (*next + i) % records->count;
    if (records->items[at].node != like->node || records->items[at].slot != like->slot) continue;
    *next = at + 1;
    return &records->items[at].value;
  }
  return NULL;
}

static int run_device(const verification *verification, records *out) {
  model unfused = *verification->model;
  size_t diverged_at;
  unfused.session = NULL;
  TRY_EXIT(open_session(&unfused, SESSION_UNFUSED));
  show_progress("running on the device");
  int result = run_nodes(&unfused, &verification->inputs, NULL, out, &diverged_at);
  clear_progress();
  clave_session_destroy(unfused.session);
  return result;
}

int compare_device(verification *verification) {
  stage *step = &verification->stages[STAGE_DEVICE];
  size_t next = 0;
  TRY_EXIT(begin_stage(verification, STAGE_DEVICE,
                       (stage){.name = "device", .against = "the CPU backend", .right = "cpu"}));
  TRY_EXIT(run_device(verification, &step->subject));
  for (size_t i = 0; i < verification->base.count; i++)
    step->pointers[i] = find_record(&step->subject, &next, &verification->base.items[i]);
  TRY_EXIT(run_plain(verification, step));
  return end_stage(step);
}

int compare_fusion(verification *verification) {
  stage *step = &verification->stages[STAGE_FUSION];
  TRY_EXIT(
      begin_stage(verification, STAGE_FUSION,
                  (stage){.name = "fusion", .against = "the unfused run", .right = "unfused"}));
  step->pair.has_only_outputs = true;
  TRY_EXIT(run_plain(verification, step));
  for (uint32_t i = 0; i < verification->model->method.n_outputs; i++)
    if (step->others[i].data) step->pointers[output_record(verification, i)] = &step->others[i];
  return end_stage(step);
}

/* ---------------------------------------------------------------- pairs by name */

/* Finds result `which` of a node in another run; returns NULL if none exists. */
typedef const clave_tensor *(*find_fn)(void *ctx, const char *name, uint32_t which,
                                       clave_tensor *available);

/* All nodes that a pass or lowering creates from one node have the same name; the last of them
 * computes the result. */
static bool is_last_of_name(const graph *graph, uint32_t node) {
  for (uint32_t i = node + 1; i < graph->n_nodes; i++)
    if (strcmp(graph->nodes[i].name, graph->nodes[node].name) == 0) return false;
  return true;
}

/* Counts the records of each node; the caller frees the counts. A node in a loop has more records
 * than results. */
static uint32_t *count_records(const records *records, uint32_t n_nodes) {
  uint32_t *counts = calloc((size_t)n_nodes + 1, sizeof *counts);
  for (size_t i = 0; counts && i < records->count; i++)
    if (records->items[i].node < n_nodes) counts[records->items[i].node]++;
  return counts;
}

static int pair_by_name(const verification *verification, stage *stage, find_fn find, void *ctx) {
  uint32_t *counts = count_records(&verification->base, verification->graph.n_nodes);
  if (!counts) return fail_memory();
  for (size_t i = 0; i < verification->base.count; i++) {
    const record *record = &verification->base.items[i];
    if (record->node >= verification->graph.n_nodes) continue;
    const graph_node *node = &verification->graph.nodes[record->node];
    if (counts[record->node] > node->n_writes ||
        !is_last_of_name(&verification->graph, record->node))
      continue;
    for (uint32_t k = 0; k < node->n_writes; k++)
      if (node_writes(node)[k] == record->slot)
        stage->pointers[i] = find(ctx, node->name, k, &stage->values[i]);
    if (stage->pointers[i] && !same_shape(stage->pointers[i], &record->value))
      stage->pointers[i] = NULL;
  }
  free(counts);
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- the passes */

typedef struct rewritten {
  graph graph;
  records run;
  uint32_t *counts; /* owned */
} rewritten;

static const clave_tensor *find_rewritten(void *ctx, const char *name, uint32_t which,
                                          clave_tensor *available) {
  const rewritten *rewritten = ctx;
  (void)available;
  for (uint32_t i = rewritten->graph.n_nodes; i-- > 0;) {
    const graph_node *node = &rewritten->graph.nodes[i];
    if (strcmp(node->name, name) != 0) continue;
    if (which >= node->n_writes || rewritten->counts[i] > node->n_writes) return NULL;
    for (size_t k = 0; k < rewritten->run.count; k++)
      if (rewritten->run.items[k].node == i &&
          rewritten->run.items[k].slot == node_writes(node)[which])
        return &rewritten->run.items[k].value;
    return NULL;
  }
  return NULL;
}

static int run_rewritten(const verification *verification, clave_program *program,
                         rewritten *rewritten) {
  model cpu = {0}, like = {.program = program};
  size_t diverged_at;
  TRY_EXIT(choose_method(&like, verification->model->method.name));
  int result = open_cpu(program, &like, &cpu);
  if (!result) result = read_graph(&cpu, &rewritten->graph);
  if (!result) result = run_nodes(&cpu, &verification->inputs, NULL, &rewritten->run, &diverged_at);
  close_cpu(&cpu);
  if (!result && !(rewritten->counts = count_records(&rewritten->run, rewritten->graph.n_nodes)))
    result = fail_memory();
  return result;
}

static int pair_rewritten(verification *verification, stage *stage, rewritten *rewritten) {
  const uint32_t n = verification->model->method.n_outputs;
  TRY_EXIT(pair_by_name(verification, stage, find_rewritten, rewritten));
  for (uint32_t i = 0; i < n; i++)
    stage->pointers[output_record(verification, i)] =
        &rewritten->run.items[rewritten->run.count - n + i].value;
  return end_stage(stage);
}

static void count_applied(void *ctx, const clave_pass_info *info) {
  *(uint32_t *)ctx += info->applied;
}

int compare_passes(verification *verification) {
  stage *step = &verification->stages[STAGE_PASSES];
  const stage words = {
      .name = "passes", .against = "the program before graph passes", .right = "without"};
  rewritten rewritten = {0};
  clave_program *made = NULL;
  TRY_EXIT(begin_stage(verification, STAGE_PASSES, words));
  const clave_optimize_options options = {
      .size = sizeof options, .report = count_applied, .report_ctx = &step->n_applied};
  show_progress("rewriting");
  TRY_STATUS(clave_program_optimize(verification->model->program, &options, &made));
  int result = step->n_applied ? run_rewritten(verification, made, &rewritten) : EXIT_GOOD;
  clear_progress();
  if (!result && step->n_applied) result = pair_rewritten(verification, step, &rewritten);
  step->subject = rewritten.run;
  free_graph(&rewritten.graph);
  free(rewritten.counts);
  clave_program_destroy(made);
  return result;
}

/* ---------------------------------------------------------------- a file */

/* Finds "node.relu" in the file; further results of a node are "node.topk.1". */
static const clave_tensor *stages_find_in_file(void *ctx, const char *name, uint32_t which,
                                               clave_tensor *available) {
  page key = {0};
  text_printf(&key, "node.%s", name);
  if (which) text_printf(&key, ".%" PRIu32, which);
  const bool found = !key.failed && clave_tensors_find(ctx, key.data, available);
  text_free(&key);
  return found ? available : NULL;
}

int compare_reference(verification *verification) {
  stage *step = &verification->stages[STAGE_REFERENCE];
  const stage words = {.name = "reference", .against = "the reference", .right = "expected"};
  uint32_t n_outputs = 0;
  TRY_EXIT(begin_stage(verification, STAGE_REFERENCE, words));
  TRY_EXIT(pair_by_name(verification, step, stages_find_in_file, verification->inputs.file));
  for (uint32_t i = 0; i < verification->model->method.n_outputs; i++) {
    char key[24];
    const size_t at = output_record(verification, i);
    (void)snprintf(key, sizeof key, "output_%" PRIu32, i);
    if (!clave_tensors_find(verification->inputs.file, key, &step->values[at])) continue;
    step->pointers[at] = &step->values[at];
    n_outputs++;
  }
  if (!n_outputs)
    return fail(
        "the reference file has no outputs: expected tensors named output_0, output_1, ...");
  TRY_EXIT(run_plain(verification, step));
  TRY_EXIT(end_stage(step));
  TRY_STATUS(clave_tensors_check(verification->inputs.file));
  return EXIT_GOOD;
}

/* ---------------------------------------------------------------- cleanup */

void free_verification(verification *verification) {
  for (int i = 0; i < N_STAGES; i++) {
    stage *stage = &verification->stages[i];
    free_errors(&stage->pair);
    free_records(&stage->subject);
    free(stage->pointers);
    free(stage->others);
    free(stage->values);
  }
  free_records(&verification->base);
  free_graph(&verification->graph);
  close_cpu(&verification->cpu);
  free_inputs(&verification->inputs);
}
