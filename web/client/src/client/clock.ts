/** The server's clock, as its quickest frames tell it; and the round trip, by its echoes. Times in microseconds. */

/** What a lead fades by with each packet, for clocks drift. */
const FADE = 20;
/**
 * Packets after which the quickest of them counts, if it is a round or more behind what was known: the server stood
 * still, or cannot keep up.
 */
const RECENT = 40;

export class Clock {
  /** By how much the server's time is ahead of ours; null before the first packet. */
  private lead: number | null = null;
  /** The same of the newest packets alone, and how many they are. */
  private recent = -Infinity;
  private packets = 0;
  private transit: number | null = null;
  /** Round trip in milliseconds; NaN before the first echo. */
  rtt = NaN;
  /** How irregularly packets arrive, in milliseconds, after RFC 3550. */
  jitter = 0;

  /** A new link: what was known of the way is void. */
  restart(): void {
    this.lead = null;
    this.transit = null;
    this.forgetRecent();
  }

  private forgetRecent(): void {
    this.recent = -Infinity;
    this.packets = 0;
  }

  /** A packet of this time on the server's clock has come. */
  learn(time: number, now: number, round: number): void {
    const lead = time - now;
    // The largest is that of the packet which was under way for the shortest time.
    this.lead = this.lead === null ? lead : Math.max(lead, this.lead - FADE);
    this.recent = Math.max(this.recent, lead);
    if (++this.packets >= RECENT) {
      if (this.lead - this.recent >= round) this.lead = this.recent;
      this.forgetRecent();
    }
    if (this.transit !== null) this.jitter += (Math.abs(lead - this.transit) / 1000 - this.jitter) / 16;
    this.transit = lead;
  }

  /** An echo of our clock (16 bits of milliseconds) has come, which was held for so many of them. */
  echo(clock: number, held: number, now: number): void {
    const passed = (Math.floor(now / 1000) - clock) & 0xffff;
    const sample = Math.max(passed - held, 0);
    this.rtt = Number.isNaN(this.rtt) ? sample : (7 * this.rtt + sample) / 8;
  }

  /** The time at the server that its newest packets tell of; `newest` before the first. */
  time(now: number, newest: number): number {
    return this.lead === null ? newest : Math.max(now + this.lead, 0);
  }
}
