// Making elements. Text is only ever set as text.

const kSvg = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

export function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(kSvg, name), attributes, children);
}

export const byId = (id) => document.getElementById(id);

// A token on one line: what is white space can be seen.
export function visible(text) {
  const shown = text.replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/\r/g, "␍");
  return shown || "∅";
}

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

export function speed(tokensPerSecond) {
  const digits = tokensPerSecond < 10 ? 1 : 0;
  return `${tokensPerSecond.toLocaleString("en", { maximumFractionDigits: digits })} tokens/s`;
}
