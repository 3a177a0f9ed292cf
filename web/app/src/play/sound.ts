/** Short synthesised sounds, so nothing is loaded. A button switches them off, which is remembered. */

const KEPT = "foveate.sound";
/** The overall volume, 0 to 1. */
const VOLUME = 0.14;
/** Sounds farther away than this are not played, in units. */
const EARSHOT = 45;
/** Most sounds at a time. */
const MAX_VOICES = 10;

interface Tone {
  shape: OscillatorType;
  /** Frequency in hertz at the start and at the end. */
  from: number;
  to: number;
  seconds: number;
}

const TONES = {
  blaster: { shape: "square", from: 620, to: 180, seconds: 0.09 },
  scatter: { shape: "sawtooth", from: 220, to: 60, seconds: 0.16 },
  lance: { shape: "sawtooth", from: 1_100, to: 90, seconds: 0.34 },
  dart: { shape: "triangle", from: 900, to: 500, seconds: 0.06 },
  hit: { shape: "sine", from: 1_500, to: 1_250, seconds: 0.07 },
  hurt: { shape: "triangle", from: 150, to: 70, seconds: 0.16 },
  died: { shape: "sine", from: 320, to: 60, seconds: 0.5 },
  good: { shape: "sine", from: 520, to: 780, seconds: 0.25 },
} as const satisfies Record<string, Tone>;

export class Sound {
  private context: AudioContext | null = null;
  private voices = 0;

  get isOn(): boolean {
    return localStorage.getItem(KEPT) !== "off";
  }

  toggle(): void {
    localStorage.setItem(KEPT, this.isOn ? "off" : "on");
  }

  /** Plays a sound, quieter with distance. Browsers allow it only after the user has pressed something. */
  play(name: keyof typeof TONES, distance = 0): void {
    const loud = VOLUME * Math.max(0, 1 - distance / EARSHOT) ** 2;
    if (loud < 0.002 || !this.isOn || this.voices >= MAX_VOICES) return;
    this.context ??= new AudioContext();
    const { context } = this;
    const { shape, from, to, seconds } = TONES[name];
    const voice = new OscillatorNode(context, { type: shape, frequency: from });
    const gain = new GainNode(context, { gain: loud });
    const [now, end] = [context.currentTime, context.currentTime + seconds];
    voice.frequency.exponentialRampToValueAtTime(to, end);
    gain.gain.setValueAtTime(loud, now);
    gain.gain.exponentialRampToValueAtTime(0.0001, end);
    voice.connect(gain).connect(context.destination);
    this.voices += 1;
    voice.onended = () => (this.voices -= 1);
    voice.start(now);
    voice.stop(end);
  }

  close(): void {
    void this.context?.close();
    this.context = null;
  }
}
