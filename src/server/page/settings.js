// What is asked for with every message. Kept for this tab alone (sessionStorage), the key too.

import { byId, element } from "./elements.js";

const kStored = "forerun.settings";
const kKey = "forerun.key";
const kFields = ["strategy", "shape", "temperature", "top-p", "max-tokens", "seed", "system"];
const kViews = ["show-colours", "show-depths", "show-code"];

function numberOf(id) {
  const { value, valueAsNumber } = byId(id);
  return value === "" || Number.isNaN(valueAsNumber) ? undefined : valueAsNumber;
}

export class Settings {
  #dialog = byId("settings");
  #onKey;

  constructor(onKey) {
    this.#onKey = onKey;
    this.#restore();
    byId("open-settings").addEventListener("click", () => this.open());
    byId("close-settings").addEventListener("click", () => this.#close());
    this.#dialog.addEventListener("keydown", (event) => {
      const typesLines = event.target.tagName === "TEXTAREA";
      if (event.key === "Enter" && !typesLines && event.target.tagName !== "BUTTON") {
        event.preventDefault();
        this.#close();
      }
    });
    // Escape closes it too.
    this.#dialog.addEventListener("close", () => this.#store());
    for (const id of ["strategy", "shape", ...kViews]) {
      byId(id).addEventListener("change", () => this.#store());
    }
    byId("show-depths").addEventListener("change", () => this.#applyViews());
    byId("show-colours").addEventListener("change", () => this.#applyViews());
    byId("show-code").addEventListener("change", () => this.#applyViews());
    this.#applyViews();
  }

  get isOpen() {
    return this.#dialog.open;
  }

  get key() {
    return byId("key").value.trim();
  }

  open(fieldId) {
    if (!this.#dialog.open) this.#dialog.showModal();
    if (fieldId) byId(fieldId).focus();
  }

  #close() {
    const wrong = this.#dialog.querySelector(":invalid");
    if (wrong) wrong.reportValidity();
    else this.#dialog.close();
  }

  // Choices are the server's own: [{name, help}].
  offer(strategies, shapes) {
    this.#offer("strategy", strategies, strategies[0]?.name);
    this.#offer("shape", shapes, "");
  }

  #offer(id, choices, fallback) {
    const select = byId(id);
    const wanted = sessionStorage.getItem(`${kStored}.${id}`) ?? select.value;
    const own = choices.map(({ name, help }) =>
      element("option", { value: name, title: help }, name.replaceAll("_", " ")),
    );
    if (id === "shape") own.unshift(element("option", { value: "" }, "default"));
    select.replaceChildren(...own);
    select.value = wanted;
    if (select.selectedIndex < 0) select.value = fallback;
  }

  // The request for these messages; what is left empty is for the server to choose. A seed is always
  // sent, so that the same request can be made again.
  request(messages) {
    const system = byId("system").value;
    const strategy = byId("strategy").value || "auto";
    const shape = byId("shape").value;
    const all = system.trim() ? [{ role: "system", content: system }, ...messages] : messages;
    return {
      messages: all,
      temperature: numberOf("temperature"),
      top_p: numberOf("top-p"),
      max_tokens: numberOf("max-tokens"),
      seed: numberOf("seed") ?? crypto.getRandomValues(new Uint32Array(1))[0],
      strategy,
      speculation: shape && strategy !== "autoregressive" ? { shape } : undefined,
    };
  }

  #restore() {
    for (const id of kFields) {
      const value = sessionStorage.getItem(`${kStored}.${id}`);
      if (value !== null) byId(id).value = value;
    }
    for (const id of kViews) {
      const value = sessionStorage.getItem(`${kStored}.${id}`);
      if (value !== null) byId(id).checked = value === "true";
    }
    byId("key").value = sessionStorage.getItem(kKey) ?? "";
  }

  #store() {
    for (const id of kFields) sessionStorage.setItem(`${kStored}.${id}`, byId(id).value);
    for (const id of kViews) sessionStorage.setItem(`${kStored}.${id}`, byId(id).checked);
    const changed = (sessionStorage.getItem(kKey) ?? "") !== this.key;
    sessionStorage.setItem(kKey, this.key);
    if (changed) this.#onKey();
  }

  #applyViews() {
    const { classList } = byId("conversation");
    classList.toggle("colours", byId("show-colours").checked);
    classList.toggle("depths", byId("show-depths").checked);
    classList.toggle("code", byId("show-code").checked);
  }
}
