// The tree of one round: its root on the left, guesses to the right of what they follow, the path
// that was kept along the top with the target's own token at its end.

import { kSources } from "./answer.js";
import { byId, count, svg, visible } from "./elements.js";

const kRowHeight = 34;
const kNodeHeight = 26;
const kGap = 24; // between columns
const kMargin = 10;
const kCharacter = 7.3; // width of one, as style.css sets them
const kMaxCharacters = 10;
const kSmallest = 0.8; // of the size that is set

function shortened(text) {
  const characters = [...visible(text)];
  if (characters.length <= kMaxCharacters) return characters.join("");
  return `${characters.slice(0, kMaxCharacters - 1).join("")}…`;
}

function percent(logprob) {
  const share = Math.exp(logprob) * 100;
  return share < 1 ? "below 1%" : `${Math.round(share)}%`;
}

// Boxes with column (depth) and row; children stand behind their parent, kept ones first.
function layOut(round) {
  const guessed = round.nodes.length > 1;
  const boxes = round.nodes.map((node, idx) => ({
    text: shortened(node.text),
    state: idx === 0 ? "root" : node.accepted ? "kept" : "dropped",
    parent: node.parent,
    logprob: node.logprob,
    source: node.source,
    full: node.text,
    children: [],
    depth: 0,
    row: 0,
  }));
  boxes.forEach((box, idx) => {
    if (idx > 0) boxes[box.parent].children.push(box);
  });
  if (round.bonus >= 0) {
    const last = boxes.findLast((box) => box.state === "root" || box.state === "kept");
    const state = guessed ? "bonus" : "plain";
    const full = round.bonus_text;
    const box = { text: shortened(full), state, full, children: [], depth: 0, row: 0 };
    last?.children.push(box);
    boxes.push(box);
  }
  const rank = (box) => (box.state === "dropped" ? -box.logprob : -1);
  let rows = 0;
  const place = (box, depth) => {
    box.depth = depth;
    box.row = rows;
    box.children.sort((a, b) => rank(a) - rank(b));
    box.children.forEach((child, idx) => {
      if (idx > 0) rows += 1;
      place(child, depth + 1);
    });
  };
  if (boxes.length > 0) place(boxes[0], 0);
  return { boxes, rows: rows + 1 };
}

function columnsOf(boxes) {
  const widths = [];
  for (const box of boxes) {
    box.width = Math.max(30, [...box.text].length * kCharacter + 15);
    widths[box.depth] = Math.max(widths[box.depth] ?? 0, box.width);
  }
  let x = kMargin;
  return widths.map((width) => {
    const at = x;
    x += width + kGap;
    return at;
  });
}

function edge(from, to) {
  const x1 = from.x + from.width;
  const y1 = from.y + kNodeHeight / 2;
  const x2 = to.x;
  const y2 = to.y + kNodeHeight / 2;
  const middle = x2 - kGap / 2;
  const bend = y1 === y2 ? `L${x2} ${y2}` : `L${middle} ${y1} L${middle} ${y2} L${x2} ${y2}`;
  // The surer the draft was, the thicker.
  const width = to.logprob === undefined ? 1.5 : 0.75 + 3 * Math.exp(to.logprob);
  return svg("path", {
    d: `M${x1} ${y1} ${bend}`,
    class: `edge ${to.state}`,
    "stroke-width": width.toFixed(2),
  });
}

function node(box) {
  const whose = box.source in kSources ? `, ${kSources[box.source]}` : "";
  const words = {
    root: "the last token before this round",
    kept: `guess ${box.depth} deep${whose}, kept; it was given ${percent(box.logprob)}`,
    dropped: `guess ${box.depth} deep${whose}, dropped; it was given ${percent(box.logprob)}`,
    bonus: "the target's own token",
    plain: "the target's own token; nothing was guessed",
  };
  const title = svg("title");
  title.textContent = `${visible(box.full)}: ${words[box.state]}`;
  const label = svg("text", { x: box.x + box.width / 2, y: box.y + kNodeHeight / 2 + 4 });
  label.textContent = box.text;
  const depth = box.state === "kept" ? `depth-${Math.min(box.depth, 5)}` : "";
  const round = box.state === "bonus" ? kNodeHeight / 2 : 5;
  return svg(
    "g",
    { class: `node ${box.state} ${depth} from-${box.source}` },
    title,
    svg("rect", { x: box.x, y: box.y, width: box.width, height: kNodeHeight, rx: round }),
    label,
  );
}

// A round in a sentence.
export function describe(round) {
  const guesses = round.nodes.length - 1;
  const own = round.bonus >= 0 ? `“${visible(round.bonus_text)}”` : "nothing";
  if (guesses < 1) return `Nothing was guessed; the target wrote ${own}.`;
  const kept = round.nodes.filter((each, idx) => idx > 0 && each.accepted);
  const names = kept.map(({ text }) => `“${visible(text)}”`).join(" ");
  const what = kept.length > 0 ? `${kept.length} kept: ${names}` : "none kept";
  return `${count(guesses, "guess", "guesses")}, ${what}; then the target's own: ${own}.`;
}

export class TreeView {
  #box = byId("tree");
  #words = byId("tree-words");
  #shown = null;

  clear(words) {
    this.#shown = null;
    this.#box.replaceChildren();
    this.#words.textContent = words;
  }

  show(round) {
    if (round === this.#shown) return;
    this.#shown = round;
    const { boxes, rows } = layOut(round);
    const columns = columnsOf(boxes);
    let right = 0;
    for (const box of boxes) {
      box.x = columns[box.depth];
      box.y = kMargin + box.row * kRowHeight;
      right = Math.max(right, box.x + box.width);
    }
    const width = right + kMargin;
    const height = rows * kRowHeight + 2 * kMargin - (kRowHeight - kNodeHeight);
    const words = describe(round);
    const picture = svg("svg", {
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `Tree: ${words}`,
    });
    for (const from of boxes) picture.append(...from.children.map((to) => edge(from, to)));
    picture.append(...boxes.map(node));
    this.#box.replaceChildren(picture);
    this.#words.textContent = words;
    this.fit();
  }

  // A tree a little too wide for its box is drawn smaller, one that is much too wide is scrolled.
  fit() {
    const picture = this.#box.firstElementChild;
    if (!picture) return;
    const { width, height } = picture.viewBox.baseVal;
    const scale = Math.max(kSmallest, Math.min(1, this.#box.clientWidth / width));
    picture.setAttribute("width", Math.floor(width * scale));
    picture.setAttribute("height", Math.floor(height * scale));
  }
}
