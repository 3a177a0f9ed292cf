/** Where each family of contexts begins: the table of `docs/WIRE.md`, section 4. A test holds them to the document. */
export const JUMP = 0;
export const WIDE = 6;
export const Z_SAME = 7;
export const Z_STAY = 55;
export const Z_FALL = 103;
export const Z_LEN = 151;
export const Z_SIGN = 391;
export const Z_TREE = 471;
export const H_SAME = 702;
export const H_STOP = 772;
export const A_LEN = 842;
export const A_SIGN = 1202;
export const A_TREE = 1352;
export const B_LEN = 1506;
export const B_SIGN = 2226;
export const B_TREE = 2256;
export const FACING = 2410;
export const YAW_LEN = 2428;
export const YAW_SIGN = 2518;
export const YAW_TREE = 2528;
export const PITCH_LEN = 2605;
export const PITCH_SIGN = 2725;
export const PITCH_TREE = 2735;
export const MORE = 2812;
export const GAP = 2815;
export const AGE = 2932;
export const OPERATION = 3049;
export const OTHERS = 3052;
export const FIELD = 3054;
export const STEP = 3086;
export const WORD = 3320;
export const NAME = 3321;
export const CONTEXTS = 3555;

/** Contexts of one plain number: 30 of lengths, 10 of signs, 77 of leading bits. */
export const PLAIN = 117;
