/** Names of teams, so that colour is never the only distinction. */

export const TEAMS = ["no team", "Blue", "Orange"] as const;
