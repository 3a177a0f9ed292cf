/** The first screen: a name and a button. */

import { h, setShown, setText } from "../ui/dom.js";
import { keyList } from "./hud/overlay.js";

const NAME = "foveate.name";
/** The server's limit on names, in bytes. */
const MAX_NAME = 32;

export class JoinScreen {
  readonly element: HTMLElement;
  private readonly name = h("input", {
    id: "name",
    "data-testid": "name",
    autocomplete: "nickname",
    spellcheck: "false",
    required: true,
  });
  private readonly invitation = h("input", { id: "invitation", "data-testid": "invitation", spellcheck: "false" });
  private readonly invited = h("div", { class: "invited", hidden: true }, h("label", { for: "invitation" }, "Your invitation"), this.invitation);
  private readonly play = h("button", { class: "primary", "data-testid": "join" }, "Play");
  private readonly problem = h("p", { class: "bad", role: "alert", hidden: true, "data-testid": "problem" });

  constructor(private readonly join: (name: string, invitation: string) => void) {
    // After the #, so that it is in no server's log.
    const given = new URLSearchParams(location.hash.slice(1));
    const usual = localStorage.getItem(NAME) ?? `guest-${Math.floor(Math.random() * 900 + 100)}`;
    this.name.value = given.get("name") ?? usual;
    this.invitation.value = given.get("invitation") ?? "";
    setShown(this.invited, this.invitation.value !== "");
    const form = h(
      "form",
      { class: "join panel", onsubmit: (event: Event) => this.submit(event) },
      h("h1", {}, "The arena"),
      h("p", { class: "soft" }, "Two teams, wandering bases. Hold more of them than the others."),
      h("label", { for: "name" }, "Your name"),
      h("div", { class: "actions" }, this.name, this.play),
      this.invited,
      this.problem,
      h("details", { open: matchMedia("(pointer: fine)").matches }, h("summary", {}, "Keys"), keyList()),
    );
    this.element = h("div", { class: "join-screen", "data-testid": "join-screen" }, form);
  }

  show(problem: string): void {
    setShown(this.element, true);
    setText(this.problem, problem);
    setShown(this.problem, problem !== "");
    this.busy(false);
    // The arena takes a while to load: a user who has moved the focus to the bar meanwhile keeps it there.
    if (document.activeElement?.closest("#bar")) return;
    this.name.focus();
    this.name.select();
  }

  /** Asks for the invitation that the server requires. */
  askInvitation(): void {
    setShown(this.invited, true);
  }

  busy(isBusy: boolean): void {
    this.play.disabled = isBusy;
    setText(this.play, isBusy ? "Joining …" : "Play");
  }

  private submit(event: Event): void {
    event.preventDefault();
    const name = this.name.value.trim();
    if (new TextEncoder().encode(name).length > MAX_NAME) {
      this.show(`A name has at most ${MAX_NAME} bytes.`);
      return;
    }
    localStorage.setItem(NAME, name);
    setShown(this.problem, false);
    this.busy(true);
    this.join(name, this.invitation.value.trim());
  }
}
