/* The formula of requantise_args for one kind of numbers: each operation in F32, in that order.
 * Included once for each kind, after definitions of
 *   FORMULA(name)         names of the functions and types
 *   FORMULA_TARGET        instruction set of the functions
 *   FORMULA_NUMBER        a float, or a vector of them
 *   FORMULA_FILL(x), FORMULA_NEAREST(x)   converts a float; rounds to the nearest integer
 *   FORMULA_MAX(a, b), FORMULA_MIN(a, b)   return b if not comparable: NaN passes
 *   FORMULA_HAS(changes)  true if an operation with this condition is executed */

typedef struct FORMULA(affine) {
  bool has_zero, has_bias;
  FORMULA_NUMBER zero, scale, bias;
} FORMULA(affine);

/* The numbers of one channel, and flags of the operations that change anything. */
typedef struct FORMULA(numbers) {
  FORMULA(affine) terms[2];
  bool has_other; /* terms[1] is present */
  bool has_low, has_high, has_zero;
  FORMULA_NUMBER low, high, inverse, zero, least, greatest;
} FORMULA(numbers);

KERNEL_INLINE FORMULA_TARGET FORMULA(affine)
    FORMULA(affine_of)(const requantise_term *t, int64_t channel) {
  return (FORMULA(affine)){t->zero != 0, t->bias.of_channel || t->bias.number != 0,
                           FORMULA_FILL(t->zero),
                           FORMULA_FILL(requantise_number(&t->scale, channel)),
                           FORMULA_FILL(requantise_number(&t->bias, channel))};
}

KERNEL_INLINE FORMULA_TARGET void FORMULA(set_channel)(FORMULA(numbers) * v,
                                                       const requantise_args *p, int64_t channel) {
  v->terms[0] = FORMULA(affine_of)(&p->terms[0], channel);
  if (v->has_other) v->terms[1] = FORMULA(affine_of)(&p->terms[1], channel);
}

KERNEL_INLINE FORMULA_TARGET FORMULA(numbers)
    FORMULA(numbers_of)(const requantise_args *p, int64_t channel) {
  FORMULA(numbers)
  v = {.has_other = p->terms[1].x != NULL,
       .has_low = p->low != -INFINITY,
       .has_high = p->high != INFINITY,
       .has_zero = p->zero != 0,
       .low = FORMULA_FILL(p->low),
       .high = FORMULA_FILL(p->high),
       .inverse = FORMULA_FILL(p->inverse),
       .zero = FORMULA_FILL(p->zero),
       .least = FORMULA_FILL(p->least),
       .greatest = FORMULA_FILL(p->greatest)};
  FORMULA(set_channel)(&v, p, channel);
  return v;
}

KERNEL_INLINE FORMULA_TARGET FORMULA_NUMBER FORMULA(affine_value)(const FORMULA(affine) * t,
                                                                  FORMULA_NUMBER x) {
  if (FORMULA_HAS(t->has_zero)) x = x - t->zero;
  x = x * t->scale;
  if (FORMULA_HAS(t->has_bias)) x = x + t->bias;
  return x;
}

/* Returns the sum of an element of each term. An absent term's element is ignored. */
KERNEL_INLINE FORMULA_TARGET FORMULA_NUMBER FORMULA(sum)(const FORMULA(numbers) * v,
                                                         FORMULA_NUMBER first,
                                                         FORMULA_NUMBER other) {
  FORMULA_NUMBER x = FORMULA(affine_value)(&v->terms[0], first);
  if (v->has_other) x = x + FORMULA(affine_value)(&v->terms[1], other);
  return x;
}

KERNEL_INLINE FORMULA_TARGET FORMULA_NUMBER FORMULA(limited)(const FORMULA(numbers) * v,
                                                             FORMULA_NUMBER x) {
  if (FORMULA_HAS(v->has_low)) x = FORMULA_MAX(v->low, x);
  if (FORMULA_HAS(v->has_high)) x = FORMULA_MIN(v->high, x);
  return x;
}

KERNEL_INLINE FORMULA_TARGET FORMULA_NUMBER FORMULA(scaled)(const FORMULA(numbers) * v,
                                                            FORMULA_NUMBER first,
                                                            FORMULA_NUMBER other) {
  return FORMULA(limited)(v, FORMULA(sum)(v, first, other)) * v->inverse;
}

/* Returns the code of a sum, as a whole number in the range of codes. */
KERNEL_INLINE FORMULA_TARGET FORMULA_NUMBER FORMULA(code_of)(const FORMULA(numbers) * v,
                                                             FORMULA_NUMBER sum) {
  FORMULA_NUMBER x = FORMULA_NEAREST(FORMULA(limited)(v, sum) * v->inverse);
  if (FORMULA_HAS(v->has_zero)) x = x + v->zero;
  return FORMULA_MIN(v->greatest, FORMULA_MAX(v->least, x));
}

KERNEL_INLINE FORMULA_TARGET FORMULA_NUMBER FORMULA(code)(const FORMULA(numbers) * v,
                                                          FORMULA_NUMBER first,
                                                          FORMULA_NUMBER other) {
  return FORMULA(code_of)(v, FORMULA(sum)(v, first, other));
}

#undef FORMULA
#undef FORMULA_TARGET
#undef FORMULA_NUMBER
#undef FORMULA_FILL
#undef FORMULA_NEAREST
#undef FORMULA_MAX
#undef FORMULA_MIN
#undef FORMULA_HAS
