/** Which packets arrived: the newest, and which of the 32 before it. */
export class Arrivals {
  private newest = -1;
  private before = 0;

  /** Whether anything has arrived. */
  get any(): boolean {
    return this.newest >= 0;
  }

  /** The newest packet's number, and bit n for packet newest − 1 − n. */
  get ack(): readonly [newest: number, before: number] {
    return [this.newest, this.before];
  }

  /** Whether a packet may be applied. */
  check(seq: number): "ok" | "duplicate" | "too-old" {
    if (this.newest < 0) return "ok";
    const behind = (this.newest - seq) & 0xffff;
    if (behind >= 0x8000) return "ok";
    if (behind > 32) return "too-old";
    return behind === 0 || ((this.before >>> (behind - 1)) & 1) === 1 ? "duplicate" : "ok";
  }

  /** Records an applied packet. Returns how far it is ahead of the newest one before; 0 or less if it was late. */
  note(seq: number): number {
    if (this.newest < 0) {
      this.newest = seq;
      return 1;
    }
    const ahead = ((seq - this.newest) << 16) >> 16;
    if (ahead > 0) {
      // The previous newest packet becomes one of those before.
      const shifted = ahead < 32 ? this.before << ahead : 0;
      this.before = (shifted | (ahead <= 32 ? 1 << (ahead - 1) : 0)) >>> 0;
      this.newest = seq;
    } else if (ahead < 0 && ahead >= -32) {
      this.before = (this.before | (1 << (-ahead - 1))) >>> 0;
    }
    return ahead;
  }
}
