/**
 * The server's clock, estimated from its fastest frames, and the round trip, from echoes. Times are in microseconds.
 */

/** The lead decreases by this with each packet, since clocks drift. */
const FADE = 20;
/**
 * Number of recent packets of which the fastest replaces the estimate if it is a round or more behind: the server was
 * paused, or cannot keep up.
 */
const RECENT = 40;

export class Clock {
  /** How far the server's time is ahead of ours; null before the first packet. */
  private lead: number | null = null;
  /** The same for recent packets only, and their number. */
  private recent = -Infinity;
  private packets = 0;
  private transit: number | null = null;
  /** Round trip in milliseconds; NaN before the first echo. */
  rtt = NaN;
  /** Variation of packets' arrival times in milliseconds, as in RFC 3550. */
  jitter = 0;

  /** Forgets all estimates for a new link. */
  restart(): void {
    this.lead = null;
    this.transit = null;
    this.forgetRecent();
  }

  private forgetRecent(): void {
    this.recent = -Infinity;
    this.packets = 0;
  }

  /** Learns from a packet of this time on the server's clock. */
  learn(time: number, now: number, round: number): void {
    const lead = time - now;
    // The largest lead is that of the fastest packet.
    this.lead = this.lead === null ? lead : Math.max(lead, this.lead - FADE);
    this.recent = Math.max(this.recent, lead);
    if (++this.packets >= RECENT) {
      if (this.lead - this.recent >= round) this.lead = this.recent;
      this.forgetRecent();
    }
    if (this.transit !== null) this.jitter += (Math.abs(lead - this.transit) / 1000 - this.jitter) / 16;
    this.transit = lead;
  }

  /** Learns from an echo of our clock (16 bits of milliseconds) that the server held for `held` milliseconds. */
  echo(clock: number, held: number, now: number): void {
    const passed = (Math.floor(now / 1000) - clock) & 0xffff;
    const sample = Math.max(passed - held, 0);
    this.rtt = Number.isNaN(this.rtt) ? sample : (7 * this.rtt + sample) / 8;
  }

  /** The time at the server to which its newest packets refer; `newest` before the first packet. */
  time(now: number, newest: number): number {
    return this.lead === null ? newest : Math.max(now + this.lead, 0);
  }
}
