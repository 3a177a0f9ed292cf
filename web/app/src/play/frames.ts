/** Durations of frames: the interval between them, and our own work in each. */

const KEPT = 600;

export interface FrameFacts {
  count: number;
  intervalP50: number;
  intervalP95: number;
  workP50: number;
  workP95: number;
}

export class Frames {
  private readonly intervals = new Float32Array(KEPT);
  private readonly works = new Float32Array(KEPT);
  private count = 0;
  private last = 0;

  add(start: number, end: number): void {
    if (this.last > 0) {
      this.intervals[this.count % KEPT] = start - this.last;
      this.works[this.count % KEPT] = end - start;
      this.count += 1;
    }
    this.last = start;
  }

  facts(): FrameFacts {
    const kept = Math.min(this.count, KEPT);
    const share = (values: Float32Array, part: number): number =>
      [...values.subarray(0, kept)].sort((a, b) => a - b)[Math.floor((kept - 1) * part)] ?? Number.NaN;
    return {
      count: this.count,
      intervalP50: share(this.intervals, 0.5),
      intervalP95: share(this.intervals, 0.95),
      workP50: share(this.works, 0.5),
      workP95: share(this.works, 0.95),
    };
  }
}
