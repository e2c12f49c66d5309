/* Records Reduce and ArgReduce. */
#include "ops/reduce.h"

#include "backend/cpu/kernels/reduce.h"
#include "cpu_ops.h"

static const kreduce_kind kinds[IR_REDUCE_KIND_COUNT] = {
    [IR_REDUCE_KIND_SUM] = KREDUCE_SUM,     [IR_REDUCE_KIND_MEAN] = KREDUCE_MEAN,
    [IR_REDUCE_KIND_PROD] = KREDUCE_PROD,   [IR_REDUCE_KIND_MAX] = KREDUCE_MAX,
    [IR_REDUCE_KIND_MIN] = KREDUCE_MIN,     [IR_REDUCE_KIND_ANY] = KREDUCE_ANY,
    [IR_REDUCE_KIND_ALL] = KREDUCE_ALL,     [IR_REDUCE_KIND_VAR] = KREDUCE_VAR,
    [IR_REDUCE_KIND_STD] = KREDUCE_STD,     [IR_REDUCE_KIND_NORM1] = KREDUCE_NORM1,
    [IR_REDUCE_KIND_NORM2] = KREDUCE_NORM2,
};

clave_status cpu_reduce(cpu_recorder *recorder, const node *node) {
  const ir_reduce *op = node->instruction->op;
  reduce_desc desc;
  describe_reduce(node, &desc);
  return cpu_launch(recorder, reduce,
                    &(reduce_args){.kind = kinds[op->kind],
                                   .x = cpu_operand(recorder, desc.x),
                                   .out = cpu_operand(recorder, desc.out),
                                   .kept = cpu_layout(&desc.kept),
                                   .over = cpu_layout(&desc.over),
                                   .divisor = desc.divisor});
}

clave_status cpu_arg_reduce(cpu_recorder *recorder, const node *node) {
  const ir_arg_reduce *op = node->instruction->op;
  reduce_desc desc;
  describe_arg_reduce(node, &desc);
  return cpu_launch(recorder, arg_reduce,
                    &(arg_reduce_args){.minimum = op->kind == IR_ARG_REDUCE_KIND_ARGMIN,
                                       .x = cpu_operand(recorder, desc.x),
                                       .out = cpu_operand(recorder, desc.out),
                                       .kept = cpu_layout(&desc.kept),
                                       .over = cpu_layout(&desc.over)});
}
