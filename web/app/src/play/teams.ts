/** Names of teams, so that colour is never the only distinction. */

export const TEAMS = ["nobody", "Blue", "Orange"] as const;
