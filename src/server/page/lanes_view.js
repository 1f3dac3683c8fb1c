// Work of draft and target by round: above, what the draft guessed; below, what came out of the
// target's step. Columns are rounds, not time: the server tells what happened, not how long it took.

import { byId, svg } from "./elements.js";
import { Origin, outputOf } from "./answer.js";

const kColumn = 12;
const kBar = 8;
const kLane = 52;
const kAxis = 20; // between the lanes
const kHeight = 2 * kLane + kAxis + 2;

function bar(x, y, height, kind) {
  return svg("rect", { x, y, width: kBar, height: Math.max(1.5, height), class: kind });
}

export class LanesView {
  #box = byId("lanes");
  #onPick;

  constructor(onPick) {
    this.#onPick = onPick;
    this.#box.addEventListener("click", (event) => {
      const column = event.target.closest("[data-round]");
      if (column) this.#onPick(Number(column.dataset.round));
    });
  }

  // The rounds around `selected`, as many as there is room for.
  show(rounds, selected) {
    if (rounds.length === 0) {
      byId("lanes-range").textContent = "";
      return this.#box.replaceChildren();
    }
    const room = Math.max(8, Math.floor(this.#box.clientWidth / kColumn));
    const first = Math.max(0, Math.min(rounds.length - room, selected - Math.floor(room * 0.7)));
    const shown = rounds.slice(first, first + room);
    const mostOf = (counts) => Math.max(4, ...counts);
    const units = {
      draft: kLane / mostOf(rounds.map(({ nodes }) => nodes.length - 1)),
      target: kLane / mostOf(rounds.map((round) => outputOf(round, 0).length)),
    };
    const picture = svg("svg", {
      width: room * kColumn,
      height: kHeight,
      role: "img",
      "aria-label": `Rounds ${first + 1} to ${first + shown.length} of ${rounds.length}: guesses of the draft above, tokens of the target below`,
    });
    shown.forEach((round, idx) => {
      picture.append(this.#column(round, idx * kColumn, first + idx, selected, units));
    });
    this.#box.replaceChildren(picture);
    byId("lanes-range").textContent =
      `Rounds ${first + 1}–${first + shown.length} of ${rounds.length}, left to right.`;
  }

  #column(round, left, roundIdx, selected, units) {
    const x = left + (kColumn - kBar) / 2;
    const output = outputOf(round, roundIdx);
    const guesses = Math.max(0, round.nodes.length - 1);
    const kept = output.filter(({ origin }) => origin === Origin.kept).length;
    const column = svg("g", { "data-round": roundIdx });
    column.append(
      svg("rect", {
        x: left,
        y: 0,
        width: kColumn,
        height: kHeight,
        class: roundIdx === selected ? "column selected" : "column",
      }),
    );
    const above = units.draft;
    if (guesses > kept) {
      column.append(bar(x, kLane - guesses * above, (guesses - kept) * above - 1, "dropped"));
    }
    if (kept > 0) column.append(bar(x, kLane - kept * above, kept * above, "kept"));
    const space = units.target > 5 ? 1.5 : 0.5; // between tokens
    output.forEach(({ origin }, idx) => {
      const y = kLane + kAxis + idx * units.target;
      column.append(bar(x, y, units.target - space, origin));
    });
    return column;
  }
}
