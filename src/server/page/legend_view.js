// How each token came: the legend of the colours, with how many there are of each.

import { byId } from "./elements.js";

export const kDeepest = 5; // depths from here on share a colour

export class LegendView {
  #kept = byId("legend-depths");
  #sources = byId("legend-sources");

  show(answer) {
    const counts = answer?.counts() ?? { plain: 0, bonus: 0, kept: [], sources: {}, guesses: 0 };
    const byDepth = new Array(kDeepest).fill(0);
    counts.kept.forEach((number, depth) => {
      byDepth[Math.min(depth, kDeepest) - 1] += number;
    });
    const kept = byDepth.reduce((sum, number) => sum + number, 0);
    [...this.#kept.querySelectorAll(".number")].forEach((node, idx) => {
      node.textContent = byDepth[idx];
    });
    for (const node of this.#sources.querySelectorAll(".number")) {
      node.textContent = counts.sources[node.dataset.source] ?? 0;
    }
    byId("count-kept").textContent = kept;
    byId("count-bonus").textContent = counts.bonus;
    byId("count-plain").textContent = counts.plain;
    const stats = answer?.usage?.speculation;
    const steps = stats?.target_steps ?? answer?.rounds.length ?? 0;
    const tokens = answer?.tokens.length ?? 0;
    byId("stat-guesses").textContent = counts.guesses;
    byId("stat-kept").textContent =
      counts.guesses > 0 ? `${Math.round((100 * kept) / counts.guesses)}%` : "–";
    // The first token comes from reading the prompt.
    byId("stat-per-step").textContent = steps > 0 ? ((tokens - 1) / steps).toFixed(2) : "–";
  }
}
