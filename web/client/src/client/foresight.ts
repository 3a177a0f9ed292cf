/**
 * One's own avatar, predicted: the game's rule runs on our copy, input by input, and what came of each is remembered. A
 * frame tells which input the server's state takes into account. If that is what was foreseen, nothing happens;
 * otherwise the copy is put right and the later inputs run again.
 */

/** Inputs that are remembered until the server has used them: two seconds at 20 Hz. */
export const MAX_FORESEEN = 40;

interface Foreseen<Input> {
  readonly seq: number;
  readonly input: Input;
  readonly bytes: Uint8Array;
  /** What the rule made of the avatar. */
  lanes: Int32Array;
}

/** The game's rule: a copy of the avatar's lanes, after an input. */
export type Rule<Input> = (state: Int32Array, input: Input, tick: number) => Int32Array;

export class Foresight<Input> {
  private inputs: Foreseen<Input>[] = [];
  private nextSeq = 0;
  /** The avatar after the newest input, and before it; null until its first state. */
  lanes: Int32Array | null = null;
  before: Int32Array | null = null;
  /** States that came as foreseen, and those that did not. */
  foreseen = 0;
  corrected = 0;

  constructor(private readonly rule: Rule<Input> | null) {}

  /** A new link: inputs count from 0, and what was under way is lost. */
  restart(): void {
    this.inputs = [];
    this.nextSeq = 0;
    // What was foreseen of inputs that never arrived will not come to pass.
    this.lanes = null;
    this.before = null;
  }

  /** What was foreseen of an input; null if it is not known any more. */
  after(seq: number): Int32Array | null {
    return this.inputs.find((known) => known.seq === seq)?.lanes ?? null;
  }

  /** The number before that of the first input that the server has not used. */
  get beforeAll(): number {
    return ((this.inputs.length > 0 ? this.inputs[0].seq : this.nextSeq) - 1) & 0xffff;
  }

  /** The avatar's first state. */
  begin(lanes: Int32Array): void {
    this.lanes = lanes.slice();
    this.before = this.lanes;
  }

  /** One input more: the avatar moves at once. */
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

  /** The server's state after input `seq` has come. Returns whether that is not what was foreseen. */
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
