// Which round is looked at: the newest while an answer comes, any of them by slider and buttons, or
// all in turn at a pace that eyes can follow.

import { byId } from "./elements.js";
import { LanesView } from "./lanes_view.js";
import { TreeView } from "./tree_view.js";

const kReplayMs = 420;
const kFollowMs = 120; // at most that often a new tree is drawn
const kCalmFollowMs = 2000;
const kNotYet = "Trees of guesses show here while an answer comes.";
const kNoRounds = "This answer was decoded plainly: a token a step, nothing guessed.";

export class RoundsView {
  #slider = byId("round");
  #replayButton = byId("replay");
  #tree = new TreeView();
  #lanes = new LanesView((roundIdx) => this.pick(roundIdx));
  #answer = null;
  #selected = -1;
  #follows = true;
  #replay = 0;
  #drawnAt = 0;
  #calm = matchMedia("(prefers-reduced-motion: reduce)");
  #onSelect;

  // `onSelect(roundIdx)`: another round is shown.
  constructor(onSelect) {
    this.#onSelect = onSelect;
    this.#slider.addEventListener("input", () => this.pick(this.#slider.valueAsNumber - 1));
    byId("round-before").addEventListener("click", () => this.pick(this.#selected - 1));
    byId("round-after").addEventListener("click", () => this.pick(this.#selected + 1));
    this.#replayButton.addEventListener("click", () => this.#toggleReplay());
    new ResizeObserver(() => {
      this.#drawLanes();
      this.#tree.fit();
    }).observe(byId("lanes"));
    this.show(null);
  }

  // Another answer, from its newest round on.
  show(answer) {
    this.#stopReplay();
    this.#answer = answer;
    this.#follows = true;
    this.#drawnAt = 0;
    this.update();
  }

  // `roundIdx` of the answer that is shown; it stays there.
  pick(roundIdx) {
    this.#stopReplay();
    this.#follows = false;
    this.#select(roundIdx);
  }

  // More of the answer has come.
  update() {
    const pause = this.#calm.matches ? kCalmFollowMs : kFollowMs;
    const now = performance.now();
    if (this.#answer && !this.#answer.done && now - this.#drawnAt < pause) return;
    this.#drawnAt = now;
    const total = this.#answer?.rounds.length ?? 0;
    this.#select(this.#follows ? total - 1 : this.#selected);
  }

  #select(wanted) {
    const rounds = this.#answer?.rounds ?? [];
    this.#selected = Math.max(rounds.length > 0 ? 0 : -1, Math.min(wanted, rounds.length - 1));
    this.#slider.max = Math.max(1, rounds.length);
    this.#slider.value = this.#selected + 1;
    const words = rounds.length > 0 ? `Round ${this.#selected + 1} of ${rounds.length}` : "No rounds";
    byId("round-words").textContent = words;
    this.#slider.setAttribute("aria-valuetext", words);
    for (const id of ["round", "replay"]) byId(id).disabled = rounds.length === 0;
    this.#able("round-before", this.#selected > 0);
    this.#able("round-after", this.#selected >= 0 && this.#selected < rounds.length - 1);
    if (rounds.length > 0) this.#tree.show(rounds[this.#selected]);
    else this.#tree.clear(this.#answer?.done ? kNoRounds : kNotYet);
    this.#drawLanes();
    this.#onSelect(this.#selected);
  }

  // A button that can be focused keeps the focus at the last round too.
  #able(id, able) {
    byId(id).setAttribute("aria-disabled", !able);
  }

  #drawLanes() {
    this.#lanes.show(this.#answer?.rounds ?? [], this.#selected);
  }

  #toggleReplay() {
    if (this.#replay) return this.#stopReplay();
    this.#follows = false;
    const last = () => this.#answer.rounds.length - 1;
    if (this.#selected >= last()) this.#select(0);
    this.#replayButton.textContent = "Pause";
    this.#replay = setInterval(() => {
      if (this.#selected >= last()) this.#stopReplay();
      else this.#select(this.#selected + 1);
    }, kReplayMs);
  }

  #stopReplay() {
    clearInterval(this.#replay);
    this.#replay = 0;
    this.#replayButton.textContent = "Replay";
  }
}
