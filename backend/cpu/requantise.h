#ifndef BACKEND_CPU_REQUANTISE_H
#define BACKEND_CPU_REQUANTISE_H
/* Recognises elementwise nodes that kernels/elementwise/requantise.c can compute. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/elementwise/requantise.h"
#include "ops/elementwise.h"

/* Records the node and sets *done if it matches. */
clave_status record_requantise(cpu_recorder *recorder, const elementwise_desc *desc,
                               bool *done) STATUS_CHECK;
/* Returns true if the epilogue of a convolution over (images, channels, ...) matches, and sets
 * *out. terms[0] represents the op's result; its x and out->out are NULL. */
bool match_requantise(cpu_recorder *recorder, const elementwise_desc *desc, requantise_args *out);
/* Like match_requantise, for an epilogue that also decodes the codes: out = *scale * (code -
 * *zero). */
bool match_decoded(cpu_recorder *recorder, const elementwise_desc *desc, requantise_args *out,
                   float *zero, float *scale);
/* Returns true if the epilogue of a product over (..., columns) scales its result per column and
 * makes floats or codes. It may also add a tensor of the result's shape, and apply one other step
 * of one operand to the sum. *step is that step, whose operand the caller replaces, or NULL. */
bool match_rows(cpu_recorder *recorder, const elementwise_desc *desc, requantise_args *out,
                const elementwise_step **step);

#endif
