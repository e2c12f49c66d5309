/* Calls TILE_CASE(n) with the constant n that equals `rows`, 1 to TILE_ROWS, so that each number of
 * rows gets its own code. Include it in a function after defining both macros. */

if (rows == 1) TILE_CASE(1);
if (rows == 2) TILE_CASE(2);
#if TILE_ROWS > 2
if (rows == 3) TILE_CASE(3);
if (rows == 4) TILE_CASE(4);
#endif
#if TILE_ROWS > 4
if (rows == 5) TILE_CASE(5);
if (rows == 6) TILE_CASE(6);
#endif
#if TILE_ROWS > 6
if (rows == 7) TILE_CASE(7);
if (rows == 8) TILE_CASE(8);
#endif
#if TILE_ROWS > 8
if (rows == 9) TILE_CASE(9);
if (rows == 10) TILE_CASE(10);
if (rows == 11) TILE_CASE(11);
if (rows == 12) TILE_CASE(12);
#endif
#if TILE_ROWS > 12
if (rows == 13) TILE_CASE(13);
if (rows == 14) TILE_CASE(14);
#endif

#undef TILE_CASE
