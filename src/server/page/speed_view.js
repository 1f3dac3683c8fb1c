// The gauge: tokens per second of an answer beside the same request decoded plainly.

import { byId, speed, visible } from "./elements.js";
import { firstDifference } from "./answer.js";

function gain({ again, plain }) {
  const ratio = again.tokensPerSecond / plain.tokensPerSecond;
  if (!(ratio > 0 && ratio < Infinity)) return "Too short to compare the speed.";
  if (Math.abs(ratio - 1) < 0.05) return "As fast as plain decoding.";
  if (ratio > 1) return `${ratio.toFixed(ratio < 2 ? 2 : 1)} times as fast as plain decoding.`;
  return `Slower here: ${Math.round(100 * ratio)}% of plain decoding's speed.`;
}

// What a comparison came to: {same, text}.
function resultOf(answer) {
  for (const other of [answer.again, answer.plain]) {
    const at = firstDifference(answer, other);
    if (at < 0) continue;
    const found = [answer, other].map((each) => `“${visible(each.tokens[at]?.text ?? "")}”`);
    return { same: false, text: `The texts part at token ${at + 1}: ${found.join(" and ")}.` };
  }
  const total = answer.plain.tokens.length;
  return { same: true, text: `Identical: ${total} of ${total} tokens. ${gain(answer)}` };
}

export class SpeedView {
  #rows = { answer: byId("speed-answer"), plain: byId("speed-plain") };
  #result = byId("compare-result");

  show(answer) {
    const own = answer?.again ?? answer;
    const plain = answer?.plain;
    const scale = Math.max(this.#speedOf(own), this.#speedOf(plain)) * 1.04 || 1;
    this.#row(this.#rows.answer, own, scale, "no answer yet");
    this.#row(this.#rows.plain, plain, scale, "not measured yet");
    const { same, text } = plain?.done ? resultOf(answer) : { same: null, text: "" };
    this.#result.className = same === null ? "" : same ? "same" : "differs";
    if (this.#result.textContent !== text) this.#result.textContent = text;
    return text;
  }

  #speedOf(answer) {
    return answer ? answer.tokensPerSecond || answer.tokensPerSecondSoFar() : 0;
  }

  // "≈": by this browser's clock, since the server has not told its own.
  #row(row, answer, scale, missing) {
    const value = this.#speedOf(answer);
    const about = answer && answer.tokensPerSecond === 0 ? "≈ " : "";
    row.querySelector(".bar-fill").style.width = `${(100 * value) / scale}%`;
    row.querySelector(".value").textContent =
      value > 0 ? about + speed(value) : answer ? "…" : missing;
  }
}
