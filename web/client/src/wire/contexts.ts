/** The start of each family of contexts: the table in section 4 of `docs/WIRE.md`. A test compares both. */
export const JUMP = 0;
export const J_LEN = 6;
export const J_SIGN = 56;
export const J_TREE = 76;
export const WIDE = 129;
export const Z_SAME = 130;
export const Z_STAY = 178;
export const Z_FALL = 226;
export const Z_LEN = 274;
export const Z_SIGN = 474;
export const Z_TREE = 554;
export const H_SAME = 713;
export const H_STOP = 783;
export const A_LEN = 853;
export const A_SIGN = 1978;
export const A_TREE = 2128;
export const B_LEN = 2234;
export const B_SIGN = 2834;
export const B_TREE = 2864;
export const FACING = 2970;
export const YAW_LEN = 2988;
export const YAW_SIGN = 3063;
export const YAW_TREE = 3073;
export const PITCH_LEN = 3126;
export const PITCH_SIGN = 3226;
export const PITCH_TREE = 3236;
export const MORE = 3289;
export const GAP = 3292;
export const AGE = 3380;
export const OPERATION = 3468;
export const OTHERS = 3471;
export const FIELD = 3473;
export const STEP = 3505;
export const WORD = 3681;
export const NAME = 3682;
export const CONTEXTS = 3858;

/** Contexts of one set of lengths, of signs, and of leading bits. */
export const STEPS = 25;
export const SIGNS = 10;
export const TREES = 53;
/** Contexts of one plain number. */
export const PLAIN = STEPS + SIGNS + TREES;
