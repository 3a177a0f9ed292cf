/**
 * Predicts the player's own avatar: the game's rule runs on our copy, input by input, and each result is kept. A frame
 * states which input the server's state includes. If the state equals the prediction, nothing happens; otherwise the
 * copy is corrected and later inputs are applied again.
 */

/** Inputs that are kept until the server has used them: two seconds at 20 Hz. */
export const MAX_FORESEEN = 40;

interface Foreseen<Input> {
  readonly seq: number;
  readonly input: Input;
  readonly bytes: Uint8Array;
  /** The rule's result for the avatar. */
  lanes: Int32Array;
}

/** The game's rule: takes a copy of the avatar's lanes, and returns them after an input. */
export type Rule<Input> = (state: Int32Array, input: Input, tick: number) => Int32Array;

export class Foresight<Input> {
  private inputs: Foreseen<Input>[] = [];
  private nextSeq = 0;
  /** The avatar after the newest input, and before it; null until its first state. */
  lanes: Int32Array | null = null;
  before: Int32Array | null = null;
  /** States that were as predicted, and those that were not. */
  foreseen = 0;
  corrected = 0;

  constructor(private readonly rule: Rule<Input> | null) {}

  /** Restarts for a new link: inputs count from 0, and those in flight are lost. */
  restart(): void {
    this.inputs = [];
    this.nextSeq = 0;
    // Predictions from inputs that never arrived will not come true.
    this.lanes = null;
    this.before = null;
  }

  /** The prediction after an input; null if it is not kept any more. */
  after(seq: number): Int32Array | null {
    return this.inputs.find((known) => known.seq === seq)?.lanes ?? null;
  }

  /** The number before that of the first input that the server has not used. */
  get beforeAll(): number {
    return ((this.inputs.length > 0 ? this.inputs[0].seq : this.nextSeq) - 1) & 0xffff;
  }

  /** Sets the avatar's first state. */
  begin(lanes: Int32Array): void {
    this.lanes = lanes.slice();
    this.before = this.lanes;
  }

  /** Adds an input and moves the avatar at once. */
  foresee(input: Input, bytes: Uint8Array, tick: number): void {
    if (this.lanes === null) return;
    this.before = this.lanes;
    this.lanes = this.run(this.lanes, input, tick);
    this.inputs.push({ seq: this.nextSeq, input, bytes, lanes: this.lanes });
    this.nextSeq = (this.nextSeq + 1) & 0xffff;
    if (this.inputs.length > MAX_FORESEEN) this.inputs.shift();
  }

  private run(lanes: Int32Array, input: Input, tick: number): Int32Array {
    return this.rule === null ? lanes : this.rule(lanes.slice(), input, tick);
  }

  /** Compares the server's state after input `seq` with the prediction. Returns whether they differ. */
  reconcile(seq: number, truth: Int32Array, tick: number): boolean {
    const { inputs } = this;
    while (inputs.length > 0 && ((inputs[0].seq - seq) << 16) >> 16 < 0) inputs.shift();
    if (this.rule === null) {
      this.begin(truth);
      return false;
    }
    const known = inputs.length > 0 && inputs[0].seq === seq ? inputs[0] : null;
    if (known !== null && equal(known.lanes, truth)) {
      this.foreseen++;
      return false;
    }
    if (known !== null) inputs.shift();
    this.begin(truth);
    for (const later of inputs) {
      this.before = this.lanes;
      this.lanes = this.run(this.lanes as Int32Array, later.input, tick);
      later.lanes = this.lanes;
    }
    this.corrected++;
    return true;
  }

  /** The newest inputs, oldest first, and the number of the first. */
  newest(count: number): { first: number; inputs: Uint8Array[] } {
    const newest = this.inputs.slice(-count);
    return { first: newest.length > 0 ? newest[0].seq : 0, inputs: newest.map((known) => known.bytes) };
  }
}

function equal(a: Int32Array, b: Int32Array): boolean {
  return a.length === b.length && a.every((lane, n) => lane === b[n]);
}
