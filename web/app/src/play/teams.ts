/** Teams have names, so that colour is never all there is. */

export const TEAMS = ["nobody", "Blue", "Orange"] as const;
