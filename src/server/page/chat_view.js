// The conversation: questions and answers, tokens in the colours of how they came.

import { kSources, Origin } from "./answer.js";
import { byId, count, element, speed } from "./elements.js";
import { kDeepest } from "./legend_view.js";

const kNearEnd = 80; // pixels
const kPauseMs = 50; // between two times that text is set into the document
// Setting it costs more the longer an answer is, and often takes a core from the server: it may take
// one part in so many of the time.
const kShare = 12;

function span({ text, token }) {
  const node = document.createElement("span");
  node.textContent = text;
  if (!token) return node;
  node.className = `token ${token.origin}`;
  if (token.origin === Origin.kept) {
    node.classList.add(`depth-${Math.min(token.depth, kDeepest)}`);
    node.dataset.depth = token.depth;
    if (token.source in kSources) {
      node.classList.add(`from-${token.source}`);
      node.dataset.source = token.source;
    }
  }
  if (token.round >= 0) node.dataset.round = token.round;
  return node;
}

// What the pointer rests on, in words.
function explain(node, { rounds }) {
  if (node.title || !node.matches(".token")) return;
  const { depth, round, source } = node.dataset;
  const whose = source ? `, ${kSources[source]}` : "";
  const words = depth
    ? `a guess${whose}, kept; ${depth} deep in its tree`
    : node.matches(".bonus")
      ? "the target's own, behind the guesses"
      : "the target's own; nothing was guessed";
  node.title = round ? `${words}. Round ${Number(round) + 1} of ${rounds.length}.` : `${words}.`;
}

export class ChatView {
  #box = byId("conversation");
  #welcome = byId("welcome");
  #entries = new Map(); // by answer
  #marked = [];
  #pieces = [];
  #timer = 0;
  #pauseMs = kPauseMs;

  // `onPick(answer, roundIdx or null)`: a token, or "Show its rounds", was chosen.
  constructor(onPick) {
    this.onPick = onPick;
  }

  addQuestion(text) {
    this.#welcome.hidden = true;
    const body = element("p", { class: "text" });
    body.textContent = text;
    this.#box.append(element("article", { class: "question" }, this.#who("You"), body));
    this.#toEnd();
  }

  addAnswer(answer) {
    const text = element("div", { class: "text" });
    const figures = element("p", { class: "figures" });
    const show = element("button", { type: "button", class: "quiet", hidden: "" }, "Show its rounds");
    const footer = element("div", { class: "foot" }, figures, show);
    const article = element("article", { class: "answer" }, this.#who("Model"), text, footer);
    this.#entries.set(answer, { article, text, figures, show, reasoning: null });
    show.addEventListener("click", () => this.onPick(answer, null));
    text.addEventListener("pointerover", (event) => explain(event.target, answer));
    text.addEventListener("click", (event) => {
      const token = event.target.closest("[data-round]");
      if (token) this.onPick(answer, Number(token.dataset.round));
    });
    this.#box.append(article);
    this.#toEnd();
  }

  // Pieces of Answer.add(): set into the document at a bounded pace, however fast they come.
  append(answer, pieces) {
    if (pieces.length === 0 || !this.#entries.has(answer)) return;
    this.#pieces.push(...pieces);
    this.#timer ||= setTimeout(() => this.#flush(answer), this.#pauseMs);
  }

  #flush(answer) {
    clearTimeout(this.#timer);
    this.#timer = 0;
    const begin = performance.now();
    const entry = this.#entries.get(answer);
    if (!entry) return;
    const wasAtEnd = this.#isAtEnd();
    for (const piece of this.#pieces) {
      (piece.reasoning ? this.#reasoningOf(entry) : entry.text).append(span(piece));
    }
    this.#pieces = [];
    if (wasAtEnd) this.#toEnd();
    this.#pauseMs = Math.max(kPauseMs, kShare * (performance.now() - begin));
  }

  #reasoningOf(entry) {
    if (entry.reasoning) return entry.reasoning;
    entry.reasoning = element("div", { class: "text" });
    const summary = element("summary", {}, "Reasoning");
    entry.text.before(element("details", { class: "reasoning", open: "" }, summary, entry.reasoning));
    return entry.reasoning;
  }

  finish(answer) {
    this.#flush(answer);
    if (!this.#entries.has(answer)) return;
    const { article, figures, text } = this.#entries.get(answer);
    const parts = [];
    if (answer.error) {
      const box = element("p", { class: "error", role: "alert" });
      box.textContent = answer.error.message;
      article.querySelector(".foot").before(box);
    }
    if (answer.tokens.length > 0) parts.push(count(answer.tokens.length, "token"));
    if (answer.tokensPerSecond > 0) parts.push(speed(answer.tokensPerSecond));
    if (answer.tokens.length > 0) parts.push(answer.strategy.replaceAll("_", " "));
    if (answer.request.temperature) parts.push(`seed ${answer.request.seed}`);
    if (answer.stopped) parts.push("stopped");
    if (answer.finishReason === "length") parts.push("ended by its length");
    figures.textContent = parts.join(" · ");
    if (!text.hasChildNodes() && !answer.error) text.textContent = "(The answer is empty.)";
    if (this.#isAtEnd()) this.#toEnd();
  }

  // Which answer, and which of its rounds, the other side shows.
  mark(answer, roundIdx) {
    for (const node of this.#marked) node.classList.remove("marked");
    this.#marked = [];
    for (const [each, { article, show }] of this.#entries) {
      article.classList.toggle("selected", each === answer && this.#entries.size > 1);
      show.hidden = each === answer || !each.done || each.tokens.length === 0;
    }
    const entry = this.#entries.get(answer);
    if (!entry || roundIdx < 0) return;
    this.#marked = [...entry.article.querySelectorAll(`[data-round="${roundIdx}"]`)];
    for (const node of this.#marked) node.classList.add("marked");
  }

  clear() {
    for (const article of this.#box.querySelectorAll("article")) article.remove();
    this.#entries.clear();
    this.#pieces = [];
    this.#marked = [];
    this.#welcome.hidden = false;
  }

  #who(name) {
    return element("h2", { class: "who" }, name);
  }

  #isAtEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.#box;
    return scrollHeight - scrollTop - clientHeight < kNearEnd;
  }

  #toEnd() {
    this.#box.scrollTop = this.#box.scrollHeight;
  }
}
