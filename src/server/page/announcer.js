// What screen readers are told: the answer by whole sentences, at a pace that can be listened to,
// and what happens beside it.

import { byId } from "./elements.js";

const kPauseMs = 1200;
const kSentence = /^[\s\S]*(?:[.!?:;]\s|\n)/;

export class Announcer {
  #answer = byId("live-answer");
  #status = byId("live-status");
  #unsaid = "";
  #timer = 0;

  begin() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#answer.replaceChildren();
    this.#unsaid = "";
  }

  add(text) {
    this.#unsaid += text;
    this.#timer ||= setTimeout(() => this.#say(this.#unsaid.match(kSentence)?.[0]), kPauseMs);
  }

  end() {
    clearTimeout(this.#timer);
    this.#say(this.#unsaid);
  }

  status(text) {
    this.#status.textContent = text;
  }

  #say(text) {
    this.#timer = 0;
    if (!text) return;
    this.#unsaid = this.#unsaid.slice(text.length);
    const paragraph = document.createElement("p");
    paragraph.textContent = text;
    this.#answer.append(paragraph);
  }
}
