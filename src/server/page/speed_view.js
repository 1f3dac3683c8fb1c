// The gauge: tokens a second of an answer beside the same request decoded plainly.

import { byId, speed, visible } from "./elements.js";
import { firstDifference } from "./answer.js";

// Both by the server's clock, or both by this browser's.
function gain(answer, plain) {
  const byServer = answer.tokensPerSecond > 0 && plain.tokensPerSecond > 0;
  const [own, other] = [answer, plain].map((each) =>
    byServer ? each.tokensPerSecond : each.tokensPerSecondSoFar(),
  );
  if (own === 0 || other === 0) return "Too short to compare the speed.";
  const ratio = own / other;
  if (Math.abs(ratio - 1) < 0.05) return "As fast as plain decoding.";
  if (ratio > 1) return `${ratio.toFixed(ratio < 2 ? 2 : 1)} times as fast as plain decoding.`;
  return `Slower here: ${Math.round(100 * ratio)}% of plain decoding's speed.`;
}

function comparison(answer) {
  const { plain } = answer;
  const at = firstDifference(answer, plain);
  const total = plain.tokens.length;
  if (at >= 0) {
    const found = [answer, plain].map((each) => `“${visible(each.tokens[at]?.text ?? "")}”`);
    return { same: false, text: `The texts part at token ${at + 1}: ${found.join(" and ")}.` };
  }
  return { same: true, text: `Identical: ${total} of ${total} tokens. ${gain(answer, plain)}` };
}

export class SpeedView {
  #rows = { answer: byId("speed-answer"), plain: byId("speed-plain") };
  #result = byId("compare-result");

  // `comparing`: the plain answer that is on its way, or null.
  show(answer, comparing) {
    const own = this.#speedOf(answer);
    const plain = this.#speedOf(comparing ?? answer?.plain);
    const scale = Math.max(own, plain) * 1.04 || 1;
    this.#row(this.#rows.answer, answer, scale, "no answer yet");
    this.#row(this.#rows.plain, comparing ?? answer?.plain, scale, "not measured yet");
    const { same, text } = answer?.plain ? comparison(answer) : { same: null, text: "" };
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
