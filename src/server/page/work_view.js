// How long draft and target were at work for an answer, as the server measured it.

import { byId, count } from "./elements.js";

export function duration(seconds) {
  const ms = seconds * 1000;
  const digits = ms < 1 ? 2 : ms < 10 ? 1 : 0;
  return `${ms.toLocaleString("en", { maximumFractionDigits: digits })} ms`;
}

export class WorkView {
  #words = byId("work-words");

  show(answer) {
    const stats = answer?.usage?.speculation;
    const whole = stats?.decode_s ?? 0;
    const lanes = ["draft", "target"].map((name) => {
      const steps = stats?.[`${name}_steps`] ?? 0;
      const each = stats?.[`${name}_step_s`] ?? 0;
      return { name, steps, each, busy: steps * each };
    });
    const scale = Math.max(whole, ...lanes.map(({ busy }) => busy)) || 1;
    for (const { name, steps, each, busy } of lanes) {
      const row = byId(`work-${name}`);
      row.querySelector(".bar-fill").style.width = `${(100 * busy) / scale}%`;
      row.querySelector(".value").textContent =
        busy > 0 ? `${count(steps, "step")} × ${duration(each)}` : stats ? "not at work" : "–";
    }
    this.#words.textContent =
      whole > 0
        ? `Of ${duration(whole)} from the first token to the last. A step may be shared with other requests; both may be at work at once.`
        : "How long each was at work shows at an answer's end.";
  }
}
