// One answer as it comes: its text, its tokens and how each of them came, its rounds of speculation.
// No part of the document is touched here.

export const Origin = {
  plain: "plain", // the target's own, where nothing was guessed
  kept: "kept", // a guess that the target would have said too
  bonus: "bonus", // the target's own, drawn behind the guesses that were kept
};

const kUnknown = "\uFFFD"; // stands in a token's text for bytes that are no whole character

// Who guessed what was kept.
export const kSources = {
  model: "the draft model's",
  source: "from the text so far",
  both: "the draft model's and the text's",
  self: "the target's own, by a part of its memory",
};

// The tokens that a round puts out: the guesses that were kept, from the root on, then the target's.
export function outputOf(round, roundIdx) {
  const kept = round.nodes.filter((node, idx) => idx > 0 && node.accepted);
  const output = kept.map((node, idx) => ({
    id: node.token,
    origin: Origin.kept,
    source: node.source,
    depth: idx + 1,
    round: roundIdx,
  }));
  if (round.bonus >= 0) {
    const origin = round.nodes.length > 1 ? Origin.bonus : Origin.plain;
    output.push({ id: round.bonus, origin, depth: 0, round: roundIdx });
  }
  return output;
}

export class Answer {
  constructor(request) {
    this.request = request; // as it was sent
    this.text = "";
    this.tokens = []; // {id, text, origin, source, depth, round}; round -1: of none
    this.rounds = [];
    this.usage = null; // once it has ended by itself
    this.finishReason = null;
    this.error = null;
    this.stopped = false; // by the reader
    this.done = false;
    this.again = null; // the same request once more, an Answer that is not drawn
    this.plain = null; // and once more, decoded plainly
    this.firstTokenAt = 0; // by performance.now()
    this.lastTokenAt = 0;
    this.waiting = []; // tokens whose text has not come
    this.unplaced = ""; // text that has come and is not in a span
    this.expected = []; // what rounds put out and no token has been matched to
  }

  // Takes a chunk; returns the pieces that its text adds: {text, token, reasoning}, where the token
  // is null if it is not known.
  add(chunk) {
    if (chunk.usage) this.usage = chunk.usage;
    const choice = chunk.choices?.[0];
    if (!choice) return [];
    if (choice.finish_reason) this.finishReason = choice.finish_reason;
    if (choice.speculation) this.#addTokens(choice.speculation);
    const reasoning = Boolean(choice.delta?.reasoning_content);
    const text = choice.delta?.reasoning_content ?? choice.delta?.content ?? "";
    if (!reasoning) this.text += text;
    this.unplaced += text;
    return this.#place().map((piece) => ({ ...piece, reasoning }));
  }

  // Text that was still waiting for its token.
  finish() {
    this.done = true;
    const text = this.unplaced;
    this.unplaced = "";
    return text ? [{ text, token: this.waiting[0] ?? null, reasoning: false }] : [];
  }

  #addTokens({ tokens, rounds }) {
    for (const round of rounds) {
      this.expected.push(...outputOf(round, this.rounds.length));
      this.rounds.push(round);
    }
    for (const { id, text, drafted } of tokens) {
      const at = this.expected.findIndex((each) => each.id === id);
      const known = at >= 0 ? this.expected[at] : null;
      if (known) this.expected.splice(0, at + 1);
      const { origin, source, depth, round } = known ?? {
        origin: drafted ? Origin.kept : Origin.plain,
        depth: drafted ? 1 : 0,
        round: -1,
      };
      const token = { id, text, origin, source, depth, round };
      this.tokens.push(token);
      this.waiting.push(token);
    }
    if (tokens.length > 0) {
      this.lastTokenAt = performance.now();
      this.firstTokenAt ||= this.lastTokenAt;
    }
  }

  // Cuts text that has come into pieces by token. A character may take several tokens, and a token
  // (an end mark, a tag) may have no text.
  #place() {
    const pieces = [];
    const cut = (length, token) => {
      if (length === 0) return;
      pieces.push({ text: this.unplaced.slice(0, length), token });
      this.unplaced = this.unplaced.slice(length);
    };
    while (this.unplaced && this.waiting.length > 0) {
      const first = this.waiting[0];
      if (first.text && this.unplaced.startsWith(first.text)) {
        cut(first.text.length, this.waiting.shift());
        continue;
      }
      if (first.text.startsWith(this.unplaced)) break; // the rest of it is to come
      const next = this.waiting.findIndex(
        ({ text }, idx) =>
          idx > 0 && text && !text.includes(kUnknown) && this.unplaced.includes(text),
      );
      const taken = this.waiting.splice(0, next > 0 ? next : this.waiting.length);
      const length =
        next > 0 ? this.unplaced.indexOf(this.waiting[0].text) : this.unplaced.length;
      cut(length, taken.at(-1));
    }
    if (this.waiting.length === 0) cut(this.unplaced.length, null);
    return pieces;
  }

  get strategy() {
    return this.usage?.speculation?.strategy ?? this.request.strategy;
  }

  // Tokens a second after the first, by the server's clock; 0: not known (yet).
  get tokensPerSecond() {
    const decode = this.usage?.speculation?.decode_s ?? 0;
    return decode > 0 ? (this.usage.completion_tokens - 1) / decode : 0;
  }

  // The same by this browser's clock, while it comes.
  tokensPerSecondSoFar() {
    const seconds = (this.lastTokenAt - this.firstTokenAt) / 1000;
    return seconds > 0.05 ? (this.tokens.length - 1) / seconds : 0;
  }

  // {plain, bonus, kept: tokens by depth (from 1), sources: kept tokens by who guessed them,
  // guesses}
  counts() {
    const counts = { plain: 0, bonus: 0, kept: [], sources: {}, guesses: 0 };
    for (const { origin, source, depth } of this.tokens) {
      if (origin === Origin.kept) {
        counts.kept[depth] = (counts.kept[depth] ?? 0) + 1;
        if (source) counts.sources[source] = (counts.sources[source] ?? 0) + 1;
      } else counts[origin] += 1;
    }
    for (const { nodes } of this.rounds) counts.guesses += Math.max(0, nodes.length - 1);
    return counts;
  }
}

// The index of the first token in which two answers differ; -1: they are the same. If an answer was
// stopped, its last text may be missing.
export function firstDifference(a, b) {
  const length = Math.max(a.tokens.length, b.tokens.length);
  for (let idx = 0; idx < length; idx++) {
    if (a.tokens[idx]?.id !== b.tokens[idx]?.id) return idx;
  }
  return a.text === b.text || (a.stopped && b.text.startsWith(a.text)) ? -1 : length;
}
